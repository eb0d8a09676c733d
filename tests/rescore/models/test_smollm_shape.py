"""A real model's shape: SmolLM2-135M (its published config), with random weights, from a local folder."""

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from espnet_ext.rescore.models.lora import Lora, prepare
from espnet_ext.rescore.models.scorers import load_lm, score_lists
from espnet_ext.rescore.training.mwer import Example, MwerLoss, backward

TEXTS = [["the cat sat on the mat", "the cat sat on mat", "a cat on the mat"], ["sat the cat", "cat"]]


@pytest.fixture
def smollm(make_causal, tmp_path) -> Path:
    _, tokenizer = make_causal("llama")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
        tie_word_embeddings=True,
        initializer_range=0.041666666666666664,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = LlamaForCausalLM(config)
    assert 134e6 < model.num_parameters() < 135e6
    folder = tmp_path / "SmolLM2-135M"
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_scores_by_trees_are_those_of_transformers(smollm):
    scorer = load_lm(smollm)
    assert scorer.tree_limit > 0 and scorer.longest == 8192
    found = score_lists(scorer, TEXTS)
    for own, scores in zip(TEXTS, found, strict=True):
        for text, score in zip(own, scores, strict=True):
            ids = torch.tensor([[*scorer.before, *scorer.tokenizer(text)["input_ids"], scorer.tokenizer.eos_token_id]])
            with torch.no_grad():
                mean = scorer.model(input_ids=ids, labels=ids).loss.item()
            assert score == pytest.approx(-mean * (ids.size(1) - 1), rel=1e-4)
    half = score_lists(load_lm(smollm, dtype="bfloat16"), TEXTS)
    assert half[0] == pytest.approx(found[0], rel=0.02)


def test_one_update_of_mwer_with_lora(smollm):
    """Frozen weights in bfloat16, activations computed again: gradients of the matrices alone."""
    scorer = load_lm(smollm, dtype="bfloat16")
    prepare(scorer, Lora(), gradient_checkpointing=True)
    learn = {name for name, parameter in scorer.named_parameters() if parameter.requires_grad}
    assert learn and all("lora_" in name for name in learn)
    report = backward(scorer.train(), [Example("u", tuple(TEXTS[0]), (-1.0, -1.5, -2.0), (1, 0, 2), "-")], MwerLoss())
    assert report["loss"] > 0
    for name, parameter in scorer.named_parameters():
        assert (parameter.grad is not None) == (name in learn)
    assert sum(parameter.grad.abs().sum().item() for parameter in scorer.parameters() if parameter.requires_grad) > 0
