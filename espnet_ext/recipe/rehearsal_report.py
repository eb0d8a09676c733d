"""What a rehearsal has measured, and what the whole will take by it: memory, hours and
disk of each job.
"""

import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

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
from espnet_ext.recipe.steps import Step, paths_in
from espnet_ext.work.yaml_files import read_yaml

if TYPE_CHECKING:
    from espnet_ext.recipe.rehearsal import Seen

UPDATE = re.compile(r"(\d+)epoch:train:\d+-(\d+)batch: .*train_time=([0-9.e+-]+)")
REPORT = "training.json"  # of the trainings of rescorers
VALID_SHARE = 1 / 3  # a batch of the development set is a forward pass alone
SAME = 0.05  # relative difference in hours from the paper's corpus
GB = 1024**3
OF_RESCORERS = "lr"  # a key of their trainings alone; ESPnet's have it in optim_conf
LISTS = "lists"  # the folder of N-best lists, a file for each set
DECODED = (
    "text",
    "hypotheses.jsonl",
    "transcripts.json",
)  # below a folder for each set
PARTS = ("train", "valid")
COLUMNS = ("", "GPU GB", "seconds of one", "how many", "hours", "disk GB")
FORMATS = ("", ".1f", ".3f", "", ".1f", ".1f")
OTHER_COUNTS = (1, 4, 8)  # of GPUs, for which the hours of the trainings are said too


