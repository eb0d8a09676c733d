"""Which frames of a padded batch belong to an utterance."""

from dataclasses import dataclass
from typing import Self

import torch


def valid_frames(lengths: torch.Tensor, max_length: int) -> torch.Tensor:
    """Return where a frame of a batch padded to ``max_length`` belongs to its
    utterance, (B, T); ``lengths``: (B,).
    """
    return torch.arange(max_length, device=lengths.device) < lengths.unsqueeze(1)


@dataclass(frozen=True)
class Padding:
    """Hold what layers need that leave padding out."""

    valid: torch.Tensor  # True where a frame belongs to its utterance, (B, T)
    groups: tuple[
        tuple[torch.Tensor, int], ...
    ]  # utterances of each length, (n,), which need no mask, and it

    @classmethod
    def of(cls, lengths: torch.Tensor, max_length: int) -> Self | None:
        """Return the padding of a batch; None if there is none. Arguments as in
        :func:`valid_frames`.

        >>> padding = Padding.of(torch.tensor([3, 1, 3]), 3)
        >>> [(rows.tolist(), length) for rows, length in padding.groups]
        [([1], 1), ([0, 2], 3)]
        """
        numbers = lengths.tolist()
        distinct = sorted(set(numbers))
        if distinct == [max_length]:
            return None
        groups = tuple(
            (
                torch.tensor(
                    [row for row, number in enumerate(numbers) if number == length],
                    device=lengths.device,
                ),
                length,
            )
            for length in distinct
        )
        return cls(valid_frames(lengths, max_length), groups)
