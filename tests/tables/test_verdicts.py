"""Verdicts on claims: what they need, the four readings, failed trainings, and
corrections for what is compared.
"""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from espnet_ext.errors import InputError
from espnet_ext.tables.reading import load_tables
from espnet_ext.tables.render import lay_out_claims
from espnet_ext.tables.result import ClaimResult
from espnet_ext.work.yaml_files import read_yaml

UTTERANCES = 96


def wrong(rate: float, seed: int, speakers: int = 16) -> list[int]:
    """Wrong words of 10 in each utterance; utterance i is of speaker i modulo
    ``speakers``, some of whom are hard.
    """
    draw = random.Random(f"{rate} {seed}")
    return [
        sum(draw.random() < rate + 0.01 * (i % speakers % 4) for _ in range(10))
        for i in range(UTTERANCES)
    ]


@pytest.fixture
def judged(toy: Path, computed: Callable) -> Callable[..., tuple[ClaimResult, ...]]:
    """Return a function that judges the claims of table 1, new is better and worse;
    ``changes`` are of the design.
    """

    def judge(**changes: object) -> tuple[ClaimResult, ...]:
        path = toy.with_name("design.yaml")
        text = path.read_text()
        content = read_yaml(path)
        if changes:
            del content["designs"][0]["fewest"]
        content["designs"][0] |= changes
        path.write_text(yaml.safe_dump(content))
        claims = computed(toy, "1")[0].claims
        path.write_text(text)
        return claims

    return judge


@pytest.fixture
def run(scored: Callable) -> Callable[..., None]:
    """Score new and base with seeds 1 to n on both test sets."""

    def score(
        seeds: int, new: float = 0.1, base: float = 0.3, speakers: int = 16
    ) -> None:
        for seed in range(1, seeds + 1):
            for test_set in ("clean", "other"):
                scored("new", seed, test_set, wrong(new, seed), speakers=speakers)
                scored(
                    "base", seed, test_set, wrong(base, seed + 100), speakers=speakers
                )

    return score


def test_a_difference_on_which_all_seeds_agree_holds(run: Callable, judged: Callable):
    run(3)
    better, worse = judged()
    assert (better.verdict, better.notes, worse.verdict) == (
        "holds",
        (),
        "contradicted",
    )
    for test in better.tests:
        here = test.here
        assert (here.seeds, here.different_seeds, here.units, here.unit) == (
            (1, 2, 3),
            3,
            16,
            "speaker",
        )
        assert (
            here.interval[0] < here.points < here.interval[1] and 18 < here.points < 22
        )
    assert [test.paper for test in better.tests] == [
        1.0,
        10.0,
    ]  # of the paper's numbers in the toy
    # A claim that must hold on both test sets has the larger p-value, one that fails
    # twice the smaller.
    p_values = [test.here.p_value for test in better.tests]
    assert better.p_value == max(p_values) and worse.p_value == 2 * min(p_values)
    smaller, larger = sorted((better.p_value, worse.p_value))
    assert sorted((better.p_corrected, worse.p_corrected)) == [
        2 * smaller,
        max(2 * smaller, larger),
    ]


def test_two_seeds_decide_nothing(run: Callable, judged: Callable):
    run(2)
    better, _ = judged()
    assert (better.verdict, better.notes, better.p_value) == (
        "open",
        ("2 of 3 seeds",),
        None,
    )
    clean = better.tests[0].here
    assert clean.points > 15 and clean.p_value is None and clean.interval is None


def test_copies_of_a_training_are_one_seed(scored: Callable, judged: Callable):
    for seed in (1, 2, 3):
        for test_set in ("clean", "other"):
            scored("new", seed, test_set, wrong(0.1, 1), speakers=16)
            scored("base", seed, test_set, wrong(0.3, 1), speakers=16)
    assert judged()[0].notes == ("3 seeds, 1 that differs",)


