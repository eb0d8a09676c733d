"""An encoder that neither ESPnet nor espnet_ext has: frames stacked by fours, then a
GRU.
"""

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
        self.hidden_size, self.stack = hidden_size, stack
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
        """Encode features, (B, T, input_size), of lengths (B,): (B, T / stack, 2
        hidden_size), lengths, no state.
        """
        missing = -xs_pad.size(1) % self.stack
        stacked = (
            torch.nn.functional.pad(xs_pad, (0, 0, 0, missing))
            .unflatten(1, (-1, self.stack))
            .flatten(2)
        )
        lengths = (ilens + self.stack - 1) // self.stack
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            stacked, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        encoded, _ = torch.nn.utils.rnn.pad_packed_sequence(
            self.gru(packed)[0], batch_first=True
        )
        return encoded, lengths, None
