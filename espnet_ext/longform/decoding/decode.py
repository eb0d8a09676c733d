"""Decode recordings of any length by moving windows (P5, sections 2.2 and 3.1).

A shard is one recording.
"""

import dataclasses
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from espnet_ext.audio.recordings import Audio, NoSpeech, open_recording
from espnet_ext.errors import InputError, say
from espnet_ext.kaldi import audio_tables
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.longform.decoding.settings import DecodeSettings, find_trained_seconds
from espnet_ext.longform.noise import add_noise, find_noise
from espnet_ext.text.word_times import read_regions
from espnet_ext.work import shards as sharding
from espnet_ext.work.files import write_json
from espnet_ext.work.gpus import choose_device
from espnet_ext.work.parallel import Place
from espnet_ext.work.shards import Shard
from espnet_ext.work.yaml_files import read_yaml


@dataclass(frozen=True)
class LongDecoding:
    """What to decode, by which ESPnet model with CTC, and how.

    Of ``data``, only ``wav.scp`` is read; ``output`` is the folder for the results,
    ``zeroed`` a file of regions that are silenced, and ``musan`` the folder of MUSAN
    (None: music is generated). ``ngpu`` is 0 or 1.
    """

    model_config: Path
    model_file: Path
    data: Path
    output: Path
    settings: DecodeSettings = DecodeSettings()
    zeroed: Path | None = None
    musan: Path | None = None
    ngpu: int = 0


@dataclass(frozen=True)
class RecordingShard(Shard):
    """A recording to decode."""

    job: LongDecoding = field(kw_only=True)
    regions: tuple[tuple[float, float], ...] = field(kw_only=True)
    noise_files: tuple[Path, ...] = field(kw_only=True)


def decode_long(*jobs: LongDecoding, nj: int = 1, parallel: Place | None = None) -> int:
    """Decode every recording of each job into its ``output/text``.

    Returns the number of recordings. Those that are finished are skipped.

    ``decode.json`` holds the settings. The recordings of all jobs share the processes.
    """
    _check_regions(jobs)
    planned = [plan_recordings(job) for job in jobs]
    sharding.run_shards(
        [(job.output, own) for job, own in planned],
        decode_recording,
        nj=nj,
        ngpu=max(job.ngpu for job in jobs),
        parallel=parallel,
    )
    for job, own in planned:
        texts: dict[str, str] = {}
        for shard in own:
            texts |= read_table(Path(shard.folder) / "text")
        write_table(job.output / "text", dict(sorted(texts.items())))
        files = {
            name: value and str(value)
            for name, value in vars(job).items()
            if name != "settings"
        }
        settings = {**files, **job.settings.model_dump()}
        write_json(
            job.output / "decode.json", {"recordings": len(own), "settings": settings}
        )
    return sum(len(own) for _, own in planned)


def _check_regions(jobs: Sequence[LongDecoding]) -> None:
    """Raise an InputError for regions of a recording that none of the jobs decodes."""
    audio: set[str] = set()
    for job in jobs:
        audio.update(audio_tables.read_audio_table(job.data))
    # One file may be that of several sets, of which each has a part.
    for path in dict.fromkeys(job.zeroed for job in jobs if job.zeroed):
        for recording in read_regions(path):
            if recording in audio:
                continue
            sets = dict.fromkeys(str(job.data / "wav.scp") for job in jobs)
            raise InputError(
                f"{path}: recording {recording} is not in {' or '.join(sets)}: does it "
                "belong to another set?"
            )


