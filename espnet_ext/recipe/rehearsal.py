"""``run.sh --rehearse``: in minutes, on the user's corpus, what a run does in days.

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
from itertools import islice, zip_longest
from pathlib import Path
from threading import Event, Thread
from typing import Any

from espnet_ext.corpora.librispeech import LM_TEXT
from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.data_dir import DataDir, read_data_dir, write_data_dir
from espnet_ext.kaldi.parts import choose_spread, keep_utterances
from espnet_ext.kaldi.tables import read_table
from espnet_ext.nbest.sources import (
    find_listed_parts,
    find_lists,
    read_lists,
    write_references,
)
from espnet_ext.recipe.audio_check import show_what_is_not_decoded
from espnet_ext.recipe.gpus import list_gpus_of_run, locate_hours_file
from espnet_ext.recipe.rehearsal_report import (
    OF_RESCORERS,
    Job,
    Seen,
    describe_jobs,
    describe_sets,
    list_jobs,
    list_problems,
    list_training_hours,
)
from espnet_ext.recipe.run import WHOLE_TEXT, Run
from espnet_ext.recipe.steps import Step, Watch, describe_error, show, watches
from espnet_ext.scoring.formatting import format_count
from espnet_ext.text.lm_text import read_sentences
from espnet_ext.text.nbest import NBest, write_nbest
from espnet_ext.work import once
from espnet_ext.work.files import atomic_write, write_json

DATA = "data"  # the stage that checks the corpora and writes their data dirs
FAULTS = "faults"  # in the names of files with the faults of a corpus
# Utterances of a set besides the longest: some of each of several speakers, up to this
# length together or that of a batch.
SPREAD_SPEAKERS = 8
UTTERANCES_OF_SPEAKER = 6
SPEAKERS_SECONDS = 900.0
# Utterances of a test set, half of them the longest; fewer if they are long recordings,
# which are decoded whole.
TEST_UTTERANCES = 4
TEST_SECONDS = 1_800.0
# A language model is rehearsed on the longest of the sentences that are read.
LM_SENTENCES = 4_000
LM_SENTENCES_READ = 400_000
SAMPLE_RATE = 16_000  # Hz
USUAL_SECONDS = 10.0  # of utterances of unknown length
# Recordings of mixed sets, by how their names begin.
MIXTURES = {"train_stitch": 80, "train": 40, "": 4}
UPDATES = 4  # of a training on N-best lists
# What is made or repeated less; models, batches and searches stay.
FEWER = {"runs": 2, "seconds": 1, "lm_splits": 2, "sentences": 200, "epochs": 1}
REFERENCES = "references.json"
NBEST_LISTS = "nbest_lists"  # the option of recipes that take N-best lists
POLL_SECONDS = 0.5
# what is said where something is not there, in steps and elsewhere
MISSING = "is missing: run the earlier stages first"
NO_FILE = "no such file"


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
        # the first fault follows from none, even if a file is missing: the user's
        cause = MISSING if fault.follows and of_cause else fault.reason
        of_cause.setdefault(cause, []).append(fault)
    lines = []
    for cause, found in of_cause.items():
        line = str(found[0])
        if len(found) > 1:
            why = "lack what has failed" if cause == MISSING else "fail in the same way"
            line += f" (and {len(found) - 1} more {why})"
        lines.append(line)
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
        return Watch(self._note_step, self._note_fault)

    def _note_fault(self, reason: str) -> None:
        self.faults.append(Fault(self.stage, "", reason))

    def _note_step(
        self, step: Step, lane: tuple[str, ...], seconds: float, reason: str
    ) -> None:
        gigabytes = self.memory.find_most(lane, seconds)
        self.seen.append(Seen(self.stage, step, seconds, gigabytes, reason))
        if reason:
            self.faults.append(Fault(self.stage, step.name, reason))


def rehearse(run: Run) -> None:
    """Rehearse a run, and print what the whole will take.

    Its hours are left for the plan of the run itself.
    """
    top = run.expdir.with_name(f"{run.expdir.name}.rehearsal")
    top.parent.mkdir(parents=True, exist_ok=True)

    def refuse(waited: float) -> None:
        # NaN: the file system has no locks, and nobody is known to wait
        if waited == 0:
            raise InputError(
                f"{top}: another rehearsal is running there: wait for it, or give "
                "another --expdir"
            )

    with once.hold_lock(top.with_name(f".{top.name}.lock"), refuse):
        shutil.rmtree(top, ignore_errors=True)
        _rehearse(run, top)


def _rehearse(run: Run, top: Path) -> None:
    whole, small = make_runs(run, top)
    began = time.monotonic()
    gpus: Sequence[str] = ()
    # those that a launcher gives are on another machine
    if run.ngpu and not run.launch:
        gpus = list_gpus_of_run(run)
    with GpuMemory(gpus) as memory:
        first = Notes(memory)
        start_stages(whole, [DATA], first)
        checked = time.monotonic()
        jobs: list[Job] = []
        again: list[str] = []
        for line in describe_sets(whole):
            show(line)
        show_what_is_not_decoded(whole)
        if not first.faults:
            show(f"{shrink_data(whole, small)} data dirs cut to a few utterances")
            small = shorten_lists(shorten_text(small))
            others = [stage for stage in run.recipe.stages if stage != DATA]
            start_stages(small, others, first)
            jobs = list_jobs(first.seen, whole, small)
            again = start_again(small, others, first)
    for line in describe_jobs(jobs, run, checked - began, time.monotonic() - checked):
        show(line)
    hours = list_training_hours(jobs)
    if hours:
        write_json(locate_hours_file(run), hours)
    problems = [*list_causes(first.faults), *again, *list_problems(jobs, run)]
    clear(top, logs_stay=bool(problems) or any(top.rglob(f"*{FAULTS}*")))
    for line in problems:
        show(f"would fail: {line}")
    if problems:
        count = format_count(len(problems), "problem")
        raise InputError(
            f"the rehearsal has found {count}; logs and faults are in {top}"
        )
    show("nothing failed")


def clear(top: Path, *, logs_stay: bool) -> None:
    """Remove the folder of a rehearsal, or all in it but logs and lists of faults."""
    if not logs_stay:
        shutil.rmtree(top, ignore_errors=True)
        return
    # from below, so that a folder whose last file has gone goes, too
    for name, _, _ in os.walk(top, topdown=False):
        folder = Path(name)
        for path in folder.iterdir():
            stays = path.suffix == ".log" or FAULTS in path.name
            # a link to a folder, too, which leads into the user's own files
            if path.is_symlink() or (path.is_file() and not stays):
                path.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()


def make_runs(run: Run, top: Path) -> tuple[Run, Run]:
    """Return the run of the whole corpora, and that of a few utterances.

    Of the first only the data are made.
    """
    options = {**run.options, "seed": "1"}
    whole = replace(run, options=options, datadir=top / "whole", expdir=top / "exp")
    small = replace(
        whole,
        datadir=top / "data",
        sections=shrink_sections(run.sections),
        rehearsed=top / "whole",
    )
    return whole, small


def shrink_sections(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scale's sections with less of what is made or repeated.

    Models, batches and searches stay: what they need is what a rehearsal measures.
    """
    shrunk = {}
    for name, section in sections.items():
        # its epochs are stages of a training, which ``shorten_config`` shortens
        if name == "pretrain":
            shrunk[name] = section
            continue
        shrunk[name] = _shrink_value(name, section)
        if OF_RESCORERS in shrunk[name]:
            steps = {"max_steps": UPDATES, "evaluate_every": UPDATES}
            shrunk[name] = {**shrunk[name], **steps}
    return shrunk


