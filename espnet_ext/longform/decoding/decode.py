"""Decode recordings of any length by moving windows, one shard per recording (P5,
sections 2.2 and 3.1).
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
from espnet_ext.work import shards as work
from espnet_ext.work.files import write_json
from espnet_ext.work.gpus import device_of
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

    Return their number. Finished ones are skipped.

    ``decode.json`` holds the settings. The recordings of all jobs share the processes.
    """
    _check_regions(jobs)
    planned = [plan(job) for job in jobs]
    work.run_shards(
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
    audio = {
        recording
        for job in jobs
        for recording in audio_tables.read_audio_table(job.data)
    }
    for path in dict.fromkeys(job.zeroed for job in jobs if job.zeroed):
        unknown = next(
            (recording for recording in read_regions(path) if recording not in audio),
            None,
        )
        if unknown:
            sets = " or ".join(dict.fromkeys(str(job.data / "wav.scp") for job in jobs))
            raise InputError(
                f"{path}: recording {unknown} is not in {sets}: does it belong to "
                "another set?"
            )


def plan(job: LongDecoding) -> tuple[LongDecoding, list[RecordingShard]]:
    """Return the job with the length of its windows, and one shard per recording, the
    longest files first.
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
    window = own.window or find_trained_seconds(
        read_yaml(job.model_config), job.model_config
    )
    if not window:
        raise InputError(
            f"{job.model_config}: it has no chunk_conf with max_seconds: give "
            "--window in seconds"
        )
    job = dataclasses.replace(
        job, settings=own.model_copy(update={"window": float(window)})
    )
    audio = audio_tables.read_audio_table(job.data)
    regions = read_regions(job.zeroed) if job.zeroed else {}
    noise_files = tuple(find_noise(own.noise, job.musan)) if own.noise else ()
    settings = {
        key: str(value)
        for key, value in vars(job).items()
        if key not in ("data", "output", "ngpu")
    }
    inputs = work.fingerprint(
        settings, work.hash_files(files), [str(path) for path in noise_files]
    )
    shards = []
    for number, recording in enumerate(
        sorted(audio, key=lambda name: -Path(audio[name]).stat().st_size), 1
    ):
        table = {"wav.scp": {recording: audio[recording]}}
        cut = tuple(regions.get(recording, ()))
        log = job.output / "log"
        key = work.fingerprint(inputs, cut, work.stamp_files(table["wav.scp"]))
        base = (
            recording,
            str(log / f"recording.{number}"),
            str(log / f"decode.{number}.log"),
            (),
            table,
            key,
        )
        shards.append(
            RecordingShard(*base, job=job, regions=cut, noise_files=noise_files)
        )
    return job, shards


def decode_recording(shard: RecordingShard) -> None:
    """Decode one recording (in a worker process)."""
    from espnet_ext.longform.decoding.transcribe import load_transcriber

    if shard.is_done():  # the worker died after finishing it
        return
    with work.attempt(shard) as folder:
        job = shard.job
        transcriber = load_transcriber(
            job.model_config, job.model_file, job.settings, device=device_of(job.ngpu)
        )
        (name, path), *_ = shard.tables["wav.scp"].items()
        begin = time.perf_counter()
        words: list[str] = []
        with open_recording(Path(path), transcriber.model.rate, name) as file:
            try:
                words += (
                    word.text for word in transcriber.words(_as_heard(file, shard))
                )
            except NoSpeech as error:
                say(f"{error.args[0].rpartition(':')[0]}: its text is empty")
        write_table(folder / "text", {name: " ".join(words)})
        say(
            f"{name}: {file.seconds:.1f} s of audio in "
            f"{time.perf_counter() - begin:.1f} s"
        )


class ZeroedAudio:
    """A recording with silent regions (in seconds), as those of TED-LIUM that nobody
    transcribed (P5, section 3.1).
    """

    def __init__(self, audio: Audio, regions: Sequence[tuple[float, float]]):
        self.name, self.rate, self.length = audio.name, audio.rate, audio.length
        self._audio = audio
        self._regions = [
            (round(start * audio.rate), round(end * audio.rate))
            for start, end in regions
        ]

    def read(self, start: int, count: int) -> np.ndarray:
        """Return samples ``start`` to ``start + count``, float32, (count,)."""
        samples = self._audio.read(start, count)
        for first, last in self._regions:
            samples[max(0, first - start) : max(0, last - start)] = 0
        return samples


def _as_heard(audio: Audio, shard: RecordingShard) -> Audio:
    """Return the recording with noise, and with its regions silenced."""
    settings = shard.job.settings
    if settings.noise and settings.snr is not None:
        # Each recording has its own piece of noise, the same in every run.
        seed = zlib.crc32(f"{settings.seed} {shard.name}".encode())
        audio = add_noise(audio, shard.noise_files, settings.snr, seed)
    return ZeroedAudio(audio, shard.regions) if shard.regions else audio