def plan_recordings(job: LongDecoding) -> tuple[LongDecoding, list[RecordingShard]]:
    """Return the job with the length of its windows, and one shard per recording.

    The longest files come first.
    """
    files = [job.model_config, job.model_file, job.zeroed]
    for path in files:
        if path is not None and not path.is_file():
            raise InputError(
                f"{path}: no such file: check the path, or run the stage that makes it"
            )
    if job.ngpu not in (0, 1):
        raise InputError("--ngpu must be 0 or 1")
    own = job.settings
    config = read_yaml(job.model_config)
    window = own.window or find_trained_seconds(config, job.model_config)
    if not window:
        raise InputError(
            f"{job.model_config}: it has no chunk_conf with max_seconds: give "
            "--window in seconds"
        )
    with_window = own.model_copy(update={"window": float(window)})
    job = dataclasses.replace(job, settings=with_window)
    audio = audio_tables.read_audio_table(job.data)
    regions = read_regions(job.zeroed) if job.zeroed else {}
    noise_files = tuple(find_noise(own.noise, job.musan)) if own.noise else ()
    # What results depend on: not where they go, and not what computes them.
    settings = {}
    for name, value in vars(job).items():
        if name not in ("data", "output", "ngpu"):
            settings[name] = str(value)
    inputs = sharding.fingerprint(
        settings, sharding.hash_files(files), [str(path) for path in noise_files]
    )
    shards = []
    # The longest first, so that no process is alone with one at the end. Sizes stand
    # for lengths, which would have to be read.
    by_size = sorted(audio, key=lambda name: -Path(audio[name]).stat().st_size)
    for number, recording in enumerate(by_size, start=1):
        table = {"wav.scp": {recording: audio[recording]}}
        cut = tuple(regions.get(recording, ()))
        log = job.output / "log"
        key = sharding.fingerprint(inputs, cut, sharding.stamp_files(table["wav.scp"]))
        shards.append(
            RecordingShard(
                name=recording,
                folder=str(log / f"recording.{number}"),
                log=str(log / f"decode.{number}.log"),
                options=(),
                tables=table,
                key=key,
                job=job,
                regions=cut,
                noise_files=noise_files,
            )
        )
    return job, shards


def decode_recording(shard: RecordingShard) -> None:
    """Decode one recording (in a worker process)."""
    from espnet_ext.longform.decoding.transcribe import load_transcriber

    if shard.is_done():  # the worker died after finishing it
        return
    with sharding.attempt_shard(shard) as folder:
        job = shard.job
        transcriber = load_transcriber(
            job.model_config,
            job.model_file,
            job.settings,
            device=choose_device(job.ngpu),
        )
        (name, path), *_ = shard.tables["wav.scp"].items()
        begin = time.perf_counter()
        words: list[str] = []
        with open_recording(Path(path), transcriber.model.rate, name) as file:
            try:
                audio = _disturb(file, shard)
                words += (word.text for word in transcriber.recognise_words(audio))
            except NoSpeech as error:
                # A silent recording is heard right if nothing is heard in it.
                say(f"{error.args[0].rpartition(':')[0]}: its text is empty")
        write_table(folder / "text", {name: " ".join(words)})
        say(
            f"{name}: {file.seconds:.1f} s of audio in "
            f"{time.perf_counter() - begin:.1f} s"
        )


class ZeroedAudio:
    """A recording of which some regions, in seconds, are silenced.

    Nobody has transcribed such regions of TED-LIUM (P5, section 3.1).
    """

    def __init__(self, audio: Audio, regions: Sequence[tuple[float, float]]):
        self.name = audio.name
        self.rate = audio.rate
        self.length = audio.length
        self._audio = audio
        self._regions = []  # in samples
        for start, end in regions:
            first = round(start * audio.rate)
            last = round(end * audio.rate)
            self._regions.append((first, last))

    def read(self, start: int, count: int) -> np.ndarray:
        """Return samples ``start`` to ``start + count``, float32, (count,)."""
        samples = self._audio.read(start, count)
        for first, last in self._regions:
            samples[max(0, first - start) : max(0, last - start)] = 0
        return samples


def _disturb(audio: Audio, shard: RecordingShard) -> Audio:
    """Return the recording with noise, and with its regions silenced."""
    settings = shard.job.settings
    if settings.noise and settings.snr is not None:
        # Each recording has its own piece of noise, the same in every run.
        seed = zlib.crc32(f"{settings.seed} {shard.name}".encode())
        audio = add_noise(audio, shard.noise_files, settings.snr, seed)
    # After the noise: silenced regions are silent in noise too.
    return ZeroedAudio(audio, shard.regions) if shard.regions else audio
