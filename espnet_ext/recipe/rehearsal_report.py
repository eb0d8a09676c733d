"""What the whole will take by what a rehearsal has measured: memory, hours and disk."""

import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tabulate import tabulate

from espnet_ext.kaldi.tables import read_table
from espnet_ext.recipe.gpus import (
    count_jobs_at_once,
    describe_plan,
    list_gpus_of_run,
    plan_rounds,
    remove_seed,
)
from espnet_ext.recipe.plans import (
    checks_plans,
    count_epochs,
    count_updates,
    find_warmup_fault,
)
from espnet_ext.recipe.run import WHOLE_CONFIGS, Run
from espnet_ext.recipe.steps import Step, find_paths
from espnet_ext.work.yaml_files import read_yaml

UPDATE = re.compile(r"(\d+)epoch:train:\d+-(\d+)batch: .*train_time=([0-9.e+-]+)")
REPORT = "training.json"  # of the trainings of rescorers
VALID_SHARE = 1 / 3  # a batch of the development set is a forward pass alone
SAME = 0.05  # relative difference in hours from the paper's corpus
GB = 1024**3
OF_RESCORERS = "lr"  # a key of their trainings alone; ESPnet's have it in optim_conf
LISTS = "lists"  # the folder of N-best lists, a file for each set
# what decodings leave below a folder for each set
DECODED = ("text", "hypotheses.jsonl", "transcripts.json")
# What run.sh changes in the section of such a training; the last two by its options.
SHORTENED = ("max_steps", "sentences", "epochs", "evaluate_every", "amp", "positions")
PARTS = ("train", "valid")
COLUMNS = ("", "GPU GB", "seconds of one", "how many", "hours", "disk GB")
FORMATS = ("", ".1f", ".3f", "", ".1f", ".1f")
OTHER_COUNTS = (1, 4, 8)  # of GPUs, for which the hours of the trainings are said too


@dataclass
class Seen:
    """A step that has run in a rehearsal.

    ``gigabytes`` are the most that it has used of a GPU, ``reason`` is why it failed,
    or "".
    """

    stage: str
    step: Step
    seconds: float
    gigabytes: float | None
    reason: str


@dataclass(frozen=True)
class Job:
    """A training or a decoding, by its folder below the experiments.

    ``gigabytes`` are of memory on a GPU, ``seconds`` of one of the ``count`` updates or
    utterances of the whole, ``disk`` the GB that the whole writes. ``fault`` is what is
    wrong with the plan of a training.
    """

    name: str
    trains: bool
    gigabytes: float | None
    seconds: float | None
    count: int | None
    disk: float
    fault: str = ""

    @property
    def hours(self) -> float | None:
        """The hours of the whole on the GPUs that the job had."""
        if self.seconds is None or self.count is None:
            return None
        return self.seconds * self.count / 3600


@dataclass(frozen=True)
class Measured:
    """What the log of a short training tells of the whole: as in :class:`Job`."""

    seconds: float | None
    count: int | None
    disk: float
    fault: str = ""


def list_jobs(seen: Sequence[Seen], whole: Run, small: Run) -> list[Job]:
    """Return the trainings and decodings of a rehearsal that have ended well."""
    amounts = Amounts(whole, small)
    jobs = []
    for each in seen:
        if each.reason:
            continue
        step = each.step
        if step.resumes is not None:
            jobs.append(_measure_training(each, step.resumes, amounts))
        # what loads no model, such as scoring, takes no time to speak of
        elif step.preload:
            job = _measure_decoding(each, amounts)
            if job:
                jobs.append(job)
    return jobs


def _measure_decoding(seen: Seen, amounts: "Amounts") -> Job | None:
    """Measure work on sets, such as decoding; None if it is none."""
    found = _measure_sets(seen.step, seen.seconds, amounts)
    if not found:
        return None
    seconds, count = found
    place = seen.step.outputs[0].parent
    folder = place if place.name == LISTS else place.parent
    name = str(folder.relative_to(amounts.small.expdir))
    return Job(name, False, seen.gigabytes, seconds, count, 0.0)


def _measure_training(seen: Seen, folder: Path, amounts: "Amounts") -> Job:
    measured = _measure_rescorer(seen.step, folder, amounts)
    if measured is None:
        measured = _measure_espnet(seen.step, folder, amounts)
    return Job(
        name=str(folder.relative_to(amounts.small.expdir)),
        trains=True,
        gigabytes=seen.gigabytes,
        seconds=measured.seconds,
        count=measured.count,
        disk=measured.disk,
        fault=measured.fault if checks_plans(amounts.whole) else "",
    )