def _shrink_value(name: str, value: Any) -> Any:
    if name == "mixing":
        return {key: _shrink_mixture(key, each) for key, each in value.items()}
    if isinstance(value, Mapping):
        return {key: _shrink_value(key, each) for key, each in value.items()}
    return None if value is None else FEWER.get(name, value)


def _shrink_mixture(name: str, mixture: Any) -> Any:
    """Return how a mixed set is made, with fewer recordings."""
    if not mixture or not mixture.get("count"):
        return mixture
    most = next(count for start, count in MIXTURES.items() if name.startswith(start))
    return {**mixture, "count": min(mixture["count"], most)}


def start_stages(run: Run, stages: Sequence[str], notes: Notes) -> None:
    """Run stages and note what fails; those after it run as far as they can."""
    watches.append(notes.watch())
    try:
        for stage in stages:
            notes.stage = stage
            say(f"\n-- {stage.replace('_', ' ')}")
            try:
                run.recipe.stages[stage](run)
            except Exception as error:
                notes.faults.append(Fault(stage, "", describe_error(error)))
    finally:
        watches.pop()


def start_again(run: Run, stages: Sequence[str], first: Notes) -> list[str]:
    """Start again, as if trainings had been killed; return what is repeated or fails.

    They are as if killed after the last epoch, before they are done.
    """
    show("the second start: trainings resume, and nothing else is repeated")
    succeeded = [each.step for each in first.seen if not each.reason]
    failed = {each.step.name for each in first.seen if each.reason}
    resumed = {step.name for step in succeeded if step.resumes is not None}
    for each in first.seen:
        if each.step.name in resumed:
            each.step.note.unlink(missing_ok=True)
    again = Notes(first.memory)
    start_stages(run, stages, again)
    lines = []
    for each in again.seen:
        # a step that is done before is not seen
        if not each.step.resumes and each.step.name not in failed:
            lines.append(f"{each.stage}: {each.step.name} was repeated")
    lost = [each for each in again.faults if each not in first.faults]
    return [*lines, *list_causes(lost)]


