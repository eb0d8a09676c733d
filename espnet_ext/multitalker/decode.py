"""Speaker-attributed decoding of a data dir, shard by shard: who said what in each utterance or window."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import batched
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import soundfile

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import segment_recording
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.kaldi.utterance_audio import AudioSpan, read_samples, read_spans
from espnet_ext.multitalker.heard.hypotheses import NOBODY, WindowHypothesis, read_jsonl, write_jsonl
from espnet_ext.multitalker.inventories import Inventories
from espnet_ext.multitalker.profiles import read_profiles
from espnet_ext.multitalker.windows import parse_window_id
from espnet_ext.text.turns import SPEAKER_CHANGE
from espnet_ext.upstream import options as espnet_options
from espnet_ext.work import shards as work
from espnet_ext.work.model_cache import keep_last
from espnet_ext.work.parallel import device_of
from espnet_ext.work.shards import Shard
from espnet_ext.work.yaml_files import read_yaml

if TYPE_CHECKING:
    from espnet_ext.model.sa_asr import SAASRModel
    from espnet_ext.multitalker.search import SearchOptions, SpeakerHypothesis

UTTERANCES_PER_SHARD = 20
SHARDS_PER_JOB = 4
WINDOWS_TOGETHER = 16  # windows of the same length that are encoded as one batch
DEFAULT_RATE = 16000
SEARCH_OPTIONS = ("beam_size", "ctc_weight", "penalty", "maxlenratio", "minlenratio", "normalize_length")


@dataclass(frozen=True)
class SpeakerDecoding:
    """What to decode, and with what.

    Attributes:
        model_config, model_file: ``config.yaml`` and checkpoint.
        data: Kaldi data dir. Segments called ``<recording>-w<index>`` are windows of their recording; other utterances
            are recordings of one window.
        profiles: ``profiles.scp`` files.
        output: folder for the results.
        search: options of the beam search by name; see :class:`espnet_ext.multitalker.search.SearchOptions`.
        ngpu: 0, or 1 to decode on a GPU.
        inventory: table of the speakers to choose from, by utterance or by recording: names, or ``name=profile`` if a
            speaker's profile has another name. None: ``inventory`` in the data dir; without one, all speakers with a
            profile.
    """

    model_config: Path
    model_file: Path
    data: Path
    profiles: tuple[Path, ...]
    output: Path
    search: Mapping[str, Any]
    ngpu: int = 0
    inventory: Path | None = None


def read_search_options(path: Path) -> dict[str, Any]:
    """Options of the beam search from a YAML file; InputError if one is unknown."""
    return search_options(read_yaml(path), path)


def search_options(options: Mapping[str, Any], where: object) -> dict[str, Any]:
    """Options of the beam search; InputError, which begins with ``where``, if one is unknown."""
    unknown = next((name for name in options if name not in SEARCH_OPTIONS), None)
    if unknown is not None:
        raise InputError(f"{where}: {unknown} is not an option of this search: it has {', '.join(SEARCH_OPTIONS)}")
    return dict(options)


def decode_speakers(jobs: Sequence[SpeakerDecoding], *, nj: int = 1, parallel: Path | None = None) -> int:
    """Decode data dirs into ``hypotheses.jsonl``, ``text`` and ``speakers``; return the number of utterances.

    ``hypotheses.jsonl`` has a line for each window and speaker heard in it. ``text`` has the utterances of a window in
    one line, in the order of their starts, with ``<sc>`` between them, and ``speakers`` the speaker of each. Shards
    that are done, from the same inputs, are skipped. All data dirs share the worker processes, which load the model
    once.

    Raises:
        InputError: a missing or bad file, option, profile, audio file or checkpoint, by name; or two jobs with the same
            output.
    """
    outputs = [job.output for job in jobs]
    twice = next((output for output in outputs if outputs.count(output) > 1), None)
    if twice is not None:
        raise InputError(f"{twice}: results of two data dirs would go there: give each its own --output")
    planned = [(job.output, plan(job, nj)) for job in jobs]
    work.run_shards(planned, decode_shard, nj=nj, parallel=parallel)
    for output, shards in planned:
        _gather(output, [Path(shard.folder) for shard in shards])
    return sum(len(shard.tables["spans"]) for _, shards in planned for shard in shards)


def _gather(output: Path, folders: Sequence[Path]) -> None:
    for name in ("text", "speakers"):
        write_table(output / name, {key: row for each in folders for key, row in read_table(each / name).items()})
    write_jsonl(output / "hypotheses.jsonl", [item for each in folders for item in read_jsonl(each / "heard.jsonl")])


def plan(job: SpeakerDecoding, nj: int) -> list[Shard]:
    """Split the data dir into shards of about equal length, after checking all that they need."""
    for path, what in ((job.model_config, "--model-config"), (job.model_file, "--model")):
        if not path.is_file():
            raise InputError(f"{path}: no such file ({what}): check the path, or run the stage that makes it")
    spans = read_spans(job.data)
    inventories = Inventories(read_profiles(job.profiles))
    recordings = _recordings(job.data)
    inventory = _inventory(job.inventory or job.data / "inventory", spans, recordings, inventories)
    ends = {key: span.end if span.end != -1 else _duration(key, span.path) for key, span in spans.items()}
    weights = {key: ends[key] - span.start for key, span in spans.items()}
    count = min(len(spans), max(SHARDS_PER_JOB * nj, math.ceil(len(spans) / UTTERANCES_PER_SHARD)))
    settings = {
        "config": str(job.model_config),
        "model": str(job.model_file),
        "profiles": [str(path) for path in job.profiles],
        "search": dict(job.search),
        "ngpu": job.ngpu,
    }
    models = work.file_stamps({"config": str(job.model_config), "model": str(job.model_file)})
    inputs = work.fingerprint(settings, models, work.file_hashes(job.profiles))
    shards = []
    for number, keys in enumerate(work.balanced(weights, count), start=1):
        tables = {
            "spans": {key: f"{spans[key].start} {ends[key]} {spans[key].path}" for key in keys},
            "inventory": {key: " ".join(inventory[key]) for key in keys},
            "recordings": {key: recordings[key] for key in keys},
        }
        shards.append(
            Shard(
                name=str(number),
                folder=str(job.output / "log" / f"output.{number}"),
                log=str(job.output / "log" / f"decode.{number}.log"),
                options=(json.dumps(settings),),
                tables=tables,
                key=work.fingerprint(inputs, tables, work.file_stamps({key: spans[key].path for key in keys})),
            )
        )
    return shards


def _inventory(
    path: Path, spans: Mapping[str, AudioSpan], recordings: Mapping[str, str], inventories: Inventories
) -> dict[str, list[str]]:
    """The entries of each utterance's inventory, ``name`` or ``name=profile``."""
    if path.name == "inventory" and not path.exists():
        every = sorted(inventories.profiles)
        return dict.fromkeys(spans, every)
    table = read_table(path)
    named = {}
    for key in spans:
        row = table.get(key, table.get(recordings[key]))
        if row is None:
            raise InputError(f"{path}: {key} is missing: name the speakers that it may have")
        named[key] = row.split()
        inventories.of([profile_of(entry) for entry in named[key]], f"{path}: {key}")
    return named