class Amounts:
    """How much more the whole has than what is rehearsed, by data dir."""

    def __init__(self, whole: Run, small: Run) -> None:
        self.whole = whole
        self.small = small
        self.mixing: Mapping[str, Any] = whole.sections["settings"].get("mixing") or {}

    def compute_ratio(self, name: str) -> float:
        """Return the audio of a set, as a multiple of that which is rehearsed.

        If it is unknown, that is the audio of all training sets together.
        """
        # a mixed set is made of others, and the whole of it is not made here
        count = (self.mixing.get(name) or {}).get("count")
        if count:
            return float(count) / max(1, self.count_utterances(self.small, name))
        names = [name]
        # a set that a later stage combines of others
        if not (self.whole.datadir / name / "text").is_file():
            there = {path.parent.name for path in self.whole.datadir.glob("*/text")}
            trained = there - {*self.whole.tables.file.test_sets}
            names = [
                each for each in trained if self.count_utterances(self.small, each)
            ]
        of_whole = sum(self.sum_seconds(self.whole, each) for each in names)
        of_small = sum(self.sum_seconds(self.small, each) for each in names)
        return of_whole / max(1e-9, of_small)

    def count_utterances(self, run: Run, name: str) -> int:
        """Return the number of utterances of a set, 0 if the run does not have it."""
        # LibriCSS has its data dirs below the folder of a set
        for place in ("", "segments/data"):
            path = run.datadir / name / place / "text"
            if path.is_file():
                return len(path.read_text(encoding="utf-8").splitlines())
        return 0

    def sum_seconds(self, run: Run, name: str) -> float:
        """Return the audio of a set in seconds; without durations, its utterances."""
        path = run.datadir / name / "utt2dur"
        if path.is_file():
            return sum(map(float, read_table(path).values()))
        return float(self.count_utterances(run, name))


def _get_option(step: Step, name: str) -> str:
    words = list(step.arguments["options"])
    return str(words[words.index(name) + 1]) if name in words else ""


def _measure_espnet(step: Step, folder: Path, amounts: Amounts) -> Measured:
    """Measure a training by ESPnet from its log and its real config."""
    short = Path(_get_option(step, "--config"))
    config = read_yaml(short.parent / WHOLE_CONFIGS / short.name)
    disk = _estimate_disk(folder, config)
    updates = UPDATE.findall(step.log.read_text(encoding="utf-8", errors="replace"))
    if not updates:
        return Measured(None, None, disk)
    last_epoch = updates[-1][0]
    # of a growing network, the last epoch is that of the whole
    times = [float(seconds) for epoch, _, seconds in updates if epoch == last_epoch]
    # the first update of a pass waits for the readers of its data
    seconds = fmean(times[1:] or times)
    batches = int(updates[-1][1])
    train, valid = (_find_set_name(step, part) for part in PARTS)
    of_pass = math.ceil(batches * amounts.compute_ratio(train))
    count = count_updates(config, of_pass)
    fault = find_warmup_fault(config, count)
    audio = amounts.sum_seconds(amounts.small, train)
    # there is none for a language model, whose validation takes little
    if audio:
        of_valid = amounts.sum_seconds(amounts.whole, valid)
        valid_batches = batches * of_valid / audio
        validation = count_epochs(config) * valid_batches * VALID_SHARE
        # In updates, each of ``accum_grad`` batches.
        count += math.ceil(validation / (config.get("accum_grad") or 1))
    return Measured(seconds, count, disk, fault)


def _find_set_name(step: Step, part: str) -> str:
    """Return the data dir of a training's ``train`` or ``valid`` part."""
    given = _get_option(step, f"--{part}_data_path_and_name_and_type")
    return Path(given.partition(",")[0]).parent.name


def _estimate_disk(folder: Path, config: Mapping[str, Any]) -> float:
    """Return the GB that a training leaves.

    Counted is what is there, and the models that a longer training keeps besides.
    """
    models = [path for path in folder.glob("*epoch.pth") if not path.is_symlink()]
    sizes = [path.stat().st_size for path in models]
    kept = config.get("keep_nbest_models", 10)  # ESPnet's default
    # several numbers ask for several averages: ESPnet keeps as many as the largest
    if isinstance(kept, list):
        kept = max(kept)
    # at most: an epoch may be among the best by several criteria
    most = kept * len(config.get("best_model_criterion") or [1])
    to_come = max(0, most - len(sizes)) * max(sizes, default=0)
    return (_sum_sizes(folder) + to_come) / GB


