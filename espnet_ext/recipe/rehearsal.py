"""``run.sh --rehearse``: in minutes, on the user's machine and corpus, what a run would
do in days.

The corpora are checked whole; then every stage runs twice on a few utterances, with the
real models, batches and search. What fails is noted, and the rest goes on. All is
removed, but for logs and lists of faults after a failure.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, islice, zip_longest
from pathlib import Path
from threading import Event, Thread
from typing import Any

from espnet_ext.corpora.librispeech import LM_TEXT
from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.data_dir import DataDir, read_data_dir, write_data_dir
from espnet_ext.kaldi.parts import choose_spread, keep_utterances
from espnet_ext.recipe.audio_check import show_what_is_not_decoded
from espnet_ext.recipe.gpus import hours_file, list_gpus_of_run, remove_seed
from espnet_ext.recipe.rehearsal_report import (
    OF_RESCORERS,
    Job,
    job_lines,
    jobs_of,
    problems_of,
    set_lines,
)
from espnet_ext.recipe.run import WHOLE_TEXT, Run
from espnet_ext.recipe.steps import Step, Watch, one_line, show, watches
from espnet_ext.text.lm_text import read_sentences
from espnet_ext.work import once
from espnet_ext.work.files import atomic_write, write_json

DATA = "data"  # the stage that checks the corpora and writes their data dirs
FAULTS = "faults"  # in the names of files with the faults of a corpus
SPEAKERS, OF_EACH = (
    8,
    6,
    # utterances of a set besides the longest, unless a batch is full three times with
    # fewer
)
FEW_SECONDS = 900.0  # of these, whatever a batch holds
TEST_UTTERANCES, TEST_SECONDS = (
    4,
    1_800.0,
)  # of a test set, half of them the longest; fewer if they are as long
SENTENCES, AMONG = (
    4_000,
    400_000,
)  # of the text of a language model: the longest of the first so many
SAMPLE_RATE = 16_000
MIXTURES = {
    "train_stitch": 80,
    "train": 40,
    "": 4,
}  # recordings of mixed sets, by how their names begin
UPDATES = 4  # of a training on N-best lists
REFERENCES = "references.json"
POLL_SECONDS = 0.5
# what is said where something is not there, in steps and elsewhere
MISSING, NO_FILE = "is missing: run the earlier stages first", "no such file"


@dataclass
class Seen:
    """A step that has run in a rehearsal: why it failed, or "", and the most GB of a
    GPU that it has used.
    """

    stage: str
    step: Step
    seconds: float
    gigabytes: float | None
    reason: str


@dataclass(frozen=True)
class Fault:
    """What has failed in a stage; ``place`` is a step, or empty."""

    stage: str
    place: str
    reason: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.stage, self.place, self.reason)))

    @property
    def follows(self) -> bool:
        """Whether something was missing, as it is after a failure."""
        return MISSING in self.reason or NO_FILE in self.reason.lower()


def list_causes(faults: Sequence[Fault]) -> list[str]:
    """Return a line for each cause of faults, with how many more it has led to."""
    of_cause: dict[str, list[Fault]] = {}
    for fault in faults:
        cause = MISSING if fault.follows and of_cause else fault.reason
        of_cause.setdefault(cause, []).append(fault)
    lines = []
    for cause, found in of_cause.items():
        why = "lack what has failed" if cause == MISSING else "fail in the same way"
        more = f" (and {len(found) - 1} more {why})" if len(found) > 1 else ""
        lines.append(f"{found[0]}{more}")
    return lines


@dataclass
class Notes:
    """What a rehearsal has seen of the steps of one start."""

    memory: "GpuMemory"
    stage: str = ""
    seen: list[Seen] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def watch(self) -> Watch:
        """Return what tells the steps of a run to these notes."""
        return Watch(
            self._ended,
            lambda reason: self.faults.append(Fault(self.stage, "", reason)),
        )

    def _ended(
        self, step: Step, lane: tuple[str, ...], seconds: float, reason: str
    ) -> None:
        self.seen.append(
            Seen(self.stage, step, seconds, self.memory.most(lane, seconds), reason)
        )
        if reason:
            self.faults.append(Fault(self.stage, step.name, reason))


def rehearse(run: Run) -> None:
    """Rehearse a run, print what the whole will take, and leave its hours for the plan
    of the run itself.
    """
    top = run.expdir.with_name(f"{run.expdir.name}.rehearsal")
    top.parent.mkdir(parents=True, exist_ok=True)

    def refuse(waited: float) -> None:
        if waited == 0:  # not NaN, without locks
            raise InputError(
                f"{top}: another rehearsal is running there: wait for it, or give "
                "another --expdir"
            )

    with once.locked(top.with_name(f".{top.name}.lock"), refuse):
        shutil.rmtree(top, ignore_errors=True)
        _rehearse(run, top)


def _rehearse(run: Run, top: Path) -> None:
    whole, small = folders_of(run, top)
    began = time.monotonic()
    with GpuMemory(list_gpus_of_run(run) if run.ngpu and not run.launch else ()) as memory:
        first = Notes(memory)
        start(whole, [DATA], first)
        checked = time.monotonic()
        jobs: list[Job] = []
        again: list[str] = []
        for line in set_lines(whole):
            show(line)
        show_what_is_not_decoded(whole)
        if not first.faults:
            show(f"{shrink(whole, small)} data dirs cut to a few utterances")
            small = with_text(small)
            others = [stage for stage in run.recipe.stages if stage != DATA]
            start(small, others, first)
            jobs = jobs_of(first.seen, whole, small)
            again = second_start(small, others, first)
    for line in job_lines(jobs, run, checked - began, time.monotonic() - checked):
        show(line)
    if hours := {
        remove_seed(job.name): job.hours
        for job in jobs
        if job.trains and job.hours is not None
    }:
        write_json(hours_file(run), hours)
    problems = [*list_causes(first.faults), *again, *problems_of(jobs, run)]
    clear(top, logs_stay=bool(problems) or any(top.rglob(f"*{FAULTS}*")))
    for line in problems:
        show(f"would fail: {line}")
    if problems:
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        raise InputError(
            f"the rehearsal has found {count}; logs and faults are in {top}"
        )
    show("nothing failed")


def clear(top: Path, *, logs_stay: bool) -> None:
    """Remove the folder of a rehearsal, or all in it but logs and lists of faults."""
    if not logs_stay:
        shutil.rmtree(top, ignore_errors=True)
        return
    for folder in (Path(name) for name, _, _ in os.walk(top, topdown=False)):
        for path in folder.iterdir():
            if path.is_symlink() or (
                path.is_file() and path.suffix != ".log" and FAULTS not in path.name
            ):
                path.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()


def folders_of(run: Run, top: Path) -> tuple[Run, Run]:
    """Return the run of the whole corpora, of which only the data are made, and that of
    a few utterances.
    """
    options = {**run.options, "seed": "1"}
    whole = replace(run, options=options, datadir=top / "whole", expdir=top / "exp")
    small = replace(
        whole,
        datadir=top / "data",
        sections=smaller(run.sections),
        rehearsed=top / "whole",
    )
    return whole, small


def smaller(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scale's sections with less of what is made or repeated; models, batches
    and searches stay.
    """

    def of(name: str, value: Any) -> Any:
        if name == "mixing":
            most = {
                key: next(
                    count for start, count in MIXTURES.items() if key.startswith(start)
                )
                for key in value
            }
            return {
                key: {**each, "count": min(each["count"], most[key])}
                if each and each.get("count")
                else each
                for key, each in value.items()
            }
        if isinstance(value, Mapping):
            return {key: of(key, each) for key, each in value.items()}
        few = {"runs": 2, "seconds": 1, "lm_splits": 2, "sentences": 200, "epochs": 1}
        return few.get(name, value) if value is not None else None

    changed = {
        name: of(name, section)
        for name, section in sections.items()
        if name != "pretrain"
    }
    trained = {
        name: {**section, "max_steps": UPDATES, "evaluate_every": UPDATES}
        for name, section in changed.items()
        if OF_RESCORERS in section
    }
    return {**sections, **changed, **trained}