def test_five_speakers_decide_nothing_and_six_can(run: Callable, judged: Callable):
    run(3, speakers=5)
    assert judged()[0].notes == ("5 speakers",)
    run(3, speakers=6)
    claim = judged()[0]
    assert (
        claim.notes == ()
        and claim.p_value >= 2 / 2**6
        and claim.p_corrected == 2 * claim.p_value
    )
    assert claim.verdict == "open"  # corrected for two claims
    better, worse = judged(tests=1, seeds=[1, 2, 3])
    assert (better.verdict, better.p_corrected) == ("holds", better.p_value)
    assert worse.p_corrected == worse.p_value


def test_what_has_not_run_on_all_test_sets(scored: Callable, judged: Callable):
    for seed in (1, 2, 3):
        scored("new", seed, "clean", wrong(0.1, seed))
        scored("base", seed, "clean", wrong(0.3, seed))
    claim = judged()[0]
    assert (claim.verdict, claim.p_value, claim.tests[1].here) == (
        "not run",
        None,
        None,
    )
    assert claim.tests[0].here.unit == "recording" and "not run" in lay_out_claims(
        [claim]
    ).text("pipe")


def test_equal_systems_stay_open_and_the_seeds_are_those_of_the_design(
    run: Callable, scored: Callable, judged: Callable
):
    run(5, new=0.2, base=0.2)
    scored("new", 9, "clean", wrong(0.9, 9), speakers=16)  # base has no such seed
    for claim in judged():
        assert (
            claim.verdict == "open" and claim.notes == () and claim.p_corrected > 0.05
        )
        assert claim.tests[0].here.seeds == (1, 2, 3)


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
                second = [
                    (max(0, characters - more - draw.randint(0, 1)), 1)
                    for characters, _ in first
                ]
                scored_mixed(name, "dev", first, seed)
                scored_mixed(f"{name}_more", "dev", second, seed)
        return computed(mixed, "2")[0].claims[0]

    assert computed(mixed, "2")[0].claims[0].verdict == "not run"
    claim = score(2)
    assert (
        claim.verdict == "holds" and 7 < claim.tests[0].here.points < 11
    )  # one more of ten tokens
    assert claim.tests[0].paper == 1.0  # 11 to 9 against 11 to 10
    assert [score(gain).verdict for gain in (1, 0)] == ["open", "contradicted"]


