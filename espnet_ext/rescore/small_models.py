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


@dataclass(frozen=True)
class Recipe:
    """What a small model is made of.

    Attributes:
        kind: ``gpt2`` or ``bert``.
        vocabulary: tokens, special ones included; fewer if the text has not as many.
        sizes: by their names in ``GPT2Config`` or ``BertConfig``.
        casing: how sentences are written for it, a key of ``CASINGS``.

    Raises:
        InputError: another kind or casing, or a size that the kind does not have.
    """

    kind: str
    vocabulary: int
    sizes: Mapping[str, Any]
    casing: str = "as-is"

    def __post_init__(self) -> None:
        for what, value, known in (("kind", self.kind, kinds()), ("casing", self.casing, CASINGS)):
            if value not in known:
                raise InputError(f"no {what} {value}: choose one of {', '.join(known)}")
        config = kinds()[self.kind].config
        for name in self.sizes:
            if not hasattr(config(), name):
                raise InputError(f"{config.__name__} has no {name}: its documentation names the sizes")


def parse_recipe(values: Mapping[str, Any]) -> Recipe:
    """A recipe from YAML.

    Raises:
        InputError: a name is unknown or missing, or as :class:`Recipe`.
    """
    known = Recipe.__dataclass_fields__
    for name in {**dict.fromkeys(("kind", "vocabulary", "sizes")), **values}:
        if name not in known or name not in values:
            what = "unknown" if name in values else "missing"
            raise InputError(f"small model: {name} is {what}: give {', '.join(known)}")
    return Recipe(**values)


def make_small_model(recipe: Recipe, texts: Sequence[str], seed: int = 0) -> LmScorer:
    """A scorer with a model at random, and a tokenizer trained on ``texts``.

    Raises:
        InputError: there is no text, or the sizes do not fit each other.
    """
    if not texts:
        raise InputError("there is no text to train a tokenizer on: give more sentences")
    family, write = kinds()[recipe.kind], CASINGS[recipe.casing]
    tokenizer = family.tokenizer.train_new_from_iterator(
        [list(map(write, texts)), LETTERS], recipe.vocabulary, show_progress=False
    )
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    torch.manual_seed(seed)
    try:
        model = family.model(family.config(vocab_size=len(tokenizer), **special, **recipe.sizes))
    except ValueError as error:
        raise InputError(f"{recipe.kind}: {error}") from None
    tokenizer.model_max_length = model.config.max_position_embeddings
    return family.scorer(model, tokenizer, recipe.casing)
