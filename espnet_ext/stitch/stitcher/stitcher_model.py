"""``model: stitcher``: ESPnet's MT model with small embeddings at first (P4, 4.1.1)."""

from typing import Any

import torch
from espnet2.mt.espnet_model import ESPnetMTModel


class StitcherModel(ESPnetMTModel):
    """Begin ESPnet's ``ESPnetMTModel`` with small embeddings (Vaswani et al. 2017).

    Vaswani et al. are P4's reference [21].

    Embeddings are multiplied by the square root of their dimension before positions are
    added. With a standard deviation of one by that root tokens and positions are about
    equally large. ESPnet's begin with a deviation of 1: tokens drown the positions, and
    a stitcher, which copies its source and must know where it is, is slow to learn.
    """

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        # The frontend embeds the source, the decoder what has been written.
        for module in (self.frontend, self.decoder):
            for embedding in module.modules():
                if isinstance(embedding, torch.nn.Embedding):
                    torch.nn.init.normal_(
                        embedding.weight, std=embedding.embedding_dim**-0.5
                    )
