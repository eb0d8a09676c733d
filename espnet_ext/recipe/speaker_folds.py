"""Runs of a recipe whose test speakers no training has heard, one for each fold.

A fold is some speakers of a corpus, who are left out of training and are the test set.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

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
from espnet_ext.work.provenance import collect_meta


@dataclass(frozen=True)
class SpeakerFolds:
    """Folds of a corpus, which run.sh of a recipe runs on one after the other.

    ``folds`` holds the speakers of each; ``make_corpus`` writes the corpus whose tests
    are of these speakers into a new folder.
    """

    recipe: Path  # the folder with run.sh
    scale: str
    corpus: Path
    folds: Sequence[Sequence[str]]
    make_corpus: Callable[[Path, Sequence[str]], None]

    @property
    def name(self) -> str:
        """What the corpus is called in results."""
        return f"{self.corpus.name}-out"

    def run(
        self, options: Sequence[str], *, last_training: int, stop_stage: int
    ) -> None:
        """Run the stages up to ``stop_stage`` on all folds.

        No fold goes beyond ``last_training`` before all have come so far, so that no
        test set is decoded while any setting may change. Ends with the status of a run
        that fails.
        """
        stages = [["--stop_stage", str(min(last_training, stop_stage))]]
        if stop_stage > last_training:
            first = str(last_training + 1)
            stages.append(["--stage", first, "--stop_stage", str(stop_stage)])
        for chosen in stages:
            for speakers in self.folds:
                self._run_fold(speakers, [*options, *chosen])

    def _run_fold(self, speakers: Sequence[str], options: Sequence[str]) -> None:
        """Run stages on the corpus of a fold, which is made if it is not there."""
        fold = "-".join(speakers)
        corpus = Path("data") / self.scale / f"{self.name}-{fold}"
        if not (self.recipe / corpus).is_dir():
            new = self.recipe / corpus.with_name(f"{corpus.name}.new")
            shutil.rmtree(new, ignore_errors=True)  # a killed one is not complete
            new.parent.mkdir(parents=True, exist_ok=True)
            self.make_corpus(new, speakers)
            new.rename(self.recipe / corpus)
        say(f"without {', '.join(speakers)}:")
        words = ["./run.sh", "--scale", self.scale, "--librispeech", str(corpus)]
        words += ["--expdir", f"exp/{self.scale}/{fold}"]
        words += ["--datadir", f"data/{self.scale}/{fold}", *options]
        ended = subprocess.run(words, cwd=self.recipe, check=False)
        if ended.returncode:
            sys.exit(ended.returncode)

    def write_results(self, tables: Collection[str], command: str) -> None:
        """Join the results of all folds below the scale's experiments.

        ``tables`` are those to keep, of error rates.
        """
        exp = self.recipe / "exp" / self.scale
        results = {}
        for speakers in self.folds:
            fold = "-".join(speakers)
            results[fold] = exp / fold / "results"
        scores, meta = join_folds(results, self.name)
        record = RunRecord.model_validate(collect_meta(command, self.recipe))
        kept = tuple(table for table in meta.tables if table in tables)
        meta = meta.model_copy(update={"tables": kept, "runs": (record,)})
        write_scores(exp / "results", scores, meta)
        say(f"written: {exp / 'results'}; espnet-ext table results keeps them")


def list_speakers(part: Path) -> list[str]:
    """Return the speakers of a part of a corpus in LibriSpeech's layout, sorted."""
    if not part.is_dir():
        raise InputError(f"{part}: no such folder: give a corpus with this part")
    return sorted(path.name for path in part.iterdir() if path.is_dir())


def join_folds(folders: dict[str, Path], corpus: str) -> tuple[Scores, Meta]:
    """Join the results of folds, by the folds' names.

    The training of a seed stands for one in each fold: its loss on dev is the highest
    of them, and it is unfinished if one of them is. Recordings are called after their
    fold too. Quantities, such as the size of a set, are of one fold, and are left out.
    InputError if a fold lacks a training that another has.
    """
    found = {name: read_scores(folder) for name, folder in folders.items()}
    first_scores, first_meta = next(iter(found.values()))
    rates: dict[Key, dict[int, Score]] = {}
    for key, by_seed in first_scores.rates.items():
        by_recording = first_scores.units[key.test_set] != "speaker"
        rates[key] = {}
        for seed in by_seed:
            own = _collect_scores(found, folders, key, seed)
            # Speakers are in one fold each; recordings are numbered alike in all.
            if by_recording:
                own = {fold: name_units(score, fold) for fold, score in own.items()}
            rates[key][seed] = join_units(list(own.values()))
    check_same_units(rates)
    metas = [meta for _, meta in found.values()]
    losses = join_losses(metas)
    unfinished = join_unfinished(metas)
    scores = Scores(
        rates, {}, first_scores.units, first_scores.normaliser, losses, unfinished
    )
    changes = {
        "corpus": corpus,
        "dev_losses": losses,
        "unfinished": unfinished,
        "quantities": {},
    }
    return scores, first_meta.model_copy(update=changes)


def _collect_scores(
    found: Mapping[str, tuple[Scores, Meta]],
    folders: Mapping[str, Path],
    key: Key,
    seed: int,
) -> dict[str, Score]:
    """Return a cell of one seed in each fold, or raise InputError."""
    own = {}
    for fold, (scores, _) in found.items():
        by_seed = scores.rates.get(key, {})
        if seed not in by_seed:
            raise InputError(f"{folders[fold]}: lacks {key.system} with seed {seed}")
        own[fold] = by_seed[seed]
    return own


def name_units(score: Score, fold: str) -> Score:
    """Put the name of a fold before each unit of a score."""
    return replace(score, units=tuple(f"{fold}/{unit}" for unit in score.units))


def join_units(scores: Sequence[Score]) -> Score:
    """Join the scores of trainings on units of their own."""
    return Score(
        source=", ".join(score.source for score in scores),
        errors=tuple(count for score in scores for count in score.errors),
        words=tuple(count for score in scores for count in score.words),
        units=tuple(unit for score in scores for unit in score.units),
    )


def join_losses(metas: Sequence[Meta]) -> dict[str, dict[int, float]]:
    """Return the highest loss of each training on dev.

    One that is not a number is higher than any.
    """
    highest: dict[str, dict[int, float]] = {}
    for system, by_seed in metas[0].dev_losses.items():
        for seed in by_seed:
            losses = [meta.dev_losses[system][seed] for meta in metas]
            worst = max(losses, key=lambda loss: (loss != loss, loss))
            highest.setdefault(system, {})[seed] = worst
    return highest


def join_unfinished(metas: Sequence[Meta]) -> dict[str, tuple[int, ...]]:
    """Return the seeds of each system that are unfinished in any fold, sorted."""
    seeds: dict[str, set[int]] = {}
    for meta in metas:
        for system, unfinished in (meta.unfinished or {}).items():
            seeds.setdefault(system, set()).update(unfinished)
    return {system: tuple(sorted(each)) for system, each in seeds.items()}
