"""A clone can recompute what is kept, and a changed digit is found."""

import gzip
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.tables.kept.kept_scores import kept_scores, merge, read_scores_file, write_scores
from espnet_ext.tables.pages.results_md import write_recipe_report
from espnet_ext.tables.plans.plan import select
from espnet_ext.tables.plans.reading import load_tables
from espnet_ext.tables.table_results import write_tables
from espnet_ext.tables.verify import verify_recipe

EGS = Path(__file__).parents[2] / "egs"


def wrong(rate: float, seed: int) -> list[int]:
    draw = random.Random(f"{rate} {seed}")
    return [sum(draw.random() < rate for _ in range(10)) for _ in range(48)]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test leaves the recipe for the others."""
    return tmp_path_factory.mktemp("template") / "recipe"


@pytest.fixture
def kept(template: Path, toy: Path, tmp_path: Path, scored: Callable, capsys: pytest.CaptureFixture) -> Path:
    """The toy recipe with three seeds of each system and its results kept, as in a clone: without the run's folder."""
    recipe = toy.parents[1]
    if not template.exists():
        for seed in (1, 2, 3):
            for test_set in ("clean", "other"):
                scored("new", seed, test_set, wrong(0.1, seed), speakers=12)
                scored("base", seed, test_set, wrong(0.4, seed), speakers=12)
                scored("new", seed, test_set, wrong(0.05, seed), decoding="lm", speakers=12)
        tables = load_tables(toy)
        write_tables(tables, select(tables, None), None, tmp_path / "exp", scale="mini", corpus="toy")
        write_recipe_report(recipe, [tmp_path / "exp" / "results"])
        shutil.rmtree(tmp_path / "exp")
        shutil.copytree(recipe, template)
    shutil.copytree(template, recipe, dirs_exist_ok=True)
    capsys.readouterr()
    return recipe


