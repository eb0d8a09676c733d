#!/usr/bin/env python3
"""Add train-other-500 to a corpus in LibriSpeech's layout that lacks it: a copy of train-clean-100 in noisy rooms.

The new corpus has the other parts of the old one as links. Each utterance gets a room, and noise of other speakers or a
coloured hum at 5 to 20 dB; the same seed gives the same bytes.

Example:
  local/add_noisy_part.py --corpus LibriSpeech-digits --output LibriSpeech-digits-noisy
"""

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import soundfile
import soxr

from espnet_ext.audio.files import save_audio
from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.synthetic.acoustics import OTHER, SAMPLE_RATE, VOICE_RATE, draw_scene, record
from espnet_ext.synthetic.parameters import generator

CLEAN_PART, NOISY_PART = "train-clean-100", "train-other-500"
CONDITION = replace(OTHER, snr=(5, 20))
TALKERS = 3  # utterances of other speakers in a babble


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--corpus", type=Path, required=True, help="the folder with train-clean-100")
    parser.add_argument("--output", type=Path, required=True, help="the new corpus")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    files = sorted((args.corpus / CLEAN_PART).rglob("*.flac"))
    if not files:
        raise InputError(f"{args.corpus}: no {CLEAN_PART} with *.flac in it: give the folder of the corpus")
    if (args.corpus / NOISY_PART).exists() or args.output.exists():
        raise InputError(f"{args.corpus} has {NOISY_PART}, or {args.output} exists: there is nothing to add")
    made = args.output.with_name(f".{args.output.name}")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    for path in args.corpus.resolve().iterdir():
        (made / path.name).symlink_to(path)
    for chapter in sorted({path.parent for path in files}):
        write_chapter(chapter, files, made / NOISY_PART / chapter.parent.name / noisy_id(chapter), args.seed)
    made.rename(args.output)
    print(f"{len(files)} noisy utterances -> {args.output / NOISY_PART}")


def noisy_id(chapter: Path) -> str:
    """The id of the noisy chapter: no other chapter's, since ids are unique in a corpus."""
    return f"9{chapter.name}"


def write_chapter(chapter: Path, files: Sequence[Path], output: Path, seed: int) -> None:
    """Write the utterances of a chapter as they sound in a noisy room, and their transcripts."""
    speaker, name = chapter.parent.name, chapter.name
    others = [path for path in files if path.parent.parent.name != speaker]
    output.mkdir(parents=True)
    for path in sorted(chapter.glob("*.flac")):
        rng = generator(seed, "noisy", path.name)
        chosen = rng.choice(len(others), TALKERS) if others and rng.uniform() < CONDITION.babble else []
        scene = draw_scene(CONDITION, [read(others[number]) for number in chosen], rng)
        renamed = path.name.replace(f"{speaker}-{name}-", f"{speaker}-{output.name}-")
        save_audio(output / renamed, record(read(path), scene, CONDITION, rng), SAMPLE_RATE, subtype="PCM_16")
    for path in chapter.glob("*.trans.txt"):
        lines = path.read_text(encoding="utf-8").replace(f"{speaker}-{name}-", f"{speaker}-{output.name}-")
        (output / f"{speaker}-{output.name}.trans.txt").write_text(lines, encoding="utf-8")


def read(path: Path) -> np.ndarray:
    """Samples at the rate of the synthesiser, which :func:`record` expects."""
    samples, rate = soundfile.read(path, dtype="float32")
    return soxr.resample(samples, rate, VOICE_RATE)


if __name__ == "__main__":
    run_main(main)
