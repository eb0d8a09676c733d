#!/usr/bin/env python3
"""Compare systems on speakers whom no training has heard.

Makes a corpus for each speaker (few_digits.py --leave-out), runs run.sh on each, and
joins their results. No test set is decoded before all systems are trained. Run again,
it resumes. Results go to exp/<scale>/results, of a corpus called as its folder, with
"-out" behind.
Example: local/speakers_out.py --corpus LibriSpeech-digits --seed 31,32,33
"""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from few_digits import CLEAN

from espnet_ext.command import run_main
from espnet_ext.recipe.speaker_folds import SpeakerFolds, list_speakers
from espnet_ext.work.files import expand_home

RECIPE = Path(__file__).resolve().parents[1]
TRAINING, TABLES = 5, 8  # stages of run.sh


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--corpus", type=expand_home, required=True, help="in LibriSpeech's layout"
    )
    parser.add_argument("--scale", default="mini_out", help="file of conf")
    parser.add_argument("--table", default="1,4")
    parser.add_argument("--rows", default="baseline,0dB,r=0.1")
    parser.add_argument("--seed", required=True, help="seeds, separated by commas")
    parser.add_argument("--nj", default="1", help="processes on this machine")
    parser.add_argument("--draw", type=int, default=5, help="seed of all noise")
    parser.add_argument(
        "--stop-stage", type=int, default=TABLES, help="5: decode no test set"
    )
    args = parser.parse_args()
    corpus = args.corpus.resolve()
    folds = SpeakerFolds(
        RECIPE,
        args.scale,
        corpus,
        [(speaker,) for speaker in list_speakers(corpus / CLEAN)],
        partial(make_corpus, corpus, draw=args.draw),
    )
    options = ["--table", args.table, "--rows", args.rows]
    options += ["--seed", args.seed, "--nj", args.nj]
    folds.run(options, last_training=TRAINING, stop_stage=args.stop_stage)
    if args.stop_stage == TABLES:
        command = shlex.join(["local/speakers_out.py", *sys.argv[1:]])
        folds.write_results(args.table.split(","), command)


def make_corpus(corpus: Path, output: Path, speakers: Sequence[str], draw: int) -> None:
    """Make the corpus without a speaker."""
    [speaker] = speakers
    program = Path(__file__).with_name("few_digits.py")
    words = ["--corpus", corpus, "--output", output, "--share", "1"]
    words += ["--seed", draw, "--leave-out", speaker]
    made = subprocess.run([sys.executable, program, *map(str, words)], check=False)
    if made.returncode:
        sys.exit(made.returncode)


if __name__ == "__main__":
    run_main(main)
