"""Energies of mel filterbanks, from which P2's and P5's features are made."""

import torch
import torchaudio


class MelEnergies(torch.nn.Module):
    """Compute ``e[m, c] = sum_k |X[m, k]|^2 M_c[k]`` (P2, eq. 1).

    It is the energy of channel c in frame m; those of a frame are a vector (P2, eq. 5).
    Frame m covers the samples from ``m * hop`` to ``m * hop + window``; no frame
    reaches beyond the end. The channels are triangles in Hz with corners at equal
    distances on HTK's mel scale.

    Args:
        window: the factor of each sample of a frame, (samples,).
        hop: samples from the start of a frame to that of the next.
        rate: sampling rate in Hz.
        n_mels: number of channels C.
        n_fft: FFT size K; None: the power of two at or above the window's length.
        fmin: lower edge of the filterbank in Hz.
        fmax: upper edge; None: half the sampling rate.
    """

    window: torch.Tensor
    mel: torch.Tensor

    def __init__(
        self,
        window: torch.Tensor,
        hop: int,
        rate: int,
        n_mels: int,
        n_fft: int | None = None,
        fmin: float = 0.0,
        fmax: float | None = None,
    ):
        super().__init__()
        self.hop = hop
        self.n_fft = n_fft or find_power_of_two(len(window))
        mel = torchaudio.functional.melscale_fbanks(
            self.n_fft // 2 + 1,
            fmin,
            rate / 2.0 if fmax is None else fmax,
            n_mels,
            rate,
            norm=None,
            mel_scale="htk",
        )
        # Both follow from the settings, so checkpoints do not hold them.
        self.register_buffer("window", window, persistent=False)
        self.register_buffer("mel", mel, persistent=False)

    def forward(self, waveform: torch.Tensor) -> torch.Tensor:
        """Return energies, (B, T, n_mels), of waveforms, (B, samples), in their type.

        A waveform shorter than a window is padded with zeros to one frame.
        """
        length = len(self.window)
        missing = length - waveform.size(1)
        if missing > 0:
            waveform = torch.nn.functional.pad(waveform, (0, missing))
        frames = waveform.unfold(1, length, self.hop) * self.window.to(waveform.dtype)
        spectrum = torch.fft.rfft(frames, self.n_fft)
        power = spectrum.real.square() + spectrum.imag.square()
        return power @ self.mel.to(waveform.dtype)


def find_power_of_two(number: int) -> int:
    """Return the smallest power of two that is not below a number.

    >>> find_power_of_two(400), find_power_of_two(512)
    (512, 512)
    """
    return 1 << (number - 1).bit_length()
