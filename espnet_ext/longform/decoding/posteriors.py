"""Compute posteriors of a recording of any length by windows (P5, section 2.2).

The model is any of ESPnet's with CTC.
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
_AHEAD_FRAMES = 3000  # of features that are computed at once, half a minute
_SOFTMAX_FRAMES = 2048  # at a time: the logits of a long window never fill memory


@dataclass(frozen=True)
class MovingWindow:
    """A window over a recording.

    ``frame`` is its first encoder frame, counted from the start of the recording, and
    ``frames`` how many it has. ``frames`` is None for the last window, which has as
    many as the encoder returns. ``start`` and ``end`` are those of its input, in input
    steps (samples or features).
    """

    frame: int
    frames: int | None
    start: int
    end: int


def cut_windows(
    length: int, unit: int, frames: int, stride: float = 0.125
) -> Iterator[MovingWindow]:
    """Yield windows from the start of a recording to its end.

    The last one ends with the recording. ``length`` is that of the recording in input
    steps, ``unit`` the input steps per encoder frame, ``frames`` the encoder frames per
    window, and ``stride`` the share of a window by which the next one starts later.
    """
    # In whole encoder frames, so that the frames of all windows lie on one grid and can
    # be averaged.
    step = max(1, round(frames * stride))
    frame = 0
    while (frame + frames) * unit < length:
        end = (frame + frames) * unit
        yield MovingWindow(frame, frames, frame * unit, end)
        frame += step
    yield MovingWindow(frame, None, frame * unit, length)


class PosteriorMean:
    """The mean posteriors of overlapping windows.

    Means are returned as soon as no later window can change them. The object holds the
    frames that may still change: one window or a little more.
    """

    def __init__(self) -> None:
        self._first = 0  # of the frames that are held, counted in the recording
        self._sums = np.zeros((0, 0), dtype=np.float32)
        self._counts = np.zeros(0, dtype=np.float32)
        self._last = np.zeros(1, dtype=np.float32)  # the last frame that was taken

    def add(self, frame: int, posteriors: np.ndarray) -> None:
        """Add posteriors, (frames, vocabulary), from frame ``frame`` on."""
        start = frame - self._first
        end = start + len(posteriors)
        if end > len(self._sums):
            grown = np.zeros((end, posteriors.shape[1]), dtype=np.float32)
            if len(self._sums):  # otherwise the size of the vocabulary was unknown
                grown[: len(self._sums)] = self._sums
            self._sums = grown
            self._counts = np.pad(self._counts, (0, end - len(self._counts)))
        self._sums[start:end] += posteriors
        self._counts[start:end] += 1

    def take(self, before: int | None = None) -> np.ndarray:
        """Return the means of the frames before ``before``, (frames, vocabulary).

        Frames that are returned are dropped here. None: all frames. A frame that no
        window covers repeats the one before it, so that times stay right: an encoder
        loses some at the edges of windows that do not overlap.
        """
        count = len(self._sums)
        if before is not None:
            count = max(0, min(before - self._first, count))
        counts = self._counts[:count]
        means = self._sums[:count] / np.maximum(counts[:, None], 1)
        covered = counts > 0
        if not covered.all():
            # the last covered frame up to each one; -1: none in this part
            places = np.where(covered, np.arange(count), -1)
            latest = np.maximum.accumulate(places)
            found = latest >= 0
            means = np.where(found[:, None], means[latest], self._last)
        if count:
            self._last = means[-1]
        # Copies: a view would keep the whole old array.
        self._sums = self._sums[count:].copy()
        self._counts = self._counts[count:].copy()
        self._first += count
        return means


class ModelInput(Protocol):
    """The input of the model, samples or features of a recording.

    ``length`` is in steps. ``read`` returns steps ``start`` to ``start + count``,
    (count,) or (count, n_mels).
    """

    name: str
    length: int

    def read(self, start: int, count: int) -> np.ndarray: ...


class FeatureSource:
    """A recording's features, normalised by its own mean and deviation.

    Raises NoSpeech if it is shorter than a frame, or silent. Windows overlap, so
    features are kept from the last requested start on, and half a minute is computed at
    a time. Each frame is computed once, as long as the starts do not go back.
    """

    def __init__(self, audio: Audio, features: RecordingFeatures):
        self._audio = audio
        self._features = features
        self.name = audio.name
        self._statistics: ChannelStatistics = features.measure_statistics(audio)
        self.length = features.count_frames(audio.length)
        self._first = 0
        self._held = np.zeros((0, features.n_mels), dtype=np.float32)

    def read(self, start: int, count: int) -> np.ndarray:
        """Return frames ``start`` to ``start + count``, (count, n_mels)."""
        end = self._first + len(self._held)
        # Frames before the start are no longer needed: starts do not go back.
        if self._first <= start <= end:
            self._held = self._held[start - self._first :]
        else:
            self._held = self._held[:0]
            end = start
        self._first = start
        missing = start + count - end
        if missing > 0:
            ahead = min(_AHEAD_FRAMES, self.length - end)
            more = max(missing, ahead)
            new = self._features.normalise(self._audio, self._statistics, end, more)
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
        samples = self.unit
        if self.features is not None:
            samples *= self.features.hop
        return samples / self.rate

    def open_source(self, audio: Audio) -> ModelInput:
        """Return the model's input for a recording."""
        if self.features is None:
            return audio
        return FeatureSource(audio, self.features)

    @torch.inference_mode()
    def compute_posteriors(
        self, source: ModelInput, seconds: float, stride: float = 0.125, batch: int = 1
    ) -> Iterator[np.ndarray]:
        """Yield posteriors of a recording in parts, (frames, vocabulary).

        Posteriors of a frame are averaged over all windows that cover it. A window has
        ``seconds``, the next one starts ``stride`` of it later, and ``batch`` windows
        are encoded at once. Memory grows with these, not with the recording. Raises
        InputError if posteriors are NaN, or a window has no frame.
        """
        mean = PosteriorMean()
        frames = round(seconds / self.frame_seconds)
        if frames < 1:
            raise InputError(
                f"a window of {seconds:g} s is shorter than an encoder frame "
                f"({self.frame_seconds:g} s): give a longer "
                "--window"
            )
        places = cut_windows(source.length, self.unit, frames, stride)
        for group in batched(places, batch):
            *others, last = group
            is_end = last.frames is None
            # The recording's last window is shorter: it is encoded alone.
            parts = [others, [last]] if is_end else [[*others, last]]
            for part in parts:
                if part:
                    self._add_windows(mean, source, part)
            if not is_end:
                # No later window begins before the next one, which begins after the
                # last of these.
                yield mean.take(last.frame + 1)
        yield mean.take()

    def _add_windows(
        self, mean: PosteriorMean, source: ModelInput, part: Sequence[MovingWindow]
    ) -> None:
        """Add the posteriors of windows of one length to the mean."""
        read = [source.read(each.start, each.end - each.start) for each in part]
        inputs = torch.from_numpy(np.stack(read)).to(self.device)
        encoded, lengths = self.encode(inputs)
        for window, output, length in zip(part, encoded, lengths.tolist(), strict=True):
            frames = length
            # An encoder that rounds lengths up may give a frame too many.
            if window.frames is not None:
                frames = min(length, window.frames)
            for start in range(0, frames, _SOFTMAX_FRAMES):
                end = min(start + _SOFTMAX_FRAMES, frames)
                with self._autocast():
                    logits = self.model.ctc.ctc_lo(output[start:end])
                probabilities = torch.softmax(logits.float(), dim=-1)
                posteriors = probabilities.cpu().numpy()
                first = window.frame + start
                self._refuse_nan(posteriors, source, first)
                mean.add(first, posteriors)

    def _refuse_nan(
        self, posteriors: np.ndarray, source: ModelInput, frame: int
    ) -> None:
        """Raise an InputError for posteriors that would read as silence.

        ``frame`` is the first of them.
        """
        # One sum tells: it is not finite if any number is not.
        if not np.isfinite(posteriors.sum()):
            raise InputError(
                f"recording {source.name}: {self.name} gives posteriors that are "
                "NaN from "
                f"{frame * self.frame_seconds:.1f} s on: listen to the recording "
                "there; if it is in order, use another "
                "checkpoint, or float32 if this is bfloat16"
            )

    def encode(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode inputs of one length, (windows, frames, size), and count frames."""
        with self._autocast():
            return encode(self.model, inputs)

    def _autocast(self) -> torch.autocast:
        """Compute in this block with the model's precision."""
        half = self.precision != "float32"
        kind = torch.device(self.device).type
        dtype = getattr(torch, self.precision)
        return torch.autocast(kind, dtype, enabled=half)


def encode(model: Any, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Encode inputs of one length, (B, length) or (B, length, n_mels).

    Inputs too short for the frontend or the encoder's subsampling are padded with
    zeros. The last window may be so short if windows do not overlap.
    """
    from espnet2.legacy.nets.pytorch_backend.transformer.subsampling import (
        TooShortUttError,
    )

    hop = getattr(model.frontend, "hop_length", 1)
    inputs = _pad(inputs, _SHORTEST_FRAMES * hop)
    try:
        encoded, frames = _encode(model, inputs)
    except TooShortUttError as error:
        longer = _pad(inputs, (error.limit + 1) * hop)
        encoded, frames = _encode(model, longer)
    if isinstance(encoded, tuple):  # with the outputs of layers in between
        encoded = encoded[0]
    return encoded, frames


def _pad(inputs: torch.Tensor, length: int) -> torch.Tensor:
    """Pad inputs with zeros at the end up to a length."""
    missing = max(0, length - inputs.size(1))
    zeros = inputs.new_zeros(len(inputs), missing, *inputs.shape[2:])
    return torch.cat([inputs, zeros], dim=1)


def _encode(model: Any, inputs: torch.Tensor) -> tuple[Any, torch.Tensor]:
    """Run ESPnet's ``encode`` on inputs without padding."""
    length = inputs.size(1)
    lengths = torch.full((len(inputs),), length, dtype=torch.long, device=inputs.device)
    return model.encode(inputs, lengths)


def load(
    config_file: str, model_file: str, device: str = "cpu", precision: str = "float32"
) -> LongModel:
    """Load a model for decoding.

    ``device`` and ``precision`` are as in :class:`LongModel`. Refused are a checkpoint
    that does not fit, a model without CTC, and one with neither ``features_conf`` in
    its config nor a frontend with a hop: the duration of its input steps is unknown.
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
        unit = measure_frame(model, 1, features.n_mels, device)
        return LongModel(model, features, features.rate, unit, **known)
    rate = read_sampling_rate(vars(args)) or _RATE
    hop = getattr(model.frontend, "hop_length", None)
    if hop is None:
        raise InputError(
            f"{config_file}: the frontend {args.frontend} has no hop_length"
        )
    unit = measure_frame(model, hop, None, device)
    return LongModel(model, None, rate, unit, **known)


@torch.inference_mode()
def measure_frame(model: Any, hop: int, n_mels: int | None, device: str) -> int:
    """Measure the input steps per encoder frame, with inputs of two lengths."""
    shape = () if n_mels is None else (n_mels,)
    steps = _PROBE * hop
    frames = []
    for length in (steps, 2 * steps):
        probe = torch.zeros(1, length, *shape, device=device)
        _, count = encode(model, probe)
        frames.append(int(count[0]))
    # A difference: what is lost at the edges of an input does not count.
    more = frames[1] - frames[0]
    if more < 1 or steps % more:
        raise InputError(
            f"the encoder gives {more} more frames for {_PROBE} more inputs: no "
            "constant rate"
        )
    return steps // more
