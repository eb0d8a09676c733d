"""Mel power spectrograms of long recordings in parts (P5, 3.1).

They are normalised by each recording's mean and deviation. Statistics need a pass over
a recording before its first part is read, so these features are made outside the model
(``input_size``). They may be kept, in half precision: 16 kB per second of audio with 80
channels.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from espnet_ext.audio.mel_energies import MelEnergies
from espnet_ext.audio.recordings import Audio, NoSpeech, RecordingAudio
from espnet_ext.errors import InputError, say
from espnet_ext.kaldi import audio_tables
from espnet_ext.kaldi.arks import split_into_shards, write_arks
from espnet_ext.kaldi.tables import write_table
from espnet_ext.work.files import atomic_write
from espnet_ext.work.parallel import Place

# beside statistics.scp: the recordings without statistics, one in a line
NO_SPEECH = "no_speech.txt"
_SHOWN = 3
_BLOCK_FRAMES = 3000  # computed at a time
_LOG_FLOOR = 1e-6  # added to energies, of which silence has none
_LOG_OF_SILENCE = -1.0  # normalised
_DEVIATION_FLOOR = 1e-8  # of a channel that does not change: nothing is divided by 0
_RECORDINGS_OF_A_SHARD = 50
# of half precision: larger features, which are rare, are cut to it
_LARGEST = float(np.finfo(np.float16).max)


class ChannelStatistics(NamedTuple):
    """Mean and standard deviation of each channel over a recording, (n_mels,) each."""

    mean: np.ndarray
    deviation: np.ndarray


@dataclass(frozen=True)
class RecordingFeatures:
    """Compute mel filterbank energies.

    Frame m starts at sample ``m * hop``; no frame reaches beyond the end. ``window``
    and ``hop`` are in samples, ``rate`` in Hz. ``log`` takes the logarithm; P5 does
    not. The window is Hann's, and the FFT has the next power of two: P5 names neither,
    and its authors' code has these.
    """

    n_mels: int = 80
    window: int = 400
    hop: int = 160
    rate: int = 16000
    log: bool = False
    _energies: MelEnergies = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("n_mels", "window", "hop", "rate"):
            if getattr(self, name) <= 0:
                raise InputError(f"features_conf: {name} must be above 0")
        window = torch.hann_window(self.window)
        energies = MelEnergies(window, self.hop, self.rate, self.n_mels)
        # The class is frozen; this follows from its fields, and is no setting.
        object.__setattr__(self, "_energies", energies)

    @property
    def _silence(self) -> np.float32:
        """Return the value of silence, or slightly more, as logarithms are rounded."""
        if not self.log:
            return np.float32(0)
        return np.log(np.float32(1.001 * _LOG_FLOOR))

    def count_frames(self, length: int) -> int:
        """Return the number of frames of ``length`` samples; 0 if below a window."""
        return max(0, (length - self.window) // self.hop + 1)

    def compute(self, audio: Audio, start: int, count: int) -> np.ndarray:
        """Return frames ``start`` to ``start + count``, not normalised.

        Frames are float32, (count, n_mels).
        """
        parts = [np.zeros((0, self.n_mels), dtype=np.float32)]
        for first in range(start, start + count, _BLOCK_FRAMES):
            number = min(_BLOCK_FRAMES, start + count - first)
            # Frames overlap: neighbouring blocks read the same samples at their border.
            length = (number - 1) * self.hop + self.window
            samples = torch.from_numpy(audio.read(first * self.hop, length))
            with torch.no_grad():
                energies = self._energies(samples[None])[0]
            if self.log:
                energies = torch.log(energies + _LOG_FLOOR)
            parts.append(energies.numpy())
        return np.concatenate(parts)

    def normalise(
        self, audio: Audio, statistics: ChannelStatistics, start: int, count: int
    ) -> np.ndarray:
        """Return frames ``start`` to ``start + count``, normalised, (count, n_mels).

        The mean is subtracted, and the rest divided by the deviation. With logarithms,
        frames of digital silence are set to one deviation below the mean, about where
        pauses are: the logarithm of zero is many deviations below anything that a model
        hears in training. (An energy of zero is not: it is less than one deviation
        below the mean, like a pause.)
        """
        features = self.compute(audio, start, count)
        silent = (features <= self._silence).all(axis=1) & self.log
        features = (features - statistics.mean) / statistics.deviation
        features[silent] = _LOG_OF_SILENCE
        return features

    def measure_statistics(self, audio: Audio) -> ChannelStatistics:
        """Return mean and deviation of each channel over the recording.

        The recording is read once, with constant memory. Frames of digital silence are
        left out: they are regions that were silenced on purpose. Raises NoSpeech if the
        recording is shorter than a frame, or silent throughout.
        """
        frames = 0
        total = self.count_frames(audio.length)
        if not total:
            raise NoSpeech(
                f"recording {audio.name}: {audio.length} samples, shorter than a "
                "frame: drop it"
            )
        # Chan et al.'s update of mean and sum of squares, which stays exact if the mean
        # is large.
        mean = np.zeros(self.n_mels)
        squares = np.zeros(self.n_mels)
        for start in range(0, total, _BLOCK_FRAMES):
            number = min(_BLOCK_FRAMES, total - start)
            block = self.compute(audio, start, number).astype(np.float64)
            heard = (block > self._silence).any(axis=1)
            block = block[heard]
            count = len(block)
            if not count:
                continue
            difference = block.mean(axis=0) - mean
            both = frames + count
            between = difference**2 * frames * count / both
            squares += block.var(axis=0) * count + between
            mean += difference * count / both
            frames = both
        if not frames:
            raise NoSpeech(
                f"recording {audio.name}: nothing but digital silence: drop it"
            )
        deviation = np.sqrt(squares / frames)
        return ChannelStatistics(
            mean.astype(np.float32),
            np.maximum(deviation, _DEVIATION_FLOOR).astype(np.float32),
        )


def write_statistics(
    data: str | Path,
    output: str | Path,
    features_conf: Mapping[str, Any],
    *,
    keep_features: bool = False,
    skip_silent: float = 0.0,
    nj: int = 1,
    parallel: Place | None = None,
) -> int:
    """Write ``<output>/statistics.scp`` for the recordings of a data dir.

    The file has a matrix (2, n_mels) for each recording, mean and deviation. Of the
    data dir, only ``wav.scp`` is read; ``features_conf`` are settings of
    :class:`RecordingFeatures`. Shards that are done with the same audio and settings
    are skipped. ``keep_features`` writes ``<output>/features.scp`` too: numpy files of
    normalised features, (frames, n_mels). Recordings that are digital silence
    throughout, or shorter than a frame, have no statistics: all of them are listed in
    ``<output>/no_speech.txt``, if there are any, training leaves them out, and more
    than the share ``skip_silent`` are refused. Returns the number of recordings with
    statistics.
    """
    audio = audio_tables.read_audio_table(data)
    compute = functools.partial(
        compute_statistics,
        features_conf=dict(features_conf),
        keep_features=keep_features,
    )
    folder = Path(output).absolute() / "statistics"
    shards = split_into_shards(
        audio,
        folder,
        compute,
        (dict(features_conf), keep_features),
        _RECORDINGS_OF_A_SHARD,
    )
    table = write_arks(shards, nj=nj, parallel=parallel, describe="statistics")
    silent = [name for name in audio if name not in table]
    _leave_out(data, Path(output) / NO_SPEECH, silent, len(audio), skip_silent)
    if keep_features:
        kept = {}
        for shard in shards:
            for name in shard.audio:
                if name in table:
                    kept[name] = str(Path(shard.folder) / f"{name}.npy")
        write_table(Path(output) / "features.scp", dict(sorted(kept.items())))
    write_table(Path(output) / "statistics.scp", table)
    return len(table)


def _leave_out(
    data: str | Path, file: Path, silent: Sequence[str], total: int, share: float
) -> None:
    """List the recordings without speech in a file.

    Raises InputError if they are more than a share of all.
    """
    if not silent:
        file.unlink(missing_ok=True)
        return
    with atomic_write(file) as listed:
        listed.writelines(f"{name}\n" for name in silent)
    named = ", ".join(silent[:_SHOWN])
    if len(silent) > _SHOWN:
        named += f" and {len(silent) - _SHOWN:,} more"
    what = (
        f"{len(silent):,} of {total:,} recordings are digital silence or shorter than "
        "a frame"
    )
    what = f"{data}: {what}: {named} (all: {file})"
    if len(silent) > share * total:
        limit = f", which allows {100 * share:g} % here" if share else ""
        raise InputError(
            f"{what}: remove them from the corpus, or leave them out with "
            f"--skip-faulty{limit}"
        )
    say(f"warning: {what}: left out of training")


def compute_statistics(
    audio: Mapping[str, str],
    folder: Path,
    features_conf: Mapping[str, Any],
    keep_features: bool,
) -> dict[str, np.ndarray]:
    """Compute the statistics of a shard's recordings, (2, n_mels) each, in a worker.

    Features go to ``folder``. Recordings without speech have none.
    """
    features = RecordingFeatures(**features_conf)
    matrices = {}
    for name, path in audio.items():
        with RecordingAudio(name, path, features.rate) as recording:
            try:
                statistics = features.measure_statistics(recording)
            except NoSpeech:
                continue
            matrices[name] = np.stack(statistics)
            if keep_features:
                _keep_features(folder / f"{name}.npy", recording, features, statistics)
    return matrices


def _keep_features(
    path: Path,
    audio: RecordingAudio,
    features: RecordingFeatures,
    statistics: ChannelStatistics,
) -> None:
    """Write a recording's normalised features in parts.

    Memory does not depend on its length.
    """
    frames = features.count_frames(audio.length)
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (frames, features.n_mels)
    kept = np.lib.format.open_memmap(path, "w+", np.float16, shape)
    for start in range(0, frames, _BLOCK_FRAMES):
        count = min(_BLOCK_FRAMES, frames - start)
        part = features.normalise(audio, statistics, start, count)
        kept[start : start + len(part)] = np.clip(part, -_LARGEST, _LARGEST)
    kept.flush()
