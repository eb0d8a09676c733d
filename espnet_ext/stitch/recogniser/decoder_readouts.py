"""Read hidden states and attention weights out of ESPnet's decoders.

A readout is such a decoder without its output layer.
"""

from collections.abc import Sequence
from typing import Any

import torch
from espnet2.asr.decoder.abs_decoder import AbsDecoder
from espnet2.asr.decoder.rnn_decoder import RNNDecoder
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder

from espnet_ext.errors import InputError
from espnet_ext.fast_search.batch_rnn import make_batched
from espnet_ext.fast_search.cached_transformer import CachedTransformerDecoder


class RNNReadout(torch.nn.Module):
    """Read out ESPnet's LSTM or GRU decoder.

    With ``context_residual`` its hidden states end with the context vector.
    """

    def __init__(self, decoder: RNNDecoder):
        super().__init__()
        self.decoder = make_batched(decoder)
        self.hidden_size = self.decoder.output.in_features

    def take_output(self) -> torch.nn.Linear:
        """Remove and return the output layer.

        Without it the decoder gives its hidden states.
        """
        output = self.decoder.output
        self.decoder.output = torch.nn.Identity()
        return output

    def forward(
        self,
        hs_pad: torch.Tensor,
        hlens: torch.Tensor,
        ys_in_pad: torch.Tensor,
        ys_in_lens: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return hidden states and attention weights of a padded batch.

        They are (B, L, hidden_size) and (B, L, T).
        """
        # The decoder gives no weights; its attention returns (context, weights) for
        # each token in turn.
        weights: list[torch.Tensor] = []
        hook = self.decoder.att_list[0].register_forward_hook(
            lambda _, __, output: weights.append(output[1])
        )
        try:
            hidden, _ = self.decoder(hs_pad, hlens, ys_in_pad, ys_in_lens)
        finally:
            hook.remove()
        return hidden, torch.stack(weights, dim=1)

    def init_state(self, x: torch.Tensor) -> Any:
        """Return the state before the first token.

        ``x``: encodings, (T, D) or (B, T, D).
        """
        return self.decoder.batch_init_state(x)

    def step(
        self, ys: torch.Tensor, states: Sequence[Any], xs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, list[Any]]:
        """Return hidden states, attention weights and states after each of n prefixes.

        They are (n, hidden_size), (n, T) and a list of n.
        """
        own = self.decoder.list_states(states, xs)
        hidden, after = self.decoder.batch_hidden(ys, own)
        # Location attention needs the weights of the token before: they are in a state.
        weights = torch.stack([state["a_prev"] for state in after])
        return hidden, weights, after


class TransformerReadout(torch.nn.Module):
    """Read out ESPnet's transformer decoder, whose attention is that of one block.

    Weights are the mean over its heads. Blocks count from 1, or from the last one, -1.
    """

    def __init__(self, decoder: TransformerDecoder, block: int = -1):
        super().__init__()
        if not isinstance(decoder, CachedTransformerDecoder):
            decoder = CachedTransformerDecoder.from_transformer(decoder)
        count = len(decoder.decoders)
        if not (1 <= block <= count or -count <= block <= -1):
            raise InputError(
                f"sa_asr: attention_block is {block}, but the decoder has {count} "
                "blocks"
            )
        self.block = block - 1 if block > 0 else block
        self.decoder = decoder
        attention = self._get_attention()
        if attention.use_flash_attn or attention.use_sdpa:
            # fused kernels compute the same, but keep no weights; ESPnet gives one of
            # them no dropout module
            attention.use_flash_attn = attention.use_sdpa = False
            attention.dropout = torch.nn.Dropout(attention.dropout_rate)
        if decoder.output_layer is None:
            raise InputError(
                "sa_asr: the decoder has no output layer: set use_output_layer to "
                "true in decoder_conf"
            )
        self.hidden_size = decoder.output_layer.in_features

    def _get_attention(self) -> Any:
        return self.decoder.decoders[self.block].src_attn

    def take_output(self) -> torch.nn.Linear:
        """Remove and return the output layer.

        Without it the decoder gives its hidden states.
        """
        output = self.decoder.output_layer
        self.decoder.output_layer = None
        return output

    def forward(
        self,
        hs_pad: torch.Tensor,
        hlens: torch.Tensor,
        ys_in_pad: torch.Tensor,
        ys_in_lens: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return hidden states and attention weights of a padded batch.

        They are (B, L, hidden_size) and (B, L, T).
        """
        hidden, _ = self.decoder(hs_pad, hlens, ys_in_pad, ys_in_lens)
        # ESPnet's attention keeps the weights of its last call, (B, heads, L, T).
        return hidden, self._get_attention().attn.mean(dim=1)

    def init_state(self, x: torch.Tensor) -> None:
        """Return the state before the first token."""
        return None

    def step(
        self, ys: torch.Tensor, states: Sequence[Any], xs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, list[Any]]:
        """Return hidden states, attention weights and states after each of n prefixes.

        They are (n, hidden_size), (n, T) and a list of n.
        """
        hidden, after = self.decoder.batch_score(ys, list(states), xs)
        return hidden, self._get_attention().attn[:, :, -1].mean(dim=1), after


def make_readout(
    decoder: AbsDecoder, block: int = -1
) -> RNNReadout | TransformerReadout:
    """Return the readout of a decoder that ESPnet has built.

    ``block``: see :class:`TransformerReadout`.
    """
    if isinstance(decoder, RNNDecoder):
        return RNNReadout(decoder)
    if type(decoder) is TransformerDecoder or isinstance(
        decoder, CachedTransformerDecoder
    ):
        return TransformerReadout(decoder, block)
    raise InputError(
        f"sa_asr: decoder {type(decoder).__name__} is not supported: take "
        "transformer, language_transformer, "
        "rnn or batch_rnn"
    )
