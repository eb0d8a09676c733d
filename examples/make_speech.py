"""Make examples/speech again: a model of real digits, and recordings new to it.

    tools/venv/bin/python examples/make_speech.py

Trains egs/librispeech_sem at the scale mini_digits (five minutes of a core), and packs
its system with SEM. A killed run resumes. Test utterances are half in quiet, half in
pink noise, as those of the demo.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile

ROOT = Path(__file__).resolve().parents[1]
RECIPE = ROOT / "egs/librispeech_sem"
OUT = ROOT / "examples/speech"
sys.path.insert(0, str(RECIPE / "local"))

import demo  # noqa: E402

import espnet_ext  # noqa: E402
from espnet_ext.kaldi.tables import read_table  # noqa: E402
from espnet_ext.sharing.pack import describe_recipe, pack  # noqa: E402
from espnet_ext.text.windows import Windowing  # noqa: E402
from espnet_ext.text.words import Segment  # noqa: E402
from espnet_ext.text.writing import write_hypotheses, write_segments  # noqa: E402
from espnet_ext.transcription.engines import align_words  # noqa: E402

RATE = 16000
EXP = RECIPE / "exp/mini_digits-digits"
MODEL = OUT / "model.zip"
FIRST = 4  # utterances of each speaker that are test data; a call has later ones
CALL = {"jackson": "1002", "theo": "1005"}  # who speaks in the two channels of a call
CORPUS = (
    "18 minutes of connected English digits by six speakers (Free Spoken Digit "
    "Dataset), half of them in noise; the "
    "test sets have other recordings of the same speakers"
)


def main() -> None:
    train()
    shutil.rmtree(OUT / "test", ignore_errors=True)
    texts: dict[str, str] = {}
    for part in demo.SETS:
        texts |= copy_utterances(part)
    write_data_dir(OUT / "test", texts)
    recogniser = espnet_ext.load(MODEL)
    write_call(recogniser)


def train() -> None:
    """Train and score the system with SEM, and pack it with its error rates."""
    demo.make_corpus(demo.CORPUS)
    corpus = ["--scale", "mini_digits", "--librispeech", str(demo.CORPUS)]
    system = ["--rows", "0dB", "--seed", "1"]
    subprocess.run(["./run.sh", *corpus, *system], cwd=RECIPE, check=True)
    found = describe_recipe(EXP / "sem_m80_0/seed1")
    card = replace(found.card, corpus=CORPUS, licence="cc-by-sa-4.0", language=["en"])
    MODEL.unlink(missing_ok=True)
    pack(replace(found, card=card), MODEL)


def copy_utterances(part: str) -> dict[str, str]:
    """Copy the first utterances of each speaker, and return their texts."""
    texts = {}
    for path in sorted((demo.CORPUS / part).rglob("*.trans.txt")):
        for line in path.read_text().splitlines()[:FIRST]:
            key, text = line.split(" ", 1)
            (OUT / "test").mkdir(exist_ok=True)
            shutil.copy(path.parent / f"{key}.flac", OUT / "test")
            texts[key] = text
    return texts


def write_data_dir(folder: Path, texts: dict[str, str]) -> None:
    """Write Kaldi's tables; paths are relative to the repository."""
    speakers: dict[str, list[str]] = {}
    for key in sorted(texts):
        speakers.setdefault(key.split("-")[0], []).append(key)
    tables = {
        "wav.scp": {key: f"{folder.relative_to(ROOT)}/{key}.flac" for key in texts},
        "text": texts,
        "utt2spk": {key: key.split("-")[0] for key in texts},
        "spk2utt": {speaker: " ".join(keys) for speaker, keys in speakers.items()},
    }
    for name, table in tables.items():
        lines = [f"{key} {table[key]}\n" for key in sorted(table)]
        (folder / name).write_text("".join(lines))


def write_call(recogniser) -> None:
    """Join test utterances of two speakers to a call, one in each channel.

    Now and then one begins before the other ends. The first speaker's channel is
    recognised in windows.
    """
    turns = {}
    texts = {}
    for name, number_of_speaker in CALL.items():
        folder = demo.CORPUS / "test-clean" / number_of_speaker
        turns[name] = sorted(folder.rglob("*.flac"))[FIRST:]
        texts[name] = read_table(next(folder.rglob("*.trans.txt")))
    samples = np.zeros((60 * RATE, 2), dtype="float32")
    segments = []
    at = 0.3  # seconds
    for number in range(6):
        channel = number % 2
        name = list(CALL)[channel]
        path = turns[name][number // 2]
        speech, _ = soundfile.read(path, dtype="float32")
        start = round(at * RATE)
        end = start + len(speech)
        samples[start:end, channel] += speech
        words = tuple(texts[name][path.stem].split())
        segments.append(Segment("call", name, words, start / RATE, end / RATE))
        # The second speaker is interrupted, the first one is not.
        at = end / RATE + (-0.4 if channel else 0.3)
    samples = samples[: end + RATE // 4]
    # A line's noise, in both channels.
    random = np.random.default_rng(demo.SEED)
    samples += 1e-3 * random.standard_normal(samples.shape, dtype="float32")
    soundfile.write(OUT / "call.flac", samples, RATE, compression_level=1.0)
    write_segments(OUT / "call.json", segments)
    heard = recognise_windows(recogniser, samples[:, 0])
    write_hypotheses(OUT / "windows.jsonl", heard)


def recognise_windows(recogniser, samples: np.ndarray) -> Iterator[Segment]:
    """Yield what is heard in windows of 6 s, with times of the recording."""
    for window in Windowing(6.0).cut("call", len(samples) / RATE):
        part = samples[round(window.start * RATE) : round(window.end * RATE)]
        tokens = recogniser(part)[0][2]
        words = []
        if tokens:
            words = align_words(recogniser, part, tokens, len(part) / RATE)
        texts = tuple(word.text for word in words)
        times = []
        for word in words:
            start = round(window.start + word.start, 2)
            end = round(window.start + word.end, 2)
            times.append((start, end))
        speaker = next(iter(CALL))
        yield replace(window, speaker=speaker, words=texts, times=tuple(times))


if __name__ == "__main__":
    main()
