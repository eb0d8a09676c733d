"""Small GPT-2 and BERT models with tokenizers of their own, for text whose language a large model need not know.

They are ``transformers``' own classes, at random: :mod:`espnet_ext.rescore.lm_training` trains them.
"""

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Tokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from espnet_ext.errors import InputError
from espnet_ext.rescore.causal import CausalScorer
from espnet_ext.rescore.language_model import CASINGS
from espnet_ext.rescore.lm_scorer import LmScorer
from espnet_ext.rescore.pll import PllScorer

# Each letter at the start and inside of a word, so that WordPiece knows what the text does not have in both places.
LETTERS = [char * 2 for char in string.ascii_letters + string.digits + string.punctuation]


@dataclass(frozen=True)
class Kind:
    """A family of models.

    Attributes:
        tokenizer: untrained; its own kind of pieces is learnt from text.
        config, model: classes of ``transformers``.
        scorer: what scores by it.
    """

    tokenizer: PreTrainedTokenizerBase
    config: type[PreTrainedConfig]
    model: type[PreTrainedModel]
    scorer: type[LmScorer]


def kinds() -> dict[str, Kind]:
    """What can be made: byte-level BPE for GPT-2, cased WordPiece for BERT."""
    return {
        "gpt2": Kind(GPT2Tokenizer(), GPT2Config, GPT2LMHeadModel, CausalScorer),
        "bert": Kind(BertTokenizer(do_lower_case=False), BertConfig, BertForMaskedLM, PllScorer),
    }


def make_small_model(
    kind: str, texts: Sequence[str], vocabulary: int, config: Mapping[str, Any], casing: str = "as-is", seed: int = 0
) -> LmScorer:
    """A scorer with a model at random, and a tokenizer trained on ``texts``.

    Args:
        kind: ``gpt2`` or ``bert``.
        texts: sentences.
        vocabulary: tokens, special ones included; fewer if the text has not as many.
        config: sizes by their names in ``GPT2Config`` or ``BertConfig``.
        casing: how the sentences are written, a key of ``CASINGS``.
        seed: of the parameters.

    Raises:
        InputError: another kind or casing, no text, a size that the kind does not have, or sizes that do not fit.
    """
    known = kinds()
    if kind not in known or casing not in CASINGS:
        what, names = ("kind", known) if kind not in known else ("casing", CASINGS)
        raise InputError(f"no {what} {kind if what == 'kind' else casing}: choose one of {', '.join(names)}")
    if not texts:
        raise InputError("there is no text to train a tokenizer on: give more sentences")
    family = known[kind]
    for name in config:
        if not hasattr(family.config(), name):
            raise InputError(f"{family.config.__name__} has no {name}: see its documentation for the names of sizes")
    sentences = [CASINGS[casing](text) for text in texts]
    tokenizer = family.tokenizer.train_new_from_iterator([sentences, LETTERS], vocabulary, show_progress=False)
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    torch.manual_seed(seed)
    try:
        model = family.model(family.config(vocab_size=len(tokenizer), **special, **config))
    except ValueError as error:
        raise InputError(f"{kind}: {error}") from None
    tokenizer.model_max_length = model.config.max_position_embeddings
    return family.scorer(model, tokenizer, casing)
