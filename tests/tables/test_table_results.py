import json
import random
import statistics
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from espnet_ext.errors import InputError
from espnet_ext.scoring.mixed import score_mixed_texts
from espnet_ext.scoring.score_files import summarise, write_reports
from espnet_ext.tables.kept.keeping import keep_results
from espnet_ext.tables.kept.result_files import read_results
from espnet_ext.tables.pages.render import plain_table
from espnet_ext.tables.pages.results_md import NOTES, read_kept, recipe_pages
from espnet_ext.tables.plans.reading import load_tables
from espnet_ext.tables.scores import read_scores
from espnet_ext.tables.table_results import collect, write_results


@pytest.fixture
def result(toy: Path, exp: SimpleNamespace, meta: dict) -> dict:
    tables = load_tables(toy)
    return collect(tables, tables.tables["1"], exp.folder, "mini", "toy corpus", meta)


def test_cells(result: dict):
    assert result | {"rows": 0, "claims": 0, "reference": 0, "meta": 0, "paper": 0} == {
        "version": 2, "scores": "scores.json.gz", "groups": [["clean", "other", "average"]], "reductions": ["average"],
        "recipe": "toy", "table": "1", "scale": "mini", "caption": "New against base", "metric": "WER (%)",
        "columns": ["clean", "other", "average"], "rows": 0, "claims": 0, "reference": 0, "meta": 0, "paper": 0,
    }  # fmt: skip
    assert result["meta"]["normaliser"] == "none" and result["meta"]["corpus"] == "toy corpus"
    new, base = result["rows"]
    assert (new["name"], new["system"], new["seeds"]) == ("-1dB", "new", [1, 2])
    clean = new["cells"]["clean"]
    assert clean["paper"] == 4.0
    # 30 and 20 errors in 600 words.
    assert clean["here"]["values"] == {"1": 5.0, "2": 3.3333}
    assert clean["here"]["value"] == pytest.approx(25 / 6, abs=1e-4)
    assert clean["here"]["spread"] == pytest.approx(statistics.stdev([5, 10 / 3]), abs=1e-4)
    assert (clean["here"]["errors"], clean["here"]["words"]) == (50, 1200)
    other = new["cells"]["other"]["here"]
    assert other == {"value": 20.0, "ci95": [20.0, 20.0], "errors": 80, "words": 400}
    # Only seed 1 has run on both test sets.
    assert new["cells"]["average"]["here"] == {"value": 12.5, "ci95": None, "errors": None, "words": None}
    assert base["cells"]["other"] == {"paper": 20.0, "here": None}
    assert base["cells"]["average"] == {"paper": 12.5, "here": None}
    json.dumps(result)


def test_average_over_seeds_and_a_reference_in_another_table(toy: Path, exp: SimpleNamespace, scored: Callable, meta):
    scored("new", 2, "other", [1] * 40)
    scored("new", 2, "clean", [0] * 60, decoding="lm")
    tables = load_tables(toy)
    average = collect(tables, tables.tables["1"], exp.folder, "s", "c", meta)["rows"][0]["cells"]["average"]["here"]
    assert average["values"] == {"1": 12.5, "2": pytest.approx((10 / 3 + 10) / 2, abs=1e-4)}
    assert average["value"] == pytest.approx((12.5 + 20 / 3) / 2, abs=1e-4)
    assert average["spread"] == pytest.approx(statistics.stdev([12.5, 20 / 3]), abs=1e-4)
    second = collect(tables, tables.tables["2"], exp.folder, "s", "c", meta)
    assert second["reference"]["name"] == "-1dB of table 1"
    assert second["reference"]["cells"]["clean"]["here"]["value"] == pytest.approx(25 / 6, abs=1e-4)
    assert second["rows"][0]["seeds"] == [2] and second["rows"][0]["cells"]["clean"]["here"]["value"] == 0.0


