#!/usr/bin/env python3
"""Join isolated words by speaker into long recordings, each in one room and one noise.

Reads a corpus in LibriSpeech's layout whose words are spoken apart, as those of
connected digits, and writes Kaldi data dirs for `run.sh --data OUTPUT`: train and dev
with word times (ctm), and the test sets quiet, seen and unseen: without noise, with the
kinds of training, and with others. A recording has a speaker's utterances in a
random order, and draws its room, noise and signal-to-noise ratio once. The same seed
gives the same bytes.

Example: local/noisy_rooms.py LibriSpeech-digits --output LibriSpeech-digits-rooms
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import soundfile
from scipy.signal import butter, fftconvolve, sosfilt

from espnet_ext.audio.files import save_audio
from espnet_ext.command import run_main
from espnet_ext.corpora.checks import Faults, Options
from espnet_ext.corpora.librispeech import SAMPLING_RATE, check_parts, find_parts
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir, write_data_dir
from espnet_ext.longform.noise import GeneratedMusic
from espnet_ext.synthetic.acoustics import (
    draw_coloured_noise,
    draw_impulse_response,
    measure_rms,
)
from espnet_ext.synthetic.parameters import make_generator
from espnet_ext.text.words import Word
from espnet_ext.work.files import expand_home

QUIET = "quiet"
SEEN = (QUIET, "white", "pink", "hum", "fan")  # kinds of noise in training
UNSEEN = ("babble", "music")
TALKERS = 4  # of a babble
T60 = (0.2, 0.9)  # seconds in which the reverberation falls by 60 dB
DIRECT = (-3.0, 9.0)  # dB from reverberation to direct sound
QUIET_SNR = 40.0  # dB; never none, as in a real room
LEVEL = (-32.0, -20.0)  # dB of speech below full scale
PEAK = 0.9
FRAME = 80  # samples, 5 ms
# dB of a frame below full scale: pauses are below the first of these levels at which
# there are enough of them.
PAUSE_LEVELS = (-62, -58, -54, -50, -46)
SHORTEST_PAUSE = 2  # frames
MOST_PAUSES = 13  # that are considered in an utterance
# How much the logarithm of a word's duration differs within an utterance.
DURATION_SPREAD = 0.3


@dataclass(frozen=True)
class Utterance:
    """Samples of an utterance, and its words with their times in seconds."""

    samples: np.ndarray
    words: list[Word]


@dataclass(frozen=True)
class Plan:
    """What a data dir is made of.

    ``rounds`` is how often each utterance occurs in it, ``seconds`` about how long its
    recordings are; None: each has all utterances of a speaker. ``kinds`` of noise take
    turns. ``snr`` is in dB.
    """

    part: str
    rounds: int
    kinds: Sequence[str]
    snr: tuple[float, float]
    seconds: float | None = None


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    snr = tuple(args.snr)
    unseen_snr = tuple(args.unseen_snr)
    plans = {
        "train": Plan(args.train_part, args.rounds, SEEN, snr, seconds=80),
        "dev": Plan(args.dev_part, 2, SEEN, snr),
        QUIET: Plan(args.test_part, args.test_rounds, [QUIET], snr),
        "seen": Plan(args.test_part, args.test_rounds, SEEN[1:], snr),
        "unseen": Plan(args.test_part, args.test_rounds, UNSEEN, unseen_snr),
    }
    if args.output.exists():
        raise InputError(f"{args.output}: is there already: give another --output")
    names = list(dict.fromkeys(plan.part for plan in plans.values()))
    parts = read_parts(args.librispeech, names, args.output)
    for name, plan in plans.items():
        seconds = write_set(name, plan, parts[plan.part], args.output, args.seed)
        print(f"{name}: {seconds / 3600:.2f} h -> {args.output / name}")


def read_parts(
    corpus: Path, names: Sequence[str], output: Path
) -> dict[str, dict[str, list[Utterance]]]:
    """Read parts of a corpus: part -> speaker -> utterances with word times.

    Raises InputError: an utterance has fewer pauses than its words need.
    """
    root, found = find_parts(corpus, names)
    faults = Faults(root, output / "faults.txt", Options())
    checked = check_parts(root, found, faults)
    faults.settle({part: len(utterances) for part, (utterances, _) in checked.items()})
    parts: dict[str, dict[str, list[Utterance]]] = {}
    for part, (utterances, _) in checked.items():
        speakers = parts.setdefault(part, {})
        for key, each in sorted(utterances.items()):
            samples, _ = soundfile.read(each.audio)
            try:
                words = find_words(samples, each.text.split())
            except InputError as error:
                raise InputError(f"{each.audio}: {error}") from None
            speaker, _, _ = key.partition("-")
            speakers.setdefault(speaker, []).append(Utterance(samples, words))
    return parts


def find_words(samples: np.ndarray, texts: Sequence[str]) -> list[Word]:
    """Find when words that are spoken apart begin and end, in seconds.

    Raises InputError: there are fewer pauses than between the words.
    """
    count = len(samples) // FRAME
    power = np.mean(samples[: count * FRAME].reshape(count, FRAME) ** 2, axis=1)
    level = 10 * np.log10(power + 1e-12)
    for threshold in PAUSE_LEVELS:
        spans = _choose_spans(level >= threshold, len(texts))
        if spans:
            break
    else:
        raise InputError(
            f"{len(texts)} words, but fewer pauses: its words are not spoken apart: "
            "join it with local/join_chapters.py, and give run.sh an --aligner"
        )
    step = FRAME / SAMPLING_RATE
    return [
        Word(text, first * step, last * step)
        for text, (first, last) in zip(texts, spans, strict=True)
    ]


def _choose_spans(loud: np.ndarray, words: int) -> list[tuple[int, int]] | None:
    """Choose between which pauses the words lie; None: there are too few pauses.

    Words pause within themselves, too, before a plosive. So the pauses between words
    are those that are long, and that leave words of similar durations: the sum is
    maximised of the pauses' logarithm, and of the log-likelihood of the durations.
    """
    places = np.flatnonzero(loud)
    if not len(places):
        return None
    begin = int(places[0])
    end = int(places[-1]) + 1
    edges = np.flatnonzero(np.diff(loud[begin:end].astype(int))) + 1 + begin
    pauses = [
        (int(first), int(last))
        for first, last in edges.reshape(-1, 2)
        if last - first >= SHORTEST_PAUSE
    ]
    # the longest, in their order
    longest = sorted(pauses, key=lambda pause: pause[0] - pause[1])[:MOST_PAUSES]
    best: tuple[float, list[tuple[int, int]]] | None = None
    for chosen in combinations(sorted(longest), words - 1):
        starts = [begin, *(last for _, last in chosen)]
        ends = [*(first for first, _ in chosen), end]
        durations = np.log(np.subtract(ends, starts))
        differences = (durations - durations.mean()) / DURATION_SPREAD
        score = -0.5 * np.sum(differences**2)
        for first, last in chosen:
            score += np.log(last - first)
        if best is None or score > best[0]:
            best = (float(score), list(zip(starts, ends, strict=True)))
    return best[1] if best else None


def write_set(
    name: str,
    plan: Plan,
    speakers: Mapping[str, Sequence[Utterance]],
    output: Path,
    seed: int,
) -> float:
    """Write the recordings of a data dir, and the data dir; return their seconds."""
    folder = output / "audio" / name
    folder.mkdir(parents=True)
    files: dict[str, str] = {}
    texts: dict[str, str] = {}
    lines: list[str] = []
    total = 0.0
    # Kinds take turns within each speaker, so that no voice has a kind of its own.
    turns = dict(zip(speakers, range(len(speakers)), strict=True))
    for number, (speaker, utterances) in enumerate(draw_orders(plan, speakers, seed)):
        kind = plan.kinds[turns[speaker] % len(plan.kinds)]
        turns[speaker] += 1
        recording = f"{speaker}-{number:04d}-{kind}"
        speech, words = join_utterances(utterances)
        others = [own for other, own in speakers.items() if other != speaker]
        rng = make_generator(seed, name, recording)
        samples = record(speech, kind, plan.snr, others, rng)
        path = folder / f"{recording}.flac"
        save_audio(path, samples, SAMPLING_RATE, format="FLAC")
        files[recording] = str(path.resolve())
        texts[recording] = " ".join(word.text for word in words)
        total += len(samples) / SAMPLING_RATE
        for word in words:
            seconds = word.end - word.start
            lines.append(f"{recording} 1 {word.start:.3f} {seconds:.3f} {word.text}\n")
    own = {recording: recording for recording in files}
    write_data_dir(DataDir(wav_scp=files, utt2spk=own, text=texts), output / name)
    (output / name / "ctm").write_text("".join(lines))
    return total


def draw_orders(
    plan: Plan, speakers: Mapping[str, Sequence[Utterance]], seed: int
) -> Iterator[tuple[str, list[Utterance]]]:
    """Yield the speaker and the utterances of each recording of a data dir."""
    for number in range(plan.rounds):
        for speaker, utterances in speakers.items():
            # of the part too: tests that are made of dev are not the dev set
            rng = make_generator(seed, "order", plan.part, *plan.kinds, speaker, number)
            order = [utterances[place] for place in rng.permutation(len(utterances))]
            pieces = 1
            if plan.seconds:
                samples = sum(len(each.samples) for each in order)
                pieces = max(1, round(samples / SAMPLING_RATE / plan.seconds))
            for piece in range(pieces):
                yield speaker, order[piece::pieces]


def join_utterances(
    utterances: Sequence[Utterance],
) -> tuple[np.ndarray, list[Word]]:
    """Join utterances one after the other; return the samples and the words."""
    words = []
    before = 0.0
    for each in utterances:
        for word in each.words:
            words.append(Word(word.text, before + word.start, before + word.end))
        before += len(each.samples) / SAMPLING_RATE
    return np.concatenate([each.samples for each in utterances]), words


def record(
    speech: np.ndarray,
    kind: str,
    snr: tuple[float, float],
    others: Sequence[Sequence[Utterance]],
    rng: np.random.Generator,
) -> np.ndarray:
    """Record speech in a room with a kind of noise, which are drawn: int16.

    ``others`` are the utterances of other speakers, of which babble is made.
    """
    room = draw_impulse_response(rng.uniform(*T60), rng.uniform(*DIRECT), rng)
    wet = fftconvolve(speech, room)[: len(speech)]
    # drawn for every kind, so that kinds differ in nothing else
    ratio = rng.uniform(*snr)
    level = rng.uniform(*LEVEL)
    if kind == QUIET:
        ratio = QUIET_SNR
    noise = draw_noise(kind, len(wet), others, rng)
    gain = measure_rms(wet) / measure_rms(noise) * 10 ** (-ratio / 20)
    mixture = wet + gain * noise
    mixture *= 10 ** (level / 20) / measure_rms(wet)
    mixture *= min(1.0, PEAK / np.abs(mixture).max())
    return np.round(mixture * 32767).astype(np.int16)


def draw_noise(
    kind: str,
    length: int,
    others: Sequence[Sequence[Utterance]],
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw noise of a kind, (length,), of any level."""
    makers: dict[str, Callable[[], np.ndarray]] = {
        QUIET: partial(draw_coloured_noise, length, 1.0, rng),
        "white": partial(draw_coloured_noise, length, 0.0, rng),
        "pink": partial(draw_coloured_noise, length, 1.0, rng),
        "hum": partial(_draw_hum, length, rng),
        "fan": partial(_draw_fan, length, rng),
        "babble": partial(_draw_babble, length, others, rng),
        "music": partial(_draw_music, length, rng),
    }
    return makers[kind]()


