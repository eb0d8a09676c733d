"""Decode a data dir with speakers, shard by shard: who said what in each window."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import batched
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import soundfile

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import parse_segment_recording
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.kaldi.utterance_audio import AudioSpan, read_samples, read_spans
from espnet_ext.stitch.recogniser.inventories import Inventories
from espnet_ext.stitch.recogniser.profiles import read_profiles
from espnet_ext.stitch.recogniser.search_settings import (
    SearchOptions,
    require_speaker_model,
)
from espnet_ext.text.formats import read_hypotheses
from espnet_ext.text.window_hypotheses import NOBODY
from espnet_ext.text.windows import parse_window_id
from espnet_ext.text.words import SPEAKER_CHANGE, Segment
from espnet_ext.text.writing import write_hypotheses
from espnet_ext.upstream import options as espnet_options
from espnet_ext.work import shards as sharding
from espnet_ext.work.gpus import choose_device
from espnet_ext.work.model_cache import keep_last
from espnet_ext.work.parallel import Place
from espnet_ext.work.shards import Shard

if TYPE_CHECKING:
    from espnet_ext.stitch.recogniser.sa_asr import SAASRModel
    from espnet_ext.stitch.recogniser.search import SpeakerHypothesis

UTTERANCES_PER_SHARD = 20
SHARDS_PER_JOB = 4
WINDOWS_TOGETHER = 16  # windows of the same length that are encoded as one batch
DEFAULT_RATE = 16000  # Hz
ToWords = Callable[[list[str]], list[str]]  # tokens -> words


@dataclass(frozen=True)
class SpeakerDecoding:
    """Say what to decode, and with what.

    ``inventory`` is a table of the speakers to choose from, by utterance or by
    recording: names, or ``name=profile``. None: that of the data dir; without one, all
    speakers.
    """

    model_config: Path
    model_file: Path
    # utterances ``<recording>-w<index>`` are windows; others are recordings of one
    # window
    data: Path
    profiles: tuple[Path, ...]
    output: Path
    search: SearchOptions
    ngpu: int = 0
    inventory: Path | None = None


def decode_speakers(
    jobs: Sequence[SpeakerDecoding], *, nj: int = 1, parallel: Place | None = None
) -> int:
    """Decode data dirs into ``hypotheses.jsonl``, ``text`` and ``speakers``.

    Returns the number of utterances.

    ``hypotheses.jsonl`` has a line for each window and speaker heard in it. ``text``
    has the utterances of a window in one line, in the order of their starts, with
    ``<sc>`` between them, and ``speakers`` the speaker of each. Shards that are done,
    from the same inputs, are skipped. All data dirs share the worker processes, which
    load the model once.
    """
    outputs = [job.output for job in jobs]
    twice = next((output for output in outputs if outputs.count(output) > 1), None)
    if twice is not None:
        raise InputError(
            f"{twice}: results of two data dirs would go there: give each its own "
            "--output"
        )
    planned = [(job.output, plan_shards(job, nj)) for job in jobs]
    ngpu = max(job.ngpu for job in jobs)
    sharding.run_shards(planned, decode_shard, nj=nj, ngpu=ngpu, parallel=parallel)
    for output, shards in planned:
        _gather(output, [Path(shard.folder) for shard in shards])
    return sum(len(shard.tables["spans"]) for _, shards in planned for shard in shards)


def _gather(output: Path, folders: Sequence[Path]) -> None:
    """Write what the shards' folders hold as one."""
    for name in ("text", "speakers"):
        rows: dict[str, str] = {}
        for folder in folders:
            rows |= read_table(folder / name)
        write_table(output / name, rows)
    heard: list[Segment] = []
    for folder in folders:
        heard += read_hypotheses(folder / "hypotheses.jsonl")
    write_hypotheses(output / "hypotheses.jsonl", heard)


