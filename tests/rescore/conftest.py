"""Small language models with random weights and tokenizers of a few words."""

import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForMaskedLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
)

PIECES = ["a", "b", "c", "d", "##a", "##b", "##c", "##d", "mat", "##mat", "the", "cat", "on", "sat"]
SPECIAL = ["[UNK]", "[CLS]", "[SEP]", "[MASK]", "<end>"]
# the padding token comes last, so that no model works by its being number 0
VOCABULARY = [*SPECIAL, *PIECES, "[PAD]"]
SIZE = {"vocab_size": len(VOCABULARY), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
ENDS = {"pad_token_id": len(VOCABULARY) - 1, "bos_token_id": 4, "eos_token_id": 4}
CAUSAL = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(**SIZE, n_positions=64, **ENDS)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZE, intermediate_size=32, max_position_embeddings=64, **ENDS)),
    "gemma2": lambda: Gemma2ForCausalLM(
        Gemma2Config(
            **SIZE,
            intermediate_size=32,
            num_key_value_heads=2,
            head_dim=8,
            max_position_embeddings=64,
            sliding_window=64,
            final_logit_softcapping=3.0,
            **ENDS,
        )
    ),
    "mamba": lambda: MambaForCausalLM(
        MambaConfig(vocab_size=len(VOCABULARY), hidden_size=16, state_size=4, num_hidden_layers=2, **ENDS)
    ),
}
MASKED = {
    "bert": lambda: BertForMaskedLM(
        BertConfig(**SIZE, intermediate_size=32, max_position_embeddings=32, pad_token_id=len(VOCABULARY) - 1)
    ),
    "roberta": lambda: RobertaForMaskedLM(
        RobertaConfig(
            **SIZE, intermediate_size=32, max_position_embeddings=32 + len(VOCABULARY), pad_token_id=len(VOCABULARY) - 1
        )
    ),
}


def spread(model: torch.nn.Module) -> torch.nn.Module:
    """The model with larger weights, so that what a token attends to shows in its score."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def make_tokenizer(ends: bool) -> PreTrainedTokenizerFast:
    """Words in pieces; ``ends``: with a begin and end token, as GPT-2's, else with those of BERT."""
    tokenizer = Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase() if not ends else None
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if ends:
        return PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, unk_token="[UNK]", bos_token="<end>", eos_token="<end>"
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
def make_causal():
    """Return a function that makes a causal model of a family in ``CAUSAL`` and its tokenizer."""

    def make(family: str):
        torch.manual_seed(0)
        return spread(CAUSAL[family]()), make_tokenizer(ends=True)

    return make


@pytest.fixture
def make_masked():
    """Return a function that makes a masked model of a family in ``MASKED`` and its tokenizer."""

    def make(family: str):
        torch.manual_seed(0)
        return spread(MASKED[family]()), make_tokenizer(ends=False)

    return make


@pytest.fixture(params=list(CAUSAL))
def causal_model(request, make_causal):
    return request.param, *make_causal(request.param)


@pytest.fixture(params=list(MASKED))
def masked_model(request, make_masked):
    return request.param, *make_masked(request.param)