def shrink_data(whole: Run, small: Run) -> int:
    """Write a few utterances of each data dir of the whole corpora, and link all else.

    Return the number of data dirs.
    """
    used = _list_used_sections(small)
    seconds = find_batch_seconds(used)
    lists = _count_lists(used)
    # what lies there is the synthetic corpus, not what stage 1 has made of it
    corpus = whole.datadir / "corpus"
    tables = whole.datadir.rglob("wav.scp")
    found = sorted(path.parent for path in tables if corpus not in path.parents)
    texts: list[str] = []
    for folder in found:
        data = read_data_dir(folder)
        place = folder.relative_to(whole.datadir)
        is_test = any(part in whole.tables.file.test_sets for part in place.parts)
        chosen = choose_utterances(data, None if is_test else seconds, lists)
        write_data_dir(keep_utterances(data, chosen), small.datadir / place)
        _copy_references(folder.parent, (small.datadir / place).parent, chosen)
        if not is_test:
            texts += (data.text or {}).values()
    # of sets that the recipe combines only later: tokens are made of all of them
    with atomic_write(small.datadir / WHOLE_TEXT) as file:
        for number, text in enumerate(texts, start=1):
            file.write(f"{number} {text}\n")
    above = {parent for folder in found for parent in folder.parents}
    _link_others(whole.datadir, small.datadir, {*found, *above})
    return len(found)


def _list_used_sections(run: Run) -> list[Mapping[str, Any]]:
    """List the sections of a scale that a run with its options uses."""
    unused = run.recipe.unused(run.options)
    return [section for name, section in run.sections.items() if name not in unused]


def _count_lists(sections: Sequence[Mapping[str, Any]]) -> int:
    """Return how many N-best lists are enough to train on; 0 if audio is trained on."""
    of_audio = {"batch_bins", "batch_type", "chunk_conf"}
    if any(section.keys() & of_audio for section in sections):
        return 0
    sizes = [section["batch_size"] for section in sections if OF_RESCORERS in section]
    return UPDATES * max(sizes, default=0)