def test_interval_of_several_seeds_covers_the_mean(toy: Path, tmp_path: Path, scored: Callable, meta: dict):
    """Against a plain bootstrap of the mean of both seeds' error rates, drawing utterances."""
    wrong = {seed: [random.Random(f"{seed} {i}").randint(0, 6) for i in range(50)] for seed in (1, 2)}
    for seed, counts in wrong.items():
        scored("new", seed, "clean", counts)
    tables = load_tables(toy)
    here = collect(tables, tables.tables["1"], tmp_path / "exp", "s", "c", meta)["rows"][0]["cells"]["clean"]["here"]
    draws = [random.Random(i).choices(range(50), k=50) for i in range(4000)]
    means = sorted(
        statistics.fmean(10 * statistics.fmean(w[i] for i in draw) for w in wrong.values()) for draw in draws
    )
    assert here["ci95"] == pytest.approx([means[100], means[3899]], abs=0.6)


def test_measures_of_a_test_set(mixed: Path, tmp_path: Path, scored_mixed: Callable, meta: dict):
    scored_mixed("base", "dev", [(1, 1)] * 30)
    scored_mixed("base", "test", [(0, 2)] * 10)
    scored_mixed("base_more", "dev", [(1, 1), (0, 1), (0, 1)] * 10)
    tables = load_tables(mixed)
    result = collect(tables, tables.tables["1"], tmp_path / "exp", "s", "c", meta)
    base, more = result["rows"]
    here = {column: cell["here"] and cell["here"]["value"] for column, cell in base["cells"].items()}
    assert here == {"dev All": 20.0, "dev CH": 12.5, "dev EN": 50.0, "average EN": 75.0}
    assert base["cells"]["dev EN"]["here"] == {"value": 50.0, "ci95": [50.0, 50.0], "errors": 30, "words": 60}
    assert more["cells"]["dev CH"]["here"]["errors"] == 10 and more["cells"]["average EN"]["here"] is None
    assert result["groups"] == [["dev All", "dev CH", "dev EN"], ["average EN"]]
    (claim,) = result["claims"]
    assert (claim["verdict"], claim["reason"], claim["compares"]) == ("undecided", "1 seed", "rates")
    assert claim["tests"]["dev EN"]["lower_by"] == 0 < claim["tests"]["dev All"]["lower_by"]
    lines = [line.split() for line in plain_table(result).splitlines()]
    assert [line for line in lines if line[:1] == ["row"]] == [
        ["row", *["dev", "All", "dev", "CH", "dev", "EN", "reduction", "of", "dev", "CH", "seeds"]],
        ["row", "average", "EN", "seeds"],
    ]
    first = next(line for line in lines if line[:1] == ["more"])
    assert first[-3:] == ["11.1%", "66.7%", "1"]  # of the characters: 8 for 9 in the paper, 10 for 30 errors here
    markdown = write_results(result, tmp_path)[1].read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("| more") for line in markdown) == 2


def test_several_seeds_of_a_measure(mixed: Path, tmp_path: Path, scored_mixed: Callable, meta: dict):
    for seed, wrong in ((1, [(1, 0)] * 20), (2, [(1, 1)] * 20)):
        scored_mixed("base", "dev", wrong, seed)
    tables = load_tables(mixed)
    cells = collect(tables, tables.tables["1"], tmp_path / "exp", "s", "c", meta)["rows"][0]["cells"]
    assert cells["dev EN"]["here"]["values"] == {"1": 0.0, "2": 50.0}
    assert cells["dev EN"]["here"]["ci95"] == [25.0, 25.0]
    assert (cells["dev EN"]["here"]["errors"], cells["dev EN"]["here"]["words"]) == (20, 80)
    assert cells["dev CH"]["here"]["spread"] == 0 and cells["dev All"]["here"]["values"] == {"1": 10.0, "2": 20.0}


def test_scores_without_the_measure_are_refused(mixed: Path, tmp_path: Path, scored: Callable, meta: dict):
    scored("base", 1, "dev", [1] * 10)
    tables = load_tables(mixed)
    with pytest.raises(InputError, match=r"score\.json: no measure 'All'; .*score with `score mer`"):
        collect(tables, tables.tables["1"], tmp_path / "exp", "s", "c", meta)


