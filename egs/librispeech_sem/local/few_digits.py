#!/usr/bin/env python3
"""Draw a small training set from a corpus in LibriSpeech's layout, half of it in noisy rooms.

train-clean-100 has a noisy copy (a room, and at 5 to 20 dB three other speakers or a hum), which is train-other-500. A
share of both is drawn; other parts become links. The same seed gives the same bytes.

Example: local/few_digits.py --corpus LibriSpeech-digits --output LibriSpeech-digits-few --seed 2
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile
import soxr

from espnet_ext.audio.files import save_audio
from espnet_ext.command import run_main
from espnet_ext.synthetic.acoustics import OTHER, SAMPLE_RATE, VOICE_RATE, draw_scene, record
from espnet_ext.synthetic.parameters import generator

CLEAN, NOISY, CONDITION = "train-clean-100", "train-other-500", replace(OTHER, snr=(5, 20))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder with train-clean-100")
    parser.add_argument("--output", type=Path, required=True, help="folder of the new corpus, which must not exist")
    parser.add_argument("--share", type=float, default=0.2, help="of the training set and its copy (default: 0.2)")
    parser.add_argument("--seed", type=int, default=2)
    args = parser.parse_args()
    corpus = args.corpus.resolve()
    args.output.mkdir(parents=True)
    for path in corpus.iterdir():
        if path.name not in (CLEAN, NOISY):
            (args.output / path.name).symlink_to(path)
    files = sorted((corpus / CLEAN).rglob("*.flac"))
    drawn = generator(args.seed, "few").choice(2 * len(files), round(2 * len(files) * args.share), replace=False)
    for number in sorted(drawn):
        write(files[number % len(files)], files, args.output / (CLEAN, NOISY)[number // len(files)], args.seed)


def write(path: Path, files: list[Path], part: Path, seed: int) -> None:
    """Write an utterance into a part, with its line of the transcript; ids of the noisy part have chapters of their own."""
    speaker, chapter, utterance = path.stem.split("-")
    text = dict(line.split(" ", 1) for line in (path.parent / f"{speaker}-{chapter}.trans.txt").open())[path.stem]
    chapter = f"9{chapter}" if part.name == NOISY else chapter
    folder = part / speaker / chapter
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{speaker}-{chapter}-{utterance}.flac"
    if part.name == NOISY:
        save_audio(target, noisy(path, files, seed), SAMPLE_RATE, subtype="PCM_16")
    else:
        target.write_bytes(path.read_bytes())
    with (folder / f"{speaker}-{chapter}.trans.txt").open("a") as file:
        file.write(f"{target.stem} {text}")


def noisy(path: Path, files: list[Path], seed: int) -> np.ndarray:
    rng = generator(seed, "noisy", path.name)
    others = [other for other in files if other.parent.parent != path.parent.parent]
    talkers = rng.choice(len(others), 3) if rng.uniform() < CONDITION.babble else ()
    return record(speech(path), draw_scene(CONDITION, [speech(others[i]) for i in talkers], rng), CONDITION, rng)


def speech(path: Path) -> np.ndarray:
    return soxr.resample(soundfile.read(path, dtype="float32")[0], SAMPLE_RATE, VOICE_RATE)


if __name__ == "__main__":
    run_main(main)