def _copy_references(source: Path, output: Path, recordings: set[str]) -> None:
    """Copy who says what in some recordings of a mixed set, if that is known."""
    path = source / REFERENCES
    if path.is_file():
        turns = json.loads(path.read_text(encoding="utf-8"))
        own = [turn for turn in turns if turn["session_id"] in recordings]
        write_json(output / REFERENCES, own)


def _link_others(source: Path, output: Path, written: set[Path]) -> None:
    """Link what is not a data dir, nor has one below it."""
    output.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        target = output / path.name
        if path in written and path.is_dir():
            _link_others(path, target, written)
        elif not target.exists() and path.name != "log":
            target.symlink_to(path.resolve())


def find_batch_seconds(sections: Sequence[Mapping[str, Any]]) -> float:
    """Return the seconds of audio in the largest batch of trainings, at least 60."""
    found = [60.0]
    for section in sections:
        # samples: batch_bins is of raw audio
        bins = section.get("batch_bins") or 0
        chunks = section.get("chunk_conf") or {}
        found += [bins / SAMPLE_RATE, float(chunks.get("batch_seconds", 0))]
        # Batches of a number of utterances, which have 15 s at most or little more.
        if section.get("batch_type") in ("sorted", "unsorted"):
            found.append(15.0 * section.get("batch_size", 0))
    return max(found)