def profile_of(entry: str) -> str:
    """The profile in an entry of an inventory.

    >>> profile_of("100"), profile_of("100=OV10_session0:100")
    ('100', 'OV10_session0:100')
    """
    name, _, key = entry.partition("=")
    return key or name


def _recordings(data: Path) -> dict[str, str]:
    """Utterance -> its recording; without ``segments`` an utterance is a recording."""
    segments = data / "segments"
    if not segments.exists():
        return {key: key for key in read_table(data / "wav.scp")}
    return {key: segment_recording(row) for key, row in read_table(segments).items()}


def _duration(utterance: str, path: str) -> float:
    try:
        return soundfile.info(path).duration
    except (soundfile.SoundFileError, OSError):
        raise InputError(
            f"{path}: utterance {utterance}: no audio can be read: fix wav.scp, or replace the file"
        ) from None


def decode_shard(shard: Shard) -> None:
    """Decode one shard (in a worker process), with the model kept from shard to shard.

    Raises:
        InputError: a checkpoint that does not fit, profiles of another dimension, or a bad audio file.
    """
    if shard.is_done():  # its worker died after it had finished
        return
    with work.attempt(shard) as folder:
        from espnet_ext.multitalker.search import SearchOptions

        (settings,) = shard.options
        job = json.loads(settings)
        model, to_words, rate = _model(job["config"], job["model"], device_of(job["ngpu"]))
        inventories = Inventories(read_profiles(job["profiles"]))
        options = SearchOptions(**job["search"])
        heard, texts, speakers = [], {}, {}
        spans = {}
        for key, row in shard.tables["spans"].items():
            start, end, path = row.split(" ", 2)
            spans[key] = AudioSpan(path, float(start), float(end))
        entries = {key: shard.tables["inventory"][key].split() for key in spans}
        profiles = {key: inventories.of([profile_of(entry) for entry in entries[key]], key) for key in spans}
        samples = {key: read_samples(key, span, rate) for key, span in spans.items()}
        found = _recognised(model, samples, profiles, to_words, options)
        for key, span in spans.items():
            names = [entry.partition("=")[0] for entry in entries[key]]
            best = found[key]
            window = _window(key, shard.tables["recordings"][key])
            heard += by_speaker(best, names, *window, span.start, span.end)
            segments = best.segments if best else ()
            texts[key] = f" {SPEAKER_CHANGE} ".join(" ".join(each.words) for each in segments)
            speakers[key] = " ".join(names[each.speaker] for each in segments)
        write_jsonl(folder / "heard.jsonl", heard)
        write_table(folder / "text", texts)
        write_table(folder / "speakers", speakers)