def _measure_rescorer(step: Step, folder: Path, amounts: Amounts) -> Measured | None:
    """Measure a training for rescoring by its report; None if it is none.

    Evaluations count as updates that take as long.
    """
    path = folder / REPORT
    if not path.is_file():
        return None
    report = json.loads(path.read_text(encoding="utf-8"))
    config = _find_whole_section(step.arguments["values"], amounts)
    examples = _count_examples(step, amounts, amounts.whole, of_dev=False)
    examples = examples or config.get("sentences") or 0
    of_epoch = math.ceil(examples / config.get("batch_size", 1))
    updates = of_epoch * (config.get("epochs") or 1)
    updates = min(updates, config.get("max_steps") or updates)
    history = report["history"]
    rehearsed_updates = max(1, *(each["step"] for each in history))
    seconds = report["update_seconds"] / rehearsed_updates
    beside_updates = report["seconds"] - report["update_seconds"]
    of_evaluation = beside_updates / len(history)
    # before the first update, and then ten times unless the config says how often
    every = config.get("evaluate_every") or max(1, updates // 10)
    evaluations = 1 + updates // every
    dev = _count_examples(step, amounts, amounts.whole, of_dev=True)
    rehearsed_dev = _count_examples(step, amounts, amounts.small, of_dev=True) or 1
    evaluated = evaluations * of_evaluation * (dev / rehearsed_dev)
    count = updates + math.ceil(evaluated / max(seconds, 1e-9))
    # no fault: its training checks its plan itself
    return Measured(seconds, count, _sum_sizes(folder) / GB)


def _count_examples(step: Step, amounts: Amounts, run: Run, *, of_dev: bool) -> int:
    """Count the utterances, or lists, that a training for rescoring reads."""
    count = 0
    for key, value in step.arguments.items():
        if (key in ("dev_texts", "dev_lists")) != of_dev:
            continue
        for path in find_paths(value):
            # a data dir's text, or a file of lists that is named like its set
            name = path.parent.name if path.name == "text" else path.stem
            count += amounts.count_utterances(run, name)
    return count


def _find_whole_section(
    short: Mapping[str, Any], amounts: Amounts
) -> Mapping[str, Any]:
    """Return the section of full.yaml of which these are the values, but shorter."""
    for section in amounts.whole.sections.values():
        if OF_RESCORERS not in section:
            continue
        kept = {key: each for key, each in section.items() if key not in SHORTENED}
        if all(short.get(key) == value for key, value in kept.items()):
            return section
    return short


def _measure_sets(
    step: Step, whole: float, amounts: Amounts
) -> tuple[float | None, int] | None:
    """Return the seconds of an utterance in work on sets, and the utterances of all.

    None if it is no such work. Shards are measured by when their logs ended, without
    the first, which loads the model; else the ``whole`` step is.
    """
    folders = {}
    for path in step.outputs:
        if path.name in DECODED:
            folders[path.parent.name] = path.parent
        if path.parent.name == LISTS:
            folders[path.stem] = path.with_suffix("")
    if not folders:
        return None
    # lists on which weights are tuned are worked on, too
    tuned = {path.stem for path in step.inputs if path.parent.name == LISTS}
    names = {*folders, *tuned}
    done = max(1, sum(amounts.count_utterances(amounts.small, each) for each in names))
    wanted = sum(_count_wanted(name, amounts) for name in names)
    logs: list[Path] = []
    for folder in folders.values():
        logs += folder.glob("log/*.[0-9]*.log")
    ends = sorted(log.stat().st_mtime for log in logs)
    if not ends:
        return whole / done, wanted
    # a single shard has loaded the model, for how long is not known
    if len(ends) == 1:
        return None, wanted
    of_shard = (ends[-1] - ends[0]) / (len(ends) - 1)
    return of_shard * len(ends) / done, wanted


def _count_wanted(name: str, amounts: Amounts) -> int:
    """Count the utterances of a set in the whole; mixed sets are not made there."""
    if name not in amounts.mixing:
        return amounts.count_utterances(amounts.whole, name)
    rehearsed = amounts.count_utterances(amounts.small, name)
    return round(rehearsed * amounts.compute_ratio(name))


def _sum_sizes(folder: Path) -> int:
    """Return the bytes of the files below a folder; links take none."""
    return sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    )