def test_a_measure_without_tokens_is_a_cell_without_number(tmp_path: Path):
    score = score_mixed_texts({"u": "一二"}, {"u": "一三"})
    folder = tmp_path / "base" / "seed1" / "decode_default" / "dev"
    write_reports(folder, score, summarise(score))
    assert read_scores(tmp_path, "base", "default", "dev", "EN") == {}
    assert read_scores(tmp_path, "base", "default", "dev", "CH")[1].value == 50.0
    assert read_scores(tmp_path, "base", "default", "dev", "All")[1].utterances == folder / "per_utterance.tsv"


def test_nothing_has_run(toy: Path, tmp_path: Path, meta: dict):
    tables = load_tables(toy)
    result = collect(tables, tables.tables["1"], tmp_path / "exp", "mini", "c", meta)
    assert result["meta"]["normaliser"] is None
    assert all(cell["here"] is None for row in result["rows"] for cell in row["cells"].values())
    assert [claim["verdict"] for claim in result["claims"]] == ["not run", "not run"]
    paths = write_results(result, tmp_path / "results")
    assert read_results(paths[0]) == result
    keep_results(tmp_path / "results", tmp_path / "toy" / "results")
    assert "Not run: table 1." in recipe_pages(tmp_path / "toy")[tmp_path / "toy" / "RESULTS.md"]


def test_drawn_tables(result: dict, tmp_path: Path):
    text = plain_table(result, ["-1dB"])
    line = next(line for line in text.splitlines() if line.startswith("-1dB"))
    assert line.split()[:5] == ["-1dB", "4.00", "4.17", "±", "1.18"]
    assert "44.0%" in line and line.split()[-2:] == ["1", "2"]  # the paper's: 7.0 for 12.5
    assert not any(line.startswith("base row") for line in text.splitlines())
    markdown = write_results(result, tmp_path)[1].read_text(encoding="utf-8")
    base = next(line for line in markdown.splitlines() if line.startswith("| base row"))
    assert [cell.strip() for cell in base.strip("|").split("|")] == [
        "base row", "5.00", "10.00 ± 0.00", "[10.00, 10.00]", "20.00", "-", "", "12.50", "-", "0.0%", "-", "1 2",
    ]  # fmt: skip
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in markdown.splitlines()]
    place = lines.index(
        ["claim", "verdict", "test set", "effect", "95% interval", "seeds", "units", "p", "corrected p"]
    )
    assert lines[place + 2 : place + 4] == [
        ["new is better", "**not run**", "clean", "5.83 lower", "-", "1 2", "60 recordings", "-", "-"],
        ["", "", "other", "not run", "-", "-", "-", "-", ""],
    ]
    assert lines[place + 4][2:4] == ["clean", "5.83 higher"]
    assert "`./run.sh --table 1`" in markdown and "0123456789ab with uncommitted changes" in markdown


def test_reduction_of_ours(toy: Path, exp: SimpleNamespace, scored: Callable, meta: dict):
    scored("base", 1, "other", [4] * 40)  # base: (10 + 40) / 2 = 25; new: 12.5
    tables = load_tables(toy)
    result = collect(tables, tables.tables["1"], exp.folder, "s", "c", meta)
    line = next(line for line in plain_table(result).splitlines() if line.startswith("-1dB"))
    assert line.split()[-4:] == ["44.0%", "50.0%", "1", "2"]


def test_report(result: dict, tmp_path: Path):
    recipe, kept = tmp_path / "toy", tmp_path / "toy" / "results"
    with pytest.raises(InputError, match="nothing is kept there yet"):
        read_kept(recipe)
    for scale in ("mini", "full"):
        write_results({**result, "scale": scale}, kept / scale)
    write_results({**result, "table": "10"}, kept / "mini")
    write_results({**result, "table": "2"}, kept / "mini")
    (recipe / NOTES).parent.mkdir()
    (recipe / NOTES).write_text("Smaller in *all*.\n")
    assert len(read_kept(recipe)) == 4
    lines = recipe_pages(recipe)[recipe / "RESULTS.md"].splitlines()
    headings = [line for line in lines if line.startswith("#")]
    assert headings[:4] == [
        "# Results of toy",
        "## What differs from the paper",
        "## toy corpus, scale full",
        headings[3],
    ]
    assert [line.split(".")[0] for line in headings[5:]] == ["### Table 1", "### Table 2", "### Table 10"]
    assert headings[4] == "## toy corpus, scale mini"
    assert "Smaller in *all*." in lines
    write_results({**result, "recipe": "other"}, kept / "foreign")
    with pytest.raises(InputError, match="full/table1.json: belongs to the recipe toy, but .*foreign.* to other"):
        read_kept(recipe)
    write_results(result, kept / "foreign")
    with pytest.raises(InputError, match="table 1 of toy corpus, scale mini, is also in"):
        read_kept(recipe)
    (kept / "foreign" / "table1.json").write_text("[]")
    with pytest.raises(InputError, match="foreign/table1.json: not a table's results"):
        read_kept(recipe)
    (kept / "foreign" / "table1.json").unlink()
    with pytest.raises(InputError, match="no table.*json there"):
        read_kept(recipe)


