"""Small models of random parameters, with tokenizers of the few sentences that a test
has.
"""

import torch

from espnet_ext.rescore.models.pooled import PooledScorer
from espnet_ext.rescore.training.small_models import SmallModel, make_small_model

SIZES = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}
DROPOUT = {
    "gpt2": ("resid_pdrop", "embd_pdrop", "attn_pdrop"),
    "bert": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
}


def make_scorer(
    which: str,
    texts: list[str],
    dropout: float = 0.0,
    casing="as-is",
    vocabulary=330,
    units=64,
    **sizes,
):
    """A scorer by a model ("gpt2", "bert"), or by a layer upon it that pools
    ("gpt2-last", "bert-attention").
    """
    kind, _, pooling = which.partition("-")
    if kind == "bert":
        sizes["intermediate_size"] = units
    config = SIZES | sizes | dict.fromkeys(DROPOUT[kind], dropout)
    scorer = make_small_model(
        SmallModel(kind=kind, vocabulary=vocabulary, config=config, casing=casing),
        texts,
    )
    if pooling:
        torch.manual_seed(1)
        scorer = PooledScorer(
            scorer.model.base_model, scorer.tokenizer, pooling=pooling
        )
    return scorer