def start(run: Run, stages: Sequence[str], notes: Notes) -> None:
    """Run stages. What fails is noted, and the stages after it run as far as they can."""
    watches.append(notes.watch())
    try:
        for stage in stages:
            notes.stage = stage
            say(f"\n-- {stage.replace('_', ' ')}")
            try:
                run.recipe.stages[stage](run)
            except Exception as error:
                notes.faults.append(Fault(stage, "", one_line(error)))
    finally:
        watches.pop()


def second_start(run: Run, stages: Sequence[str], first: Notes) -> list[str]:
    """Start again, as if the trainings had been killed at their end, and return what is
    repeated or fails.
    """
    show("the second start: trainings resume, and nothing else is repeated")
    resumed = {
        each.step.name
        for each in first.seen
        if each.step.resumes is not None and not each.reason
    }
    for each in first.seen:
        if each.step.name in resumed:
            each.step.note.unlink(missing_ok=True)
    again = Notes(first.memory)
    failed = {each.step.name for each in first.seen if each.reason}
    start(run, stages, again)
    repeated = [
        each
        for each in again.seen
        if not each.step.resumes and each.step.name not in failed
    ]
    lost = [each for each in again.faults if each not in first.faults]
    return [
        *(f"{each.stage}: {each.step.name} was repeated" for each in repeated),
        *list_causes(lost),
    ]


