"""Decode recordings of any length by moving windows, one shard per recording (P5, sections 2.2 and 3.1)."""

import dataclasses
import json
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi import audio_tables
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.longform.decoding.ctc_search import BeamSettings
from espnet_ext.longform.decoding.numbers import check_numbers
from espnet_ext.longform.noise import find_noise, with_noise
from espnet_ext.longform.recording_audio import Audio, NoSpeech, RecordingAudio, ZeroedAudio, read_regions
from espnet_ext.work import shards as work
from espnet_ext.work.files import write_json
from espnet_ext.work.parallel import device_of
from espnet_ext.work.shards import Shard
from espnet_ext.work.yaml_files import read_yaml

if TYPE_CHECKING:
    from espnet_ext.longform.decoding.transcribe import Transcriber

# What the config of a decoding may hold, and the default values.
SETTINGS: Mapping[str, Any] = MappingProxyType(
    {
        "window": None,
        "stride": 0.125,
        "batch_seconds": 60.0,
        "precision": "float32",
        "noise": None,
        "snr": None,
        "seed": 0,
        "beam_size": None,
        "lm_weight": None,
    }
)


@dataclass(frozen=True)
class Noise:
    """Background noise: its kind, the signal-to-noise ratio in dB, and MUSAN's folder (None: music is generated)."""

    kind: str
    snr: float
    musan: Path | None = None
    seed: int = 0


@dataclass(frozen=True)
class LongDecoding:
    """What to decode, and how.

    Attributes:
        model_config, model_file: ``config.yaml`` and checkpoint of an ESPnet model with CTC.
        data: Data dir whose recordings are decoded; only ``wav.scp`` is read.
        output: Folder for the results.
        window: Seconds of a window; None: ``max_seconds`` of the model's ``chunk_conf``.
        stride: Distance between the starts of two windows, as a share of a window.
        batch_seconds: Audio that is encoded at once, at least one window.
        precision: ``float32`` or ``bfloat16``.
        zeroed: File of regions that are silenced.
        noise: Background noise to add.
        beam: Settings of the beam search; None: the best path.
        ngpu: 0 or 1.
    """

    model_config: Path
    model_file: Path
    data: Path
    output: Path
    window: float | None = None
    stride: float = 0.125
    batch_seconds: float = 60.0
    precision: str = "float32"
    zeroed: Path | None = None
    noise: Noise | None = None
    beam: BeamSettings | None = None
    ngpu: int = 0


def long_decoding(
    settings: Mapping[str, Any],
    *,
    model_config: Path,
    model_file: Path,
    data: Path,
    output: Path,
    lm: Path | None = None,
    zeroed: Path | None = None,
    musan: Path | None = None,
    ngpu: int = 0,
    source: str = "settings",
) -> LongDecoding:
    """The decoding of a data dir with the settings of a config.

    Args:
        settings: some of `SETTINGS`; ``lm_weight`` and ``snr`` only with ``beam_size`` and ``noise``.
        model_config: ``config.yaml`` of an ESPnet model with CTC.
        model_file: its checkpoint.
        data: Data dir; only ``wav.scp`` is read.
        output: Folder for the results.
        lm: n-gram model, used only if the settings have a ``lm_weight``.
        zeroed: File of regions that are silenced.
        musan: Folder of MUSAN; None: music is generated.
        ngpu: 0 or 1.
        source: what the messages call the settings, such as the name of their file.

    Raises:
        InputError: an unknown setting, or settings that do not fit together.
    """
    unknown = next((name for name in settings if name not in SETTINGS), None)
    if unknown is not None:
        raise InputError(f"{source}: unknown setting {unknown!r}; known are {', '.join(SETTINGS)}")
    values = {**SETTINGS, **settings}
    check_numbers(values, source)
    if (values["noise"] is None) != (values["snr"] is None):
        raise InputError(f"{source}: noise and snr go together: give both or neither")
    beam = None
    if values["beam_size"]:
        if values["lm_weight"] is not None and lm is None:
            raise InputError(f"{source}: its lm_weight needs an n-gram model: give --ngram")
        model = lm if values["lm_weight"] is not None else None
        beam = BeamSettings(model, values["lm_weight"] if model else 1.0, beam_size=values["beam_size"])
    return LongDecoding(
        model_config=model_config,
        model_file=model_file,
        data=data,
        output=output,
        window=values["window"],
        stride=values["stride"],
        batch_seconds=values["batch_seconds"],
        precision=values["precision"],
        zeroed=zeroed,
        noise=Noise(values["noise"], values["snr"], musan, values["seed"]) if values["noise"] else None,
        beam=beam,
        ngpu=ngpu,
    )


@dataclass(frozen=True)
class RecordingShard(Shard):
    """A recording to decode."""

    job: LongDecoding = field(kw_only=True)
    regions: tuple[tuple[float, float], ...] = field(kw_only=True)
    noise_files: tuple[Path, ...] = field(kw_only=True)


