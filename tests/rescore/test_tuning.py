"""Which weights are tuned: parts of the first pass, and scores with and without the end token."""

from dataclasses import replace

import pytest

from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import Hypothesis, NBest
from espnet_ext.rescore.interpolation import FIRST_PASS, LENGTH, WITHOUT_END
from espnet_ext.rescore.tuning import parts_of, tune_scores


def lists_with(*scores: dict[str, float]) -> list[NBest]:
    """One list, "A B" against "A", with these scores of its hypotheses."""
    hyps = tuple(Hypothesis(text, -1.0, own) for text, own in zip(("A B", "A"), scores, strict=True))
    return [NBest("u1", hyps, "A")]


@pytest.mark.parametrize("models", [("bert", "gpt"), ("gpt", "bert")])
def test_the_end_token_of_any_causal_model_may_be_left_out(models):
    wrong = {"bert": -1.0, "gpt": -1.0, f"gpt{WITHOUT_END}": -1.0}
    lists = lists_with(wrong, wrong | {"gpt": -9.0, f"gpt{WITHOUT_END}": -0.5})
    errors = {end: tune_scores(lists, models, end=end)[0].errors for end in ("with", "without", "tune")}
    assert errors == {"with": 1 if models[0] == "gpt" else errors["with"], "without": 0, "tune": 0}
    assert f"gpt{WITHOUT_END}" in tune_scores(lists, models, end="without")[0].weights


def test_each_of_two_causal_models_has_a_choice_of_its_own():
    """The first model is right with its end token only; that is not enough but with the second one, without its own."""
    hyps = (Hypothesis("A B", -1.0), Hypothesis("A", -1.0), Hypothesis("A C D", -1.0))
    scores = (
        {"one": -2.0, f"one{WITHOUT_END}": -1.0, "two": -1.0, f"two{WITHOUT_END}": -3.0},
        {"one": -1.0, f"one{WITHOUT_END}": -9.0, "two": -9.0, f"two{WITHOUT_END}": -1.0},
        {"one": -0.9, f"one{WITHOUT_END}": -1.0, "two": -1.0, f"two{WITHOUT_END}": -3.0},
    )
    lists = [NBest("u1", tuple(replace(hyp, scores=own) for hyp, own in zip(hyps, scores, strict=True)), "A")]
    tuned, _ = tune_scores(lists, ("one", "two"), end="tune")
    assert tuned.errors == 0 and tuned.weights.keys() == {"one", f"two{WITHOUT_END}", FIRST_PASS}


def test_an_end_token_that_no_score_has():
    with pytest.raises(InputError, match="bert: no score has an end token that could be left out"):
        tune_scores(lists_with({"bert": -1.0}, {"bert": -2.0}), ("bert",), end="without")


def test_parts_of_the_first_pass_are_those_that_all_hypotheses_have():
    assert parts_of(lists_with({"ctc": -1.0, "lm": -2.0}, {"ctc": -1.0, "lm": -1.0}), ("lm",)) == ["ctc"]
    with pytest.raises(InputError, match="u1: hypothesis 2 lacks the part lm of the first pass, which others have"):
        parts_of(lists_with({"ctc": -1.0, "lm": -2.0}, {"ctc": -1.0}), ("gpt",))
    with pytest.raises(InputError, match="no scores of the parts of the first pass"):
        parts_of(lists_with({"gpt": -1.0}, {"gpt": -2.0}), ("gpt",))


@pytest.mark.parametrize("name", [FIRST_PASS, LENGTH])
def test_a_part_whose_name_means_another_thing_is_refused(name):
    with pytest.raises(InputError, match=f"a part of the first pass is called '{name}'"):
        parts_of(lists_with({name: -1.0}, {name: -2.0}), ("gpt",))


def test_a_model_of_an_earlier_second_pass_is_one_part():
    scores = {"ctc": -1.0, "gpt": -2.0, f"gpt{WITHOUT_END}": -1.5}
    assert parts_of(lists_with(scores, scores), ("other",)) == ["ctc", "gpt"]


def test_the_number_of_words_that_srilm_counts_may_weigh_against_a_hypothesis():
    lists = lists_with({"acoustic": -1.0, "gpt": -1.0, "words": 2.0}, {"acoustic": -1.0, "gpt": -1.0, "words": 1.0})
    tuned, _ = tune_scores(lists, ("gpt",), parts=True)
    assert tuned.errors == 0 and tuned.weights["words"] < 0