def describe_sets(whole: Run) -> list[str]:
    """Return a line for each data dir of the corpora: its utterances and hours.

    The paper's hours (the setting ``paper_hours``) stand beside them.
    """
    amounts = Amounts(whole, whole)
    of_paper: dict[str, float] = {}
    if whole.scale == "full":
        of_paper = whole.sections["settings"].get("paper_hours") or {}
    lines = []
    for name in sorted(path.parent.name for path in whole.datadir.glob("*/utt2dur")):
        hours = amounts.sum_seconds(whole, name) / 3600
        count = amounts.count_utterances(whole, name)
        line = f"{name}: {count:,} utterances, {hours:,.1f} h"
        paper = of_paper.get(name)
        if paper:
            line += f"; the paper has {paper:,} h"
            if abs(hours / paper - 1) >= SAME:
                line += f", which differs by more than {SAME:.0%}"
        lines.append(line)
    return lines


def describe_jobs(
    jobs: Sequence[Job], run: Run, checked: float, rehearsed: float
) -> list[str]:
    """Return the lines of the report: all jobs, the plan of the trainings, seconds.

    ``checked`` are the seconds in which the corpora were checked, ``rehearsed`` those
    of all else.
    """
    lines = ["", *_tabulate_jobs(jobs)]
    lines.append(
        "one: an update of a training, an utterance that is decoded; hours of one "
        "seed, at most: long batches"
    )
    hours = list_training_hours(jobs)
    # one seed was rehearsed, and all take as long
    of_seed = {}
    for system in run.systems:
        for seed in run.list_seeds(system):
            name = run.name_training(system, seed)
            if remove_seed(name) in hours:
                of_seed[name] = hours[remove_seed(name)]
    if of_seed:
        lines += _describe_plans(run, of_seed)
    lines.append(
        f"corpora checked in {checked:.0f} s, all else rehearsed in {rehearsed:.0f} s"
    )
    return lines


def list_training_hours(jobs: Sequence[Job]) -> dict[str, float]:
    """Return the hours of trainings, by their names without a seed."""
    return {
        remove_seed(job.name): job.hours
        for job in jobs
        if job.trains and job.hours is not None
    }


def _tabulate_jobs(jobs: Sequence[Job]) -> list[str]:
    rows = []
    for job in jobs:
        disk = job.disk if job.trains else None
        measured = (job.gigabytes, job.seconds, job.count)
        rows.append((job.name, *measured, job.hours, disk))
    shown = tabulate(
        rows,
        COLUMNS,
        tablefmt="plain",
        floatfmt=FORMATS,
        intfmt=",",
        missingval="-",
        numalign="right",
    )
    return shown.splitlines()


def _describe_plans(run: Run, hours: Mapping[str, float]) -> list[str]:
    """Say how long the trainings take on the run's GPUs and on other numbers of them.

    By a launcher, as many are trained at once as it is given.
    """
    longest_first = sorted(hours, key=lambda name: -hours[name])
    lines = []
    # with options for several GPUs or nodes they train one by one
    if run.ngpu and not (run.launch or run.train_options):
        gpus = list_gpus_of_run(run)
        most = run.sections["settings"].get("training_gpus") or len(gpus)
        planned = plan_rounds(longest_first, gpus, most)
        lines += ["", "the plan of the trainings:", *describe_plan(planned, hours)]
        for count in OTHER_COUNTS:
            planned = plan_rounds(longest_first, tuple(map(str, range(count))), most)
            total = describe_plan(planned, hours)[0]
            lines.append(f"on {count} GPU{'s' * (count > 1)}: {total}")
    if run.launch:
        at_once = count_jobs_at_once(run, len(hours))
        planned = plan_rounds(longest_first, tuple(map(str, range(at_once))), 1)
        total = describe_plan(planned, hours)[0]
        lines.append(f"by {run.launch[0]}, at most {at_once} at once: {total}")
    return lines


def list_problems(jobs: Sequence[Job], run: Run) -> list[str]:
    """Return what would fail later: plans of trainings, a disk that is too small."""
    faults = [f"training: {job.name}: {job.fault}" for job in jobs if job.fault]
    seeds = {}
    for system in run.systems:
        seeds[remove_seed(run.name_training(system, 1))] = len(run.list_seeds(system))
    # what is below the systems, such as a language model, is trained once
    needed = sum(job.disk * seeds.get(remove_seed(job.name), 1) for job in jobs)
    # the folder itself is not made yet
    above = (run.expdir.resolve(), *run.expdir.resolve().parents)
    folder = next(path for path in above if path.exists())
    free = shutil.disk_usage(folder).free / GB
    if needed > free:
        faults.append(
            f"{folder}: the trainings write {needed:.0f} GB, and {free:.0f} GB are free"
        )
    return faults
