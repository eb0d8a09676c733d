"""Verdicts on claims: what they need, when they hold, and Holm's correction over what is compared."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.reading import load_tables
from espnet_ext.tables.render import claims_grid, looked_note, plain_table
from espnet_ext.tables.result import ClaimResult
from espnet_ext.tables.verdicts import correct

UTTERANCES = 96


def wrong(rate: float, seed: int, speakers: int = 16) -> list[int]:
    """Wrong words of 10 in each utterance; utterance i is of speaker i modulo ``speakers``, some of whom are hard."""
    draw = random.Random(f"{rate} {seed}")
    return [sum(draw.random() < rate + 0.01 * (i % speakers % 4) for _ in range(10)) for i in range(UTTERANCES)]


@pytest.fixture
def judged(toy: Path, computed: Callable) -> Callable[[], tuple[ClaimResult, ...]]:
    """Return a function that judges the claims of table 1: new is better, new is worse."""
    return lambda: computed(toy, "1")[0].claims


@pytest.fixture
def run(scored: Callable) -> Callable[..., None]:
    """Score new and base with seeds 1 to n on both test sets."""

    def score(seeds: int, new: float = 0.1, base: float = 0.3, speakers: int = 16) -> None:
        for seed in range(1, seeds + 1):
            for test_set in ("clean", "other"):
                scored("new", seed, test_set, wrong(new, seed), speakers=speakers)
                scored("base", seed, test_set, wrong(base, seed + 100), speakers=speakers)

    return score


def test_a_difference_on_which_all_seeds_agree_holds(run: Callable, judged: Callable):
    run(3)
    better, worse = judged()
    assert (better.verdict, better.reason, worse.verdict) == ("holds", None, "contradicted")
    for test in better.tests:
        here = test.here
        assert (here.seeds, here.different_seeds, here.units, here.unit) == ((1, 2, 3), 3, 16, "speaker")
        assert here.interval[0] < here.points < here.interval[1] and 18 < here.points < 22
    assert [test.paper for test in better.tests] == [1.0, 10.0]  # of the paper's numbers in the toy
    # A claim that must hold on both test sets has the larger p-value, one that fails twice the smaller.
    p_values = [test.here.p_value for test in better.tests]
    assert better.p_value == max(p_values) and worse.p_value == 2 * min(p_values)
    smaller, larger = sorted((better.p_value, worse.p_value))
    assert sorted((better.p_corrected, worse.p_corrected)) == [2 * smaller, max(2 * smaller, larger)]


def test_two_seeds_decide_nothing(run: Callable, judged: Callable):
    run(2)
    better, _ = judged()
    assert (better.verdict, better.reason, better.p_value) == ("undecided", "2 seeds", None)
    clean = better.tests[0].here
    assert clean.points > 15 and clean.p_value is None and clean.interval is None


def test_copies_of_a_training_are_one_seed(scored: Callable, judged: Callable):
    for seed in (1, 2, 3):
        for test_set in ("clean", "other"):
            scored("new", seed, test_set, wrong(0.1, 1), speakers=16)
            scored("base", seed, test_set, wrong(0.3, 1), speakers=16)
    assert judged()[0].reason == "3 seeds with the same output"


def test_five_speakers_decide_nothing_and_six_can(run: Callable, judged: Callable):
    run(4, speakers=5)
    assert judged()[0].reason == "5 speakers"
    run(4, speakers=6)
    claim = judged()[0]
    assert claim.reason is None and claim.p_value >= 2 / 2**6 and claim.p_corrected == 2 * claim.p_value
    assert claim.verdict == "undecided"  # corrected for two claims


def test_what_has_not_run_on_all_test_sets(scored: Callable, judged: Callable):
    for seed in (1, 2, 3):
        scored("new", seed, "clean", wrong(0.1, seed))
        scored("base", seed, "clean", wrong(0.3, seed))
    claim = judged()[0]
    assert (claim.verdict, claim.p_value, claim.tests[1].here) == ("not run", None, None)
    assert claim.tests[0].here.unit == "recording" and "**not run**" in claims_grid([("", claim)]).text("pipe")


def test_equal_systems_are_undecided_and_seeds_pair_up(run: Callable, scored: Callable, judged: Callable):
    run(5, new=0.2, base=0.2)
    scored("new", 9, "clean", wrong(0.9, 9), speakers=16)  # base has no such seed
    for claim in judged():
        assert claim.verdict == "undecided" and claim.reason is None and claim.p_corrected > 0.05
        assert claim.tests[0].here.seeds == (1, 2, 3, 4, 5)


def test_other_speakers_are_refused(run: Callable, scored: Callable, judged: Callable):
    run(3)
    scored("base", 3, "clean", wrong(0.3, 103), speakers=12)
    with pytest.raises(InputError, match="base/seed3.*clean.*other words of speaker"):
        judged()


def test_claims_on_changes(mixed: Path, computed: Callable, scored_mixed: Callable):
    """Both gain by more data; what is tested is by how much more the new one does."""

    def score(gain: int) -> ClaimResult:
        for seed in (1, 2, 3):
            draw = random.Random(seed)
            for name in ("base", "new"):
                first = [(draw.randint(2, 4), 1) for _ in range(40)]
                more = gain if name == "new" else 1
                second = [(max(0, characters - more - draw.randint(0, 1)), 1) for characters, _ in first]
                scored_mixed(name, "dev", first, seed)
                scored_mixed(f"{name}_more", "dev", second, seed)
        return computed(mixed, "2")[0].claims[0]

    assert computed(mixed, "2")[0].claims[0].verdict == "not run"
    claim = score(2)
    assert claim.verdict == "holds" and 7 < claim.tests[0].here.points < 11  # one more of ten tokens
    assert claim.tests[0].paper == 1.0  # 11 to 9 against 11 to 10
    assert [score(gain).verdict for gain in (1, 0)] == ["undecided", "contradicted"]


def test_the_correction_counts_each_comparison_once(toy: Path, run: Callable, judged: Callable):
    """The same systems with the same tests are one member of the family, in whatever table; others are others."""
    run(3)
    better, worse = judged()
    tables = load_tables(toy)
    again = correct(tables, [better, worse, better, worse])
    assert again == [better, worse, better, worse]
    shorter = [replace(test, here=replace(test.here, seeds=(1, 2))) for test in better.tests]
    others = (
        replace(better, claim=better.claim.model_copy(update={"margin": 0.1})),
        replace(better, claim=better.claim.model_copy(update={"worse": "2/lm"})),
        replace(better, tests=tuple(shorter)),
    )
    least = min(better.p_value, worse.p_value)
    for other in others:
        assert min(each.p_corrected for each in correct(tables, [better, worse, other])) == pytest.approx(3 * least)


def test_no_worse_by_more_than_a_margin(toy: Path, run: Callable, judged: Callable, computed: Callable):
    """That two systems are alike cannot be shown by finding no difference; that one is no worse by so much can."""
    toy.write_text(toy.read_text().replace("worse: base row}", "worse: base row, margin: 8}"))
    run(5, new=0.2, base=0.2)
    claim = judged()[0]
    assert (claim.verdict, claim.claim.margin) == ("holds", 8.0)
    for test in claim.tests:  # the effect and its interval are without the margin
        assert abs(test.here.points) < 3 and test.here.interval[0] > -8
    assert "new is better (by more than 8 points)" in plain_table(computed(toy, "1")[0])
    run(5, new=0.2, base=0.1)
    assert judged()[0].verdict == "undecided"  # 10 points worse are not told from 8
    run(5, new=0.4, base=0.1)
    assert judged()[0].verdict == "contradicted"


def test_own_claims_are_of_the_same_family_and_seeds_after_a_look_are_marked(
    toy: Path, run: Callable, judged: Callable
):
    run(3)
    before = [claim.p_corrected for claim in judged()]
    text = toy.read_text().replace("better: base row,", "better: base row, own: true,")
    toy.write_text(
        text.replace('better: "-1dB", worse: base row}', 'better: "-1dB", worse: base row, extended: {mini: 3}}')
    )
    better, worse = judged()
    assert [better.p_corrected, worse.p_corrected] == before and worse.claim.own
    assert (better.looked, better.mark, looked_note([better])) == (None, "", "")
    run(4)
    better, worse = judged()
    assert (better.looked, better.verdict_text, worse.looked) == (3, "holds†", None) and "3" in looked_note([better])
