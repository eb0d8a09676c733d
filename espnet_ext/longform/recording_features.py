"""Mel power spectrograms of long recordings in parts, normalised by each recording's mean and deviation (P5, 3.1).

The recording's statistics must be known before its first part is read, so they are computed beforehand, in one pass of
constant memory. That is why these features are made outside the model, which takes them as they are (``input_size``).
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
import torch

from espnet_ext.errors import InputError
from espnet_ext.frontend.power_mel import PowerMelFrontend
from espnet_ext.longform.recording_audio import Audio

_BLOCK_FRAMES = 3000  # computed at a time
_LOG_FLOOR = 1e-6
_LOG_OF_SILENCE = -1.0  # normalised
_DEVIATION_FLOOR = 1e-8


class Statistics(NamedTuple):
    """Mean and standard deviation of each channel over a recording, (n_mels,) each."""

    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def of_matrix(cls, matrix: np.ndarray) -> Self:
        """From a (2, n_mels) matrix of an ark file."""
        return cls(matrix[0], matrix[1])


@dataclass(frozen=True)
class RecordingFeatures:
    """Mel filterbank energies, frame m from sample ``m * hop`` on, none beyond the recording's end.

    The FFT has the power of two above the window, the window is Hamming's; P5 names neither.

    Attributes:
        n_mels: Channels.
        window: Length of the window in samples.
        hop: Period of the frames in samples.
        rate: Sampling rate in Hz.
        log: Take the logarithm, which P5 does not.
    """

    n_mels: int = 80
    window: int = 400
    hop: int = 160
    rate: int = 16000
    log: bool = False
    _frontend: PowerMelFrontend = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        milliseconds = 1000 / self.rate
        frontend = PowerMelFrontend(
            fs=self.rate, n_mels=self.n_mels, window_ms=self.window * milliseconds, hop_ms=self.hop * milliseconds
        )
        object.__setattr__(self, "_frontend", frontend)

    @property
    def _silence(self) -> np.float32:
        """What a channel of digital silence holds, or a little more, as logarithms are rounded."""
        return np.log(np.float32(1.001 * _LOG_FLOOR)) if self.log else np.float32(0)

    def frames(self, length: int) -> int:
        """Frames of a recording of so many samples; 0 if it is shorter than a window."""
        return max(0, (length - self.window) // self.hop + 1)

    def require_frame(self, audio: Audio) -> None:
        """Raise an InputError for a recording that is shorter than a frame."""
        if not self.frames(audio.length):
            raise InputError(
                f"recording {audio.name}: {audio.length} samples, shorter than a frame ({self.window}): drop it"
            )

    def compute(self, audio: Audio, start: int, count: int) -> np.ndarray:
        """Frames ``start`` to ``start + count`` of a recording, float32, (count, n_mels), not normalised."""
        parts = [np.zeros((0, self.n_mels), dtype=np.float32)]
        for first in range(start, start + count, _BLOCK_FRAMES):
            number = min(_BLOCK_FRAMES, start + count - first)
            samples = audio.read(first * self.hop, (number - 1) * self.hop + self.window)
            with torch.no_grad():
                energies = self._frontend.energies(torch.from_numpy(samples)[None])[0]
                parts.append((torch.log(energies + _LOG_FLOOR) if self.log else energies).numpy())
        return np.concatenate(parts)

    def normalised(self, audio: Audio, statistics: Statistics, start: int, count: int) -> np.ndarray:
        """Frames ``start`` to ``start + count``, float32, (count, n_mels), less the mean, by the deviation.

        Of logarithms, frames of digital silence are a deviation below the mean, about where pauses lie: the logarithm
        of nothing is many deviations below anything that a model hears in training. (Energies of nothing are not: they
        lie less than a deviation below the mean, like those of pauses.)
        """
        features = self.compute(audio, start, count)
        silent = (features <= self._silence).all(axis=1) & self.log
        features = (features - statistics.mean) / statistics.deviation
        features[silent] = _LOG_OF_SILENCE
        return features

    def statistics(self, audio: Audio) -> Statistics:
        """Mean and deviation of each channel over the recording, in one pass of constant memory.

        Frames of digital silence are left out, for they are regions that were silenced on purpose.

        Raises:
            InputError: The recording is shorter than a frame, or silent throughout.
        """
        self.require_frame(audio)
        frames, total = 0, self.frames(audio.length)
        # Chan et al.'s update of mean and sum of squares, which stays exact where the mean is large.
        mean, squares = np.zeros(self.n_mels), np.zeros(self.n_mels)
        for start in range(0, total, _BLOCK_FRAMES):
            block = self.compute(audio, start, min(_BLOCK_FRAMES, total - start)).astype(np.float64)
            block = block[(block > self._silence).any(axis=1)]
            if not len(block):
                continue
            difference = block.mean(axis=0) - mean
            both = frames + len(block)
            squares += block.var(axis=0) * len(block) + difference**2 * frames * len(block) / both
            mean += difference * len(block) / both
            frames = both
        if not frames:
            raise InputError(f"recording {audio.name}: nothing but digital silence: drop it")
        deviation = np.sqrt(squares / frames)
        return Statistics(mean.astype(np.float32), np.maximum(deviation, _DEVIATION_FLOOR).astype(np.float32))
