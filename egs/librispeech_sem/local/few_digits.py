#!/usr/bin/env python3
"""Draw a share of train-clean-100 and of its copy in noisy rooms (train-other-500); dev
and test parts become links.

Noise is three other speakers or a hum, at 5 to 20 dB. The same seed gives the same
bytes.
Example: local/few_digits.py --corpus LibriSpeech-digits --output LibriSpeech-digits-few
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile
import soxr

from espnet_ext.command import run_main
from espnet_ext.synthetic.acoustics import (
    OTHER,
    SAMPLE_RATE,
    VOICE_RATE,
    draw_scene,
    record,
)
from espnet_ext.synthetic.parameters import make_generator
from espnet_ext.work.files import user_path

CLEAN, NOISY, CONDITION = (
    "train-clean-100",
    "train-other-500",
    replace(OTHER, snr=(5, 20)),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--corpus",
        type=user_path,
        required=True,
        help="folder in LibriSpeech's layout, of whole FLAC files",
    )
    parser.add_argument(
        "--output",
        type=user_path,
        required=True,
        help="folder of the new corpus, which must not exist",
    )
    parser.add_argument("--share", type=float, default=0.2, help="1: all")
    parser.add_argument("--seed", type=int, default=2)
    args = parser.parse_args()
    args.output.mkdir(parents=True)
    for path in args.corpus.resolve().iterdir():
        if path.name not in (CLEAN, NOISY):
            (args.output / path.name).symlink_to(path)
    draw_training_set(args.corpus, args.output, args.share, args.seed)


def draw_training_set(corpus: Path, output: Path, share: float, seed: int) -> None:
    """Write a share of the clean training set and of its noisy copy."""
    files = sorted((corpus / CLEAN).rglob("*.flac"))
    drawn = make_generator(seed, "few").choice(
        2 * len(files), round(2 * len(files) * share), replace=False
    )
    for number in sorted(drawn):
        path, is_noisy = files[number % len(files)], number >= len(files)
        write(
            path,
            output / (NOISY if is_noisy else CLEAN),
            noisy(path, files, seed) if is_noisy else None,
        )


def write(path: Path, part: Path, recorded: np.ndarray | None = None) -> None:
    """Write an utterance into a part, at 16 kHz, with its transcript; if it was
    recorded again, in another chapter.
    """
    speaker, chapter, utterance = path.stem.split("-")
    text = dict(
        line.split(" ", 1)
        for line in (path.parent / f"{speaker}-{chapter}.trans.txt").open()
    )[path.stem]
    chapter = (
        chapter if recorded is None else f"9{chapter}"
    )  # no other chapter's, since ids are unique in a corpus
    folder = part / speaker / chapter
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{speaker}-{chapter}-{utterance}.flac"
    if recorded is None and soundfile.info(path).samplerate == SAMPLE_RATE:
        target.write_bytes(path.read_bytes())
    else:
        samples = speech(path, SAMPLE_RATE) if recorded is None else recorded
        soundfile.write(target, samples, SAMPLE_RATE, subtype="PCM_16")
    with (folder / f"{speaker}-{chapter}.trans.txt").open("a") as file:
        file.write(f"{target.stem} {text}")


def noisy(path: Path, files: list[Path], seed: int) -> np.ndarray:
    rng = make_generator(seed, "noisy", path.name)
    others = [other for other in files if other.parent.parent != path.parent.parent]
    talkers = rng.choice(len(others), 3) if rng.uniform() < CONDITION.babble else ()
    return record(
        speech(path),
        draw_scene(CONDITION, [speech(others[i]) for i in talkers], rng),
        CONDITION,
        rng,
    )


def speech(path: Path, rate: int = VOICE_RATE) -> np.ndarray:
    samples, given = soundfile.read(path, dtype="float32")
    return soxr.resample(samples, given, rate)


if __name__ == "__main__":
    run_main(main)