def test_corrections_count_tests_and_designs(
    toy: Path, run: Callable, judged: Callable
):
    """p-values and intervals are corrected alike: for tests that were looked at or are
    gone, for designs of the question, and for designs whose results are not kept.
    """
    run(3)
    plain = judged()
    smallest = min(claim.p_value for claim in plain)
    assert min(claim.p_corrected for claim in plain) == pytest.approx(2 * smallest)
    corrected = judged(tests=7, fewest=True)
    assert min(claim.p_corrected for claim in corrected) == pytest.approx(7 * smallest)
    path = toy.with_name("design.yaml")
    content = read_yaml(path)
    again = {**content["designs"][0], "corpus": "another", "claims": ["better"]}
    content["designs"].append(again)
    content["claims"]["better"]["earlier"] = 1
    path.write_text(yaml.safe_dump(content))
    [better, worse] = judged(fewest=True)
    assert sorted((better.times // 3, worse.times)) == [1, 2]
    assert better.p_corrected == pytest.approx(min(1, better.times * better.p_value))

    def width(claim: ClaimResult) -> float:
        low, high = claim.tests[0].here.interval
        return high - low

    assert width(better) > width(plain[0])


def test_a_design_never_hides_an_earlier_one(
    toy: Path, run: Callable, judged: Callable
):
    run(3)
    path = toy.with_name("design.yaml")
    content = read_yaml(path)
    content["designs"].append({**content["designs"][0], "seeds": [1, 2]})
    path.write_text(yaml.safe_dump(content))
    claims = judged()
    assert [claim.name for claim in claims] == ["better", "worse"] * 2
    assert [len(claim.design.seeds) for claim in claims] == [3, 3, 2, 2]


def test_a_claim_must_hold_against_all_baselines_of_the_papers_sentence(
    toy: Path, scored: Callable, run: Callable, judged: Callable
):
    toy.write_text(
        toy.read_text()
        .replace(
            "  new: {kind",
            "  third: {kind: train, config: train, data: train}\n  new: {kind",
        )
        .replace(
            '      - {name: base row',
            '      - {name: third, system: third, paper: [6.0, 21.0, 13.5]}\n'
            '      - {name: base row',
        )
    )  # fmt: skip
    design = toy.with_name("design.yaml")
    design.write_text(
        design.read_text().replace(
            "worse: 1/base row}", "worse: [1/base row, 1/third]}", 1
        )
    )
    run(5)
    for seed in range(1, 6):
        for test_set in ("clean", "other"):
            scored("third", seed, test_set, wrong(0.02, seed + 50), speakers=16)
    seeds = [1, 2, 3, 4, 5]
    assert judged(seeds=seeds)[0].verdict == "contradicted"  # by the third system
    alone = judged(seeds=seeds, against="1/base row")[0]
    assert alone.verdict == "holds" and "base row alone" in alone.verdict_text
    assert alone.baselines == ("base row",)


def test_there_is_no_verdict_where_nothing_can_be_tested(
    run: Callable, judged: Callable
):
    run(3)
    claims = judged(not_testable={"better": "no room"}, open={"worse": "looks"})
    assert [claim.verdict for claim in claims] == ["not testable here", "open"]
    assert [claim.p_corrected for claim in claims] == [None, None]
    assert "(no room)" in claims[0].verdict_text and "(looks)" in claims[1].verdict_text


def test_trainings_that_are_best_at_their_last_step_get_no_verdict(
    tmp_path: Path, run: Callable, judged: Callable
):
    run(3)
    log = tmp_path / "exp" / "new" / "seed2" / "log" / "train.log"
    log.parent.mkdir()
    line = "1epoch results: [train] loss=0.1, [valid] loss_ctc=7, loss={}, time=1\n"
    log.write_text("".join(map(line.format, (3.0, 2.0, 1.0))))
    better, worse = judged()
    assert better.verdict == worse.verdict == "open" and better.p_corrected is None
    assert "1 of 3 trainings" in better.verdict_text
    # a rate that has come to zero leaves a loss that hardly changes
    log.write_text("".join(map(line.format, (3.0, 1.001, 1.0))))
    assert judged()[0].verdict == "holds"
    log.unlink()
    report = tmp_path / "exp" / "base" / "seed1" / "training.json"
    # a rescorer's is chosen by its loss on texts, or by its errors on lists
    for course, verdict in (
        ((9.0, 8.0, 7.0), "open"),
        ((9.0, 7.01, 7.0), "holds"),
        ((9.0, 7.0, 8.0), "holds"),
        ((7.0, 8.0, 9.0), "holds"),
    ):
        for names in (("loss",), ("wer", "mwer")):
            history = [
                {"step": 10 * number, **{f"dev_{name}": value for name in names}}
                for number, value in enumerate(course)
            ]
            report.write_text(json.dumps({"history": history}))
            assert judged()[0].verdict == verdict
    del history[1]["dev_wer"]
    report.write_text(json.dumps({"history": history}))
    with pytest.raises(InputError, match=r"training.json.*history\[1\].*dev_wer"):
        judged()


def test_units_on_which_a_system_fails_are_left_out(
    scored: Callable, run: Callable, judged: Callable
):
    run(3)
    for seed in (1, 2, 3):  # the first of 16 speakers is lost by one of the systems
        words = [10 if i % 16 == 0 else w for i, w in enumerate(wrong(0.1, seed))]
        scored("new", seed, "clean", words, speakers=16)
    better = judged(failed_units=90)[0]
    assert [test.here.units for test in better.tests] == [15, 16]
    assert better.verdict == "holds" and "1 with an error rate" in better.verdict_text


def test_what_an_interval_says_when_the_sign_is_not_shown(
    toy: Path, run: Callable, judged: Callable
):
    """No difference above a margin; the paper's effect is excluded, in points and in
    percent; or neither.
    """
    run(5, new=0.2, base=0.2)
    seeds = [1, 2, 3, 4, 5]
    better, worse = judged(margin=8, seeds=seeds)
    for test in better.tests:
        assert -8 < test.here.interval[0] < test.here.points < test.here.interval[1] < 8
    # the paper's effect is 1 and 10 points, below the margin: that could not be missed
    assert better.verdict == "open"
    assert judged(margin=0.5, seeds=seeds)[0].verdict == "open"
    old = toy.read_text()
    toy.write_text(old.replace("[5.0, 20.0, 12.5]", "[14.0, 30.0, 12.5]"))
    assert judged(margin=8, seeds=seeds)[0].verdict_text == (
        "no difference above 8 points"
    )
    toy.write_text(
        old.replace("[5.0, 20.0, 12.5]", "[25.0, 30.0, 12.5]")
    )  # 21 and 20 points
    assert (
        judged(margin=0.5, seeds=seeds)[0].verdict == "the paper's effect is excluded"
    )
    assert (
        judged(margin=0.5, seeds=seeds)[1].verdict == "open"
    )  # the paper has no such effect
    assert judged()[0].verdict == "open"  # the designs of before do not read this
    toy.write_text(
        old.replace("[4.0, 10.0, 7.0]", "[84.0, 84.0, 7.0]").replace(
            "[5.0, 20.0", "[99.0, 99.0"
        )
    )
    assert judged(seeds=seeds)[0].verdict == "open"  # 15 of 99 % are 3 of 20 %


def test_failed_trainings_are_a_share_of_their_own(
    tmp_path: Path, run: Callable, judged: Callable
):
    """They are no part of the means, and Fisher's test compares how many there are."""
    run(6)
    for system, failed in (("new", ()), ("base", (2, 5))):
        for seed in range(1, 7):
            log = tmp_path / "exp" / system / f"seed{seed}" / "log" / "train.log"
            log.parent.mkdir()
            losses = ("nan", "9.5") if seed in failed else ("nan", "1.5", "2.5")
            log.write_text(
                "".join(
                    "1epoch results: [train] loss=0.1, [valid] loss_ctc=7, "
                    f"loss={x}, time=1\n"
                    for x in losses
                )
            )
    better, _ = judged(seeds=[1, 2, 3, 4, 5, 6], failed=4)
    assert better.verdict == "holds" and better.seeds == (1, 3, 4, 6)
    assert "0 of 6 and 2 of 6 (Fisher p = 0.45)" in lay_out_claims([better]).text(
        "pipe"
    )  # 2 * C(6, 2) / C(12, 2)
    assert judged(seeds=[1, 2, 3, 4, 5, 6])[0].failed == ""
    # a seed that has not run has not failed
    assert judged(seeds=[1, 2, 3, 4, 5, 6, 7], failed=4)[0].notes == ("6 of 7 seeds",)


def test_systems_without_a_training_are_tested_over_units(
    toy: Path, run: Callable, judged: Callable
):
    toy.write_text(
        re.sub(
            r"(base|new): {kind: train, .*}",
            r"\1: {kind: merge, method: \1}",
            toy.read_text(),
        )
    )
    run(1)
    better, worse = judged(seeds=[1])
    assert (better.verdict_text, worse.verdict_text) == (
        "holds (for this recogniser)",
        "contradicted (for this recogniser)",
    )
    assert judged()[0].verdict == "open"  # by the rule of before
    run(1, speakers=5)
    assert judged(seeds=[1])[0].notes == ("5 speakers",)
    tables = load_tables(toy, "mini")  # a design is of one corpus and one scale
    assert (
        tables.select_designs("full", "c") == tables.select_designs("mini", "d") == []
    )