def _draw_hum(length: int, rng: np.random.Generator) -> np.ndarray:
    """Draw harmonics of the mains or of a motor, and some pink noise."""
    time = np.arange(length) / SAMPLING_RATE
    pitch = rng.uniform(45, 130)
    hum = np.zeros(length)
    for harmonic in range(1, int(4000 / pitch)):
        phase = rng.uniform(0, 2 * np.pi)
        strength = rng.exponential() / harmonic**0.5
        hum += strength * np.sin(2 * np.pi * harmonic * pitch * time + phase)
    return hum / measure_rms(hum) + 0.3 * draw_coloured_noise(length, 1.0, rng)


def _draw_fan(length: int, rng: np.random.Generator) -> np.ndarray:
    """Draw noise of an octave that swells and fades at the rate of a turning fan."""
    centre = rng.uniform(300, 2500)
    band = (centre / 2**0.5, centre * 2**0.5)
    filters = butter(2, band, "bandpass", fs=SAMPLING_RATE, output="sos")
    noise = sosfilt(filters, rng.standard_normal(length))
    time = np.arange(length) / SAMPLING_RATE
    swell = 1 + 0.5 * np.sin(2 * np.pi * rng.uniform(0.5, 4) * time)
    return noise * swell


def _draw_babble(
    length: int, others: Sequence[Sequence[Utterance]], rng: np.random.Generator
) -> np.ndarray:
    """Draw other speakers who talk at once."""
    babble = np.zeros(length)
    for number in rng.choice(len(others), TALKERS, replace=len(others) < TALKERS):
        own = others[number]
        order = [own[place] for place in rng.permutation(len(own))]
        speech = np.concatenate([each.samples for each in order])
        babble += np.resize(speech / measure_rms(speech), length)
    return babble


def _draw_music(length: int, rng: np.random.Generator) -> np.ndarray:
    music = GeneratedMusic(int(rng.integers(1 << 31)), SAMPLING_RATE, length)
    return music.read(0, length).astype(float)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "librispeech", type=expand_home, help="folder in LibriSpeech's layout"
    )
    parser.add_argument(
        "--output", type=expand_home, required=True, help="folder to write, a new one"
    )
    parser.add_argument("--train-part", default="train-clean-100", metavar="PART")
    parser.add_argument("--dev-part", default="dev-clean", metavar="PART")
    parser.add_argument(
        "--test-part",
        default="test-clean",
        metavar="PART",
        help="dev-clean while settings are chosen",
    )
    parser.add_argument(
        "--rounds", type=int, default=12, help="how often training has an utterance"
    )
    parser.add_argument(
        "--test-rounds", type=int, default=8, help="recordings of a speaker in a test"
    )
    parser.add_argument("--snr", type=float, nargs=2, default=(-8.0, 6.0), metavar="DB")
    parser.add_argument(
        "--unseen-snr", type=float, nargs=2, default=(0.0, 10.0), metavar="DB"
    )
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