def shrink(whole: Run, small: Run) -> int:
    """Write a few utterances of each data dir of the whole corpora, link all else;
    return the number of data dirs.
    """
    unused = whole.recipe.unused(whole.options)
    used = [section for name, section in small.sections.items() if name not in unused]
    seconds, lists = batch_seconds(used), 0
    if not any(
        section.keys() & {"batch_bins", "batch_type", "chunk_conf"} for section in used
    ):
        lists = UPDATES * max(
            (section["batch_size"] for section in used if OF_RESCORERS in section),
            default=0,
        )
    corpus, tests = whole.datadir / "corpus", whole.tables.file.test_sets
    found = sorted(
        path.parent
        for path in whole.datadir.rglob("wav.scp")
        if corpus not in path.parents
    )
    texts: list[str] = []
    for folder in found:
        data, place = read_data_dir(folder), folder.relative_to(whole.datadir)
        is_test = any(part in tests for part in place.parts)
        chosen = choose(data, None if is_test else seconds, lists)
        write_data_dir(keep_utterances(data, chosen), small.datadir / place)
        if (
            references := folder.parent / REFERENCES
        ).is_file():  # who says what in its recordings
            turns = json.loads(references.read_text(encoding="utf-8"))
            own = [turn for turn in turns if turn["session_id"] in chosen]
            write_json((small.datadir / place).parent / REFERENCES, own)
        texts += [] if is_test else (data.text or {}).values()
    with atomic_write(small.datadir / WHOLE_TEXT) as file:
        file.writelines(
            f"{number} {text}\n" for number, text in enumerate(texts, start=1)
        )
    _link_others(
        whole.datadir,
        small.datadir,
        {*found, *chain(*(folder.parents for folder in found))},
    )
    return len(found)


def _link_others(source: Path, output: Path, written: set[Path]) -> None:
    """Link what is not a data dir, nor has one below it."""
    output.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        target = output / path.name
        if path in written and path.is_dir():
            _link_others(path, target, written)
        elif not target.exists() and path.name != "log":
            target.symlink_to(path.resolve())


def batch_seconds(sections: Sequence[Mapping[str, Any]]) -> float:
    """Return the audio of the largest batch of trainings with these configs, at least a
    minute.
    """
    found = [60.0]
    for section in sections:
        bins, chunks = section.get("batch_bins") or 0, section.get("chunk_conf") or {}
        found += [bins / SAMPLE_RATE, float(chunks.get("batch_seconds", 0))]
        if section.get("batch_type") in ("sorted", "unsorted"):  # so many of 15 s
            found.append(15.0 * section.get("batch_size", 0))
    return max(found)


