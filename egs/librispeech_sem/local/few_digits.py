#!/usr/bin/env python3
"""Draw a fifth of train-clean-100 and of its copy in noisy rooms (train-other-500); dev and test parts become links.

Noise is three other speakers or a hum, at 5 to 20 dB. The same seed gives the same bytes.
Example: local/few_digits.py --corpus LibriSpeech-digits --output LibriSpeech-digits-few
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile
import soxr

from espnet_ext.command import run_main
from espnet_ext.synthetic.acoustics import OTHER, SAMPLE_RATE, VOICE_RATE, draw_scene, record
from espnet_ext.synthetic.parameters import generator

CLEAN, NOISY, CONDITION = "train-clean-100", "train-other-500", replace(OTHER, snr=(5, 20))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--corpus", type=Path, required=True, help="folder in LibriSpeech's layout, of whole FLAC files"
    )
    parser.add_argument("--output", type=Path, required=True, help="folder of the new corpus, which must not exist")
    parser.add_argument("--seed", type=int, default=2)
    args = parser.parse_args()
    files = sorted((args.corpus / CLEAN).rglob("*.flac"))
    args.output.mkdir(parents=True)
    for path in args.corpus.resolve().iterdir():
        if path.name not in (CLEAN, NOISY):
            (args.output / path.name).symlink_to(path)
    for number in sorted(generator(args.seed, "few").choice(2 * len(files), round(0.4 * len(files)), replace=False)):
        path, is_noisy = files[number % len(files)], number >= len(files)
        speaker, chapter, utterance = path.stem.split("-")
        text = dict(line.split(" ", 1) for line in (path.parent / f"{speaker}-{chapter}.trans.txt").open())[path.stem]
        chapter = f"9{chapter}" if is_noisy else chapter  # no other chapter's, since ids are unique in a corpus
        folder = args.output / (NOISY if is_noisy else CLEAN) / speaker / chapter
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{speaker}-{chapter}-{utterance}.flac"
        if is_noisy:
            soundfile.write(target, noisy(path, files, args.seed), SAMPLE_RATE, subtype="PCM_16")
        else:
            target.write_bytes(path.read_bytes())
        with (folder / f"{speaker}-{chapter}.trans.txt").open("a") as file:
            file.write(f"{target.stem} {text}")


def noisy(path: Path, files: list[Path], seed: int) -> np.ndarray:
    rng = generator(seed, "noisy", path.name)
    others = [other for other in files if other.parent.parent != path.parent.parent]
    talkers = rng.choice(len(others), 3) if rng.uniform() < CONDITION.babble else ()
    speech = [
        soxr.resample(soundfile.read(each, dtype="float32")[0], SAMPLE_RATE, VOICE_RATE)
        for each in (path, *(others[i] for i in talkers))
    ]
    return record(speech[0], draw_scene(CONDITION, speech[1:], rng), CONDITION, rng)


if __name__ == "__main__":
    run_main(main)