def test_a_clone_recomputes_every_table_and_claim(kept: Path, capsys: pytest.CaptureFixture):
    result = json.loads((kept / "results" / "mini-toy" / "table1.json").read_text())
    assert [claim["verdict"] for claim in result["claims"]] == ["holds", "contradicted"]
    assert call(["table", "verify", "--recipe", str(kept)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("json: ")[2] for line in lines] == [
        "table 1: recomputed, all digits agree",
        "table 2: recomputed, all digits agree",
    ]
    assert (
        "| toy, scale mini |        2 |       1 |              1 |           0 |         0 | 3       |"
        in (kept / "RESULTS.md").read_text()
    )


def edit(path: Path, change: Callable[[dict], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def add_to(mapping: dict, key: str, amount: float) -> None:
    mapping[key] = round(mapping[key] + amount, 6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: add_to(r["rows"][0]["cells"]["clean"]["here"], "value", 1e-4), r"rows\[0\]\.cells\.clean\.here"),
        (lambda r: add_to(r["rows"][1]["cells"]["other"]["here"]["values"], "2", -1e-4), r"rows\[1\].*values\.2 is"),
        (lambda r: add_to(r["rows"][1]["cells"]["other"], "paper", 0.1), r"rows\[1\]\.cells\.other\.paper is 20\.1"),
        (lambda r: add_to(r["claims"][0], "p_value", 1e-6), r"claims\[0\]\.p_value is"),
        (lambda r: add_to(r["claims"][1], "p_corrected", 1e-6), r"claims\[1\]\.p_corrected is"),
        (lambda r: r["claims"][0].update(verdict="undecided"), r"claims\[0\]\.verdict is undecided, but .* give holds"),
        (lambda r: add_to(r["claims"][0]["tests"]["clean"], "units", 1), r"claims\[0\]\.tests\.clean\.units is 13, "),
        (lambda r: r.update(caption="Another"), "caption is Another, but its scores give New against base"),
    ],
)  # fmt: skip
def test_one_changed_digit_is_found(kept: Path, change: Callable[[dict], None], message: str):
    path = kept / "results" / "mini-toy" / "table1.json"
    edit(path, change)
    with pytest.raises(InputError, match=f"^{path}: {message}"):
        verify_recipe(kept)


def test_a_changed_score_is_found(kept: Path):
    path = kept / "results" / "mini-toy" / "scores.json.gz"
    scores = read_scores_file(path)
    scores["scores"][0]["errors"][0] += 1
    write_scores(path, scores)
    with pytest.raises(
        InputError, match=r"scores.json.gz: new, seed 1, clean: its utterances have .* not what it says"
    ):
        verify_recipe(kept)
    scores["scores"][0]["total_errors"] += 1
    write_scores(path, scores)
    with pytest.raises(InputError, match=r"seed 1, clean: \d+ errors do not give"):
        verify_recipe(kept)
    scores["scores"][0]["value"] = round(100 * scores["scores"][0]["total_errors"] / 480, 4)
    write_scores(path, scores)
    with pytest.raises(InputError, match=r"table1.json: rows\[0\]\.cells\.clean\.here\.value is"):
        verify_recipe(kept)


def test_a_changed_report_is_found(kept: Path):
    path = kept / "RESULTS.md"
    path.write_text(path.read_text().replace("| -1dB ", "| -2dB "))
    with pytest.raises(InputError, match=r"RESULTS.md: line \d+ is not what the kept results give; write it with"):
        verify_recipe(kept)


def test_scores_that_are_gone_or_damaged(kept: Path):
    path = kept / "results" / "mini-toy" / "scores.json.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(InputError, match="scores.json.gz: not the scores of a run"):
        verify_recipe(kept)
    path.write_bytes(gzip.compress(b'{"version": 1, "sets": [], "scores": []}'))
    with pytest.raises(InputError, match="scores.json.gz: not the scores of a run"):
        verify_recipe(kept)
    path.unlink()
    with pytest.raises(InputError, match="scores.json.gz: no such file"):
        verify_recipe(kept)
    path.write_bytes(whole)
    assert len(verify_recipe(kept)) == 2


def test_tables_without_kept_scores_are_checked_and_said_to_be_so(kept: Path, capsys: pytest.CaptureFixture):
    folder = kept / "results" / "mini-toy"
    (folder / "scores.json.gz").unlink()
    for path in folder.glob("*.json"):
        edit(path, lambda result: result.update(scores=None))
    write_recipe_report(kept)
    assert call(["table", "verify", "--recipe", str(kept)]) == 0
    assert capsys.readouterr().out.count("as it was kept; its scores are not kept") == 2
    path = folder / "table1.json"
    edit(path, lambda r: add_to(r["rows"][0]["cells"]["clean"]["here"], "value", 0.1))
    with pytest.raises(
        InputError, match=r"rows\[0\] \(-1dB\)\.cells\.clean\.here: the value .* is not the mean of its"
    ):
        verify_recipe(kept)


def test_nothing_to_verify(tmp_path: Path):
    with pytest.raises(InputError, match="results: nothing is kept there"):
        verify_recipe(tmp_path)


@pytest.mark.parametrize("recipe", sorted(path.parent.name for path in EGS.glob("*/results")))
def test_what_the_recipes_keep(recipe: str):
    assert verify_recipe(EGS / recipe)


def test_the_same_scores_give_the_same_bytes(kept: Path, tmp_path: Path):
    path = kept / "results" / "mini-toy" / "scores.json.gz"
    write_scores(tmp_path / "again.gz", read_scores_file(path))
    assert (tmp_path / "again.gz").read_bytes() == path.read_bytes()
    score = kept_scores(path).of("new", "default", "clean", None)[1]
    assert score.counts["clean-013"].unit == "speaker1" and len(score.counts) == 48


def test_scores_of_two_runs_are_put_together(kept: Path):
    old = read_scores_file(kept / "results" / "mini-toy" / "scores.json.gz")
    new = {**old, "scores": [{**each, "seed": 4} for each in old["scores"] if each["seed"] == 1]}
    both = merge(old, new)
    assert len(both["scores"]) == len(old["scores"]) + len(new["scores"]) and both["sets"] == old["sets"]
    changed = {**new, "sets": [{**old["sets"][0], "words": [11] * 48}, *old["sets"][1:]]}
    put = merge(old, changed)
    gone = old["sets"][0]["test_set"]
    assert {each["seed"] for each in put["scores"] if each["test_set"] == gone} == {4}
    assert merge(None, old) == old


def test_a_system_whose_scores_are_all_gone_takes_its_quantities_with_it(kept: Path):
    kept_file = read_scores_file(kept / "results" / "mini-toy" / "scores.json.gz")
    systems = sorted({each["system"] for each in kept_file["scores"]})
    quantities = [{"system": name, "name": "latency", "unit": "ms", "value": 1.0} for name in [*systems, "unscored"]]
    old = {**kept_file, "quantities": quantities}
    new = {
        **kept_file,
        "sets": [{**each, "words": [11] * len(each["words"])} for each in kept_file["sets"]],
        "scores": [each for each in kept_file["scores"] if each["system"] == systems[0]],
        "quantities": [],
    }
    assert len(systems) > 1
    assert [each["system"] for each in merge(old, new)["quantities"]] == [systems[0], "unscored"]


def test_tables_of_earlier_runs_are_corrected_with_the_new_ones(toy: Path, tmp_path: Path, scored: Callable, capsys):
    for seed in (1, 2, 3):
        for test_set in ("clean", "other"):
            scored("new", seed, test_set, wrong(0.1, seed), speakers=12)
            scored("base", seed, test_set, wrong(0.4, seed), speakers=12)
    tables = load_tables(toy)
    options = {"scale": "mini", "corpus": "toy"}
    write_tables(tables, select(tables, ["1"]), None, tmp_path / "exp", command="first", **options)
    path = tmp_path / "exp" / "results" / "table1.json"
    first = json.loads(path.read_text())
    scored("new", 1, "clean", wrong(0.1, 1), decoding="lm", speakers=12)
    (written,) = write_tables(tables, select(tables, ["2"]), None, tmp_path / "exp", command="second", **options)
    assert written.name == "table2.json" and json.loads(path.read_text()) == first
    scored("new", 3, "clean", wrong(0.3, 9), speakers=12)
    write_tables(tables, select(tables, ["2"]), None, tmp_path / "exp", command="third", **options)
    again = json.loads(path.read_text())
    assert again["meta"]["command"] == "third" and again["rows"] != first["rows"]
    capsys.readouterr()
