"""Small GPT-2 and BERT models with tokenizers of their own, for text whose language a large model need not know.

They are ``transformers``' own classes, at random: :mod:`espnet_ext.rescore.lm_training` trains them.
"""

import string
from collections.abc import Callable, Mapping, Sequence
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

LETTERS = string.ascii_letters + string.digits + string.punctuation


@dataclass(frozen=True)
class Kind:
    """A family of models.

    Attributes:
        tokenizer: trains its kind of tokenizer on sentences, with this many tokens.
        config, model: classes of ``transformers``.
        scorer: what scores by it.
    """

    tokenizer: Callable[[Sequence[str], int], PreTrainedTokenizerBase]
    config: type[PreTrainedConfig]
    model: type[PreTrainedModel]
    scorer: type[LmScorer]


def byte_pairs(sentences: Sequence[str], vocabulary: int) -> PreTrainedTokenizerBase:
    """GPT-2's byte-level BPE."""
    return GPT2Tokenizer().train_new_from_iterator([sentences], vocabulary, show_progress=False)


def word_pieces(sentences: Sequence[str], vocabulary: int) -> PreTrainedTokenizerBase:
    """BERT's WordPiece, cased. It knows each letter at the start and inside of a word, and all of ASCII's."""
    letters = sorted(set(LETTERS).union(*sentences) - set(" "))
    # Trained as it is, ids and even pieces change from run to run, since the trainer numbers the letters inside of
    # words as it comes across them in a hash table. Special tokens are numbered first.
    inside = [f"##{letter}" for letter in letters]
    trained = BertTokenizer(do_lower_case=False).train_new_from_iterator(
        [sentences, letters], vocabulary, new_special_tokens=inside, show_progress=False
    )
    return BertTokenizer(vocab=trained.get_vocab(), do_lower_case=False)


KINDS = {
    "gpt2": Kind(byte_pairs, GPT2Config, GPT2LMHeadModel, CausalScorer),
    "bert": Kind(word_pieces, BertConfig, BertForMaskedLM, PllScorer),
}


@dataclass(frozen=True)
class Recipe:
    """What a small model is made of.

    Attributes:
        kind: ``gpt2`` or ``bert``.
        vocabulary: tokens, special ones included; fewer if the text has not as many.
        config: sizes and other options of ``GPT2Config`` or ``BertConfig``.
        casing: how sentences are written for it, a key of ``CASINGS``.

    Raises:
        InputError: another kind or casing, a vocabulary that is no number, or an option that the kind does not have.
    """

    kind: str
    vocabulary: int
    config: Mapping[str, Any]
    casing: str = "as-is"

    def __post_init__(self) -> None:
        for what, value, known in (("kind", self.kind, KINDS), ("casing", self.casing, CASINGS)):
            if value not in known:
                raise InputError(f"no {what} {value}: choose one of {', '.join(known)}")
        if not isinstance(self.vocabulary, int) or self.vocabulary < 1:
            raise InputError(f"vocabulary must be a whole number above 0, not {self.vocabulary!r}")
        known = KINDS[self.kind].config
        for name in self.config:
            if not hasattr(known(), name):
                raise InputError(f"{known.__name__} has no {name}: its documentation says what there is")


def parse_recipe(values: Mapping[str, Any]) -> Recipe:
    """A recipe from YAML.

    Raises:
        InputError: a name is unknown or missing, or as :class:`Recipe`.
    """
    known = Recipe.__dataclass_fields__
    for name in {**dict.fromkeys(("kind", "vocabulary", "config")), **values}:
        if name not in known or name not in values:
            what = "unknown" if name in values else "missing"
            raise InputError(f"small model: {name} is {what}: give {', '.join(known)}")
    return Recipe(**values)


def make_small_model(recipe: Recipe, texts: Sequence[str], seed: int = 0) -> LmScorer:
    """A scorer with a model at random, and a tokenizer trained on ``texts``.

    Raises:
        InputError: there is no text, or its sizes do not fit each other.
    """
    if not texts:
        raise InputError("there is no text to train a tokenizer on: give more sentences")
    family, write = KINDS[recipe.kind], CASINGS[recipe.casing]
    tokenizer = family.tokenizer(list(map(write, texts)), recipe.vocabulary)
    special = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    torch.manual_seed(seed)
    try:
        model = family.model(family.config(vocab_size=len(tokenizer), **special, **recipe.config))
    except ValueError as error:
        raise InputError(f"{recipe.kind}: {error}") from None
    tokenizer.model_max_length = model.config.max_position_embeddings
    return family.scorer(model, tokenizer, recipe.casing)
