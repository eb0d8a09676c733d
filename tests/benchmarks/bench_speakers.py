"""How often `transcribe --speakers` gives a word to the wrong speaker: cpWER by gap
between turns and speakers.

    python tests/benchmarks/bench_speakers.py [--librispeech DIR] [--conversations 5]
    [--num-speakers 2,4]
        [--gaps 0,0.5] [--part test] [--speakers 1004,1005,1006] [--whisper]

Conversations are simulated: of utterances of LibriSpeech (real digits in shared/data),
otherwise of synthetic voices. There are 24 turns, and six of each speaker at least, of
one utterance each; gaps below 0 are overlaps. Words and their times are the true ones,
so that only speakers can be wrong; with --whisper they are recognised. A word of the
wrong speaker counts as two errors, one word too few and one too many. Prints a table in
Markdown: mean and range over conversations, in percent.
"""

import argparse
import random
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
import soxr

from espnet_ext.multitalker.profiles import profile, resemblyzer
from espnet_ext.scoring.assignments import cp_errors
from espnet_ext.synthetic.english import english_grammar
from espnet_ext.synthetic.long_recordings import word_times
from espnet_ext.synthetic.voices import VOICE_RATE, draw_speakers
from espnet_ext.synthetic.voices import Speaker as Voice
from espnet_ext.text.words import Word
from espnet_ext.transcription.request import Request
from espnet_ext.transcription.voices import d_vectors_of_runs, loud_part, tell_voices

RATE = 16000
TURNS, FEWEST = 24, 6  # of all speakers, and of each
ENROLMENT = 2  # utterances of a profile
VOICES = {"dev": 14, "test": 14}
QUIET = 30  # dB below the loudest frame of an utterance: between its words
FRAME = 160
NOISE = 1e-3
DIGITS = [
    "ZERO",
    "ONE",
    "TWO",
    "THREE",
    "FOUR",
    "FIVE",
    "SIX",
    "SEVEN",
    "EIGHT",
    "NINE",
]


class Spoken(NamedTuple):
    """An utterance: samples at 16 kHz, (samples,), without silence at its ends, and its
    words.
    """

    samples: np.ndarray
    words: tuple[Word, ...]


class Recording(NamedTuple):
    """A conversation: samples at 16 kHz, (samples,), and its words in order of time,
    with their speakers.
    """

    samples: np.ndarray
    words: list[tuple[Word, str]]
    length: int
    name: str = "conversation"
    rate: int = RATE

    def read(self, start: int, count: int) -> np.ndarray:
        samples = self.samples[start : start + count]
        return np.pad(samples, (0, count - len(samples)))


Speak = Callable[[np.random.Generator], Spoken]  # another utterance each time


def read_utterances(corpus: Path, part: str) -> dict[str, Speak]:
    """Return speakers of a part of LibriSpeech."""
    found: dict[str, list[tuple[Path, list[str]]]] = {}
    for transcripts in sorted((corpus / part).glob("*/*/*.trans.txt")):
        for line in transcripts.read_text().splitlines():
            key, *words = line.split()
            found.setdefault(key.split("-")[0], []).append(
                (transcripts.parent / f"{key}.flac", words)
            )

    def speaking(own: list[tuple[Path, list[str]]]) -> Speak:
        return lambda rng: read_utterance(*own[int(rng.integers(len(own)))])

    return {speaker: speaking(own) for speaker, own in found.items()}


def read_utterance(path: Path, words: Sequence[str]) -> Spoken:
    """Read an utterance; its words are what lies between the longest quiet stretches."""
    samples, _ = soundfile.read(path, dtype="float32")
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    level = 10 * np.log10(np.square(frames).mean(axis=1) + 1e-10)
    loud = np.flatnonzero(level > level.max() - QUIET)
    longest = sorted(pairwise(loud), key=lambda pair: pair[0] - pair[1])[
        : len(words) - 1
    ]
    edges = [
        loud[0],
        *(edge for left, right in sorted(longest) for edge in (left + 1, right)),
        loud[-1] + 1,
    ]
    spans = np.array(edges).reshape(-1, 2) - loud[0]
    times = [
        Word(word, start * FRAME / RATE, end * FRAME / RATE)
        for word, (start, end) in zip(words, spans, strict=True)
    ]
    return Spoken(samples[loud[0] * FRAME : (loud[-1] + 1) * FRAME], tuple(times))


def synthetic_speakers(part: str) -> dict[str, Speak]:
    """Return synthetic voices; development and test have none in common."""

    def speaking(voice: Voice) -> Speak:
        def speak(rng: np.random.Generator) -> Spoken:
            text = english_grammar().sentence(random.Random(int(rng.integers(2**30))))
            speech = voice.speak(text, "en", rng)
            loud = np.flatnonzero(
                np.abs(speech.samples) > 0.01 * np.abs(speech.samples).max()
            )
            first, end = int(loud[0]), int(loud[-1]) + 1
            inside = [
                np.clip((word.start, word.end), first / VOICE_RATE, end / VOICE_RATE)
                for word in word_times(text, speech, 0)
            ]
            times = [
                Word(word, *(span - first / VOICE_RATE))
                for word, span in zip(text.split(), inside, strict=True)
            ]
            samples = soxr.resample(speech.samples[first:end], VOICE_RATE, RATE)
            return Spoken(
                samples * np.float32(0.5 / np.abs(samples).max()), tuple(times)
            )

        return speak

    return {voice.id: speaking(voice) for voice in draw_speakers(VOICES, 0)[part]}


