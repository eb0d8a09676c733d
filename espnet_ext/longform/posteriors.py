"""Posteriors of a recording of any length from any ESPnet model with CTC, window by window (P5, section 2.2)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import batched
from typing import Any, Protocol

import numpy as np
import torch

from espnet_ext.errors import InputError
from espnet_ext.longform.recording_audio import Audio
from espnet_ext.longform.recording_features import RecordingFeatures, Statistics
from espnet_ext.longform.windows import PosteriorMean, Window, windows

# Of the inputs with which an encoder's frame rate is measured; it divides by every usual subsampling.
_PROBE = 480
_SHORTEST_FRAMES = 8  # of an input: a shorter one is less than half a window of most frontends
_AHEAD_FRAMES = 3000
_SOFTMAX_FRAMES = 2048  # at a time, so that the logits of a long window are never held whole


class Source(Protocol):
    """What the model takes of a recording: samples or features, in parts. ``length`` counts its steps."""

    length: int

    def read(self, start: int, count: int) -> np.ndarray:
        """Steps ``start`` to ``start + count``, (count,) or (count, n_mels)."""
        ...


class FeatureSource:
    """A recording's features, normalised by its own mean and deviation.

    Windows overlap, so what has been computed is held from the last start that was asked for on, and half a minute is
    computed at a time: each frame once, as long as the starts do not go back.

    Raises:
        InputError: The recording is shorter than a frame, or silent throughout.
    """

    def __init__(self, audio: Audio, features: RecordingFeatures):
        self._audio, self._features = audio, features
        self._statistics: Statistics = features.statistics(audio)
        self.length = features.frames(audio.length)
        self._first = 0
        self._held = np.zeros((0, features.n_mels), dtype=np.float32)

    def read(self, start: int, count: int) -> np.ndarray:
        """Frames ``start`` to ``start + count``, (count, n_mels)."""
        end = self._first + len(self._held)
        if not self._first <= start <= end:
            self._held, end = self._held[:0], start
        self._held = self._held[max(0, len(self._held) - (end - start)) :]
        self._first = start
        if start + count > end:
            more = max(start + count - end, min(_AHEAD_FRAMES, self.length - end))
            new = self._features.normalised(self._audio, self._statistics, end, more)
            self._held = np.concatenate([self._held, new])
        return self._held[:count].copy()


@dataclass(frozen=True)
class LongModel:
    """A model with CTC and what is known of its input.

    Attributes:
        model: ESPnet's, in evaluation mode.
        features: What it was trained on, if it has no frontend; None if it takes samples.
        rate: Sampling rate in Hz.
        unit: Input steps (samples or feature frames) of an encoder frame.
        tokens: Its tokens, by id.
        device: Where it is.
    """

    model: Any
    features: RecordingFeatures | None
    rate: int
    unit: int
    tokens: Sequence[str]
    device: str = "cpu"

    @property
    def frame_seconds(self) -> float:
        """Seconds of an encoder frame."""
        return self.unit * (self.features.hop if self.features else 1) / self.rate

    def source(self, audio: Audio) -> Source:
        """What the model takes of a recording."""
        if self.features is None:
            return audio
        return FeatureSource(audio, self.features)

    @torch.inference_mode()
    def posteriors(self, source: Source, seconds: float, stride: float = 0.125, batch: int = 1) -> Iterator[np.ndarray]:
        """Posteriors of a recording, averaged over all windows that cover a frame, in parts, (frames, vocabulary).

        Memory grows with the window and the batch, not with the recording.

        Args:
            source: The recording.
            seconds: Length of a window.
            stride: Share of a window by which the next one starts later.
            batch: Windows that go through the encoder at once; all are of one length.
        """
        mean = PosteriorMean()
        places = windows(source.length, self.unit, round(seconds / self.frame_seconds), stride)
        for group in batched(places, batch):
            *full, last = group
            alike = group if last.frames is not None else full
            for part in (alike, group[len(alike) :]):
                if part:
                    self._add(mean, source, part)
            if last.frames is not None:
                # No later window begins before the next one, which begins after the last of these.
                yield mean.take(last.frame + 1)
        yield mean.take()

    def _add(self, mean: PosteriorMean, source: Source, part: Sequence[Window]) -> None:
        inputs = np.stack([source.read(window.start, window.end - window.start) for window in part])
        encoded, lengths = self.encode(torch.from_numpy(inputs).to(self.device))
        for window, output, length in zip(part, encoded, lengths.tolist(), strict=True):
            frames = length if window.frames is None else min(length, window.frames)
            for start in range(0, frames, _SOFTMAX_FRAMES):
                logits = self.model.ctc.ctc_lo(output[start : min(start + _SOFTMAX_FRAMES, frames)])
                mean.add(window.frame + start, torch.softmax(logits.float(), dim=-1).cpu().numpy())

    def encode(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Encoder output of inputs of one length, (windows, frames, size), and their numbers of frames."""
        return encode(self.model, inputs)