def decode_long(*jobs: LongDecoding, nj: int = 1, parallel: Path | None = None) -> int:
    """Decode every recording of each job into its ``output/text``; return their number. Finished ones are skipped.

    ``decode.json`` holds the settings. The recordings of all jobs share the processes.

    Raises:
        InputError: a missing or bad file or option, or bad audio; the message names it.
    """
    _check_regions(jobs)
    planned = [plan(job) for job in jobs]
    work.run_shards([(job.output, own) for job, own in planned], decode_recording, nj=nj, parallel=parallel)
    for job, own in planned:
        texts: dict[str, str] = {}
        for shard in own:
            texts |= read_table(Path(shard.folder) / "text")
        write_table(job.output / "text", dict(sorted(texts.items())))
        settings = json.loads(json.dumps(asdict(job), default=str))
        write_json(job.output / "decode.json", {"recordings": len(own), "settings": settings})
    return sum(len(own) for _, own in planned)


def _check_regions(jobs: Sequence[LongDecoding]) -> None:
    """Raise an InputError for regions of a recording that none of the jobs decodes."""
    audio = {recording for job in jobs for recording in audio_tables.read_audio_table(job.data)}
    for path in dict.fromkeys(job.zeroed for job in jobs if job.zeroed):
        unknown = next((recording for recording in read_regions(path) if recording not in audio), None)
        if unknown:
            sets = " or ".join(dict.fromkeys(str(job.data / "wav.scp") for job in jobs))
            raise InputError(f"{path}: recording {unknown} is not in {sets}: does it belong to another set?")


def plan(job: LongDecoding) -> tuple[LongDecoding, list[RecordingShard]]:
    """The job with the length of its windows, and one shard per recording, the longest files first.

    Raises:
        InputError: a missing file, or a window of unknown length.
    """
    files = [job.model_config, job.model_file, job.zeroed, job.beam.lm if job.beam else None]
    for path in files:
        if path is not None and not path.is_file():
            raise InputError(f"{path}: no such file: check the path, or run the stage that makes it")
    if job.ngpu not in (0, 1):
        raise InputError("--ngpu must be 0 or 1")
    window = job.window or (read_yaml(job.model_config).get("chunk_conf") or {}).get("max_seconds")
    if not window:
        raise InputError(f"{job.model_config}: it has no chunk_conf with max_seconds: give --window in seconds")
    job = dataclasses.replace(job, window=float(window))
    audio = audio_tables.read_audio_table(job.data)
    regions = read_regions(job.zeroed) if job.zeroed else {}
    noise_files = tuple(find_noise(job.noise.kind, job.noise.musan)) if job.noise else ()
    settings = {key: str(value) for key, value in vars(job).items() if key not in ("data", "output", "ngpu")}
    inputs = work.fingerprint(settings, work.file_hashes(files), [str(path) for path in noise_files])
    shards = []
    for number, recording in enumerate(sorted(audio, key=lambda name: -Path(audio[name]).stat().st_size), 1):
        own = {"wav.scp": {recording: audio[recording]}}
        cut = tuple(regions.get(recording, ()))
        shards.append(
            RecordingShard(
                name=recording,
                folder=str(job.output / "log" / f"recording.{number}"),
                log=str(job.output / "log" / f"decode.{number}.log"),
                options=(),
                tables=own,
                key=work.fingerprint(inputs, cut, work.file_stamps(own["wav.scp"])),
                job=job,
                regions=cut,
                noise_files=noise_files,
            )
        )
    return job, shards


def decode_recording(shard: RecordingShard) -> None:
    """Decode one recording (in a worker process)."""
    if shard.is_done():  # the worker died after finishing it
        return
    with work.attempt(shard) as folder:
        job = shard.job
        transcriber = _load(job)
        (name, path), *_ = shard.tables["wav.scp"].items()
        begin = time.perf_counter()
        words: list[str] = []
        with RecordingAudio(name, path, transcriber.model.rate) as file:
            try:
                words += (word.text for word in transcriber.words(_silenced(_noisy(file, shard), shard.regions)))
            except NoSpeech as error:
                print(f"{error.args[0].rpartition(':')[0]}: its text is empty")
        write_table(folder / "text", {name: " ".join(words)})
        print(f"{name}: {file.seconds:.1f} s of audio in {time.perf_counter() - begin:.1f} s")


def _noisy(audio: Audio, shard: RecordingShard) -> Audio:
    noise = shard.job.noise
    if noise is None:
        return audio
    # Each recording has its own piece of noise, the same in every run.
    seed = zlib.crc32(f"{noise.seed} {shard.name}".encode())
    return with_noise(audio, shard.noise_files, noise.snr, seed)


def _silenced(audio: Audio, regions: Sequence[tuple[float, float]]) -> Audio:
    return ZeroedAudio(audio, regions) if regions else audio


def _load(job: LongDecoding) -> "Transcriber":
    from espnet_ext.longform.decoding.transcribe import load_transcriber

    return load_transcriber(
        job.model_config,
        job.model_file,
        device=device_of(job.ngpu),
        precision=job.precision,
        window=job.window,
        stride=job.stride,
        batch_seconds=job.batch_seconds,
        beam=job.beam,
    )