def plan_shards(job: SpeakerDecoding, nj: int) -> list[Shard]:
    """Split the data dir into shards of about equal length.

    All that they need is checked before.
    """
    require_speaker_model(job.model_config, job.model_file)
    spans = read_spans(job.data)
    recordings = _read_recordings(job.data)
    inventory = _read_inventory(job, spans, recordings)
    ends = {}
    for key, span in spans.items():
        # Kaldi writes -1 for the end of the file.
        is_open = span.end == -1
        ends[key] = _measure_duration(key, span.path) if is_open else span.end
    weights = {key: ends[key] - span.start for key, span in spans.items()}
    # Several for each process, so that none waits long for the last one; and never so
    # large that much is lost when a run is killed.
    wanted = max(SHARDS_PER_JOB * nj, math.ceil(len(spans) / UTTERANCES_PER_SHARD))
    count = min(len(spans), wanted)
    model = {"config": str(job.model_config), "model": str(job.model_file)}
    profiles = [str(path) for path in job.profiles]
    settings = json.dumps(
        {
            **model,
            "profiles": profiles,
            "search": job.search.model_dump(),
            "ngpu": job.ngpu,
        }
    )
    # A model is large: size and time have to do. Profiles are hashed.
    inputs = sharding.fingerprint(
        settings, sharding.stamp_files(model), sharding.hash_files(job.profiles)
    )
    shards = []
    for number, keys in enumerate(sharding.balance(weights, count), start=1):
        paths = {key: spans[key].path for key in keys}
        tables = {
            "spans": {
                key: f"{spans[key].start} {ends[key]} {paths[key]}" for key in keys
            },
            "inventory": {key: " ".join(inventory[key]) for key in keys},
            "recordings": {key: recordings[key] for key in keys},
        }
        shards.append(
            Shard(
                name=str(number),
                folder=str(job.output / "log" / f"output.{number}"),
                log=str(job.output / "log" / f"decode.{number}.log"),
                options=(settings,),
                tables=tables,
                key=sharding.fingerprint(inputs, tables, sharding.stamp_files(paths)),
            )
        )
    return shards