def encode(model: Any, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Encode inputs of one length, (B, length) or (B, length, n_mels).

    Inputs too short for the frontend or the encoder's subsampling, as the last of windows that do not overlap may be,
    are padded with zeros to what these need.
    """
    from espnet2.legacy.nets.pytorch_backend.transformer.subsampling import TooShortUttError

    hop = getattr(model.frontend, "hop_length", 1)
    inputs = _padded(inputs, _SHORTEST_FRAMES * hop)
    try:
        encoded, frames = _encode(model, inputs)
    except TooShortUttError as error:
        encoded, frames = _encode(model, _padded(inputs, (error.limit + 1) * hop))
    return (encoded[0] if isinstance(encoded, tuple) else encoded), frames


def _padded(inputs: torch.Tensor, length: int) -> torch.Tensor:
    missing = max(0, length - inputs.size(1))
    return torch.cat([inputs, inputs.new_zeros(len(inputs), missing, *inputs.shape[2:])], dim=1)


def _encode(model: Any, inputs: torch.Tensor) -> tuple[Any, torch.Tensor]:
    lengths = torch.full((len(inputs),), inputs.size(1), dtype=torch.long, device=inputs.device)
    return model.encode(inputs, lengths)


def load(config_file: str, model_file: str, device: str = "cpu") -> LongModel:
    """Load a model for decoding.

    Raises:
        InputError: The checkpoint does not fit, the model has no CTC, or it cannot be told how its input relates to
            time: it has neither ``features_conf`` in its config nor a frontend with a hop.
    """
    from espnet2.tasks.asr import ASRTask

    model, args = ASRTask.build_model_from_file(config_file, model_file, device)
    model.eval()
    if model.ctc is None:
        raise InputError(f"{config_file}: the model has no CTC (ctc_weight 0): it cannot be decoded by windows")
    if model.frontend is None:
        if not hasattr(args, "features_conf"):
            raise InputError(f"{config_file}: the model takes features, but its config has no features_conf")
        features, rate, hop = RecordingFeatures(**args.features_conf), 0, 1
        rate = features.rate
    else:
        features, rate, hop = None, _rate(args), getattr(model.frontend, "hop_length", None)
        if hop is None:
            raise InputError(f"{config_file}: the frontend {args.frontend} does not tell its hop_length")
    unit = frame_unit(model, hop, features.n_mels if features else None, device)
    return LongModel(model, features, rate, unit, args.token_list, device)


def _rate(args: Any) -> int:
    rate = (args.frontend_conf or {}).get("fs", 16000)
    if isinstance(rate, str):
        import humanfriendly

        return humanfriendly.parse_size(rate)
    return int(rate)


@torch.inference_mode()
def frame_unit(model: Any, hop: int, n_mels: int | None, device: str) -> int:
    """Input steps of an encoder frame: of two lengths, the difference by that of their encoder frames."""
    frames = []
    for length in (_PROBE * hop, 2 * _PROBE * hop):
        probe = torch.zeros(1, length) if n_mels is None else torch.zeros(1, length, n_mels)
        frames.append(int(encode(model, probe.to(device))[1][0]))
    more = frames[1] - frames[0]
    if more < 1 or (_PROBE * hop) % more:
        raise InputError(
            f"the encoder gives {more} more frames for {_PROBE} more inputs: its frames have no fixed length"
        )
    return _PROBE * hop // more
