import numpy as np
import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.pooled import PooledScorer
from espnet_ext.rescore.models.scorers import score_lists

LISTS = [
    ["the cat sat on the mat", "the cat sat on a mat", "", "the cat"],
    [],
    ["the matmat sat", "the xyz sat"],
]
END = 4


def by_hand(scorer, ids):
    """Eq. 10 to 12 in numpy, on the hidden states of one hypothesis."""
    hidden = scorer.model(torch.tensor([ids])).last_hidden_state[0].double().numpy()
    weight = {
        name: value.double().numpy() for name, value in scorer.head.state_dict().items()
    }
    if scorer.pooling == "attention":
        query = weight["origin"] @ weight["query.weight"].T
        keys, values = (
            hidden @ weight["key.weight"].T,
            hidden @ weight["value.weight"].T,
        )
        attention = np.exp(keys @ query / np.sqrt(hidden.shape[1]))
        pooled = attention @ values / attention.sum()
    else:
        pooled = hidden[{"last": -1, "cls": 0}[scorer.pooling]]
    return (pooled @ weight["score.weight"].T + weight["score.bias"]).item()


@torch.no_grad()
@pytest.mark.parametrize("pooling", ["last", "attention"])
def test_rescore_gpt(causal_model, pooling):
    _, model, tokenizer = causal_model
    scorer = PooledScorer(model.base_model, tokenizer, pooling=pooling)
    for texts, scores in zip(LISTS, score_lists(scorer, LISTS), strict=True):
        ids = [
            [END, *tokenizer(text, add_special_tokens=False)["input_ids"]]
            for text in texts
        ]
        assert scores == pytest.approx([by_hand(scorer, row) for row in ids], abs=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("pooling", ["cls", "attention"])
def test_rescore_bert(masked_model, pooling):
    _, model, tokenizer = masked_model
    scorer = PooledScorer(model.base_model, tokenizer, pooling=pooling)
    for texts, scores in zip(LISTS, score_lists(scorer, LISTS), strict=True):
        assert scores == pytest.approx(
            [by_hand(scorer, tokenizer(text)["input_ids"]) for text in texts], abs=1e-4
        )


@torch.no_grad()
@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_a_model_in_bfloat16_has_scores_near_those_of_float32(make_lm, family):
    model, tokenizer = make_lm(family)
    scorer = PooledScorer(model.base_model, tokenizer)
    exact = score_lists(scorer, LISTS)
    scorer.model.to(torch.bfloat16)
    half = score_lists(scorer, LISTS)
    assert half != exact
    for one, other in zip(exact, half, strict=True):
        assert other == pytest.approx(one, abs=0.05)


@pytest.mark.parametrize(
    ("family", "own", "other"), [("gpt2", "last", "cls"), ("bert", "cls", "last")]
)
def test_each_kind_of_model_has_its_token(make_lm, family, own, other):
    model, tokenizer = make_lm(family)
    assert PooledScorer(model.base_model, tokenizer).pooling == own
    with pytest.raises(
        InputError, match=f"pooling {other}: for {family} choose {own} or attention"
    ):
        PooledScorer(model.base_model, tokenizer, pooling=other)
