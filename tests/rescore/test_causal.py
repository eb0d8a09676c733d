import math

import pytest
import torch

from espnet_ext.rescore.causal import CausalScorer
from espnet_ext.rescore.scorers import score_lists

LISTS = [
    ["the cat sat on the mat", "the cat sat on a mat", "the cat sat", "", "dad bad cab", "the cat sat"],
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
def test_a_score_is_the_sum_over_tokens_and_the_end(causal_model):
    _, model, tokenizer = causal_model
    scorer = CausalScorer(model, tokenizer)
    for texts, scores in zip(LISTS, score_lists(scorer, LISTS), strict=True):
        assert scores == pytest.approx([by_hand(model, tokenizer, text) for text in texts], abs=1e-4)
