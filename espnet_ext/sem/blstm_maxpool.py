"""``encoder: blstm_maxpool``: BLSTM layers and max-pooling in time (P2, section 4)."""

from collections.abc import Sequence

import torch
from espnet2.asr.encoder.abs_encoder import AbsEncoder

from espnet_ext.errors import InputError
from espnet_ext.sem.blstm import BLSTM
from espnet_ext.upstream.padding import mark_valid_frames


class BLSTMMaxPoolEncoder(AbsEncoder):
    """Apply BLSTM layers with max-pooling over time after the lowest ones.

    "Six layers of bi-directional LSTMs interleaved with 2:1 maxpool layers in the
    bottom three layers. Thus, the entire time reduction factor is 8" (P2, section 4).
    An incomplete last pooling window is pooled too, so that every utterance keeps at
    least one frame. ``hidden_size`` is the number of cells of each direction;
    ``dropout_rate`` is on the input of each layer but the first, as in P2's reference
    [17].
    """

    def __init__(
        self,
        input_size: int,
        num_layers: int = 6,
        hidden_size: int = 1024,
        pooling: Sequence[int] = (2, 2, 2),
        dropout_rate: float = 0.0,
    ):
        super().__init__()
        if num_layers < 1:
            raise InputError(
                f"blstm_maxpool: num_layers is {num_layers}, it must be 1 or more"
            )
        self.layers = torch.nn.ModuleList(
            BLSTM(2 * hidden_size, hidden_size, dropout_rate)
            if layer
            else BLSTM(input_size, hidden_size)
            for layer in range(num_layers)
        )
        self._output_size = 2 * hidden_size
        self._whole = (num_layers, tuple(pooling), dropout_rate)
        self.use_all()

    def output_size(self) -> int:
        return self._output_size

    def use_all(self) -> None:
        """Use all layers, with the pooling and dropout of the config."""
        self.use(*self._whole)

    def use(self, num_layers: int, pooling: Sequence[int], dropout_rate: float) -> None:
        """Use only the lowest layers and the top one, while the encoder grows.

        The layers are ``num_layers`` in all (P2, section 4). So the top layer stays on
        top, and a new one comes below it. Parameters do not change. Raises InputError
        for more layers than there are, or pooling factors that do not fit them.
        """
        if not min(2, len(self.layers)) <= num_layers <= len(self.layers):
            raise InputError(
                f"blstm_maxpool: cannot use {num_layers} of {len(self.layers)} layers"
            )
        if len(pooling) > num_layers or any(
            not isinstance(factor, int) or factor < 1 for factor in pooling
        ):
            raise InputError(
                f"blstm_maxpool: pooling {list(pooling)} does not fit "
                f"{num_layers} layers"
            )
        # The top layer is always the last of the list, so that growing changes no names
        # of parameters in checkpoints.
        self.used = [*range(num_layers - 1), len(self.layers) - 1]
        self.pooling = [*pooling, *[1] * (num_layers - len(pooling))]
        for name, module in self.layers.named_modules():
            if isinstance(module, torch.nn.Dropout) and not name.startswith("0."):
                module.p = dropout_rate

    def forward(
        self,
        xs_pad: torch.Tensor,
        ilens: torch.Tensor,
        prev_states: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, None]:
        """Encode features, (B, T, input_size).

        ``ilens``: (B,), at least 1, in any order. Returns encodings, (B, ceil(T /
        reduction), 2 * hidden_size), zero on padded frames; their lengths, (B,); None.
        """
        x, lengths = xs_pad[:, : int(ilens.max())], ilens
        for number, factor in zip(self.used, self.pooling, strict=True):
            x, lengths = max_pool(self.layers[number](x, lengths), lengths, factor)
        return (
            x.masked_fill(~mark_valid_frames(lengths, x.size(1)).unsqueeze(-1), 0.0),
            lengths,
            None,
        )


def max_pool(
    x: torch.Tensor,
    lengths: torch.Tensor,
    factor: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maximum over each ``factor`` valid frames, and the new lengths.

    ``x``: (B, T, D) to (B, ceil(T / factor), D), 0 where no frame is valid.
    """
    if factor == 1:
        return x, lengths
    # Padding in an incomplete window must not be its maximum, as zeros would be of
    # negative values.
    x = x.masked_fill(~mark_valid_frames(lengths, x.size(1)).unsqueeze(-1), -torch.inf)
    pooled = torch.nn.functional.max_pool1d(
        x.transpose(1, 2), factor, ceil_mode=True
    ).transpose(1, 2)
    lengths = torch.div(lengths + factor - 1, factor, rounding_mode="floor")
    return pooled.masked_fill(
        ~mark_valid_frames(lengths, pooled.size(1)).unsqueeze(-1), 0.0
    ), lengths
