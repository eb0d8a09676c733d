"""Small language models with random weights and tokenizers of a few words."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PreTrainedTokenizerFast,
)

PIECES = [
    "a",
    "b",
    "c",
    "d",
    "##a",
    "##b",
    "##c",
    "##d",
    "mat",
    "##mat",
    "the",
    "cat",
    "on",
    "sat",
]
SPECIAL = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "<end>"]
# the padding token comes last, so that no model works by its being number 0
VOCABULARY = [*SPECIAL, *PIECES, "[PAD]"]
SIZE = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "pad_token_id": len(VOCABULARY) - 1,
}
HEADS = {"num_attention_heads": 2, "max_position_embeddings": 64}
UNITS = {"intermediate_size": 32}
ENDS = {"bos_token_id": 4, "eos_token_id": 4}
CAUSAL = {
    "gpt2": SIZE | HEADS | ENDS,
    "llama": SIZE | HEADS | UNITS | ENDS,
    "gemma2": SIZE | HEADS | UNITS | ENDS
    | {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 64,
       "final_logit_softcapping": 3.0},
    "mamba": SIZE | ENDS | {"state_size": 4},
}  # fmt: skip
MASKED = {
    "bert": SIZE | HEADS | UNITS | {"max_position_embeddings": 32},
    "roberta": SIZE | HEADS | UNITS | {"max_position_embeddings": 32 + len(VOCABULARY)},
}


def spread(model: torch.nn.Module) -> torch.nn.Module:
    """The model with larger weights, so that what a token attends to shows in its
    score.
    """
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def make_tokenizer(ends: bool) -> PreTrainedTokenizerFast:
    """Words in pieces; ``ends``: with a begin and end token, as GPT-2's, else with
    those of BERT.
    """
    tokenizer = Tokenizer(
        models.WordPiece(
            {piece: n for n, piece in enumerate(VOCABULARY)}, unk_token="[UNK]"
        )
    )
    tokenizer.normalizer = normalizers.Lowercase() if not ends else None
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if ends:
        return PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            unk_token="[UNK]",
            bos_token="<end>",
            eos_token="<end>",
        )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        pad_token="[PAD]",
    )


@pytest.fixture
def make_lm():
    """Return a function that makes a model of a family in ``CAUSAL`` or ``MASKED``, and
    its tokenizer.
    """

    def make(family: str):
        causal = family in CAUSAL
        torch.manual_seed(0)
        kind, sizes = (
            (AutoModelForCausalLM, CAUSAL) if causal else (AutoModelForMaskedLM, MASKED)
        )
        model = kind.from_config(AutoConfig.for_model(family, **sizes[family]))
        return spread(model), make_tokenizer(ends=causal)

    return make


@pytest.fixture
def saved(tmp_path, make_lm):
    """Return a function that writes a model of a family and its tokenizer, or others
    that are given, to a folder.
    """

    def save(name: str, *given) -> Path:
        for each in given or make_lm(name):
            each.save_pretrained(tmp_path / name)
        return tmp_path / name

    return save


@pytest.fixture(params=list(CAUSAL))
def causal_model(request, make_lm):
    return request.param, *make_lm(request.param)


@pytest.fixture(params=list(MASKED))
def masked_model(request, make_lm):
    return request.param, *make_lm(request.param)
