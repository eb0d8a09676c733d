"""The network of Resemblyzer's d-vectors, of which speaker profiles and ``speaker_encoder: d_vectors`` are made."""

import torch

from espnet_ext.errors import InputError


def voice_encoder() -> torch.nn.Module:
    """Resemblyzer's network and weights, on the CPU: mel power spectrograms, (B, frames, 40), to d-vectors, (B, 256).

    Raises:
        InputError: Resemblyzer is not installed.
    """
    try:
        from resemblyzer import VoiceEncoder
    except ImportError as error:
        raise InputError(
            f"Resemblyzer is not installed ({error}): pip install --no-deps resemblyzer webrtcvad-wheels"
        ) from None
    return VoiceEncoder("cpu", verbose=False)
