"""Which frames of a padded batch belong to an utterance."""

from dataclasses import dataclass
from typing import Self

import torch


def mark_valid_frames(lengths: torch.Tensor, max_length: int) -> torch.Tensor:
    """Return where frames of a padded batch belong to their utterance, (B, T).

    ``lengths``: (B,); ``max_length``: T.
    """
    return torch.arange(max_length, device=lengths.device) < lengths.unsqueeze(1)


@dataclass(frozen=True)
class Padding:
    """Hold what layers need that leave padding out.

    ``valid``: True where a frame belongs to its utterance, (B, T); ``groups``: the
    utterances of each length, (n,), which need no mask among them, and this length.
    """

    valid: torch.Tensor
    groups: tuple[tuple[torch.Tensor, int], ...]

    @classmethod
    def from_lengths(cls, lengths: torch.Tensor, max_length: int) -> Self | None:
        """Return the padding of a batch; None if there is none.

        Arguments are those of :func:`mark_valid_frames`.

        >>> padding = Padding.from_lengths(torch.tensor([3, 1, 3]), 3)
        >>> [(rows.tolist(), length) for rows, length in padding.groups]
        [([1], 1), ([0, 2], 3)]
        """
        # a wait for the device, once for all layers that use the padding
        numbers = lengths.tolist()
        distinct = sorted(set(numbers))
        if distinct == [max_length]:
            return None
        groups = []
        for length in distinct:
            rows = [row for row, number in enumerate(numbers) if number == length]
            groups.append((torch.tensor(rows, device=lengths.device), length))
        return cls(mark_valid_frames(lengths, max_length), tuple(groups))
