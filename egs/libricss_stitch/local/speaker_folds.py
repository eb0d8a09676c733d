#!/usr/bin/env python3
"""Compare rows of Table 2 on speakers whom no recogniser and no stitcher has heard.

Two speakers at a time are left out of training and are the test set, with all that they
have recorded in quiet. Runs run.sh for each two, and joins their results. No test set
is decoded before all recognisers are trained. Run again, it resumes. Results go to
exp/<scale>/results, of a corpus called as its folder, with "-out" behind.
Example: local/speaker_folds.py --corpus LibriSpeech-digits --seed 1,2,3
"""

import argparse
import shlex
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from itertools import batched
from pathlib import Path

from espnet_ext.command import run_main
from espnet_ext.corpora.unheard_speakers import copy_other_speakers, write_recordings
from espnet_ext.recipe.speaker_folds import SpeakerFolds, list_speakers
from espnet_ext.work.files import expand_home

RECIPE = Path(__file__).resolve().parents[1]
RECOGNISER, TABLES = 5, 9  # stages of run.sh
TABLE = "2"
TRAIN, DEV, TEST = "train-clean-100", "dev-clean", "test-clean"
LEFT_OUT = 2  # speakers of a fold, who talk to each other in its tests


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--corpus", type=expand_home, required=True, help="in LibriSpeech's layout"
    )
    parser.add_argument("--scale", default="mini_digits_long", help="file of conf")
    parser.add_argument("--rows", default="", help="rows of Table 2; all if empty")
    parser.add_argument("--seed", required=True, help="seeds, separated by commas")
    parser.add_argument("--nj", default="1", help="processes on this machine")
    parser.add_argument(
        "--stop-stage", type=int, default=TABLES, help="5: decode no test set"
    )
    args = parser.parse_args()
    corpus = args.corpus.resolve()
    speakers = list_speakers(corpus / TRAIN)
    folds = SpeakerFolds(
        RECIPE,
        args.scale,
        corpus,
        list(batched(speakers, LEFT_OUT)),
        partial(make_corpus, corpus),
    )
    options = ["--table", TABLE, "--rows", args.rows]
    options += ["--seed", args.seed, "--nj", args.nj]
    folds.run(options, last_training=RECOGNISER, stop_stage=args.stop_stage)
    if args.stop_stage == TABLES:
        command = shlex.join(["local/speaker_folds.py", *sys.argv[1:]])
        folds.write_results([TABLE], command)


def make_corpus(corpus: Path, output: Path, speakers: Sequence[str]) -> None:
    """Write a corpus whose test part alone is of these speakers."""
    output.mkdir()
    shutil.copy(corpus / "SPEAKERS.TXT", output)
    for part in (TRAIN, DEV):
        copy_other_speakers(corpus / part, output / part, speakers)
    # No model has heard them, so that recordings for training can be tests too.
    parts = [corpus / part for part in (TRAIN, DEV, TEST)]
    for speaker in speakers:
        write_recordings(parts, speaker, output / TEST)


if __name__ == "__main__":
    run_main(main)