def choose(data: DataDir, seconds: float | None, lists: int = 0) -> set[str]:
    """Return some utterances: the longest that fill a batch of so many seconds, as many
    of all lengths, and some of several speakers; with None, those of a test set; with
    ``lists``, only so many of the longest, for their lists.
    """
    durations = {key: float(value) for key, value in (data.utt2dur or {}).items()}
    longest = sorted(data.utt2spk, key=lambda key: (-durations.get(key, 0.0), key))
    if seconds is None:
        few = min(TEST_UTTERANCES, len(longest))
        return _filled(
            [*longest[: few // 2], *choose_spread(data, few - few // 2)],
            TEST_SECONDS,
            durations,
        )
    if lists:
        return set(longest[:lists])
    mean = max(1.0, sum(durations.values()) / len(longest))
    even = longest[:: max(1, int(len(longest) * mean / seconds))]
    chosen = _filled(longest, seconds, durations) | _filled(even, seconds, durations)
    speakers = sorted(data.spk2utt)
    own = []
    for speaker in speakers[:: max(1, len(speakers) // SPEAKERS)][:SPEAKERS]:
        keys = sorted(
            data.spk2utt[speaker].split(), key=lambda key: durations.get(key, 0.0)
        )
        own.append(keys[:: max(1, len(keys) // OF_EACH)][:OF_EACH])
    in_turn = [key for keys in zip_longest(*own) for key in keys if key]
    return chosen | _filled(in_turn, max(seconds, FEW_SECONDS), durations)


def _filled(
    keys: Sequence[str], seconds: float, durations: Mapping[str, float]
) -> set[str]:
    """Return the first utterances that have so many seconds together; those of unknown
    length have ten.
    """
    ends = accumulate(durations.get(key, 10.0) for key in keys)
    return {
        key
        for key, end in zip(keys, ends, strict=True)
        if end - durations.get(key, 10.0) < seconds
    }


def with_text(run: Run) -> Run:
    """Return the run with some long sentences of the text of its language model."""
    if "lm_text" not in run.options:
        return run
    text = run.path("lm_text") or run.corpus / LM_TEXT
    if not text.is_file():
        return run
    few = sorted(islice(read_sentences((text,)), AMONG), key=len, reverse=True)[
        :SENTENCES
    ]
    path = run.datadir / "lm_text.txt"
    with atomic_write(path) as file:
        file.writelines(f"{line}\n" for line in few)
    return replace(run, options={**run.options, "lm_text": str(path.resolve())})


class GpuMemory:
    """What is in use on GPUs, by ``nvidia-smi``, while a rehearsal runs; nothing is
    known without that command.
    """

    def __init__(self, gpus: Sequence[str]) -> None:
        self.gpus, self.samples, self.over = (
            gpus,
            list[tuple[float, dict[str, float]]](),
            Event(),
        )

    def __enter__(self) -> "GpuMemory":
        """Begin to measure."""
        self.before = self._read() if self.gpus else {}
        if self.before:
            Thread(target=self._measure, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop measuring."""
        self.over.set()

    def most(self, lane: Sequence[str], seconds: float) -> float | None:
        """Return the most GB that were in use on a GPU in the last ``seconds``."""
        since = time.monotonic() - seconds
        used = [each for when, each in self.samples if when >= since]
        names = [name for name in lane or self.gpus if name in self.before]
        return max(
            (each[name] - self.before[name] for each in used for name in names),
            default=None,
        )

    def _measure(self) -> None:
        while not self.over.wait(POLL_SECONDS):
            if found := self._read():
                self.samples.append((time.monotonic(), found))

    def _read(self) -> dict[str, float]:
        query = [
            "nvidia-smi",
            "--query-gpu=index,uuid,memory.used",
            "--format=csv,noheader,nounits",
        ]
        try:
            printed = subprocess.run(
                query, capture_output=True, text=True, timeout=20, check=True
            ).stdout
            rows = [
                [word.strip() for word in line.split(",")]
                for line in printed.splitlines()
            ]
            return {
                name: float(used) / 1024
                for index, uuid, used in rows
                for name in (index, uuid)
            }
        except (OSError, ValueError, subprocess.SubprocessError):
            return {}
