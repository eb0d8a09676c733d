"""Oracle error rates against every choice tried out."""

import itertools

import kaldialign
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.nbest.oracle import (
    choose_oracle,
    count_oracle_errors,
    make_oracle_report,
)
from espnet_ext.text.nbest import Hypothesis, NBest

WORDS = st.lists(st.sampled_from("AB"), max_size=4).map(" ".join)
LISTS = st.lists(
    st.tuples(WORDS.filter(bool), st.lists(WORDS, min_size=1, max_size=4)),
    min_size=1,
    max_size=4,
).map(
    lambda drawn: [
        NBest(
            f"u{number}",
            tuple(Hypothesis(text, -float(rank)) for rank, text in enumerate(texts)),
            ref,
        )
        for number, (ref, texts) in enumerate(drawn)
    ]
)


@given(LISTS, st.integers(1, 5))
def test_the_oracle_is_the_best_of_all_choices(lists, depth):
    def errors(choice):
        pairs = zip(lists, choice, strict=True)
        return sum(
            kaldialign.edit_distance(nbest.ref.split(), hyp.text.split())["total"]
            for nbest, hyp in pairs
        )

    choices = itertools.product(*(nbest.hyps[:depth] for nbest in lists))
    fewest = min(map(errors, choices))
    assert errors([choose_oracle(nbest, depth) for nbest in lists]) == fewest
    counted = count_oracle_errors(lists)
    assert counted[min(depth, len(counted)) - 1] == fewest
    assert counted[0] == errors([nbest.hyps[0] for nbest in lists])
    assert count_oracle_errors(lists, depth) == counted[:depth]


def test_the_report():
    lists = [
        NBest(
            "a",
            (Hypothesis("A X", -1.0), Hypothesis("A X", -1.0), Hypothesis("A B", -2.0)),
            "A B",
        ),
        NBest("b", (Hypothesis("", -1.0),), "C D"),
    ]
    assert make_oracle_report(lists, "dev") == {
        "lists": 2,
        "words": 4,
        "oracle": [
            {"n": n, "errors": errors, "value": 25.0 * errors}
            for n, errors in ((1, 3), (2, 3), (3, 2))
        ],
    }


def test_what_cannot_be_counted():
    with pytest.raises(InputError, match="no N-best lists"):
        count_oracle_errors([])
    with pytest.raises(InputError, match="^b: no reference"):
        count_oracle_errors(
            [
                NBest("a", (Hypothesis("A", 0.0),), "A"),
                NBest("b", (Hypothesis("A", 0.0),)),
            ]
        )
