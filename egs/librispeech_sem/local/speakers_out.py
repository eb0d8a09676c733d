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
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from few_digits import CLEAN

from espnet_ext.command import run_main
from espnet_ext.errors import InputError, say
from espnet_ext.tables.score_table import (
    Key,
    Meta,
    RunRecord,
    Score,
    Scores,
    check_same_units,
    read_scores,
    write_scores,
)
from espnet_ext.work.files import expand_home
from espnet_ext.work.provenance import collect_meta

RECIPE = Path(__file__).resolve().parents[1]
TRAINING, DECODING = "5", "6"  # stages of run.sh


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
    parser.add_argument("--stop-stage", default="8", help="5: decode no test set")
    args = parser.parse_args()
    corpus = args.corpus.resolve()
    speakers = sorted(path.name for path in (corpus / CLEAN).iterdir())
    name = f"{corpus.name}-out"
    words = ["--scale", args.scale, "--table", args.table, "--rows", args.rows]
    words += ["--seed", args.seed, "--nj", args.nj]
    # All are trained first, so that no test set is seen while any setting may change.
    ranges = [["--stop_stage", TRAINING]]
    if args.stop_stage != TRAINING:
        ranges.append(["--stage", DECODING, "--stop_stage", args.stop_stage])
    for stages in ranges:
        for speaker in speakers:
            fold = Path("data") / args.scale / f"{name}-{speaker}"
            make_fold(corpus, RECIPE / fold, speaker, args.draw)
            run_fold(fold, speaker, args.scale, [*words, *stages])
    if args.stop_stage == "8":
        exp = RECIPE / "exp" / args.scale
        results = [exp / speaker / "results" for speaker in speakers]
        command = shlex.join(["local/speakers_out.py", *sys.argv[1:]])
        scores, meta = join_folds(results, name, command)
        write_scores(exp / "results", scores, meta)
        say(f"written: {exp / 'results'}; espnet-ext table results keeps them")


def make_fold(corpus: Path, output: Path, speaker: str, draw: int) -> None:
    """Make the corpus without a speaker, if it is not there."""
    if output.is_dir():
        return
    new = output.with_name(f"{output.name}.new")  # a killed one is not complete
    shutil.rmtree(new, ignore_errors=True)
    program = Path(__file__).with_name("few_digits.py")
    words = ["--corpus", corpus, "--output", new, "--share", "1"]
    words += ["--seed", draw, "--leave-out", speaker]
    call([sys.executable, program, *words])
    new.rename(output)


def run_fold(fold: Path, speaker: str, scale: str, options: Sequence[str]) -> None:
    """Run stages of run.sh on the corpus without a speaker."""
    say(f"without {speaker}:")
    folders = ["--expdir", f"exp/{scale}/{speaker}"]
    folders += ["--datadir", f"data/{scale}/{speaker}"]
    call(["./run.sh", "--librispeech", fold, *folders, *options])


def call(words: Sequence[object]) -> None:
    """Run a program in the recipe's folder, and end with its status if it fails."""
    status = subprocess.run(list(map(str, words)), cwd=RECIPE, check=False).returncode
    if status:
        sys.exit(status)


def join_folds(
    folders: Sequence[Path], corpus: str, command: str
) -> tuple[Scores, Meta]:
    """Join the results of runs that differ in their test speakers.

    The training of a seed stands for one in each fold: its loss on dev is the highest
    of them, and it is unfinished if one of them is. InputError if a fold lacks a
    training that another has.
    """
    found = [read_scores(folder) for folder in folders]
    rates: dict[Key, dict[int, Score]] = {}
    for key, by_seed in found[0][0].rates.items():
        for seed in by_seed:
            for folder, (scores, _) in zip(folders, found, strict=True):
                if seed not in scores.rates.get(key, {}):
                    raise InputError(f"{folder}: lacks {key.system} with seed {seed}")
            rates.setdefault(key, {})[seed] = join_units(
                [scores.rates[key][seed] for scores, _ in found]
            )
    check_same_units(rates)
    first = found[0][1]
    losses = {
        system: {
            seed: max_loss([meta.dev_losses[system][seed] for _, meta in found])
            for seed in by_seed
        }
        for system, by_seed in first.dev_losses.items()
    }
    unfinished: dict[str, set[int]] = {}
    for _, meta in found:
        for system, seeds in meta.unfinished.items():
            unfinished.setdefault(system, set()).update(seeds)
    at_end = {system: tuple(sorted(seeds)) for system, seeds in unfinished.items()}
    record = RunRecord.model_validate(collect_meta(command, RECIPE))
    changes = {
        "corpus": corpus,
        "dev_losses": losses,
        "unfinished": at_end,
        "runs": (record,),
    }
    scores = Scores(rates, {}, first.units, first.normaliser, losses, at_end)
    return scores, first.model_copy(update=changes)


def join_units(scores: Sequence[Score]) -> Score:
    """Join the scores of trainings on speakers of their own."""
    return Score(
        source=", ".join(score.source for score in scores),
        errors=tuple(count for score in scores for count in score.errors),
        words=tuple(count for score in scores for count in score.words),
        units=tuple(unit for score in scores for unit in score.units),
    )


def max_loss(losses: Sequence[float]) -> float:
    """Return the highest loss; one that is not a number is higher than any."""
    return max(losses, key=lambda loss: (loss != loss, loss))


if __name__ == "__main__":
    run_main(main)
