"""Make the N-best lists of data dirs with a Whisper model, shard by shard (P3, section 4.2.1).

An utterance that is longer than the model's window is cut at quiet places. Its texts are normalised, and the best
hypothesis of each normalised text is kept.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import batched
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.codeswitch.text_rules import LIBRISPEECH
from espnet_ext.errors import InputError
from espnet_ext.kaldi import audio_tables
from espnet_ext.kaldi.tables import read_table
from espnet_ext.kaldi.utterance_audio import AudioSpan, read_samples
from espnet_ext.nbest.lists import Hypothesis, NBest, read_nbest, write_nbest
from espnet_ext.whisper.nbest import BUNDLED, RATE, WhisperSettings, bundled_folder, converted, gpus, load_whisper
from espnet_ext.work import shards as work
from espnet_ext.work.files import write_json
from espnet_ext.work.parallel import map_shards
from espnet_ext.work.shards import Shard

# Small enough that progress shows and a lost worker costs little; the model stays loaded from shard to shard.
UTTERANCES_PER_SHARD = 20
SHARDS_PER_JOB = 4
# Where utterances are searched in batches, a shard has one for each of as many GPUs as machines have at most.
GPUS_PER_MACHINE = 8
LISTS = "nbest.jsonl"
RULES = LIBRISPEECH
NBEST = 10
_QUIET = 0.2  # seconds over which the energy is averaged to find a quiet place

# Text and log-probability.
Scored = tuple[str, float]
Decoder = Callable[[Sequence[np.ndarray]], Sequence[Sequence[Scored]]]


@dataclass(frozen=True)
class FirstPass:
    """The first pass over one data dir.

    Attributes:
        data: Kaldi data dir without ``segments``; its ``text``, if there is one, gives the references.
        output: folder for the lists.
        whisper: the model and its search.
        nbest: distinct hypotheses wanted of each utterance.
    """

    data: Path
    output: Path
    whisper: WhisperSettings
    nbest: int = NBEST


@dataclass(frozen=True)
class FirstPassShard:
    """A shard of a data dir, and what a worker needs to decode it."""

    shard: Shard
    whisper: WhisperSettings
    nbest: int

    @property
    def name(self) -> str:
        return self.shard.name


def parse_first_pass(values: Mapping[str, Any], device: str = "cpu") -> tuple[WhisperSettings, int]:
    """The model, its search and the number of hypotheses from YAML.

    Args:
        values: ``nbest`` and attributes of :class:`espnet_ext.whisper.nbest.WhisperSettings` but ``device``.
        device: ``cpu`` or ``cuda``.

    Raises:
        InputError: an unknown name, or a value of another type or out of range.
    """
    known = ["nbest", *(name for name in WhisperSettings.__dataclass_fields__ if name != "device")]
    for name, value in values.items():
        if name not in known:
            raise InputError(f"first pass: no option {name}: known are {', '.join(known)}")
        kind = int if name in ("nbest", "beam", "window", "batch") else str
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InputError(f"first pass: {name} must be a {'whole number' if kind is int else 'text'}, not {value!r}")
    chosen = {name: value for name, value in values.items() if name != "nbest"}
    return WhisperSettings(**chosen, device=device), values.get("nbest", NBEST)


def make_lists(jobs: Sequence[FirstPass], *, nj: int = 1, parallel: Path | None = None) -> list[list[NBest]]:
    """Write ``nbest.jsonl``, sorted by utterance, to each job's output folder, and return the lists.

    ``log/lists.<k>`` holds the shards, ``log/first_pass.<k>.log`` their logs, ``normaliser.json`` the rules that the
    texts were normalised by. Shards that are done from the same inputs are skipped. All jobs share the workers.

    Raises:
        InputError: a missing or bad file, audio file or model, by name.
    """
    if jobs[0].whisper.device != "cpu" and parallel is None:
        nj = 1  # a process has a copy of the model on each GPU
    jobs = [replace(job, whisper=converted(job.whisper, jobs[0].output.parent / "whisper")) for job in jobs]
    planned = [plan(job, nj) for job in jobs]
    _clean(jobs, planned)
    every = [task for tasks in planned for task in tasks]
    todo = [task for task in every if not task.shard.is_done()]
    if len(todo) < len(every):
        work.say(f"first pass: {len(every) - len(todo)} of {len(every)} shards are done already")
    map_shards(run_task, todo, nj=nj, config=parallel, describe="first pass", log_dir=jobs[0].output / "log" / "jobs")
    _clean(jobs, planned)  # what dead workers have left
    merged = []
    for job, tasks in zip(jobs, planned, strict=True):
        lists = [nbest for task in tasks for nbest in read_nbest(Path(task.shard.folder) / LISTS)]
        lists.sort(key=lambda nbest: nbest.utt_id)
        write_nbest(job.output / LISTS, lists)
        write_json(job.output / "normaliser.json", RULES.record)
        merged.append(lists)
    return merged


def first_pass_line(job: FirstPass, lists: Sequence[NBest]) -> str:
    """What :func:`make_lists` made for one job, as a line to print."""
    short = sum(len(nbest.hyps) < job.nbest for nbest in lists)
    return f"{len(lists)} lists, {short} of them shorter than {job.nbest} -> {job.output / LISTS}"


def plan(job: FirstPass, nj: int) -> list[FirstPassShard]:
    """Split the data dir into shards, by ``utt2dur`` if it is there, otherwise by the headers of the audio.

    They are of about equal length in seconds; if utterances are searched in batches, they hold neighbours in length.
    The number of shards depends on ``nj`` only for small sets, so that a run can be resumed with another ``nj``.

    Raises:
        InputError: a file is missing or bad, or the search keeps fewer hypotheses than are wanted.
    """
    if not 1 <= job.nbest <= job.whisper.beam:
        raise InputError(
            f"the first pass wants {job.nbest} hypotheses from a beam of {job.whisper.beam}: widen the beam (many "
            "hypotheses are the same after normalisation)"
        )
    audio = audio_tables.read_audio_table(job.data)
    references = _references(job.data, audio)
    seconds, batch = audio_tables.durations(job.data, audio), job.whisper.batch
    size = UTTERANCES_PER_SHARD if batch == 1 else batch * GPUS_PER_MACHINE
    count = min(len(audio), max(SHARDS_PER_JOB * nj, math.ceil(len(audio) / size)))
    if batch == 1:
        split = work.balanced(seconds, count)
    else:
        split = work.contiguous(sorted(seconds, key=lambda utterance: (-seconds[utterance], utterance)), count)
    inputs = work.fingerprint(asdict(job.whisper), job.nbest, RULES.record, _versions(), _model_stamps(job.whisper))
    tasks = []
    for number, utterances in enumerate(split, start=1):
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
        tasks.append(FirstPassShard(shard, job.whisper, job.nbest))
    return tasks


def run_task(task: FirstPassShard) -> None:
    """Make the lists of one shard (in a worker process), with the model kept from shard to shard.

    Pieces of similar length share a batch. With several GPUs as many batches are searched at the same time.

    Raises:
        InputError: a model that cannot be read, or an audio file that is missing, corrupt or of another rate.
    """
    if task.shard.is_done():  # its worker died after it had finished
        return
    references = task.shard.tables.get("text", {})
    with work.attempt(task.shard) as folder:
        whisper = load_whisper(task.whisper)
        samples = {
            utterance: read_samples(utterance, AudioSpan(path), RATE)
            for utterance, path in task.shard.tables["wav.scp"].items()
        }
        best = decode_utterances(
            list(samples.values()),
            whisper.decode,
            rate=RATE,
            longest=task.whisper.window,
            rules=RULES,
            count=task.nbest,
            batch=task.whisper.batch,
            threads=gpus(task.whisper),
        )
        lists = []
        for utterance, own in zip(samples, best, strict=True):
            ref = references.get(utterance)
            hyps = tuple(Hypothesis(text, score) for text, score in own)
            lists.append(NBest(utterance, hyps, None if ref is None else RULES(ref)))
        write_nbest(folder / LISTS, lists)


def decode_utterances(
    utterances: Sequence[np.ndarray],
    decode: Decoder,
    *,
    rate: int,
    longest: int,
    rules: Callable[[str], str],
    count: int,
    batch: int = 1,
    threads: int = 1,
) -> list[list[Scored]]:
    """The ``count`` best texts of each utterance that differ after normalisation; fewer, if the search found no more.

    Audio longer than ``longest`` seconds is cut at quiet places. The pieces are decoded one by one, as if they were
    independent: a text joins one text of each piece, and its log-probability is the sum of theirs.

    Args:
        utterances: samples of each, shape (samples,).
        decode: gives texts and log-probabilities of a batch, as :meth:`espnet_ext.whisper.nbest.Whisper.decode`.
        rate: the sampling rate in Hz.
        longest: most seconds that ``decode`` takes.
        rules: normalises texts.
        count: how many hypotheses are wanted.
        batch: pieces per call of ``decode``; they are sorted by length before.
        threads: calls of ``decode`` at the same time.
    """
    pieces = [
        (number, place, piece)
        for number, samples in enumerate(utterances)
        for place, piece in enumerate(cut(samples, longest * rate, round(_QUIET * rate)))
    ]
    batches = list(batched(sorted(pieces, key=lambda piece: len(piece[2])), batch))
    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(lambda part: decode([samples for _, _, samples in part]), batches))
    found: list[dict[int, list[Scored]]] = [{} for _ in utterances]
    for part, texts in zip(batches, results, strict=True):
        for (number, place, _), own in zip(part, texts, strict=True):
            found[number][place] = distinct_texts(own, rules)
    return [combine([own[place] for place in sorted(own)], count) for own in found]


def distinct_texts(found: Iterable[Scored], rules: Callable[[str], str]) -> list[Scored]:
    """The best of the hypotheses that are the same after normalisation; best first.

    >>> distinct_texts([("A cat.", -2.0), ("a cat", -1.0), ("The cat", -3.0)], lambda text: text.upper().strip("."))
    [('A CAT', -1.0), ('THE CAT', -3.0)]
    """
    best: dict[str, float] = {}
    for raw, score in found:
        text = rules(raw)
        best[text] = max(score, best.get(text, -math.inf))
    return sorted(best.items(), key=lambda pair: -pair[1])


def combine(pieces: Sequence[Sequence[Scored]], count: int) -> list[Scored]:
    """The ``count`` best texts that join one text of each piece, in the pieces' order; scores add up.

    >>> combine([[("A", -1.0), ("THE", -1.5)], [("CAT", -0.1), ("", -3.0)]], 3)
    [('A CAT', -1.1), ('THE CAT', -1.6), ('A', -4.0)]
    """
    best = list(pieces[0])[:count]
    for piece in pieces[1:]:
        # The best `count` of all need no more than the best `count` of each side. Two pairs may give the same text.
        pairs = ((f"{left} {right}".strip(), a + b) for left, a in best for right, b in piece[:count])
        best = distinct_texts(pairs, str)[:count]
    return best


def cut(samples: np.ndarray, longest: int, quiet: int) -> list[np.ndarray]:
    """Cut samples into as few pieces of at most ``longest`` samples as possible, each at the quietest place in reach.

    Args:
        samples: shape (samples,).
        longest: most samples of a piece.
        quiet: samples over which the energy is averaged to find a quiet place.
    """
    number = math.ceil(len(samples) / longest)
    if number <= 1:
        return [samples]
    energy = np.concatenate([[0.0], np.cumsum(samples.astype(np.float64) ** 2)])
    even = len(samples) / number
    # Two neighbouring cuts may move apart by this much each, and the piece between them is still short enough.
    slack = (longest - even) / 2
    edges = [0]
    for index in range(1, number):
        places = np.arange(math.ceil(index * even - slack), math.floor(index * even + slack) + 1)
        around = energy[np.minimum(places + quiet // 2, len(samples))] - energy[np.maximum(places - quiet // 2, 0)]
        edges.append(int(places[np.argmin(around)]) if len(places) else round(index * even))
    return np.split(samples, edges[1:])


def _clean(jobs: Sequence[FirstPass], planned: Sequence[Sequence[FirstPassShard]]) -> None:
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
