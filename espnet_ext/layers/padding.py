"""Which frames of a padded batch belong to an utterance."""

import torch


def valid_frames(lengths: torch.Tensor, max_length: int) -> torch.Tensor:
    """Tell frames from padding.

    Args:
        lengths: number of frames of each utterance, (B,).
        max_length: number of frames of the padded batch, T.

    Returns:
        True where a frame belongs to its utterance, (B, T).
    """
    return torch.arange(max_length, device=lengths.device) < lengths.unsqueeze(1)
