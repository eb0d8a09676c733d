import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.rescore.models import vocabulary
from espnet_ext.rescore.models.pll import PllScorer
from espnet_ext.rescore.models.scorers import score_lists

LISTS = [
    ["the cat sat on the mat", "the cat sat on a mat", "", "the cat sat on"],
    [],
    ["the matmat sat", "the xyz sat"],
]
MASK = 3


def by_hand(model, tokenizer, text):
    """Eq. 3, less its minus, with one forward pass a token."""
    ids = tokenizer(text)["input_ids"]
    total = 0.0
    for place in range(1, len(ids) - 1):
        masked = torch.tensor([ids[:place] + [MASK] + ids[place + 1 :]])
        total += (
            model(masked).logits[0, place].double().log_softmax(0)[ids[place]].item()
        )
    return total


@torch.no_grad()
@pytest.mark.parametrize("budget", [1, 1000])
def test_a_score_is_the_sum_over_masked_tokens(monkeypatch, masked_model, budget):
    monkeypatch.setattr(vocabulary, "BLOCK", 7)
    _, model, tokenizer = masked_model
    scorer = PllScorer(model, tokenizer)
    scorer.budget = budget
    for texts, scores in zip(LISTS, score_lists(scorer, LISTS), strict=True):
        assert scores == pytest.approx(
            [by_hand(model, tokenizer, text) for text in texts], abs=1e-4
        )


def test_special_tokens_are_never_masked_and_all_sub_tokens_are(masked_model):
    _, model, tokenizer = masked_model
    (chunk,) = PllScorer(model, tokenizer).chunks([["the matmat xyz"]])
    pieces = tokenizer.convert_ids_to_tokens(chunk.targets.tolist())
    assert sorted(pieces) == sorted(["the", "mat", "##mat", "[UNK]"])
    for row, place in zip(chunk.ids.tolist(), chunk.masked.tolist(), strict=True):
        assert [index for index, token in enumerate(row) if token == MASK] == [place]
        assert row[0] == 1 and row[-1] == 2


def test_copies_that_differ_under_the_mask_alone_are_computed_once(masked_model):
    _, model, tokenizer = masked_model
    scorer = PllScorer(model, tokenizer)
    # 6 tokens each, all of the first two alike but the fifth; the third is the first
    # again
    texts = ["the cat sat on the mat", "the cat sat on a mat", "the cat sat on the mat"]
    (chunk,) = scorer.chunks([texts[:2], texts[2:]])
    assert len(chunk.ids) == 6 + 5
    assert len(chunk.hyps) == 18


def test_a_hypothesis_without_words_scores_nothing(masked_model):
    _, model, tokenizer = masked_model
    assert score_lists(PllScorer(model, tokenizer), [["", "  "]]) == [[0.0, 0.0]]


def test_a_hypothesis_may_be_as_long_as_the_model_takes(masked_model):
    _, model, tokenizer = masked_model
    scorer = PllScorer(model, tokenizer)
    assert scorer.longest == 32
    assert score_lists(scorer, [["cat " * 30]])[0][0] < 0
    with pytest.raises(
        InputError,
        match='utt7: hypothesis "cat cat .*": 33 tokens, but the model takes 32',
    ):
        score_lists(scorer, [["cat"], ["cat", "cat " * 31]], ["utt6", "utt7"])


def test_a_tokenizer_without_mask_is_refused(masked_model):
    _, model, tokenizer = masked_model
    tokenizer.mask_token = None
    with pytest.raises(InputError, match="no mask token"):
        PllScorer(model, tokenizer)
