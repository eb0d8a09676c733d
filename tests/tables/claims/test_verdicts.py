"""Verdicts on claims: what they need, and when they hold."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.claims.counts import count_verdicts
from espnet_ext.tables.claims.verdicts import correct
from espnet_ext.tables.pages.render import claims_section, plain_table
from espnet_ext.tables.plans.reading import load_tables
from espnet_ext.tables.table_results import collect

UTTERANCES = 96


def wrong(rate: float, seed: int, speakers: int = 16) -> list[int]:
    """Wrong words of 10 in each utterance; utterance i is of speaker i modulo ``speakers``, some of whom are hard."""
    draw = random.Random(f"{rate} {seed}")
    return [sum(draw.random() < rate + 0.01 * (i % speakers % 4) for _ in range(10)) for i in range(UTTERANCES)]


@pytest.fixture
def judged(toy: Path, tmp_path: Path, meta: dict) -> Callable[[], dict]:
    """Return a function that collects table 1, with its claims corrected."""

    def judge() -> dict:
        tables = load_tables(toy)
        return correct([collect(tables, tables.tables["1"], tmp_path / "exp", "s", "c", meta)])[0]

    return judge


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
    better, worse = judged()["claims"]
    assert (better["verdict"], better["reason"], worse["verdict"]) == ("holds", None, "contradicted")
    for test in better["tests"].values():
        assert (test["seeds"], test["different_seeds"], test["units"], test["unit"]) == ([1, 2, 3], 3, 16, "speaker")
        assert test["ci95"][0] < test["lower_by"] < test["ci95"][1] and 18 < test["lower_by"] < 22
    # A claim that must hold on both test sets has the larger p-value, one that fails twice the smaller.
    p_values = [test["p_value"] for test in better["tests"].values()]
    assert better["p_value"] == max(p_values) and worse["p_value"] == 2 * min(p_values)
    smaller, larger = sorted((better["p_value"], worse["p_value"]))
    assert sorted((better["p_corrected"], worse["p_corrected"])) == [2 * smaller, max(2 * smaller, larger)]


def test_two_seeds_decide_nothing(run: Callable, judged: Callable):
    run(2)
    better, _ = judged()["claims"]
    assert (better["verdict"], better["reason"], better["p_value"]) == ("undecided", "2 seeds", None)
    clean = better["tests"]["clean"]
    assert clean["lower_by"] > 15 and clean["p_value"] is None and clean["ci95"] is None


def test_copies_of_a_training_are_one_seed(scored: Callable, judged: Callable):
    for seed in (1, 2, 3):
        for test_set in ("clean", "other"):
            scored("new", seed, test_set, wrong(0.1, 1), speakers=16)
            scored("base", seed, test_set, wrong(0.3, 1), speakers=16)
    assert judged()["claims"][0]["reason"] == "3 seeds with the same output"


def test_five_speakers_decide_nothing_and_six_can(run: Callable, judged: Callable):
    run(4, speakers=5)
    assert judged()["claims"][0]["reason"] == "5 speakers"
    run(4, speakers=6)
    result = judged()
    assert result["claims"][0]["reason"] is None and result["claims"][0]["p_value"] >= 2 / 2**6
    assert result["claims"][0]["p_corrected"] == 2 * result["claims"][0]["p_value"]
    assert result["claims"][0]["verdict"] == "undecided"  # corrected for two claims


def test_without_scores_of_utterances_nothing_is_decided(run: Callable, judged: Callable, tmp_path: Path):
    run(3)
    for path in (tmp_path / "exp").rglob("per_utterance.tsv"):
        path.unlink()
    claim = judged()["claims"][0]
    assert (claim["verdict"], claim["reason"]) == ("undecided", "scores by recording are not kept")
    assert claim["tests"]["clean"]["lower_by"] > 15 and claim["tests"]["clean"]["units"] is None


def test_what_has_not_run_on_all_test_sets(scored: Callable, judged: Callable):
    for seed in (1, 2, 3):
        scored("new", seed, "clean", wrong(0.1, seed))
        scored("base", seed, "clean", wrong(0.3, seed))
    claim = judged()["claims"][0]
    assert (claim["verdict"], claim["p_value"], claim["tests"]["other"]) == ("not run", None, None)
    assert claim["tests"]["clean"]["unit"] == "recording"
    assert "new is better" not in plain_table(judged()) and "**not run**" in claims_section(judged())


def test_what_has_not_run_at_all_is_one_line_below_the_table(scored: Callable, judged: Callable):
    scored("new", 1, "clean", wrong(0.1, 1))
    section = claims_section(judged())
    assert "\n\nNot tested here, since a row was not run: new is better" in section and "|" not in section


def test_equal_systems_are_undecided(run: Callable, judged: Callable):
    run(5, new=0.2, base=0.2)
    for claim in judged()["claims"]:
        assert claim["verdict"] == "undecided" and claim["reason"] is None and claim["p_corrected"] > 0.05


def test_seeds_pair_up(run: Callable, scored: Callable, judged: Callable):
    run(3)
    scored("new", 9, "clean", wrong(0.9, 9), speakers=16)  # base has no such seed
    assert judged()["claims"][0]["tests"]["clean"]["seeds"] == [1, 2, 3]


def test_other_speakers_are_refused(run: Callable, scored: Callable, judged: Callable):
    run(3)
    scored("base", 3, "clean", wrong(0.3, 103), speakers=12)
    with pytest.raises(InputError, match="base/seed1.*base/seed3.*has different speakers"):
        judged()


def test_claims_on_changes(mixed: Path, tmp_path: Path, scored_mixed: Callable, meta: dict):
    """Both gain by more data; what is tested is by how much more the new one does."""
    tables = load_tables(mixed)

    def judge() -> dict:
        return correct([collect(tables, tables.tables["2"], tmp_path / "exp", "s", "c", meta)])[0]["claims"][0]

    def score(gain: int) -> None:
        for seed in (1, 2, 3):
            draw = random.Random(seed)
            for name in ("base", "new"):
                first = [(draw.randint(2, 4), 1) for _ in range(40)]
                more = gain if name == "new" else 1
                scored_mixed(name, "dev", first, seed)
                scored_mixed(
                    f"{name}_more",
                    "dev",
                    [(max(0, characters - more - draw.randint(0, 1)), 1) for characters, _ in first],
                    seed,
                )

    assert judge()["verdict"] == "not run"
    score(2)
    claim = judge()
    assert (claim["better"], claim["worse"]) == ("2/new -> 2/more", "1/base -> 1/more")
    assert claim["verdict"] == "holds" and 7 < claim["tests"]["dev All"]["lower_by"] < 11  # one more of ten tokens
    score(1)
    assert judge()["verdict"] == "undecided"
    score(0)
    assert judge()["verdict"] == "contradicted"


def test_the_correction_counts_the_claims_of_a_recipes_corpus(run: Callable, judged: Callable):
    run(3)
    result = judged()
    other = {**result, "meta": {**result["meta"], "corpus": "another"}}
    alone = correct([result])[0]["claims"][0]["p_corrected"]
    assert [claim["p_corrected"] for claim in correct([result, other])[1]["claims"]][0] == alone
    many = correct([_table(result, f"table{number}", f"new{number}") for number in range(10)])
    assert many[0]["claims"][0]["p_corrected"] > alone and correct(many) == many
    assert count_verdicts([result]).parts == [("holds", "", 1), ("contradicted", "", 1)]


def _table(result: dict, name: str, system: str) -> dict:
    """The result as a table of another name, in which another system has the place of the first."""
    rows = [{**row, "system": system if row["system"] == "new" else row["system"]} for row in result["rows"]]
    sides = ("better", "worse")
    claims = [
        {**claim, **{side: claim[side].replace("1/", f"{name}/") for side in sides}} for claim in result["claims"]
    ]
    return {**result, "table": name, "rows": rows, "claims": claims}


def test_a_comparison_in_two_tables_counts_once(run: Callable, judged: Callable):
    run(3)
    result = judged()
    again = _table(result, "2", "new")
    for found in correct([result, again]):
        assert [claim["p_corrected"] for claim in found["claims"]] == [c["p_corrected"] for c in result["claims"]]
    # Of other systems, with another margin, or with other seeds it is another comparison, even if all numbers agree.
    shorter = [{**c, "tests": {k: {**t, "seeds": [1, 2]} for k, t in c["tests"].items()}} for c in again["claims"]]
    others = (
        _table(result, "2", "third"),
        {**again, "claims": [{**claim, "margin": 0.1} for claim in again["claims"]]},
        {**again, "claims": shorter},
        {**again, "rows": []},  # a table that is not at hand
    )
    for other in others:
        least = min(claim["p_value"] for claim in result["claims"])
        assert min(claim["p_corrected"] for claim in correct([result, other])[0]["claims"]) == pytest.approx(4 * least)


def test_no_worse_by_more_than_a_margin(toy: Path, run: Callable, judged: Callable):
    """That two systems are alike cannot be shown by finding no difference; that one is no worse by so much can."""
    toy.write_text(toy.read_text().replace("worse: base row}", "worse: base row, margin: 8}"))
    run(5, new=0.2, base=0.2)
    claim = judged()["claims"][0]
    assert (claim["verdict"], claim["margin"]) == ("holds", 8.0)
    for test in claim["tests"].values():
        assert abs(test["lower_by"]) < 3 and test["ci95"][0] > -8  # the effect and its interval are without the margin
    assert "new is better (by more than 8 points)" in plain_table(judged())
    run(5, new=0.2, base=0.1)
    assert judged()["claims"][0]["verdict"] == "undecided"  # 10 points worse are not told from 8
    run(5, new=0.4, base=0.1)
    assert judged()["claims"][0]["verdict"] == "contradicted"


def test_our_own_claims_are_of_the_same_family_and_stand_apart(toy: Path, run: Callable, judged: Callable):
    run(3)
    before = [claim["p_corrected"] for claim in judged()["claims"]]
    toy.write_text(toy.read_text().replace("better: base row,", "better: base row, own: true,"))
    result = judged()
    assert [claim["p_corrected"] for claim in result["claims"]] == before
    assert [claim.get("own") for claim in result["claims"]] == [None, True]
    for text in (claims_section(result), plain_table(result)):
        papers, _, ours = text.partition("Our own claims, tested on these results:")
        assert "Claims of the paper" in papers and "new is better" in papers and "new is worse" not in papers
        assert "new is worse" in ours and "new is better" not in ours


def test_seeds_added_after_a_look_are_said(toy: Path, run: Callable, judged: Callable):
    toy.write_text(toy.read_text().replace("worse: base row}", "worse: base row, extended: {s: 3}}"))
    run(3)
    assert "extended" not in judged()["claims"][0] and "†" not in claims_section(judged())
    run(4)
    result = judged()
    assert [claim.get("extended") for claim in result["claims"]] == [3, None]
    note = "†: seeds were added after a look at 3, with which the claim read undecided"
    assert "**holds†**" in claims_section(result) and note in claims_section(result)
    assert "new is better: holds† (" in plain_table(result) and note in plain_table(result)
    toy.write_text(toy.read_text().replace("{s: 3}", "{another: 3}"))
    assert "extended" not in judged()["claims"][0]