def converse(
    speakers: Mapping[str, Speak], gap: float, rng: np.random.Generator, turns: int = 0
) -> Recording:
    """Simulate a conversation: all speak once in a random order, then again; nobody
    follows themselves.
    """
    names, order = list(speakers), list[str]()
    turns = turns or max(FEWEST, TURNS // len(names))  # of each
    while len(order) < turns * len(names):
        again = [str(name) for name in rng.permutation(names)]
        if not order or again[0] != order[-1] or len(names) == 1:
            order += again
    at, placed, words = 0.3, [], []
    for name in order:
        spoken = speakers[name](rng)
        placed.append((round(at * RATE), spoken.samples))
        words += [
            (Word(word.text, at + word.start, at + word.end), name)
            for word in spoken.words
        ]
        at = max(at + len(spoken.samples) / RATE + gap, 0.0)
    length = max(start + len(samples) for start, samples in placed) + RATE // 2
    mixed = rng.normal(scale=NOISE, size=length).astype(np.float32)
    for start, samples in placed:
        mixed[start : start + len(samples)] += samples
    return Recording(mixed, sorted(words, key=lambda pair: pair[0].start), length)


def cp_wer(recording: Recording, told: Mapping[str, Iterable[str]]) -> float:
    """Return the cpWER in percent; its words are those told, by speaker."""
    real: dict[str, list[str]] = {}
    for word, speaker in recording.words:
        real.setdefault(speaker, []).append(word.text)
    errors = cp_errors(
        {name: tuple(own) for name, own in real.items()},
        {name: tuple(own) for name, own in told.items()},
    )
    return 100 * errors.errors / len(recording.words)


def texts(told: Mapping[str, Sequence[Word]]) -> dict[str, list[str]]:
    return {name: [word.text for word in own] for name, own in told.items()}


def by_whisper(recording: Recording) -> dict[str, list[str]]:
    """Return digits that Whisper recognises in windows, by speaker."""
    from espnet_ext.transcription.whisper import whisper

    told: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        soundfile.write(Path(folder) / "a.wav", recording.samples, RATE)
        for turn in whisper(None, Request(speakers=True))(Path(folder) / "a.wav"):
            for word in turn.words:
                plain = "".join(letter for letter in word.upper() if letter.isalnum())
                told.setdefault(turn.speaker, []).extend(
                    [DIGITS[int(digit)] for digit in plain]
                    if plain.isdecimal()
                    else [plain]
                )
    return told


def spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.1f} ({min(values):.0f} to {max(values):.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--librispeech", type=Path, help="folder of a corpus; none: synthetic voices"
    )
    parser.add_argument(
        "--part", default="test", help="its voices; of a corpus, its part `-clean`"
    )
    parser.add_argument(
        "--speakers",
        help="those of the corpus to draw from, with commas; all if it is not given",
    )
    parser.add_argument("--num-speakers", default="2,4,6", help="how many speak")
    parser.add_argument("--gaps", default="-1,-0.5,0,0.15,0.5,1", help="in seconds")
    parser.add_argument(
        "--conversations",
        type=int,
        default=5,
        help="for each number of speakers and gap",
    )
    parser.add_argument("--whisper", action="store_true", help="recognise the words")
    args = parser.parse_args()
    corpus = args.librispeech
    every = (
        read_utterances(corpus, f"{args.part}-clean")
        if corpus
        else synthetic_speakers(args.part)
    )
    enrolling = read_utterances(corpus, "dev-clean") if corpus else every
    allowed = args.speakers.split(",") if args.speakers else sorted(every)
    runs_of, embed = d_vectors_of_runs(), resemblyzer()
    profiles = {}
    for name in allowed:
        rng = np.random.default_rng(9)
        profiles[name] = profile(
            np.stack([embed(enrolling[name](rng).samples) for _ in range(ENROLMENT)])
        )
    kinds = [
        "`--speakers`",
        "`--num-speakers`",
        "`--enrolment`",
        *["Whisper"] * args.whisper,
    ]
    print("| speakers | gap, s |", " | ".join(kinds), "| found |")
    print("|---:|---:|" + "---:|" * len(kinds) + "---|")
    for number in map(int, args.num_speakers.split(",")):
        groups = list(combinations(allowed, number))
        for gap in map(float, args.gaps.split(",")):
            measured = []
            for seed in range(args.conversations):
                drawn = int(np.random.default_rng([seed, number]).integers(len(groups)))
                chosen = groups[
                    drawn if len(groups) > args.conversations else seed % len(groups)
                ]
                recording = converse(
                    {name: every[name] for name in chosen},
                    gap,
                    np.random.default_rng([seed, number]),
                )
                words = [word for word, _ in recording.words]
                runs = runs_of(
                    [loud_part(word, recording) for word in words], recording
                )
                told = [
                    tell_voices(words, recording, lambda *_, runs=runs: runs, *options)
                    for options in (
                        (),
                        (None, number),
                        ({name: profiles[name] for name in chosen},),
                    )
                ]
                rates = [cp_wer(recording, texts(each)) for each in told]
                measured.append(
                    (
                        *rates,
                        *(
                            [cp_wer(recording, by_whisper(recording))]
                            if args.whisper
                            else []
                        ),
                        len(told[0]),
                    )
                )
            *rates, counts = zip(*measured, strict=True)
            row = [number, f"{gap:g}", *map(spread, rates), " ".join(map(str, counts))]
            print("|", " | ".join(map(str, row)), "|", flush=True)


if __name__ == "__main__":
    main()
