"""``speaker_encoder: d_vectors``: the profiles' network on sliding windows (P4, eq. 6).

P4's recogniser is that of its reference [9], whose SpeakerEncoder makes the profiles
(d-vectors). Here it is Resemblyzer's, with its weights, which are not trained further:
it knows many voices, but none to be recognised.
"""

from typing import Any

import librosa
import torch
from espnet2.asr.encoder.abs_encoder import AbsEncoder

from espnet_ext.errors import InputError
from espnet_ext.upstream.padding import mark_valid_frames
from espnet_ext.work.embedded_weights import D_VECTORS, find_weights

RATE = 16000  # Hz
SIZE = 256
# Resemblyzer's, in samples
_HOP = 160
_FFT = 400
_MELS = 40
# Resemblyzer's: quieter recordings are made as loud as -30 dB of full scale
_LEVEL = 10 ** (-30 / 20)
_AT_ONCE = 256  # windows that go through the network together


def load_voice_encoder() -> Any:
    """Load Resemblyzer's network on the CPU.

    It takes mel power spectrograms, (B, frames, 40), and gives d-vectors, (B, 256).
    """
    weights = find_weights(D_VECTORS)
    try:
        from resemblyzer import VoiceEncoder
    except ImportError as error:
        raise InputError(
            f"no Resemblyzer ({error}): pip install --no-deps resemblyzer "
            "webrtcvad-wheels"
        ) from None
    return VoiceEncoder("cpu", verbose=False, weights_fpath=weights)


class DVectorEncoder(AbsEncoder):
    """Compute d-vectors of sliding windows, and encodings of frames from them.

    The d-vectors have norm 1. It reads samples at 16 kHz, not the features that the ASR
    encoder sees (``reads_samples``). ``window`` and ``shift`` are in seconds;
    Resemblyzer's network was trained on 1.6 s. ``input_size`` is not used; ESPnet gives
    it to all encoders.
    """

    reads_samples = True

    def __init__(
        self, input_size: int | None = None, window: float = 1.6, shift: float = 0.8
    ):
        super().__init__()
        if not 0.01 <= shift <= window:
            raise InputError(
                f"d_vectors: windows of {window} s every {shift} s: take 0.01 <= "
                "shift <= window"
            )
        self.window = round(window * RATE / _HOP)
        self.shift = round(shift * RATE / _HOP)
        self.network = load_voice_encoder().requires_grad_(False)
        mels = librosa.filters.mel(sr=RATE, n_fft=_FFT, n_mels=_MELS)
        self.register_buffer("mels", torch.from_numpy(mels), persistent=False)

    def output_size(self) -> int:
        return SIZE

    @torch.no_grad()
    def forward(
        self,
        xs_pad: torch.Tensor,
        ilens: torch.Tensor,
        prev_states: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Compute d-vectors of sliding windows of samples, (B, N), with lengths, (B,).

        The last window of a recording is filled with silence. Returns d-vectors, (B, W,
        256), zero for windows without any sound; numbers of windows, (B,); None.
        """
        if xs_pad.dim() != 2:
            raise InputError(
                "d_vectors: needs samples: give the data `speech` as audio (type "
                "sound), not as features"
            )
        # Resemblyzer's features are powers, for which float16 has no room
        with torch.autocast(xs_pad.device.type, enabled=False):
            return self._extract_vectors(xs_pad, ilens)

    def _extract_vectors(
        self, xs_pad: torch.Tensor, ilens: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Return d-vectors of windows that move over the frames, with their numbers."""
        frames, counts = self._compute_spectrogram(xs_pad, ilens)
        # Rounded up: the last window of an utterance may reach beyond its end.
        beyond = (counts - self.window).clamp(min=0)
        windows = (beyond + self.shift - 1) // self.shift + 1
        most = int(windows.max())
        length = (most - 1) * self.shift + self.window
        missing = max(0, length - frames.size(1))
        frames = torch.nn.functional.pad(frames, (0, 0, 0, missing))
        cut = frames.unfold(1, self.window, self.shift)[:, :most].mT
        present = mark_valid_frames(windows, cut.size(1))
        # Only windows with audio, of all recordings in one row: (windows, frames, 40).
        parts = cut[present].split(_AT_ONCE)
        found = torch.cat([self.network(part) for part in parts])
        vectors = found.new_zeros(*present.shape, SIZE)
        # The network divides by a norm, which may be zero.
        vectors[present] = found.nan_to_num()
        return vectors, windows, None

    def _compute_spectrogram(
        self, samples: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return mel power spectrograms as Resemblyzer's, and frame counts.

        Spectrograms are (B, frames, 40), zero after the end.
        """
        samples = samples.float() * mark_valid_frames(lengths, samples.size(1))
        loudness = (samples.square().sum(1) / lengths).sqrt()
        # At least 1, as Resemblyzer makes nothing quieter; silence is not divided by 0.
        gain = _LEVEL / loudness.clamp(1e-8, _LEVEL)
        samples = samples * gain.unsqueeze(1)
        # Frames are centred and padded with zeros, as those of librosa, which
        # Resemblyzer uses: there is one more than hops fit.
        window = torch.hann_window(_FFT, device=samples.device)
        spectrum = torch.stft(
            samples, _FFT, _HOP, window=window, pad_mode="constant", return_complex=True
        )
        powers = spectrum.abs().square()
        frames = (self.mels @ powers).mT
        counts = lengths // _HOP + 1
        valid = mark_valid_frames(counts, frames.size(1))
        return frames * valid.unsqueeze(-1), counts

    def interpolate_at_frames(
        self,
        vectors: torch.Tensor,
        windows: torch.Tensor,
        lengths: torch.Tensor,
        frames: torch.Tensor,
    ) -> torch.Tensor:
        """Return d-vectors of the ASR encoder's frames, (B, T, 256).

        Each lies between those of the nearest windows. ``vectors``: (B, W, 256); the
        others are numbers, (B,), of windows, of samples, and of the ASR encoder's
        frames, which share the samples evenly.
        """
        # All in hops of the spectrogram. An ASR frame has its share of the samples, and
        # window i its centre at i * shift + window / 2: before the first centre and
        # after the last one there is nothing to interpolate.
        numbers = torch.arange(int(frames.max()), device=vectors.device)
        centres = (numbers + 0.5) * (lengths / frames / _HOP).unsqueeze(1)
        places = ((centres - self.window / 2) / self.shift).clamp(min=0)
        last = (windows - 1).unsqueeze(1)
        places = places.minimum(last.to(places))
        left = places.floor().long()
        right = (left + 1).minimum(last)
        share = (places - left).unsqueeze(-1)
        rows = torch.arange(len(vectors), device=vectors.device).unsqueeze(1)
        before = vectors[rows, left] * (1 - share)
        after = vectors[rows, right] * share
        return before + after
