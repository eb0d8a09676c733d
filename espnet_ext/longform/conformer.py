"""A Conformer layer for very long inputs (P5, sections 2.1 and 3.2).

The layer is that of Gulati et al. (2020). As in P5's published models, only the
convolution module has biases, and feed-forward modules an approximate GELU.
"""

import torch
from torch.nn.functional import glu, scaled_dot_product_attention, silu

from espnet_ext.longform.batch_renorm import BatchRenorm, Ramp
from espnet_ext.longform.positions import rotate
from espnet_ext.upstream.padding import Padding

NORMS = ("batch_renorm", "batch", "layer")


class SelfAttention(torch.nn.Module):
    """Compute multi-head self-attention that never stores its scores.

    Its memory grows linearly with the length. It never has a mask, with which torch
    would leave the flash kernel: utterances of one length attend together.
    """

    def __init__(self, size: int, heads: int, dropout_rate: float = 0.0):
        super().__init__()
        self.heads = heads
        self.dropout_rate = dropout_rate
        self.queries_keys_values = torch.nn.Linear(size, 3 * size, bias=False)
        self.output = torch.nn.Linear(size, size, bias=False)

    def forward(
        self,
        x: torch.Tensor,
        padding: Padding | None = None,
        rotation: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """Return the context of each frame of x, (B, T, D), 0 on padded frames.

        Without ``padding`` no frame is padded. ``rotation`` of queries and keys: cosine
        and sine, (T, D / heads / 2) each, or None.
        """
        projected = self.queries_keys_values(x).unflatten(-1, (3, self.heads, -1))
        queries, keys, values = projected.permute(2, 0, 3, 1, 4)  # (B, heads, T, d)
        if rotation is not None:
            cosine, sine = rotation
            queries = rotate(queries, cosine, sine)
            keys = rotate(keys, cosine, sine)
        dropout = self.dropout_rate if self.training else 0.0
        if padding is None:
            context = scaled_dot_product_attention(
                queries, keys, values, dropout_p=dropout
            )
        else:
            # Utterances of one length at a time. Padded frames keep their zeros.
            context = torch.zeros_like(values)
            for rows, length in padding.groups:
                found = scaled_dot_product_attention(
                    queries[:, :, :length].index_select(0, rows),
                    keys[:, :, :length].index_select(0, rows),
                    values[:, :, :length].index_select(0, rows),
                    dropout_p=dropout,
                )
                # Under autocast the product may have another type than the zeros.
                own = context[:, :, :length]
                own.index_copy_(0, rows, found.to(context.dtype))
        joined = context.transpose(1, 2).flatten(2)
        return self.output(joined)


class ConvolutionModule(torch.nn.Module):
    """Apply the convolution module of a Conformer layer.

    It is a gated pointwise convolution, a depthwise one of an odd ``kernel``, a norm,
    SiLU, and a pointwise one.
    """

    def __init__(self, size: int, kernel: int, norm: str, ramp: Ramp):
        super().__init__()
        self.gated = torch.nn.Linear(size, 2 * size)
        self.depthwise = torch.nn.Conv1d(
            size, size, kernel, padding=kernel // 2, groups=size
        )
        self.norm: torch.nn.Module
        if norm == "layer":
            self.norm = torch.nn.LayerNorm(size)
        else:
            self.norm = BatchRenorm(size, ramp if norm == "batch_renorm" else None)
        self.output = torch.nn.Linear(size, size)

    def forward(self, x: torch.Tensor, padding: Padding | None = None) -> torch.Tensor:
        """Return (B, T, D); arguments as in :meth:`SelfAttention.forward`."""
        valid = None if padding is None else padding.valid
        x = glu(self.gated(x), dim=-1)
        if valid is not None:
            # The depthwise convolution reaches from padding into the last frames.
            x = x * valid.unsqueeze(-1)
        x = self.depthwise(x.transpose(1, 2)).transpose(1, 2)
        # Padding does not count in the statistics of a batch; a frame has its own.
        x = self.norm(x, valid) if isinstance(self.norm, BatchRenorm) else self.norm(x)
        return self.output(silu(x))


class ConformerLayer(torch.nn.Module):
    """Apply half a feed-forward step, self-attention, convolution and the other half.

    All have residual connections. ``dropout_rate`` is in and after the feed-forward
    modules, after attention and convolution; ``attention_dropout_rate`` on the
    attention weights.
    """

    def __init__(
        self,
        size: int,
        heads: int,
        units: int,
        kernel: int,
        norm: str,
        ramp: Ramp,
        dropout_rate: float = 0.0,
        attention_dropout_rate: float = 0.0,
    ):
        super().__init__()
        self.first_feed_forward = make_feed_forward(size, units, dropout_rate)
        self.attention_norm = torch.nn.LayerNorm(size)
        self.attention = SelfAttention(size, heads, attention_dropout_rate)
        self.convolution_norm = torch.nn.LayerNorm(size)
        self.convolution = ConvolutionModule(size, kernel, norm, ramp)
        self.second_feed_forward = make_feed_forward(size, units, dropout_rate)
        self.norm = torch.nn.LayerNorm(size)
        self.dropout = torch.nn.Dropout(dropout_rate)

    def forward(
        self,
        x: torch.Tensor,
        padding: Padding | None = None,
        rotation: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """Return (B, T, D); arguments as in :meth:`SelfAttention.forward`."""
        # Half steps, "Macaron" style (Gulati et al. 2020, section 2.4).
        x = x + 0.5 * self.first_feed_forward(x)
        attended = self.attention(self.attention_norm(x), padding, rotation)
        x = x + self.dropout(attended)
        convolved = self.convolution(self.convolution_norm(x), padding)
        x = x + self.dropout(convolved)
        x = x + 0.5 * self.second_feed_forward(x)
        return self.norm(x)


def make_feed_forward(
    size: int, units: int, dropout_rate: float
) -> torch.nn.Sequential:
    """Make a module: layer normalisation, a hidden layer of GELU, a projection back."""
    return torch.nn.Sequential(
        torch.nn.LayerNorm(size),
        torch.nn.Linear(size, units, bias=False),
        torch.nn.GELU(approximate="tanh"),
        torch.nn.Dropout(dropout_rate),
        torch.nn.Linear(units, size, bias=False),
        torch.nn.Dropout(dropout_rate),
    )
