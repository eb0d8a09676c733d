"""Posteriors of a recording of any length from any ESPnet model with CTC, window by
window (P5, section 2.2).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import batched
from typing import Any, Protocol

import numpy as np
import torch

from espnet_ext.audio.recordings import Audio
from espnet_ext.errors import InputError
from espnet_ext.longform.recording_features import ChannelStatistics, RecordingFeatures
from espnet_ext.upstream.checkpoint import strict_loading
from espnet_ext.upstream.options import read_sampling_rate
from espnet_ext.work.precision import has_bfloat16

# Length of the inputs that measure an encoder's frame rate: a multiple of every usual
# subsampling.
_PROBE = 480
_RATE = 16000  # Hz, of frontends that do not say theirs
_SHORTEST_FRAMES = 8  # shorter inputs are less than half a window of most frontends
_AHEAD_FRAMES = 3000
_SOFTMAX_FRAMES = 2048  # at a time: the logits of a long window never fill memory


@dataclass(frozen=True)
class MovingWindow:
    """A window over a recording: its first encoder frame, counted from the start of the
    recording, and how many it has.

    ``frames`` is None for the last window, which has as many as the encoder returns.
    ``start`` and ``end`` are those of its input, in input steps (samples or features).
    """

    frame: int
    frames: int | None
    start: int
    end: int


def windows(
    length: int, unit: int, frames: int, stride: float = 0.125
) -> Iterator[MovingWindow]:
    """Return windows from the start of a recording to its end; the last one ends with
    the recording.

    ``length`` is that of the recording in input steps, ``unit`` the input steps per
    encoder frame, ``frames`` the encoder frames per window, and ``stride`` the share of
    a window by which the next one starts later.
    """
    step = max(1, round(frames * stride))
    frame = 0
    while (frame + frames) * unit < length:
        yield MovingWindow(frame, frames, frame * unit, (frame + frames) * unit)
        frame += step
    yield MovingWindow(frame, None, frame * unit, length)


class PosteriorMean:
    """The mean posteriors of overlapping windows, returned as soon as no later window
    can change them.

    It holds the frames that may still change: one window or a little more.
    """

    def __init__(self) -> None:
        self._first = 0
        self._sums = np.zeros((0, 0), dtype=np.float32)
        self._counts = np.zeros(0, dtype=np.float32)
        self._last = np.zeros(1, dtype=np.float32)  # the last frame that was taken

    def add(self, frame: int, posteriors: np.ndarray) -> None:
        """Add posteriors, (frames, vocabulary), from frame ``frame`` on."""
        start = frame - self._first
        end = start + len(posteriors)
        if end > len(self._sums):
            grown = np.zeros((end, posteriors.shape[1]), dtype=np.float32)
            if len(self._sums):
                grown[: len(self._sums)] = self._sums
            self._sums, self._counts = (
                grown,
                np.pad(self._counts, (0, end - len(self._counts))),
            )
        self._sums[start:end] += posteriors
        self._counts[start:end] += 1

    def take(self, before: int | None = None) -> np.ndarray:
        """Return the means of the frames before frame ``before`` (None: all), (frames,
        vocabulary), and drop them.

        A frame that no window covers repeats the one before it, so that times stay
        right: an encoder loses some at the edges of windows that do not overlap.
        """
        count = (
            len(self._sums)
            if before is None
            else max(0, min(before - self._first, len(self._sums)))
        )
        covered = self._counts[:count] > 0
        means = self._sums[:count] / np.maximum(self._counts[:count, None], 1)
        if not covered.all():
            latest = np.maximum.accumulate(np.where(covered, np.arange(count), -1))
            means = np.where((latest >= 0)[:, None], means[latest], self._last)
        self._last = means[-1] if count else self._last
        self._sums, self._counts = (
            self._sums[count:].copy(),
            self._counts[count:].copy(),
        )
        self._first += count
        return means


class ModelInput(Protocol):
    """The input of the model, samples or features: the recording's name, its length in
    steps, and parts of it.

    ``read`` returns steps ``start`` to ``start + count``, (count,) or (count, n_mels).
    """

    name: str
    length: int

    def read(self, start: int, count: int) -> np.ndarray: ...


class FeatureSource:
    """A recording's features, normalised by its own mean and deviation; NoSpeech if it
    is shorter than a frame, or silent.

    Windows overlap, so features are kept from the last requested start on, and half a
    minute is computed at a time. Each frame is computed once, as long as the starts do
    not go back.
    """

    def __init__(self, audio: Audio, features: RecordingFeatures):
        self._audio, self._features = audio, features
        self.name = audio.name
        self._statistics: ChannelStatistics = features.statistics(audio)
        self.length = features.frames(audio.length)
        self._first = 0
        self._held = np.zeros((0, features.n_mels), dtype=np.float32)

    def read(self, start: int, count: int) -> np.ndarray:
        """Return frames ``start`` to ``start + count``, (count, n_mels)."""
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
    """A model with CTC, in evaluation mode, and a description of its input.

    ``features`` are those that it takes; None if it has a frontend and takes samples.
    ``rate`` is in Hz, and ``unit`` the input steps (samples or feature frames) per
    encoder frame. ``precision`` is ``float32``, or ``bfloat16`` for half of the memory
    on GPUs. ``name`` is what messages call it.
    """

    model: Any
    features: RecordingFeatures | None
    rate: int
    unit: int
    tokens: Sequence[str]
    device: str = "cpu"
    precision: str = "float32"
    name: str = "the model"

    @property
    def frame_seconds(self) -> float:
        """Return the seconds per encoder frame."""
        return self.unit * (self.features.hop if self.features else 1) / self.rate

    def source(self, audio: Audio) -> ModelInput:
        """Return the model's input for a recording."""
        if self.features is None:
            return audio
        return FeatureSource(audio, self.features)

    @torch.inference_mode()
    def posteriors(
        self, source: ModelInput, seconds: float, stride: float = 0.125, batch: int = 1
    ) -> Iterator[np.ndarray]:
        """Yield posteriors of a recording in parts, averaged over all windows that
        cover a frame, (frames, vocabulary).

        A window has ``seconds``, the next one starts ``stride`` of it later, and
        ``batch`` windows are encoded at once. Memory grows with these, not with the
        recording. InputError if posteriors are NaN, or a window has no frame.
        """
        mean, frames = PosteriorMean(), round(seconds / self.frame_seconds)
        if frames < 1:
            raise InputError(
                f"a window of {seconds:g} s is shorter than an encoder frame "
                f"({self.frame_seconds:g} s): give a longer "
                "--window"
            )
        places = windows(source.length, self.unit, frames, stride)
        for group in batched(places, batch):
            *full, last = group
            alike = group if last.frames is not None else full
            for part in (alike, group[len(alike) :]):
                if part:
                    self._add(mean, source, part)
            if last.frames is not None:
                # No later window begins before the next one, which begins after the
                # last of these.
                yield mean.take(last.frame + 1)
        yield mean.take()

    def _add(
        self, mean: PosteriorMean, source: ModelInput, part: Sequence[MovingWindow]
    ) -> None:
        inputs = np.stack(
            [source.read(window.start, window.end - window.start) for window in part]
        )
        encoded, lengths = self.encode(torch.from_numpy(inputs).to(self.device))
        for window, output, length in zip(part, encoded, lengths.tolist(), strict=True):
            frames = length if window.frames is None else min(length, window.frames)
            for start in range(0, frames, _SOFTMAX_FRAMES):
                with self._autocast():
                    logits = self.model.ctc.ctc_lo(
                        output[start : min(start + _SOFTMAX_FRAMES, frames)]
                    )
                posteriors = torch.softmax(logits.float(), dim=-1).cpu().numpy()
                self._refuse_nan(posteriors, source, window.frame + start)
                mean.add(window.frame + start, posteriors)

    def _refuse_nan(
        self, posteriors: np.ndarray, source: ModelInput, frame: int
    ) -> None:
        """Raise an InputError for posteriors that would read as silence; ``frame`` is
        the first of them.
        """
        if not np.isfinite(posteriors.sum()):
            raise InputError(
                f"recording {source.name}: {self.name} gives posteriors that are "
                "NaN from "
                f"{frame * self.frame_seconds:.1f} s on: listen to the recording "
                "there; if it is in order, use another "
                "checkpoint, or float32 if this is bfloat16"
            )

    def encode(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode inputs of one length, (windows, frames, size), with numbers of frames."""
        with self._autocast():
            return encode(self.model, inputs)

    def _autocast(self) -> torch.autocast:
        half = self.precision != "float32"
        return torch.autocast(
            torch.device(self.device).type, getattr(torch, self.precision), enabled=half
        )


def encode(model: Any, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Encode inputs of one length, (B, length) or (B, length, n_mels).

    Inputs too short for the frontend or the encoder's subsampling are padded with
    zeros. The last window may be so short if windows do not overlap.
    """
    from espnet2.legacy.nets.pytorch_backend.transformer.subsampling import (
        TooShortUttError,
    )

    hop = getattr(model.frontend, "hop_length", 1)
    inputs = _padded(inputs, _SHORTEST_FRAMES * hop)
    try:
        encoded, frames = _encode(model, inputs)
    except TooShortUttError as error:
        encoded, frames = _encode(model, _padded(inputs, (error.limit + 1) * hop))
    return (encoded[0] if isinstance(encoded, tuple) else encoded), frames


def _padded(inputs: torch.Tensor, length: int) -> torch.Tensor:
    missing = max(0, length - inputs.size(1))
    return torch.cat(
        [inputs, inputs.new_zeros(len(inputs), missing, *inputs.shape[2:])], dim=1
    )


def _encode(model: Any, inputs: torch.Tensor) -> tuple[Any, torch.Tensor]:
    lengths = torch.full(
        (len(inputs),), inputs.size(1), dtype=torch.long, device=inputs.device
    )
    return model.encode(inputs, lengths)


def load(
    config_file: str, model_file: str, device: str = "cpu", precision: str = "float32"
) -> LongModel:
    """Load a model for decoding; ``device`` and ``precision`` are as in
    :class:`LongModel`.

    Refused are a checkpoint that does not fit, a model without CTC, and one with
    neither ``features_conf`` in its config nor a frontend with a hop: the duration of
    its input steps is unknown.
    """
    from espnet2.tasks.asr import ASRTask

    with strict_loading():
        model, args = ASRTask.build_model_from_file(config_file, model_file, device)
    model.eval()
    if model.ctc is None:
        raise InputError(
            f"{config_file}: the model has no CTC (ctc_weight 0): it cannot be "
            "decoded by windows"
        )
    usable = precision
    if precision == "bfloat16" and not has_bfloat16(device, "precision"):
        usable = "float32"
    known: dict[str, Any] = {
        "tokens": args.token_list,
        "device": device,
        "precision": usable,
        "name": model_file,
    }
    if model.frontend is None:
        if not hasattr(args, "features_conf"):
            raise InputError(
                f"{config_file}: the model takes features, but its config has no "
                "features_conf"
            )
        features = RecordingFeatures(**args.features_conf)
        return LongModel(
            model,
            features,
            features.rate,
            frame_unit(model, 1, features.n_mels, device),
            **known,
        )
    hop, rate = (
        getattr(model.frontend, "hop_length", None),
        read_sampling_rate(vars(args)) or _RATE,
    )
    if hop is None:
        raise InputError(
            f"{config_file}: the frontend {args.frontend} has no hop_length"
        )
    return LongModel(model, None, rate, frame_unit(model, hop, None, device), **known)


@torch.inference_mode()
def frame_unit(model: Any, hop: int, n_mels: int | None, device: str) -> int:
    """Measure the input steps per encoder frame, with inputs of two lengths."""
    frames = []
    for length in (_PROBE * hop, 2 * _PROBE * hop):
        probe = (
            torch.zeros(1, length) if n_mels is None else torch.zeros(1, length, n_mels)
        )
        frames.append(int(encode(model, probe.to(device))[1][0]))
    more = frames[1] - frames[0]
    if more < 1 or (_PROBE * hop) % more:
        raise InputError(
            f"the encoder gives {more} more frames for {_PROBE} more inputs: no "
            "constant rate"
        )
    return _PROBE * hop // more
