"""Scores of a run: what is gathered, cells with means and spreads, and the files that
hold them.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.scoring.significance import estimate_interval
from espnet_ext.tables.reading import load_tables
from espnet_ext.tables.result import TableResult
from espnet_ext.tables.run_scores import gather_scores
from espnet_ext.tables.score_table import META, SCORES, Meta, read_scores, write_scores

META_OF_TOY = Meta(
    recipe="toy",
    corpus="c",
    scale="mini",
    tables=("1",),
    units={"clean": "speaker"},
    normaliser="none",
    runs=(),
)


def here(result: TableResult, row: str, column: str):
    found = next(each for each in result.rows if each.name == row)
    return next(cell.here for each, cell in found.cells.items() if each.name == column)


def test_cells(toy: Path, exp: Path, computed: Callable):
    (first,) = computed(toy, "1")
    base, new = here(first, "base row", "clean"), here(first, "-1dB", "clean")
    assert (base.value, base.spread, base.by_seed) == (10.0, 0.0, {1: 10.0, 2: 10.0})
    assert (base.errors, base.words) == (120, 1200)
    assert (new.value, new.by_seed) == (
        pytest.approx(4.1667, abs=1e-4),
        {1: 5.0, 2: 3.3333},
    )
    low, high = estimate_interval([[0, 1] * 30, [0, 0, 1] * 20], [10] * 60)
    assert new.interval == pytest.approx((100 * low, 100 * high), abs=1e-4)
    other = here(first, "-1dB", "other")
    assert (other.value, other.spread) == (20.0, None) and here(
        first, "base row", "other"
    ) is None
    average = here(first, "-1dB", "average")  # of the seed that has run on both
    assert (average.value, average.interval, average.errors) == (12.5, None, None)
    assert first.rows[0].seeds == (1, 2) and first.reference.name == "base row"
    paper, ours = first.compute_reductions(first.rows[0], first.table.columns[2])
    assert (paper, ours) == (pytest.approx(44.0), None)


def test_a_measure_that_a_score_lacks_has_not_run(
    mixed: Path, scored: Callable, scored_mixed: Callable, computed: Callable
):
    scored_mixed("base", "dev", [(1, 0), (0, 1)])
    scored("base_more", 1, "dev", [1, 2])  # of words, without measures
    (result,) = computed(mixed, "1")
    assert (
        here(result, "base", "dev CH").errors,
        here(result, "base", "dev EN").errors,
    ) == (1, 1)
    assert here(result, "more", "dev All") is None is here(result, "more", "dev CH")


def test_scores_of_another_unit_are_refused(
    toy: Path, exp: Path, scored: Callable, computed: Callable
):
    path = scored("new", 2, "clean", [0] * 60) / "score.json"
    path.write_text(path.read_text().replace('"unit": "word"', '"unit": "char"'))
    with pytest.raises(
        InputError,
        match="another unit or text normalisation than in .*score both again",
    ):
        computed(toy, "1")


def test_only_the_selected_tables_are_gathered(toy: Path, exp: Path):
    (exp / "new/seed1/decode_lm/clean").mkdir(parents=True)
    (exp / "new/seed1/decode_lm/clean/score.json").write_text("{broken")
    tables = load_tables(toy)
    assert {key.decoding for key in gather_scores(tables, ["1"], exp).rates} == {
        "default"
    }
    with pytest.raises(InputError, match="decode_lm/clean/score.json: "):
        gather_scores(tables, ["2"], exp)


def test_quantities(toy: Path, exp: Path, computed: Callable):
    text = toy.read_text().replace(
        "test_sets:", "quantities: {latency: ms}\ntest_sets:"
    )
    toy.write_text(
        text.replace("[clean, other, average]", "[latency, clean, other]", 1)
    )
    (exp / "new" / "latency.json").write_text('{"value": 12.5, "unit": "ms"}')
    (result,) = computed(toy, "1")
    assert (
        here(result, "-1dB", "latency").value == 12.5
        and here(result, "base row", "latency") is None
    )
    assert result.table.columns[0].heading == "latency (ms)"
    for content in ("{}", "12.5", '{"value": 1, "unit": "s"}'):
        (exp / "new" / "latency.json").write_text(content)
        with pytest.raises(InputError, match="latency.json: "):
            computed(toy, "1")


def test_what_is_written_is_read(toy: Path, exp: Path, tmp_path: Path):
    scores = gather_scores(load_tables(toy), ["1", "2"], exp)
    meta = META_OF_TOY.model_copy(update={"units": dict(scores.units)})
    write_scores(tmp_path / "results", scores, meta)
    before = (tmp_path / "results" / SCORES).read_bytes()
    found, found_meta = read_scores(tmp_path / "results")
    assert (
        found_meta == meta
        and found.units == scores.units
        and found.quantities == scores.quantities
    )
    for key, by_seed in scores.rates.items():
        for seed, score in by_seed.items():
            other = found.rates[key][seed]
            assert (other.errors, other.words, other.units) == (
                score.errors,
                score.words,
                score.units,
            )
    write_scores(tmp_path / "results", found, meta)
    assert (tmp_path / "results" / SCORES).read_bytes() == before


LINE = "new,default,clean,,1,s1,2,10"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([LINE, LINE], "line 3: a unit given twice"),
        ([LINE.replace(",2,10", ",two,10")], "line 2: "),
        ([LINE.replace(",2,10", ",-2,10")], "line 2: "),
        ([LINE.replace(",2,10", ",2")], "line 2: "),
        ([LINE.replace("clean", "dirty")], "line 2: .*test set"),
        ([LINE.replace(",2,10", ",0,0")], "seed 1: a reference without words"),
        (
            [LINE, LINE.replace("new", "base").replace(",10", ",11")],
            "base, default, clean, seed 1: other words of s1",
        ),
    ],
)
def test_damaged_scores_are_refused_with_their_place(
    tmp_path: Path, lines: list[str], message: str
):
    header = "system,decoding,set,measure,seed,unit,errors,words"
    (tmp_path / META).write_text(json.dumps(META_OF_TOY.model_dump(mode="json")))
    (tmp_path / SCORES).write_bytes(
        gzip.compress("\n".join([header, *lines, ""]).encode())
    )
    with pytest.raises(InputError, match=f"{SCORES}.*{message}"):
        read_scores(tmp_path)


def test_damaged_files_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match="meta.json: no such file"):
        read_scores(tmp_path)
    for content in ("{", "{}", '{"recipe": 1}'):
        (tmp_path / META).write_text(content)
        with pytest.raises(InputError, match="meta.json: (not JSON|recipe|the key)"):
            read_scores(tmp_path)
    for change in (
        {"corpus": "../../x"},
        {"scale": "/tmp/x"},
        {"corpus": "a\\b"},
    ):  # names of a folder
        (tmp_path / META).write_text(
            json.dumps(META_OF_TOY.model_dump(mode="json") | change)
        )
        with pytest.raises(InputError, match="meta.json: (corpus|scale)"):
            read_scores(tmp_path)
    (tmp_path / META).write_text(json.dumps(META_OF_TOY.model_dump(mode="json")))
    for content in (b"", b"plain", gzip.compress(b"\xff")[:-4]):
        (tmp_path / SCORES).write_bytes(content)
        with pytest.raises(InputError, match=f"{SCORES}: (not readable|line 1: )"):
            read_scores(tmp_path)