def _read_inventory(
    job: SpeakerDecoding, spans: Mapping[str, AudioSpan], recordings: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return each utterance's inventory, entries ``name`` or ``name=profile``."""
    inventories = Inventories(read_profiles(job.profiles))
    path = job.inventory or job.data / "inventory"
    if job.inventory is None and not path.exists():
        return dict.fromkeys(spans, sorted(inventories.profiles))
    table = read_table(path)
    named = {}
    for key in spans:
        row = table.get(key, table.get(recordings[key]))
        if row is None:
            raise InputError(
                f"{path}: {key} is missing: name the speakers that it may have"
            )
        named[key] = row.split()
        # What is wrong with an entry is said now, not by a worker in an hour.
        profiles = [find_profile(entry) for entry in named[key]]
        inventories.select(profiles, f"{path}: {key}")
    return named


def find_profile(entry: str) -> str:
    """Return the profile in an entry of an inventory.

    >>> find_profile("100"), find_profile("100=OV10_session0:100")
    ('100', 'OV10_session0:100')
    """
    name, _, key = entry.partition("=")
    return key or name


def _read_recordings(data: Path) -> dict[str, str]:
    """Return the recording of each utterance.

    Without ``segments`` an utterance is a recording.
    """
    segments = data / "segments"
    if not segments.exists():
        return {key: key for key in read_table(data / "wav.scp")}
    return {
        key: parse_segment_recording(row) for key, row in read_table(segments).items()
    }


def _measure_duration(utterance: str, path: str) -> float:
    try:
        return soundfile.info(path).duration
    except (soundfile.SoundFileError, OSError):
        raise InputError(
            f"{path}: utterance {utterance}: no audio can be read: fix wav.scp or "
            "the file"
        ) from None


def decode_shard(shard: Shard) -> None:
    """Decode one shard (in a worker process).

    The model stays loaded from shard to shard.
    """
    if shard.is_done():  # its worker died after it had finished
        return
    with sharding.attempt_shard(shard) as folder:
        job = json.loads(shard.options[0])
        model, to_words, rate = _load(
            job["config"], job["model"], choose_device(job["ngpu"])
        )
        inventories = Inventories(read_profiles(job["profiles"]))
        spans = {}
        names = {}
        profiles = {}
        for key, row in shard.tables["spans"].items():
            start, end, path = row.split(" ", 2)  # a path may have blanks
            spans[key] = AudioSpan(path, float(start), float(end))
            # An entry is a name, or a name and the profile that it has.
            entries = shard.tables["inventory"][key].split()
            names[key] = [entry.partition("=")[0] for entry in entries]
            chosen = [find_profile(entry) for entry in entries]
            profiles[key] = inventories.select(chosen, key)
        samples = {key: read_samples(key, span, rate) for key, span in spans.items()}
        found = _recognise_windows(
            model, samples, profiles, to_words, SearchOptions(**job["search"])
        )
        heard = []
        texts = {}
        speakers = {}
        for key, span in spans.items():
            best = found[key]
            recording, window = parse_window_id(key)
            # An id may look like a window's and be that of a whole recording.
            if recording != shard.tables["recordings"][key]:
                recording = key
                window = 0
            own = names[key]
            heard += split_by_speaker(
                best, own, recording, window, span.start, span.end
            )
            segments = best.segments if best else ()
            turns = [" ".join(each.words) for each in segments]
            texts[key] = f" {SPEAKER_CHANGE} ".join(turns)
            speakers[key] = " ".join(own[each.speaker] for each in segments)
        write_hypotheses(folder / "hypotheses.jsonl", heard)
        write_table(folder / "text", texts)
        write_table(folder / "speakers", speakers)


def _recognise_windows(
    model: "SAASRModel",
    samples: Mapping[str, np.ndarray],
    profiles: Mapping[str, np.ndarray],
    to_words: ToWords,
    options: SearchOptions,
) -> dict[str, "SpeakerHypothesis | None"]:
    """Return the best hypothesis of each window.

    Windows of the same length are encoded together.
    """
    from espnet_ext.stitch.recogniser.search import recognise_together

    lengths: dict[int, list[str]] = {}
    for key, own in samples.items():
        lengths.setdefault(len(own), []).append(key)
    groups: list[tuple[str, ...]] = []
    for same in lengths.values():
        groups += batched(same, WINDOWS_TOGETHER)
    best: dict[str, SpeakerHypothesis | None] = {}
    for keys in groups:
        speeches = [samples[key] for key in keys]
        inventories = [profiles[key] for key in keys]
        heard = recognise_together(model, speeches, inventories, to_words, options)
        for key, found in zip(keys, heard, strict=True):
            best[key] = found[0] if found else None
    return best


def split_by_speaker(
    hypothesis: "SpeakerHypothesis | None",
    names: Sequence[str],
    recording: str,
    window: int,
    start: float,
    end: float,
) -> list[Segment]:
    """Return what was heard of each speaker in a window.

    Where nobody was heard, one line says so.

    Several utterances of the same speaker are joined, in the order of their starts. The
    times of words are approximate: where the recogniser's attention points.
    """
    if hypothesis is None or not hypothesis.segments:
        return [Segment(recording, NOBODY, (), start, end, window=window)]
    heard = []
    for speaker in dict.fromkeys(segment.speaker for segment in hypothesis.segments):
        own = [segment for segment in hypothesis.segments if segment.speaker == speaker]
        words = tuple(word for segment in own for word in segment.words)
        times = []
        for segment in own:
            # Shares of the window become seconds of the recording.
            for first, last in segment.times:
                begin = start + first * (end - start)
                after = start + last * (end - start)
                times.append((round(begin, 3), round(after, 3)))
        heard.append(
            Segment(
                recording,
                names[speaker],
                words,
                start,
                end,
                times=tuple(times) or None,
                window=window,
            )
        )
    return heard


@keep_last
def _load(
    config: str, model_file: str, device: str
) -> tuple["SAASRModel", ToWords, int]:
    """Load a model, the function that makes words of its tokens, and its rate in Hz."""
    from espnet_ext.upstream.checkpoint import strict_loading
    from espnet_ext.upstream.own_process import prepare_process

    prepare_process()
    from espnet2.text.build_tokenizer import build_tokenizer

    from espnet_ext.stitch.recogniser.task import SAASRTask

    with strict_loading():
        model, args = SAASRTask.build_model_from_file(config, model_file, device)
    tokenizer = build_tokenizer(args.token_type, bpemodel=args.bpemodel)
    rate = espnet_options.read_sampling_rate(vars(args)) or DEFAULT_RATE

    def make_words(tokens: list[str]) -> list[str]:
        return tokenizer.tokens2text(tokens).split()

    return model.eval(), make_words, rate
