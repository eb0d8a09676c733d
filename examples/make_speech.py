"""Make examples/speech again: a model trained on real digits, and recordings that it
has not seen.

    tools/venv/bin/python examples/make_speech.py

Trains egs/librispeech_sem at the scale mini_digits (five minutes of a core), and packs
its system with SEM. A killed run resumes. Test utterances are half in quiet, half in
pink noise, as those of the demo.
"""

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile

ROOT = Path(__file__).resolve().parents[1]
RECIPE, OUT = ROOT / "egs/librispeech_sem", ROOT / "examples/speech"
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
MODEL, FIRST = OUT / "model.zip", 4  # utterances of each speaker that are test data
CALL = {"jackson": "1002", "theo": "1005"}  # who speaks in the two channels of a call
CORPUS = (
    "18 minutes of connected English digits by six speakers (Free Spoken Digit "
    "Dataset), half of them in noise; the "
    "test sets have other recordings of the same speakers"
)


def main() -> None:
    train()
    shutil.rmtree(OUT / "test", ignore_errors=True)
    texts = {key: text for part in demo.SETS for key, text in utterances(part).items()}
    write_data_dir(OUT / "test", texts)
    recogniser = espnet_ext.load(MODEL)
    write_call(recogniser)


def train() -> None:
    """Train and score the system with SEM, and pack it with its error rates."""
    demo.make_corpus(demo.CORPUS)
    options = [
        "--scale",
        "mini_digits",
        "--librispeech",
        str(demo.CORPUS),
        "--rows",
        "0dB",
        "--seed",
        "1",
    ]
    subprocess.run(["./run.sh", *options], cwd=RECIPE, check=True)
    found = describe_recipe(EXP / "sem_m80_0/seed1")
    card = replace(found.card, corpus=CORPUS, licence="cc-by-sa-4.0", language=["en"])
    MODEL.unlink(missing_ok=True)
    pack(replace(found, card=card), MODEL)


def utterances(part: str) -> dict[str, str]:
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
        (folder / name).write_text(
            "".join(f"{key} {table[key]}\n" for key in sorted(table))
        )


def write_call(recogniser) -> None:
    """Join test utterances of two speakers to a call, one in each channel, and
    recognise the first one's in windows.

    Now and then one begins before the other ends.
    """
    folders = {
        name: demo.CORPUS / "test-clean" / number for name, number in CALL.items()
    }
    turns = {
        name: sorted(folder.rglob("*.flac"))[FIRST:] for name, folder in folders.items()
    }
    texts = {
        name: read_table(next(folder.rglob("*.trans.txt")))
        for name, folder in folders.items()
    }
    samples, segments, at = np.zeros((60 * RATE, 2), dtype="float32"), [], 0.3
    for number in range(6):
        name = list(CALL)[number % 2]
        path = turns[name][number // 2]
        speech, _ = soundfile.read(path, dtype="float32")
        start, end = round(at * RATE), round(at * RATE) + len(speech)
        samples[start:end, number % 2] += speech
        segments.append(
            Segment(
                "call",
                name,
                tuple(texts[name][path.stem].split()),
                start / RATE,
                end / RATE,
            )
        )
        at = end / RATE + (-0.4 if number % 2 else 0.3)
    samples = samples[: end + RATE // 4]
    samples += 1e-3 * np.random.default_rng(demo.SEED).standard_normal(
        samples.shape, dtype="float32"
    )  # a line's noise
    soundfile.write(OUT / "call.flac", samples, RATE, compression_level=1.0)
    write_segments(OUT / "call.json", segments)
    write_hypotheses(OUT / "windows.jsonl", windows_of(recogniser, samples[:, 0]))


def windows_of(recogniser, samples: np.ndarray):
    for window in Windowing(6.0).cut("call", len(samples) / RATE):
        part = samples[round(window.start * RATE) : round(window.end * RATE)]
        tokens = recogniser(part)[0][2]
        words = (
            align_words(recogniser, part, tokens, len(part) / RATE) if tokens else []
        )
        times = tuple(
            (round(window.start + word.start, 2), round(window.start + word.end, 2))
            for word in words
        )
        yield replace(
            window,
            speaker=next(iter(CALL)),
            words=tuple(word.text for word in words),
            times=times,
        )


if __name__ == "__main__":
    main()
