"""The exact line search against trying out weights, one by one."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.rescore import weights as weights_module
from espnet_ext.rescore.weights import (
    FIRST_PASS,
    ErrorCurve,
    Tuned,
    combine_scores,
    find_envelope,
    tabulate_errors,
)
from espnet_ext.text.nbest import Hypothesis, NBest, count_word_errors


def weights_of(weight: float, scores: str = "lm") -> dict[str, float]:
    return {scores: 1.0, FIRST_PASS: weight}


def share_of(weight: float) -> float:
    return 1.0 if math.isinf(weight) else weight / (1.0 + weight)


def weight_of(share: float) -> float:
    return math.inf if share == 1.0 else share / (1.0 - share)


def at(curve: ErrorCurve, weight: float) -> int:
    """The errors with this weight; at a corner, those to its right."""
    return curve.errors[
        min(
            int(np.searchsorted(curve.corners, share_of(weight), "right")),
            len(curve.errors),
        )
        - 1
    ]


def compute_error_curve(lists: list[NBest], scores: str) -> ErrorCurve:
    return curves_at(lists, weights_of(1.0, scores))[FIRST_PASS]


def curves_at(lists: list[NBest], weights: dict[str, float]) -> dict[str, ErrorCurve]:
    """The curve of each weight through these weights."""
    tables = [tabulate_errors(nbest, list(weights)) for nbest in lists]
    return {
        name: weights_module.compute_error_curve(tables, weights, name)
        for name in weights
    }


def tune(
    lists: list[NBest], scores: str, tuned_on: tuple[str, ...] = ()
) -> tuple[Tuned, ErrorCurve]:
    tuned = weights_module.tune(lists, [scores], tuned_on)
    return tuned, compute_error_curve(lists, scores)


def rerank(nbest: NBest, weight: float) -> NBest:
    return weights_module.rerank(nbest, weights_of(weight))


def candidates(nbest: NBest) -> list[Hypothesis]:
    """A hypothesis without words is chosen where the first pass has it as the best, and
    only there.
    """
    return (
        [hyp for hyp in nbest.hyps if hyp.text]
        if nbest.hyps[0].text
        else [nbest.hyps[0]]
    )


WORDS = st.lists(st.sampled_from("AB"), max_size=4).map(" ".join)


def lists_of(scores: st.SearchStrategy[float]) -> st.SearchStrategy[list[NBest]]:
    hypotheses = st.builds(
        lambda text, am, lm: Hypothesis(text, am, {"lm": lm}), WORDS, scores, scores
    )
    lists = st.lists(
        st.tuples(WORDS.filter(bool), st.lists(hypotheses, min_size=1, max_size=6)),
        min_size=1,
        max_size=6,
    )
    return lists.map(
        lambda drawn: [
            NBest(f"u{n}", tuple(hyps), ref) for n, (ref, hyps) in enumerate(drawn)
        ]
    )


def errors_of(lists: list[NBest], weights: dict[str, float]) -> int:
    """Word errors of each list's first hypothesis with the highest weighted sum of
    scores (eq. 1), in numpy.
    """
    total = 0
    for nbest in lists:
        hyps = candidates(nbest)
        sums = [
            sum(
                weights[name] * {**hyp.scores, FIRST_PASS: hyp.score}[name]
                for name in weights
            )
            for hyp in hyps
        ]
        total += count_word_errors(replace(nbest, hyps=(hyps[int(np.argmax(sums))],)))[
            0
        ]
    return total


def exact_errors(lists: list[NBest], share: Fraction) -> int:
    """The same in rational numbers, over w."""
    total = 0
    for nbest in lists:
        hyps = candidates(nbest)
        s = [
            (1 - share) * Fraction(hyp.scores["lm"]) + share * Fraction(hyp.score)
            for hyp in hyps
        ]
        total += count_word_errors(replace(nbest, hyps=tuple(hyps)))[s.index(max(s))]
    return total


def all_crossings(lists: list[NBest]) -> set[Fraction]:
    """Where any two lines of a list meet: there, and only there, floats may choose
    otherwise than paper.
    """
    lines = [
        [(Fraction(hyp.scores["lm"]), Fraction(hyp.score)) for hyp in nbest.hyps]
        for nbest in lists
    ]
    pairs = [
        (a, b) for own in lines for a in own for b in own if a[1] - a[0] != b[1] - b[0]
    ]
    return {(a[0] - b[0]) / ((a[0] - b[0]) + (b[1] - a[1])) for a, b in pairs}


# Small whole numbers, so that many lines are equal, parallel or meet in one corner.
@settings(max_examples=100)
@given(lists_of(st.integers(-4, 0).map(float)), st.fractions(0, 1, max_denominator=97))
def test_the_curve_is_the_error_count_everywhere(lists, share):
    curve = compute_error_curve(lists, "lm")
    assert curve.corners[0] == 0.0 and curve.corners[-1] == 1.0
    assert list(curve.corners) == sorted(set(curve.corners))
    crossings = all_crossings(lists)
    assert all(
        any(abs(corner - meet) < 1e-9 for meet in crossings)
        for corner in curve.corners[1:-1]
    )
    if share not in crossings | {1}:
        assert at(curve, weight_of(float(share))) == exact_errors(lists, share)


@settings(max_examples=50)
@given(lists_of(st.floats(-50, 0)))
def test_the_tuned_weight_is_best_of_all_and_reranking_finds_its_errors(lists):
    tuned, curve = tune(lists, "lm")
    best = tuned.weights[FIRST_PASS]
    assert (
        errors_of(lists, tuned.weights)
        == tuned.errors
        == at(curve, best)
        == min(curve.errors)
    )
    assert (
        sum(count_word_errors(rerank(nbest, best))[0] for nbest in lists)
        == tuned.errors
    )
    assert all(
        errors_of(lists, weights_of(weight)) >= tuned.errors
        for weight in np.logspace(-3, 3, 31)
    )
    middles = [
        weight_of((low + high) / 2)
        for low, high in zip(curve.corners, curve.corners[1:], strict=False)
    ]
    assert [errors_of(lists, weights_of(weight)) for weight in middles] == list(
        curve.errors
    )


def one(*scores: tuple[str, float, float]) -> NBest:
    return NBest(
        "u", tuple(Hypothesis(text, am, {"lm": lm}) for text, am, lm in scores), "A"
    )


def test_a_curve_by_hand():
    # X from w = 0; A beats it where -2 (1-w) - 1 w = -1 (1-w) - 3 w, w = 1/3; Y has the
    # best first pass, from w = 2/3.
    nbest = one(("Y B", -0.5, -3.0), ("A", -1.0, -2.0), ("X", -3.0, -1.0))
    curve = compute_error_curve([nbest], "lm")
    assert curve.corners == pytest.approx((0.0, 1 / 3, 2 / 3, 1.0))
    assert curve.errors == (1, 0, 2)
    tuned, _ = tune([nbest], "lm", ("dev",))
    assert tuned.weights[FIRST_PASS] == pytest.approx(1.0)
    assert (tuned.errors, tuned.tuned_on) == (0, ("dev",))
    assert [
        at(curve, weight) for weight in (0.0, 0.49, 0.51, 1.99, 2.01, 1e9, math.inf)
    ] == [1, 1, 0, 0, 2, 2, 2]


def test_sets_are_tuned_on_jointly():
    left = one(("A", -1.0, -2.0), ("B", -2.0, -1.0))  # right from w = 1/2
    right = one(("B B", -1.0, -1.5), ("A", -2.0, 0.0))  # right up to w = 3/5
    joint, curve = tune([left, right], "lm")
    assert curve.corners == pytest.approx((0.0, 0.5, 0.6, 1.0))
    assert curve.errors == (1, 0, 2)
    assert share_of(joint.weights[FIRST_PASS]) == pytest.approx(0.55)
    assert share_of(tune([left], "lm")[0].weights[FIRST_PASS]) == pytest.approx(0.75)
    assert share_of(tune([right], "lm")[0].weights[FIRST_PASS]) == pytest.approx(0.3)


def test_the_widest_of_the_best_pieces():
    # One list, chosen from in this order; A, without error, twice.
    texts, corners, slopes = (
        ("X", "A", "Y", "A", "Z"),
        (0.1, 0.2, 0.5, 0.9),
        (-8.0, -4.0, -2.0, 1.0, 3.0),
    )
    left, hyps = -1.0, []
    for rank, text in enumerate(texts):
        left += (slopes[rank - 1] - slopes[rank]) * corners[rank - 1] if rank else 0.0
        hyps.append((text, left + slopes[rank], left))
    tuned, curve = tune([one(*hyps)], "lm")
    assert curve.corners == pytest.approx((0.0, *corners, 1.0))
    assert curve.errors == (1, 0, 1, 0, 1)
    assert share_of(tuned.weights[FIRST_PASS]) == pytest.approx(0.7)


def test_where_all_weights_are_equal_it_is_one():
    tuned, curve = tune([one(("B", -1.0, -5.0), ("C", -5.0, -1.0))], "lm")
    assert (curve.corners, curve.errors) == ((0.0, 1.0), (1,))
    assert tuned.weights[FIRST_PASS] == 1.0


def test_of_equal_scores_the_first_hypothesis_is_chosen():
    nbest = one(("B", -1.0, -1.0), ("A", -1.0, -1.0), ("A A A", -1.0, -1.0))
    assert compute_error_curve([nbest], "lm").errors == (1,)
    assert rerank(nbest, 0.7) == nbest
    assert find_envelope(np.array([-1.0, -1.0]), np.array([-2.0, -1.0])) == [(0.0, 1)]


def test_rerank_orders_by_equation_one_and_keeps_all_else():
    nbest = one(("B", -1.0, -9.0), ("A", -2.0, -6.0), ("C", -3.0, -8.0))
    assert combine_scores(nbest, weights_of(0.5)).tolist() == [-9.5, -7.0, -9.5]
    ranked = rerank(nbest, 0.5)
    assert [hyp.text for hyp in ranked.hyps] == ["A", "B", "C"]
    assert ranked == replace(nbest, hyps=(nbest.hyps[1], nbest.hyps[0], nbest.hyps[2]))


def test_bad_weights_scores_and_lists():
    nbest = one(("A", -1.0, -2.0))
    for weight in (-0.1, math.nan, math.inf):
        with pytest.raises(InputError, match="a weight of"):
            rerank(nbest, weight)
    with pytest.raises(
        InputError, match="^u: hypothesis 1 has no scores named gpt2; it has lm$"
    ):
        tune([nbest], "gpt2")
    with pytest.raises(InputError, match="^u: no reference"):
        tune([replace(nbest, ref=None)], "lm")
    with pytest.raises(InputError, match="no N-best lists to tune"):
        tune([], "lm")


def several_scores(seed: int, count: int = 40) -> list[NBest]:
    """Lists whose right hypothesis shows in a weighted sum of the first pass and three
    language models.
    """
    random = np.random.default_rng(seed)
    lists = []
    for number in range(count):
        ref = ["A"] * int(random.integers(3, 7))
        hyps = []
        for _ in range(6):
            text = ["A"] * int(random.integers(1, 9))
            wrong = abs(len(text) - len(ref))
            first, *lms = (
                random.normal(0, 2, 4) - np.array([0.5, 0.3, 0.4, 0.2]) * wrong
            )
            scores = dict(zip(("lm", "gpt", "bert"), map(float, lms), strict=True))
            hyps.append(Hypothesis(" ".join(text), float(first), scores))
        lists.append(NBest(f"u{number}", tuple(hyps), " ".join(ref)))
    return lists


@pytest.mark.parametrize("seed", range(2))
def test_many_weights_end_where_no_single_one_helps(seed):
    lists = several_scores(seed)
    tuned = weights_module.tune(lists, ["lm", "gpt", "bert"])
    assert tuned.weights["lm"] == 1.0
    assert (
        errors_of(lists, tuned.weights)
        == tuned.errors
        <= errors_of(lists, dict.fromkeys(tuned.weights, 1.0))
    )
    grid = np.concatenate(([0.0], np.logspace(-3, 3, 61)))
    for name, curve in list(curves_at(lists, tuned.weights).items())[1:]:
        assert at(curve, tuned.weights[name]) == tuned.errors == min(curve.errors)
        for weight in grid:
            assert (
                at(curve, weight)
                == errors_of(lists, {**tuned.weights, name: float(weight)})
                >= tuned.errors
            )


def test_without_words_is_chosen_only_where_the_first_pass_has_it_as_the_best():
    nbest = one(("B", -5.0, -9.0), ("", -0.1, -0.1), ("A", -6.0, -8.0))
    assert [hyp.text for hyp in rerank(nbest, 1.0).hyps] == ["B", "A", ""]
    assert compute_error_curve([nbest], "lm").errors == (0, 1)
    silent = one(("", -30.0, -30.0), ("B", -0.1, -0.1))
    assert rerank(silent, 1.0) == silent
