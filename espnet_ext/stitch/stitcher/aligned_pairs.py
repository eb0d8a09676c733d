"""``encoder: aligned_pairs``: encode aligned words for the stitcher of P4, 3.2."""

from typing import Any

import torch
from espnet2.asr.encoder.transformer_encoder import TransformerEncoder

from espnet_ext.errors import InputError


class AlignedPairsEncoder(TransformerEncoder):
    """Run ESPnet's transformer on concatenated embeddings of aligned tokens (P4, 3.2).

    ESPnet's MT task has one source text, which holds the pairs' tokens in turn: the
    first pair's odd and even token, the second pair's, and so on
    (:func:`espnet_ext.stitch.stitcher.pairs.interleave`). ``frontend: embed`` gives
    each token its embedding and position, and ``patch_size: 2`` in ``model_conf`` makes
    the start a pair as well. If ``output_size`` is twice the size of an embedding,
    pairs go into the first block as they are, otherwise through a linear layer.
    """

    def __init__(self, input_size: int, **transformer: Any):
        super().__init__(2 * input_size, input_layer=None, **transformer)

    def forward(
        self, xs_pad: torch.Tensor, ilens: torch.Tensor, *args: Any, **options: Any
    ) -> tuple[Any, torch.Tensor, torch.Tensor | None]:
        """Encode tokens in turn, (B, 2 L, input_size).

        Returns encodings, (B, L, output_size), numbers of pairs, (B,), and None.
        """
        if xs_pad.size(1) % 2 or (ilens % 2).any():
            raise InputError(
                "aligned_pairs: the source is not a sequence of pairs: set "
                "patch_size: 2 in model_conf, and write the "
                "source text in the style alignment"
            )
        # (B, L, 2 input_size): the two embeddings of a pair side by side.
        pairs = xs_pad.unflatten(1, (-1, 2)).flatten(2)
        return super().forward(pairs, ilens // 2, *args, **options)
