"""``frontend: power_mel``: mel energies under a power law (P2, sections 2 and 3)."""

import humanfriendly
import torch
from espnet2.asr.frontend.abs_frontend import AbsFrontend

from espnet_ext.audio.mel_energies import MelEnergies, find_power_of_two
from espnet_ext.errors import InputError
from espnet_ext.sem.energy_mask import POWER
from espnet_ext.upstream.padding import mark_valid_frames


class PowerMelFrontend(AbsFrontend):
    """Compute power-mel features; no logarithm.

    Features are ``x = (sum_k |X[m, k]|^2 M_c[k]) ** (1 / 15)`` (P2, eq. 1, section 3).
    The energies are those of :class:`~espnet_ext.audio.mel_energies.MelEnergies`: no
    frame reaches beyond the end of the utterance, so that padding changes nothing. They
    are computed in float32 or better, whatever the autocast setting, since half
    precision cannot hold them.

    Args:
        fs: sampling rate in Hz; also as ``16k``, as in ESPnet's recipes.
        n_mels: number of filterbank channels C.
        window_ms: length of the Hamming window in milliseconds; ``hop_ms``: distance
            between frames.
        n_fft: FFT size K; None: the power of two at or above the length of the window.
        fmin: lower edge of the filterbank in Hz; ``fmax``: upper edge, None for half
            the sampling rate.
    """

    def __init__(
        self,
        fs: int | str = 16000,
        n_mels: int = 40,
        window_ms: float = 25.0,
        hop_ms: float = 10.0,
        n_fft: int | None = None,
        fmin: float = 0.0,
        fmax: float | None = None,
    ):
        super().__init__()
        fs = humanfriendly.parse_size(fs) if isinstance(fs, str) else fs
        fmax = fs / 2.0 if fmax is None else fmax
        sizes = {"fs": fs, "n_mels": n_mels, "window_ms": window_ms, "hop_ms": hop_ms}
        for name, value in sizes.items():
            if not value > 0:
                raise InputError(f"power_mel: {name} is {value}, it must be above 0")
        if not 0.0 <= fmin < fmax <= fs / 2.0:
            raise InputError(
                f"power_mel: fmin ({fmin}) and fmax ({fmax}) must rise, from 0 to "
                f"{fs / 2.0} Hz"
            )
        self.fs = fs
        self.n_mels = n_mels
        self.window_length = round(fs * window_ms / 1000.0)
        self.hop_length = round(fs * hop_ms / 1000.0)
        self.n_fft = n_fft or find_power_of_two(self.window_length)
        if self.n_fft < self.window_length:
            raise InputError(
                f"power_mel: n_fft ({self.n_fft}) is shorter than the window "
                f"({self.window_length})"
            )
        window = torch.hamming_window(self.window_length, periodic=False)
        self.energies = MelEnergies(
            window, self.hop_length, fs, n_mels, self.n_fft, fmin, fmax
        )

    def output_size(self) -> int:
        return self.n_mels

    def forward(
        self,
        input: torch.Tensor,
        input_lengths: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the features of waveforms, (B, samples).

        Of several channels, (B, samples, channels), the first is taken. Returns
        features, (B, T, n_mels), not negative, zero on padded frames; numbers of
        frames, (B,), at least 1.
        """
        waveform = input[..., 0] if input.dim() == 3 else input
        # the one frame of an utterance shorter than a window includes padding
        waveform = waveform.masked_fill(
            ~mark_valid_frames(input_lengths, waveform.size(1)), 0.0
        )
        with torch.autocast(input.device.type, enabled=False):
            energies = self.energies(
                waveform.to(torch.promote_types(waveform.dtype, torch.float32))
            )
        lengths = self.output_lengths(input_lengths)
        padding = ~mark_valid_frames(lengths, energies.size(1)).unsqueeze(-1)
        # the gradient of the root is infinite at 0, so zeros bypass it
        empty = padding | (energies == 0.0)
        features = energies.masked_fill(empty, 1.0).pow(POWER).masked_fill(empty, 0.0)
        return features.to(input.dtype), lengths

    def output_lengths(self, input_lengths: torch.Tensor) -> torch.Tensor:
        """Return the number of frames of utterances, (B,), from those of samples."""
        last = input_lengths - self.window_length
        frames = torch.div(last, self.hop_length, rounding_mode="floor") + 1
        return frames.clamp(min=1)
