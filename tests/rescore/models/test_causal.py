import math

import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.rescore.models import vocabulary
from espnet_ext.rescore.models.causal import CausalScorer
from espnet_ext.rescore.models.scorers import score_lists

LISTS = [
    [
        "the cat sat on the mat",
        "the cat sat on a mat",
        "the cat sat",
        "",
        "dad bad cab",
        "the cat sat",
    ],
    [],
    ["the matmat sat on", "the xyz sat on"],
    ["the cat sat on the mat"],
]
END = 4


def by_hand(model, tokenizer, text):
    """Eq. 2 with one forward pass a token."""
    ids = [END, *tokenizer(text, add_special_tokens=False)["input_ids"], END]
    total = 0.0
    for place in range(1, len(ids)):
        logits = model(torch.tensor([ids[:place]])).logits[0, -1].double()
        total += math.log(logits.softmax(0)[ids[place]])
    return total


@torch.no_grad()
def test_a_score_is_the_sum_over_tokens_and_the_end(causal_model, monkeypatch):
    monkeypatch.setattr(vocabulary, "BLOCK", 7)
    _, model, tokenizer = causal_model
    scorer = CausalScorer(model, tokenizer)
    for texts, scores in zip(LISTS, score_lists(scorer, LISTS), strict=True):
        assert scores == pytest.approx(
            [by_hand(model, tokenizer, text) for text in texts], abs=1e-4
        )


def count_uses(result: torch.Tensor, parameter: torch.Tensor) -> int:
    """Count the steps of the backward pass that give a gradient of the parameter."""
    uses = 0
    waiting = [result.grad_fn]
    seen = set(waiting)
    while waiting:
        for step, _ in waiting.pop().next_functions:
            uses += getattr(step, "variable", None) is parameter
            if step and step not in seen:
                seen.add(step)
                waiting.append(step)
    return uses


def test_blocks_of_the_layer_share_one_gradient(causal_model, monkeypatch):
    """Each gradient is as large as the layer: at most one of the input embeddings, one
    of the targets' rows, and one of all blocks.
    """
    monkeypatch.setattr(vocabulary, "BLOCK", 3)
    _, model, tokenizer = causal_model
    scorer = CausalScorer(model, tokenizer)
    [chunk] = scorer.chunks([["the cat sat"]])
    terms, _ = scorer(chunk)
    weight = model.get_output_embeddings().weight
    assert count_uses(terms, weight) <= 3 < len(weight) / vocabulary.BLOCK


@torch.no_grad()
def test_no_log_probability_is_above_0_in_bfloat16(causal_model, monkeypatch):
    """With logits as large as a confident model's, whose rounding is larger than what
    is left to 1.
    """
    monkeypatch.setattr(vocabulary, "BLOCK", 7)
    _, model, tokenizer = causal_model
    model.get_output_embeddings().weight.mul_(100)
    scorer = CausalScorer(model, tokenizer)
    scorer.amp = True
    assert (
        max(terms.max().item() for terms, _ in map(scorer, scorer.chunks(LISTS))) <= 0
    )


def test_trees_are_taken_by_models_that_take_their_mask(causal_model):
    family, model, tokenizer = causal_model
    scorer = CausalScorer(model, tokenizer)
    assert scorer.as_trees == (family in ("gpt2", "llama"))
    assert (
        any(chunk.rows.sees is not None for chunk in scorer.chunks(LISTS))
        == scorer.as_trees
    )
    nodes = sum(int(chunk.rows.real.sum()) for chunk in scorer.chunks(LISTS[:1]))
    assert nodes == (18 if scorer.as_trees else 33)
    padded = CausalScorer(model, tokenizer)
    padded.as_trees = False
    for found, wanted in zip(
        score_lists(scorer, LISTS), score_lists(padded, LISTS), strict=True
    ):
        assert found == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("budget", [1, 40])
def test_scores_do_not_depend_on_how_much_is_computed_at_a_time(causal_model, budget):
    _, model, tokenizer = causal_model
    scorer = CausalScorer(model, tokenizer)
    wanted = score_lists(scorer, LISTS)
    scorer.budget = budget
    for found, expected in zip(score_lists(scorer, LISTS), wanted, strict=True):
        assert found == pytest.approx(expected, abs=1e-4)
    for chunk in scorer.chunks(LISTS):
        assert chunk.rows.ids.numel() <= budget or len(chunk.rows.ids) == 1


def test_a_tokenizer_without_ends_is_refused(causal_model):
    _, model, tokenizer = causal_model
    tokenizer.bos_token = tokenizer.eos_token = None
    with pytest.raises(InputError, match="no begin or end token"):
        CausalScorer(model, tokenizer)
