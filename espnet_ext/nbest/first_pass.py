"""The N-best lists of data dirs by a Whisper model, shard by shard."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from espnet_ext.codeswitch.text_rules import LIBRISPEECH
from espnet_ext.data.kaldi import read_table
from espnet_ext.data.utterance_audio import AudioSpan, read_samples
from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import NBest, read_nbest, write_nbest
from espnet_ext.nbest.utterances import first_pass
from espnet_ext.nbest.whisper import BUNDLED, RATE, WhisperSettings, bundled_folder, load_whisper
from espnet_ext.work import shards as work
from espnet_ext.work.files import write_json
from espnet_ext.work.parallel import map_shards
from espnet_ext.work.shards import Shard

# Small enough that progress shows and a lost worker costs little; the model stays loaded from shard to shard.
UTTERANCES_PER_SHARD = 20
SHARDS_PER_JOB = 4
LISTS = "nbest.jsonl"
RULES = LIBRISPEECH


@dataclass(frozen=True)
class FirstPass:
    """What to decode, and with what.

    Attributes:
        data: Kaldi data dir without ``segments``; its ``text``, if there is one, gives the references.
        output: folder for the lists.
        whisper: the model and its search.
        nbest: distinct hypotheses wanted of each utterance.
    """

    data: Path
    output: Path
    whisper: WhisperSettings
    nbest: int = 10


@dataclass(frozen=True)
class Task:
    """A shard, and what a worker needs besides."""

    shard: Shard
    whisper: WhisperSettings
    nbest: int

    @property
    def name(self) -> str:
        return self.shard.name


def first_pass_all(jobs: Sequence[FirstPass], *, nj: int = 1, parallel: Path | None = None) -> list[list[NBest]]:
    """Write ``nbest.jsonl``, sorted by utterance, to each job's output folder, and return the lists.

    ``log/lists.<k>`` holds the shards, ``log/first_pass.<k>.log`` their logs, ``normaliser.json`` the rules that the
    texts went through. Shards that are done, from the same inputs, are skipped. All jobs share the workers.

    Raises:
        InputError: a missing or bad file, audio file or model, by name.
    """
    planned = [plan(job, nj) for job in jobs]
    _clean(jobs, planned)
    every = [task for tasks in planned for task in tasks]
    todo = [task for task in every if not task.shard.is_done()]
    if len(todo) < len(every):
        work.say(f"first pass: {len(every) - len(todo)} of {len(every)} shards are done already")
    map_shards(run_task, todo, nj=nj, config=parallel, describe="first pass", log_dir=jobs[0].output / "log" / "jobs")
    _clean(jobs, planned)  # of workers that died
    merged = []
    for job, tasks in zip(jobs, planned, strict=True):
        lists = [nbest for task in tasks for nbest in read_nbest(Path(task.shard.folder) / LISTS)]
        lists.sort(key=lambda nbest: nbest.utt_id)
        write_nbest(job.output / LISTS, lists)
        write_json(job.output / "normaliser.json", RULES.record)
        merged.append(lists)
    return merged


def plan(job: FirstPass, nj: int) -> list[Task]:
    """Split the data dir into shards, balanced by ``utt2dur`` if it is there.

    Their number depends on ``nj`` only for small sets, so that a run can be continued with another ``nj``.

    Raises:
        InputError: a file is missing or bad, or fewer hypotheses are kept by the search than are wanted.
    """
    if not 1 <= job.nbest <= job.whisper.beam:
        raise InputError(
            f"--nbest must be 1 to the beam's {job.whisper.beam}, not {job.nbest}: widen --beam (normalisation makes "
            "many of its hypotheses one)"
        )
    audio = work.read_audio_table(job.data)
    references = _references(job.data, audio)
    count = min(len(audio), max(SHARDS_PER_JOB * nj, math.ceil(len(audio) / UTTERANCES_PER_SHARD)))
    inputs = work.fingerprint(asdict(job.whisper), job.nbest, RULES.record, _versions(), _model_stamps(job.whisper))
    tasks = []
    for number, utterances in enumerate(work.balanced(work.durations(job.data, audio), count), start=1):
        tables = {
            name: {utterance: table[utterance] for utterance in utterances}
            for name, table in (("wav.scp", audio), ("text", references))
            if table
        }
        shard = Shard(
            name=str(number),
            folder=str(job.output / "log" / f"lists.{number}"),
            log=str(job.output / "log" / f"first_pass.{number}.log"),
            options=(),
            tables=tables,
            key=work.fingerprint(inputs, work.file_stamps(tables["wav.scp"]), tables.get("text")),
        )
        tasks.append(Task(shard, job.whisper, job.nbest))
    return tasks


def run_task(task: Task) -> None:
    """Make the lists of one shard (in a worker process), with the model kept from shard to shard.

    Raises:
        InputError: a model that cannot be read, or an audio file that is missing, corrupt or of another rate.
    """
    if task.shard.is_done():  # its worker died after it had finished
        return
    references = task.shard.tables.get("text", {})
    with work.attempt(task.shard) as folder:
        whisper = load_whisper(task.whisper)
        lists = [
            first_pass(
                utterance,
                read_samples(utterance, AudioSpan(path), RATE),
                whisper.decode,
                rate=RATE,
                longest=task.whisper.window,
                rules=RULES,
                count=task.nbest,
                ref=references.get(utterance),
            )
            for utterance, path in task.shard.tables["wav.scp"].items()
        ]
        write_nbest(folder / LISTS, lists)


def _clean(jobs: Sequence[FirstPass], planned: Sequence[Sequence[Task]]) -> None:
    for job, tasks in zip(jobs, planned, strict=True):
        work.clean(job.output / "log", [task.shard for task in tasks])


def _references(data: Path, audio: Mapping[str, str]) -> dict[str, str]:
    path = data / "text"
    if not path.exists():
        return {}
    table = read_table(path)
    missing = next((utterance for utterance in audio if utterance not in table), None)
    if missing:
        raise InputError(f"{path}: {missing} of wav.scp is missing: add its transcript, or drop the utterance")
    return table


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in ("ctranslate2", "transformers", "inflect"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def _model_stamps(settings: WhisperSettings) -> list[list]:
    folder = bundled_folder() if settings.model == BUNDLED else Path(settings.model)
    files = sorted(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []
    return work.file_stamps({path.name: str(path) for path in files})