def test_scores_that_cannot_be_compared(toy: Path, exp: SimpleNamespace, scored: Callable, meta: dict):
    tables = load_tables(toy)
    scored("base", 1, "clean", [1] * 60, normaliser="whisper")
    with pytest.raises(InputError, match="another unit or text normalisation"):
        collect(tables, tables.tables["1"], exp.folder, "s", "c", meta)
    scored("base", 1, "clean", [1] * 59)
    with pytest.raises(InputError, match=r"base/seed1/.*score\.json: another reference than in .*new/seed1"):
        collect(tables, tables.tables["1"], exp.folder, "s", "c", meta)


def test_other_utterances_are_refused_by_id(toy: Path, exp: SimpleNamespace, meta: dict):
    tables = load_tables(toy)
    path = exp.folder / "base" / "seed2" / "decode_default" / "clean" / "per_utterance.tsv"
    whole = path.read_text()
    path.write_text(whole.replace("clean-007", "clean-700"))
    with pytest.raises(InputError, match=r"base/seed1.*base/seed2.*utterance clean-007 is in one only"):
        collect(tables, tables.tables["1"], exp.folder, "s", "c", meta)
    path.write_text(whole.replace("clean-007\t10", "clean-007\t11").replace("clean-008\t10", "clean-008\t9"))
    with pytest.raises(InputError, match="utterance clean-007 has different references"):
        collect(tables, tables.tables["1"], exp.folder, "s", "c", meta)
    path.write_text(whole.replace("clean-007\t10", "clean-007\t11"))
    with pytest.raises(InputError, match="60 errors in 601 words, but .*score.json has 60 in 600; score again"):
        collect(tables, tables.tables["1"], exp.folder, "s", "c", meta)
    path.write_text(whole.replace("clean-008", "clean-007"))
    with pytest.raises(InputError, match="line 10: utterance clean-007 stands twice"):
        collect(tables, tables.tables["1"], exp.folder, "s", "c", meta)
    path.write_text(whole[:-8])
    with pytest.raises(InputError, match="line 61 is not"):
        collect(tables, tables.tables["1"], exp.folder, "s", "c", meta)
    path.write_text("")
    with pytest.raises(InputError, match="the header lacks del, id"):
        collect(tables, tables.tables["1"], exp.folder, "s", "c", meta)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"value": "x"}'])
def test_what_is_no_score_file_is_refused(exp: SimpleNamespace, content: str):
    path = exp.folder / "new" / "seed1" / "decode_default" / "clean" / "score.json"
    path.write_text(content)
    with pytest.raises(InputError, match="score.json: not a score file"):
        read_scores(exp.folder, "new", "default", "clean")


def test_a_score_that_its_counts_do_not_give_is_refused(exp: SimpleNamespace):
    path = exp.folder / "new" / "seed1" / "decode_default" / "clean" / "score.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"value": 4.9}))
    with pytest.raises(InputError, match="30 errors in 600 words do not give 4.9%"):
        read_scores(exp.folder, "new", "default", "clean")


def test_only_folders_of_seeds_count(exp: SimpleNamespace):
    (exp.folder / "new" / "seed2").rename(exp.folder / "new" / "seed2.old")
    assert list(read_scores(exp.folder, "new", "default", "clean")) == [1]
    assert read_scores(exp.folder, "no", "default", "clean") == {}
