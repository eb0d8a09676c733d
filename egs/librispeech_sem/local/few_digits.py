#!/usr/bin/env python3
"""Draw a share of train-clean-100 and of its copy in noisy rooms (train-other-500).

Noise is three other speakers or a hum, at 5 to 20 dB. Dev and test parts become links.
The same seed gives the same bytes. With --leave-out the training and dev parts lack a
speaker, of whom the test parts are: all recordings, and those for training in pink
noise too.
Example: local/few_digits.py --corpus LibriSpeech-digits --output LibriSpeech-digits-few
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from espnet_ext.command import run_main
from espnet_ext.corpora.unheard_speakers import (
    copy_other_speakers,
    read_speech,
    write_recordings,
    write_utterance,
)
from espnet_ext.errors import InputError
from espnet_ext.synthetic.acoustics import (
    OTHER,
    SAMPLE_RATE,
    VOICE_RATE,
    draw_scene,
    record,
)
from espnet_ext.synthetic.parameters import make_generator
from espnet_ext.work.files import expand_home

CLEAN = "train-clean-100"
NOISY = "train-other-500"
CONDITION = replace(OTHER, snr=(5, 20))
PINK_SNR = (5, 15)  # dB, as in the parts of LibriSpeech-digits that are called other


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--corpus",
        type=expand_home,
        required=True,
        help="folder in LibriSpeech's layout, of whole FLAC files",
    )
    parser.add_argument(
        "--output",
        type=expand_home,
        required=True,
        help="folder of the new corpus, which must not exist",
    )
    parser.add_argument("--share", type=float, default=0.2, help="1: all")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--leave-out", metavar="SPEAKER", default="", help="of tests")
    args = parser.parse_args()
    if args.leave_out and not (args.corpus / CLEAN / args.leave_out).is_dir():
        raise InputError(f"{args.corpus / CLEAN}: has no speaker {args.leave_out}")
    args.output.mkdir(parents=True)
    for path in args.corpus.resolve().iterdir():
        is_drawn = path.name in (CLEAN, NOISY) or (path.is_dir() and args.leave_out)
        if is_drawn:
            continue
        (args.output / path.name).symlink_to(path)
    draw_training_set(
        args.corpus, args.output, args.share, args.seed, left_out=args.leave_out
    )
    if args.leave_out:
        leave_out(args.leave_out, args.corpus, args.output, args.seed)


def leave_out(speaker: str, corpus: Path, output: Path, seed: int) -> None:
    """Write dev parts without a speaker, and test parts of all that it has recorded."""
    for part in ("dev-clean", "dev-other"):
        copy_other_speakers(corpus / part, output / part, [speaker])
    # No model has heard the speaker, so that the training recordings can be tests too.
    for condition in ("clean", "other"):
        test = output / f"test-{condition}"
        parts = [corpus / f"test-{condition}", corpus / f"dev-{condition}"]
        write_recordings(parts, speaker, test)
        for path in sorted((corpus / CLEAN / speaker).rglob("*.flac")):
            pink = None
            if condition == "other":
                rng = make_generator(seed, "pink", path.name)
                pink = add_pink_noise(read_speech(path, SAMPLE_RATE), rng)
            write_utterance(path, test, pink)


def draw_training_set(
    corpus: Path, output: Path, share: float, seed: int, left_out: str = ""
) -> None:
    """Write a share of the clean training set and of its noisy copy.

    Both lack the speaker who is left out.
    """
    found = sorted((corpus / CLEAN).rglob("*.flac"))
    files = [path for path in found if path.parents[1].name != left_out]
    # Numbers from len(files) on are the noisy copies.
    drawn = make_generator(seed, "few").choice(
        2 * len(files), round(2 * len(files) * share), replace=False
    )
    for number in sorted(drawn):
        path = files[number % len(files)]
        if number < len(files):
            write_utterance(path, output / CLEAN)
        else:
            write_utterance(path, output / NOISY, record_in_noise(path, files, seed))


def record_in_noise(path: Path, files: list[Path], seed: int) -> np.ndarray:
    """Record an utterance in a noisy room, where others of ``files`` may speak.

    Returns 16-bit samples at 16 kHz.
    """
    # By its name, so that an utterance sounds the same in every share of a corpus.
    rng = make_generator(seed, "noisy", path.name)
    speaker = path.parents[1]
    others = [other for other in files if other.parents[1] != speaker]
    talkers = rng.choice(len(others), 3) if rng.uniform() < CONDITION.babble else ()
    babble = [read_speech(others[number], VOICE_RATE) for number in talkers]
    scene = draw_scene(CONDITION, babble, rng)
    return record(read_speech(path, VOICE_RATE), scene, CONDITION, rng)


def add_pink_noise(samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add noise whose power falls as 1 / frequency, 5 to 15 dB below the speech.

    It is not one of the noises of the training set.
    """
    # Divided by the root of the frequency, since power is the square of the spectrum.
    spectrum = np.fft.rfft(rng.standard_normal(len(samples)))
    noise = np.fft.irfft(
        spectrum / np.sqrt(np.maximum(1, np.arange(len(spectrum)))), len(samples)
    )
    noise *= samples.std() / noise.std() * 10 ** (-rng.uniform(*PINK_SNR) / 20)
    # Halved, so that the sum does not clip.
    return 0.5 * (samples + noise)


if __name__ == "__main__":
    run_main(main)
