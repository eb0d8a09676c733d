"""An encoder of one's own: frames stacked by fours, then a GRU."""

import torch
from espnet2.asr.encoder.abs_encoder import AbsEncoder


class StackedGRUEncoder(AbsEncoder):
    """Stack consecutive frames and read them in both directions.

    Args:
        input_size: dimension of the features; ESPnet gives it.
        hidden_size: number of cells in each direction.
        stack: frames that become one.
    """

    def __init__(self, input_size: int, hidden_size: int = 64, stack: int = 4):
        super().__init__()
        self.hidden_size = hidden_size
        self.stack = stack
        self.gru = torch.nn.GRU(
            input_size * stack, hidden_size, batch_first=True, bidirectional=True
        )

    def output_size(self) -> int:
        """Dimension of the encodings."""
        return 2 * self.hidden_size

    def forward(
        self,
        xs_pad: torch.Tensor,
        ilens: torch.Tensor,
        prev_states: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Encode features, (B, T, input_size), of lengths (B,).

        Returns encodings, (B, T / stack, 2 hidden_size), their lengths, and no state.
        """
        missing = -xs_pad.size(1) % self.stack
        padded = torch.nn.functional.pad(xs_pad, (0, 0, 0, missing))
        stacked = padded.unflatten(1, (-1, self.stack)).flatten(2)
        # Rounded up, as the last frames of an utterance are stacked with padding.
        lengths = (ilens + self.stack - 1) // self.stack
        # Packed, so that the backward direction begins at each utterance's own end.
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            stacked, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        outputs, _ = self.gru(packed)
        encoded, _ = torch.nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
        return encoded, lengths, None