def choose_utterances(data: DataDir, seconds: float | None, lists: int = 0) -> set[str]:
    """Return some utterances of a data dir, for a rehearsal.

    Utterances are the longest that fill a batch of ``seconds``, as many of all lengths,
    and some of several speakers; with None, those of a test set; with ``lists``, only
    that number of the longest, for their lists.
    """
    durations = {key: float(value) for key, value in (data.utt2dur or {}).items()}
    longest = sorted(data.utt2spk, key=lambda key: (-durations.get(key, 0.0), key))
    if seconds is None:
        few = min(TEST_UTTERANCES, len(longest))
        chosen = [*longest[: few // 2], *choose_spread(data, few - few // 2)]
        return _take_seconds(chosen, TEST_SECONDS, durations)
    if lists:
        return set(longest[:lists])
    mean = max(1.0, sum(durations.values()) / len(longest))
    # Of all lengths, as many as have about ``seconds`` together.
    stride = max(1, int(len(longest) * mean / seconds))
    even = longest[::stride]
    of_speakers = _take_of_speakers(data, durations)
    return (
        _take_seconds(longest, seconds, durations)
        | _take_seconds(even, seconds, durations)
        | _take_seconds(of_speakers, max(seconds, SPEAKERS_SECONDS), durations)
    )


def _take_of_speakers(data: DataDir, durations: Mapping[str, float]) -> list[str]:
    """Return utterances of all lengths of several speakers, one of each in turn."""
    speakers = sorted(data.spk2utt)
    stride = max(1, len(speakers) // SPREAD_SPEAKERS)
    own = []
    for speaker in speakers[::stride][:SPREAD_SPEAKERS]:
        keys = data.spk2utt[speaker].split()
        keys.sort(key=lambda key: durations.get(key, 0.0))
        step = max(1, len(keys) // UTTERANCES_OF_SPEAKER)
        own.append(keys[::step][:UTTERANCES_OF_SPEAKER])
    # in turn, since those after the limit in seconds are not taken
    in_turn = []
    for turn in zip_longest(*own):
        in_turn += [key for key in turn if key]
    return in_turn


def _take_seconds(
    keys: Sequence[str], seconds: float, durations: Mapping[str, float]
) -> set[str]:
    """Return the first utterances that have ``seconds`` together."""
    taken: set[str] = set()
    end = 0.0
    for key in keys:
        duration = durations.get(key, USUAL_SECONDS)
        end += duration
        # the sum before it, as floats add up
        if end - duration < seconds:
            taken.add(key)
    return taken


def shorten_text(run: Run) -> Run:
    """Return the run with some long sentences of the text of its language model."""
    if "lm_text" not in run.options:
        return run
    text = run.path("lm_text") or run.corpus / LM_TEXT
    if not text.is_file():
        return run
    first = islice(read_sentences((text,)), LM_SENTENCES_READ)
    few = sorted(first, key=len, reverse=True)[:LM_SENTENCES]
    path = run.datadir / "lm_text.txt"
    with atomic_write(path) as file:
        file.writelines(f"{line}\n" for line in few)
    return replace(run, options={**run.options, "lm_text": str(path.resolve())})


def shorten_lists(run: Run) -> Run:
    """Return the run with a few N-best lists of each part of those it is given.

    Where speech has been cut, its utterances are kept; otherwise the longest lists, and
    their references alone: as many as of speech.
    """
    given = run.path(NBEST_LISTS) if NBEST_LISTS in run.options else None
    if given is None:
        return run
    # results are called after the folder
    folder = run.datadir / "few_lists" / given.name
    of_training = max(_count_lists(_list_used_sections(run)), TEST_UTTERANCES)
    parts = find_listed_parts(given)
    show(f"N-best lists of {', '.join(parts)} cut to a few")
    for part in parts:
        source = find_lists(given, part)
        assert source is not None  # it is one of those found
        lists = read_lists(source)
        data = run.datadir / part
        if (data / "wav.scp").is_file():
            kept = read_table(data / "utt2spk")
            few = [nbest for nbest in lists if nbest.utt_id in kept]
        else:
            is_test = part in run.tables.file.test_sets
            most = TEST_UTTERANCES if is_test else of_training
            few = sorted(lists, key=_count_characters, reverse=True)[:most]
        write_nbest(folder / f"{part}.jsonl", few)
        if data.is_symlink():
            data.unlink()
            write_references(folder / f"{part}.jsonl", data)
    return replace(run, options={**run.options, NBEST_LISTS: str(folder.resolve())})


def _count_characters(nbest: NBest) -> int:
    """Count the characters of all hypotheses of a list."""
    return sum(len(hyp.text) for hyp in nbest.hyps)


class GpuMemory:
    """What is in use on GPUs while a rehearsal runs, by ``nvidia-smi``.

    Without that command nothing is known. CUDA is not asked, which must not start in
    this process.
    """

    def __init__(self, gpus: Sequence[str]) -> None:
        self.gpus = gpus
        self.samples: list[tuple[float, dict[str, float]]] = []
        self.over = Event()

    def __enter__(self) -> "GpuMemory":
        """Begin to measure."""
        self.before = self._read() if self.gpus else {}
        if self.before:
            Thread(target=self._measure, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop measuring."""
        self.over.set()

    def find_most(self, lane: Sequence[str], seconds: float) -> float | None:
        """Return the most GB that were in use on a GPU in the last ``seconds``."""
        since = time.monotonic() - seconds
        names = [name for name in lane or self.gpus if name in self.before]
        grown = []
        for when, used in self.samples:
            if when >= since:
                # less what others had in use before
                grown += [used[name] - self.before[name] for name in names]
        return max(grown, default=None)

    def _measure(self) -> None:
        while not self.over.wait(POLL_SECONDS):
            found = self._read()
            if found:
                self.samples.append((time.monotonic(), found))

    def _read(self) -> dict[str, float]:
        """Return the GB in use by index and by UUID, since a lane may name either."""
        query = [
            "nvidia-smi",
            "--query-gpu=index,uuid,memory.used",
            "--format=csv,noheader,nounits",
        ]
        found = {}
        try:
            done = subprocess.run(
                query, capture_output=True, text=True, timeout=20, check=True
            )
            for line in done.stdout.splitlines():
                index, uuid, used = (word.strip() for word in line.split(","))
                gigabytes = float(used) / 1024  # nvidia-smi counts in MiB
                found[index] = gigabytes
                found[uuid] = gigabytes
        except (OSError, ValueError, subprocess.SubprocessError):
            return {}
        return found