def _recognised(
    model: "SAASRModel",
    samples: Mapping[str, np.ndarray],
    profiles: Mapping[str, np.ndarray],
    to_words: Callable[[list[str]], list[str]],
    options: "SearchOptions",
) -> dict[str, "SpeakerHypothesis | None"]:
    """The best hypothesis of each window; windows of the same length are encoded together."""
    from espnet_ext.multitalker.search import recognise_together

    lengths: dict[int, list[str]] = {}
    for key, own in samples.items():
        lengths.setdefault(len(own), []).append(key)
    best: dict[str, SpeakerHypothesis | None] = {}
    for keys in (part for same in lengths.values() for part in batched(same, WINDOWS_TOGETHER)):
        speeches, inventories = [samples[key] for key in keys], [profiles[key] for key in keys]
        for key, found in zip(keys, recognise_together(model, speeches, inventories, to_words, options), strict=True):
            best[key] = found[0] if found else None
    return best


def _window(utterance: str, recording: str) -> tuple[str, int]:
    """Recording and index of a window. An utterance that is not called like one is a recording of one window."""
    try:
        name, index = parse_window_id(utterance)
    except InputError:
        return utterance, 0
    return (name, index) if name == recording else (utterance, 0)


def by_speaker(
    hypothesis: "SpeakerHypothesis | None", names: Sequence[str], recording: str, window: int, start: float, end: float
) -> list[WindowHypothesis]:
    """What was heard of each speaker in a window; if nobody was heard, one line that says so.

    Several utterances of the same speaker are joined, in the order of their starts. The times of words are
    approximate: where the recogniser's attention points.
    """
    if hypothesis is None or not hypothesis.segments:
        return [WindowHypothesis(recording, window, NOBODY, (), start, end)]
    return [
        WindowHypothesis(
            recording,
            window,
            names[speaker],
            hypothesis.words_of(speaker),
            start,
            end,
            times=_seconds(hypothesis.times_of(speaker), start, end),
        )
        for speaker in hypothesis.speakers
    ]


def _seconds(shares: Sequence[tuple[float, float]], start: float, end: float) -> tuple[tuple[float, float], ...] | None:
    """Shares of a window as seconds of the recording."""
    return (
        tuple(
            (round(start + first * (end - start), 3), round(start + last * (end - start), 3)) for first, last in shares
        )
        or None
    )


@keep_last
def _model(config: str, model_file: str, device: str) -> tuple["SAASRModel", Callable[[list[str]], list[str]], int]:
    """Load a model; return it with a function that makes words of its tokens, and its sampling rate in Hz."""
    import espnet_ext

    espnet_ext.register()
    from espnet2.text.build_tokenizer import build_tokenizer

    from espnet_ext.multitalker.task import SAASRTask

    model, args = SAASRTask.build_model_from_file(config, model_file, device)
    tokenizer = build_tokenizer(args.token_type, bpemodel=args.bpemodel)
    rate = espnet_options.sampling_rate(vars(args)) or DEFAULT_RATE
    return model.eval(), lambda tokens: tokenizer.tokens2text(tokens).split(), rate