@dataclass(frozen=True)
class Job:
    """A training or a decoding, by its folder below the experiments.

    ``gigabytes`` are of memory on a GPU, ``seconds`` of one of the ``count`` updates or
    utterances of the whole, which writes so many GB to the ``disk``. ``fault`` is
    what is wrong with the plan of a training.
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
        return (
            None
            if self.seconds is None or self.count is None
            else self.seconds * self.count / 3600
        )


def jobs_of(seen: "Sequence[Seen]", whole: Run, small: Run) -> list[Job]:
    """Return the trainings and decodings among the steps of a rehearsal that have ended
    well.
    """
    amounts, jobs = Amounts(whole, small), []
    for each in (each for each in seen if not each.reason):
        step = each.step
        if (folder := step.resumes) is not None:
            measured = _rescorer(step, folder, amounts)
            seconds, count, disk, fault = measured or _espnet_training(
                step, folder, amounts
            )
            name = str(folder.relative_to(small.expdir))
            fault = fault if checks_plans(whole) else ""
            jobs.append(Job(name, True, each.gigabytes, seconds, count, disk, fault))
        elif step.preload and (found := _of_sets(step, each.seconds, amounts)):
            place = step.outputs[0].parent
            name = str(
                (place if place.name == LISTS else place.parent).relative_to(
                    small.expdir
                )
            )
            jobs.append(Job(name, False, each.gigabytes, *found, 0.0))
    return jobs


class Amounts:
    """How much more the whole has than what is rehearsed, by data dir."""

    def __init__(self, whole: Run, small: Run) -> None:
        self.whole, self.small = whole, small
        self.mixing: Mapping[str, Any] = whole.sections["settings"].get("mixing") or {}

    def ratio(self, name: str) -> float:
        """Return the audio of a set, as a multiple of that which is rehearsed; of all
        sets together if unknown.
        """
        if count := (self.mixing.get(name) or {}).get("count"):
            return float(count) / max(1, self.utterances(self.small, name))
        names = [name]
        if not (self.whole.datadir / name / "text").is_file():
            there = {path.parent.name for path in self.whole.datadir.glob("*/text")}
            names = [
                each
                for each in there - {*self.whole.tables.file.test_sets}
                if self.utterances(self.small, each)
            ]
        all_of, few = (
            sum(self.seconds(run, each) for each in names)
            for run in (self.whole, self.small)
        )
        return all_of / max(1e-9, few)

    def utterances(self, run: Run, name: str) -> int:
        """Return the number of utterances of a set, 0 if the run does not have it."""
        paths = (
            run.datadir / name / place / "text" for place in ("", "segments/data")
        )  # the second of LibriCSS
        path = next(filter(Path.is_file, paths), None)
        return len(path.read_text(encoding="utf-8").splitlines()) if path else 0

    def seconds(self, run: Run, name: str) -> float:
        """Return the audio of a set in seconds; without durations, its utterances."""
        path = run.datadir / name / "utt2dur"
        if path.is_file():
            return sum(map(float, read_table(path).values()))
        return float(self.utterances(run, name))


def _option(step: Step, name: str) -> str:
    words = list(step.arguments["options"])
    return str(words[words.index(name) + 1]) if name in words else ""


def _espnet_training(
    step: Step, folder: Path, amounts: Amounts
) -> tuple[float | None, int | None, float, str]:
    """Return seconds of an update, updates, disk and what is wrong with the plan of a
    training by ESPnet, from its log and its real config.
    """
    short = Path(_option(step, "--config"))
    config = read_yaml(short.parent / WHOLE_CONFIGS / short.name)
    files = [
        path.stat().st_size
        for path in folder.glob("*epoch.pth")
        if not path.is_symlink()
    ]
    kept = config.get("keep_nbest_models", 10)
    models = (max(kept) if isinstance(kept, list) else kept) * len(
        config.get("best_model_criterion") or [1]
    )
    disk = (_size(folder) + max(0, models - len(files)) * max(files, default=0)) / GB
    updates = UPDATE.findall(step.log.read_text(encoding="utf-8", errors="replace"))
    if not updates:
        return None, None, disk, ""
    last = [
        (int(batch), float(seconds))
        for epoch, batch, seconds in updates
        if epoch == updates[-1][0]
    ]
    seconds = fmean(value for _, value in last[1:] or last)
    sets = {
        part: Path(
            _option(step, f"--{part}_data_path_and_name_and_type").partition(",")[0]
        )
        for part in PARTS
    }
    train, valid = (path.parent.name for path in sets.values())
    batches = last[-1][0]
    of_pass = math.ceil(batches * amounts.ratio(train))
    updates_of_all = count_updates(config, of_pass)
    audio = amounts.seconds(amounts.small, train)  # none of a language model
    validation = 0.0
    if audio:
        valid_batches = batches * amounts.seconds(amounts.whole, valid) / audio
        validation = count_epochs(config) * valid_batches * VALID_SHARE
    validation /= config.get("accum_grad") or 1  # seconds are those of an update
    fault = find_warmup_fault(config, updates_of_all)
    return seconds, updates_of_all + math.ceil(validation), disk, fault


def _rescorer(
    step: Step, folder: Path, amounts: Amounts
) -> tuple[float | None, int | None, float, str] | None:
    """Return the same of a training for rescoring, or None; evaluations count as
    updates that take as long.
    """
    path = folder / REPORT
    if not path.is_file():
        return None
    report = json.loads(path.read_text(encoding="utf-8"))
    short = step.arguments["values"]
    config = next(
        (
            each
            for each in amounts.whole.sections.values()
            if _same_but_shorter(each, short)
        ),
        short,
    )
    dev = ("dev_texts", "dev_lists")

    def utterances(run: Run, *, of_dev: bool) -> int:
        files = paths_in(
            [value for key, value in step.arguments.items() if (key in dev) == of_dev]
        )
        return sum(
            amounts.utterances(
                run, file.parent.name if file.name == "text" else file.stem
            )
            for file in files
        )

    examples = utterances(amounts.whole, of_dev=False) or config.get("sentences") or 0
    updates = math.ceil(examples / config.get("batch_size", 1)) * (
        config.get("epochs") or 1
    )
    updates = min(updates, config.get("max_steps") or updates)
    seconds = report["update_seconds"] / max(
        1, *(each["step"] for each in report["history"])
    )
    each = (report["seconds"] - report["update_seconds"]) / len(
        report["history"]
    )  # evaluation
    evaluations = 1 + updates // (config.get("evaluate_every") or max(1, updates // 10))
    ratio = utterances(amounts.whole, of_dev=True) / (
        utterances(amounts.small, of_dev=True) or 1
    )
    evaluated = evaluations * each * ratio
    return (
        seconds,
        updates + math.ceil(evaluated / max(seconds, 1e-9)),
        _size(folder) / GB,
        "",  # its training checks its plan itself
    )


def _same_but_shorter(section: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    changed = (
        "max_steps",
        "sentences",
        "epochs",
        "evaluate_every",
        "amp",
        "positions",
    )  # the last two by run.sh
    return OF_RESCORERS in section and all(
        values.get(key) == value for key, value in section.items() if key not in changed
    )


def _of_sets(
    step: Step, whole: float, amounts: Amounts
) -> tuple[float | None, int] | None:
    """Return seconds of an utterance and utterances of work on sets, such as decoding;
    None if it is none.

    Shards are measured by when their logs ended, without the first, which loads the
    model; else the ``whole`` step is.
    """
    sets = {
        path.parent.name: path.parent for path in step.outputs if path.name in DECODED
    }
    sets |= {
        path.stem: path.with_suffix("")
        for path in step.outputs
        if path.parent.name == LISTS
    }
    if not sets:
        return None
    names = {
        *sets,
        *(path.stem for path in step.inputs if path.parent.name == LISTS),
    }  # of which weights are tuned
    ends = sorted(
        log.stat().st_mtime
        for folder in sets.values()
        for log in folder.glob("log/*.[0-9]*.log")
    )
    done = max(1, sum(amounts.utterances(amounts.small, name) for name in names))
    wanted = sum(
        round(amounts.utterances(amounts.small, name) * amounts.ratio(name))
        if name in amounts.mixing
        else amounts.utterances(amounts.whole, name)
        for name in names
    )
    if not ends:
        return whole / done, wanted
    return (
        (ends[-1] - ends[0]) / (len(ends) - 1) * len(ends) / done
        if len(ends) > 1
        else None
    ), wanted


def _size(folder: Path) -> int:
    return sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    )


def set_lines(whole: Run) -> list[str]:
    """Return a line for each data dir of the corpora: utterances, hours, and the
    paper's hours (``paper_hours``).
    """
    amounts, lines = Amounts(whole, whole), []
    of_paper = (
        whole.sections["settings"].get("paper_hours") or {}
        if whole.scale == "full"
        else {}
    )
    for name in sorted(path.parent.name for path in whole.datadir.glob("*/utt2dur")):
        hours = amounts.seconds(whole, name) / 3600
        line = f"{name}: {amounts.utterances(whole, name):,} utterances, {hours:,.1f} h"
        if paper := of_paper.get(name):
            same = abs(hours / paper - 1) < SAME
            line = (
                f"{line}; the paper has {paper:,} "
                f"h{'' if same else f', which differs by more than {SAME:.0%}'}"
            )
        lines.append(line)
    return lines


def job_lines(
    jobs: Sequence[Job], run: Run, checked: float, rehearsed: float
) -> list[str]:
    """Return the lines of the report: a table of the jobs, the plan of the trainings,
    and the seconds of it all.
    """
    rows = [
        (
            job.name,
            job.gigabytes,
            job.seconds,
            job.count,
            job.hours,
            job.disk if job.trains else None,
        )
        for job in jobs
    ]
    shown = tabulate(
        rows,
        COLUMNS,
        tablefmt="plain",
        floatfmt=FORMATS,
        intfmt=",",
        missingval="-",
        numalign="right",
    )
    lines = ["", *shown.splitlines()]
    lines.append(
        "one: an update of a training, an utterance that is decoded; hours of one "
        "seed, at most: long batches"
    )
    hours = {
        remove_seed(job.name): job.hours
        for job in jobs
        if job.trains and job.hours is not None
    }
    names = [
        run.name_of(system, seed)
        for system in run.systems
        for seed in run.seeds_of(system)
    ]
    of_seed = {
        name: hours[remove_seed(name)] for name in names if remove_seed(name) in hours
    }
    if (
        of_seed and run.ngpu and not (run.launch or run.train_options)
    ):  # which train one by one
        gpus = list_gpus_of_run(run)
        most = run.sections["settings"].get("training_gpus") or len(gpus)
        longest_first = sorted(of_seed, key=lambda name: -of_seed[name])
        lines += [
            "",
            "the plan of the trainings:",
            *describe_plan(plan_rounds(longest_first, gpus, most), of_seed),
        ]
        for count in OTHER_COUNTS:
            planned = plan_rounds(longest_first, tuple(map(str, range(count))), most)
            lines.append(
                f"on {count} GPU{'s' * (count > 1)}: {describe_plan(planned, of_seed)[0]}"
            )
    if of_seed and run.launch:
        at_once = count_jobs_at_once(run, len(of_seed))
        longest_first = sorted(of_seed, key=lambda name: -of_seed[name])
        planned = plan_rounds(longest_first, tuple(map(str, range(at_once))), 1)
        total = describe_plan(planned, of_seed)[0]
        lines.append(f"by {run.launch[0]}, at most {at_once} at once: {total}")
    lines.append(
        f"corpora checked in {checked:.0f} s, all else rehearsed in {rehearsed:.0f} s"
    )
    return lines


def problems_of(jobs: Sequence[Job], run: Run) -> list[str]:
    """Return what would fail later: plans of trainings, a disk that is too small."""
    faults = [f"training: {job.name}: {job.fault}" for job in jobs if job.fault]
    seeds = {
        remove_seed(run.name_of(system, 1)): len(run.seeds_of(system))
        for system in run.systems
    }
    needed = sum(job.disk * seeds.get(remove_seed(job.name), 1) for job in jobs)
    folder = next(
        path
        for path in (run.expdir.resolve(), *run.expdir.resolve().parents)
        if path.exists()
    )
    free = shutil.disk_usage(folder).free / GB
    if needed > free:
        faults.append(
            f"{folder}: the trainings write {needed:.0f} GB, and {free:.0f} GB are free"
        )
    return faults
