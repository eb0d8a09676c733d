"""Make small GPT-2 and BERT models with tokenizers of their own and random weights.

They are for text that needs no large model.
"""

import string
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import torch
from pydantic import model_validator
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Tokenizer,
    PreTrainedTokenizerBase,
)

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.causal import CausalScorer
from espnet_ext.rescore.models.language_model import CASINGS, LmScorer
from espnet_ext.rescore.models.pll import PllScorer
from espnet_ext.text.lm_text import read_sentences
from espnet_ext.work.settings import (
    Count,
    StrictMapping,
    check_settings,
    require_one_of,
)

LETTERS = string.ascii_letters + string.digits + string.punctuation


def train_byte_pairs(texts: Sequence[str], vocabulary: int) -> PreTrainedTokenizerBase:
    """Train GPT-2's byte-level BPE with this many tokens."""
    return GPT2Tokenizer().train_new_from_iterator(
        [texts], vocabulary, show_progress=False
    )


def train_word_pieces(texts: Sequence[str], vocabulary: int) -> PreTrainedTokenizerBase:
    """Train BERT's WordPiece, cased.

    The vocabulary has all letters of the text and of ASCII, at the start and inside of
    a word.
    """
    letters = sorted(set(LETTERS).union(*texts) - set(" "))
    # The trainer numbers letters inside of words in the order of a hash table, so ids
    # and even pieces would change from run to run. Special tokens are numbered first,
    # so the letters are given as such.
    inside = [f"##{letter}" for letter in letters]
    trained = BertTokenizer(do_lower_case=False).train_new_from_iterator(
        [texts, letters], vocabulary, new_special_tokens=inside, show_progress=False
    )
    return BertTokenizer(vocab=trained.get_vocab(), do_lower_case=False)


# Of each kind: how its tokenizer is trained, classes of ``transformers``, and its
# scorer.
KINDS: dict[str, tuple[Callable[..., PreTrainedTokenizerBase], Any, Any, Any]] = {
    "gpt2": (train_byte_pairs, GPT2Config, GPT2LMHeadModel, CausalScorer),
    "bert": (train_word_pieces, BertConfig, BertForMaskedLM, PllScorer),
}


class SmallModel(StrictMapping):
    """Describe a small model."""

    kind: Annotated[str, require_one_of(KINDS)]
    # tokens, special ones included; fewer if the text does not give as many
    vocabulary: Count
    config: dict[str, Any]  # sizes and other options of its config in transformers
    casing: Annotated[str, require_one_of(CASINGS)] = "as-is"

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        defaults = KINDS[self.kind][1]()
        for name in self.config:
            if not hasattr(defaults, name):
                raise ValueError(
                    f"{type(defaults).__name__} has no {name}: its documentation "
                    "says what there is"
                )
        return self


def make_small_model(
    wanted: SmallModel, texts: Sequence[str], seed: int = 0
) -> LmScorer:
    """Make a scorer with random weights, whose tokenizer is trained on ``texts``."""
    if not texts:
        raise InputError(
            "there is no text to train a tokenizer on: give more sentences"
        )
    train, config, network, scorer = KINDS[wanted.kind]
    written = list(map(CASINGS[wanted.casing], texts))
    tokenizer = train(written, wanted.vocabulary)
    # The config's defaults are ids of the large vocabulary, which this one lacks.
    special = {
        name: getattr(tokenizer, name)
        for name in ("bos_token_id", "eos_token_id", "pad_token_id")
    }
    torch.manual_seed(seed)
    try:
        sizes = config(vocab_size=len(tokenizer), **special, **wanted.config)
        model = network(sizes)
    except Exception as error:
        # Of several libraries: a value of another type, or sizes that do not fit each
        # other.
        raise InputError(f"{wanted.kind}: {' '.join(str(error).split())}") from None
    tokenizer.model_max_length = model.config.max_position_embeddings
    return scorer(model, tokenizer, wanted.casing)


def make_language_model(
    values: Mapping[str, Any],
    text: Sequence[Path],
    output: Path,
    seed: int = 0,
    log: Callable[[str], None] = print,
) -> LmScorer:
    """Make a small model as the values say, and save it for ``transformers``.

    ``values`` are those of :class:`SmallModel`. Its tokenizer is trained on text files
    with a sentence per line, plain or ``.gz``; its weights are random by ``seed``.
    """
    wanted = check_settings(SmallModel, values, "small model")
    scorer = make_small_model(wanted, list(read_sentences(text)), seed)
    scorer.save(output)
    parameters = sum(parameter.numel() for parameter in scorer.parameters())
    log(
        f"{output}: {values['kind']} with {parameters:,} parameters and "
        f"{len(scorer.tokenizer)} tokens"
    )
    return scorer
