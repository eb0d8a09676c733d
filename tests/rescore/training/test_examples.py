"""Word errors and lengths of N-best lists: as counted one by one, only once, and again when the lists change."""

from dataclasses import replace

import pytest

from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import Hypothesis, NBest, word_errors
from espnet_ext.rescore.training import examples
from espnet_ext.rescore.training.examples import check_lengths, make_examples
from espnet_ext.rescore.training.lm_training import SmallModel, make_small_model
from espnet_ext.rescore.training.mwer import MwerLoss, example

LISTS = [
    NBest("u1", (Hypothesis("THE CAT SAT", -1.0), Hypothesis("", -2.0), Hypothesis("A CAT SAT", -3.0)), "THE CAT SAT"),
    NBest("u2", (Hypothesis("A DOG", -1.0),), ""),
    NBest("u3", (Hypothesis("ON ON", -1.0), Hypothesis("ON THE MAT", -1.5)), "ON THE MAT"),
]


def test_errors_are_those_of_single_lists_and_are_counted_once(tmp_path, monkeypatch):
    found = make_examples(LISTS, tmp_path)
    assert found == [example(nbest) for nbest in LISTS]
    assert [item.errors for item in found] == [tuple(word_errors(nbest)) for nbest in LISTS]

    def never(lists):
        raise AssertionError("counted again")

    with monkeypatch.context() as patch:
        patch.setattr(examples, "errors_of_lists", never)
        assert make_examples(LISTS, tmp_path) == found
        other = [replace(LISTS[0], ref="A CAT SAT"), *LISTS[1:]]
        with pytest.raises(AssertionError, match="counted again"):
            make_examples(other, tmp_path)
    assert make_examples(other, tmp_path)[0].errors == (1, 3, 0)


def test_a_list_without_reference_is_refused(tmp_path):
    with pytest.raises(InputError, match="u2: no reference"):
        make_examples([LISTS[0], replace(LISTS[1], ref=None)], tmp_path)


def test_lengths_are_checked_once_for_a_model_and_texts(tmp_path, monkeypatch):
    sizes = {"n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 64}
    scorer = make_small_model(
        SmallModel(kind="gpt2", vocabulary=300, config=sizes), ["THE CAT SAT ON THE MAT", "A DOG RAN"]
    )
    items, calls = [example(nbest) for nbest in LISTS], []
    encode = scorer.encode
    monkeypatch.setattr(scorer, "encode", lambda *args: calls.append(1) or encode(*args))
    check_lengths(scorer, items, MwerLoss(), tmp_path)
    check_lengths(scorer, items, MwerLoss(), tmp_path)
    assert len(calls) == 1
    check_lengths(scorer, items, MwerLoss(ce_weight=0.1), tmp_path)  # references are scored, too
    scorer.longest = 2
    for _ in range(2):  # what is refused is not noted as done
        with pytest.raises(InputError, match='u1: hypothesis "THE CAT SAT": .* but the model takes 2'):
            check_lengths(scorer, items, MwerLoss(), tmp_path)
