from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.results.config import Change, Column, RowRef, load_tables


def test_toy_is_read(toy: Path):
    tables = load_tables(toy)
    assert list(tables.systems) == ["base", "new"]
    assert tables.systems["base"].train == ("train",) and tables.systems["new"].train == ("a", "b")
    assert tables.decodings == {"default": {}, "lm": {"lm_weight": 0.5}}
    first, second = tables.tables.values()
    assert first.baseline == RowRef("1", "base row") and second.baseline == RowRef("1", "-1dB")
    assert first.columns == (Column("clean", "clean"), Column("other", "other"), Column("average", "average"))
    assert first.claims[0].columns == first.columns[:2] and first.reductions == ("average",)
    assert second.rows[0].paper == {"clean": 3.0, "other": None, "average": None}
    assert tables.row(RowRef("2", "lm")).decoding == "lm" and first.rows[0].decoding == "default"
    assert tables.recipe_dir == toy.parent.parent


def test_measures_and_changes_are_read(mixed: Path):
    tables = load_tables(mixed)
    first, second = tables.tables.values()
    assert tables.measures == ("All", "CH", "EN")
    assert first.columns[1] == Column("dev CH", "dev", "CH")
    assert first.columns[3] == Column("average EN", "average", "EN")
    assert first.reductions == ("dev CH",)
    assert [column.name for column in first.claims[0].columns] == ["dev All", "dev EN"]
    (claim,) = second.claims
    assert claim.better == Change(RowRef("2", "new"), RowRef("2", "more"))
    assert claim.worse == Change(RowRef("1", "base"), RowRef("1", "more"))
    assert claim.columns == second.columns


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "system: base,",
            "system: bass,",
            r"tables\.1\.rows\[1\] \(base row\)\.system: unknown system 'bass'.*base, n",
        ),
        ("system: base,", "system: [base],", r"rows\[1\] \(base row\)\.system: unknown system"),
        ("name: base row", 'name: "-1dB"', r"tables\.1\.rows\[1\]: the row '-1dB' stands twice"),
        ("name: base row", "name: 0.5", r"rows\[1\]\.name: .* in quotes\), is 0\.5"),
        ("name: base row", 'name: "a,b"', r"rows\[1\]\.name: 'a,b' must hold no comma"),
        ("clean: 4.0", "clean: four", r"rows\[0\] \(-1dB\)\.paper\.clean: .*number.*'four'"),
        ("clean: 4.0", "clean: true", r"paper\.clean: .*number.*True"),
        ("clean: 4.0", "clean: .nan", r"paper\.clean: .*number.*nan"),
        ("clean: 4.0", "clean: -4.0", r"paper\.clean: .*at least 0"),
        ("clean: 4.0, ", "", r"\(-1dB\)\.paper: the key 'clean' is missing"),
        ("decoding: lm,", "decoding: ml,", r"rows\[0\] \(lm\)\.decoding: unknown decoding 'ml'; known are default, lm"),
        ("decoding: lm,", "decodign: lm,", r"rows\[0\]: unknown key 'decodign'"),
        ("caption: New", "capton: New", r"tables\.1: unknown key 'capton'; known are caption, columns"),
        ("    caption: New against base\n", "", r"tables\.1: the key 'caption' is missing"),
        ("recipe: toy", "recipe: toy\nrecipes: toy", "unknown key 'recipes'"),
        ("recipe: toy", "recipe: ../toy", r"recipe: '\.\./toy' must be a name"),
        ("year: 2020", "year: soon", r"paper\.year: must be a whole number"),
        ("  new: {config", "  base: {config", r"line 7, column 3: the key 'base' stands twice"),
        ("  new: {config", "  ../new: {config", r"systems\.\.\./new: '\.\./new' must be a name"),
        ("  lm: {lm_weight", "  default: {lm_weight", r"decodings\.default: 'default' is the decoding config itself"),
        ("  lm: {lm_weight: 0.5}", "  lm: 0.5", r"decodings\.lm: must be a mapping"),
        ('  "2":', "  2:", r"tables: the key 2 must be text; put it in quotes"),
        ("columns: [clean, other, average]", "columns: [clean, dirty]", r"tables\.1\.columns: unknown column 'dirty'"),
        ("columns: [clean, other, average]", "columns: [clean, clean]", r"columns: a name stands twice"),
        ("columns: [clean, other, average]", "columns: []", r"columns: must be a list with at least one item"),
        ("test_sets: [clean, other]", "test_sets: [clean, other, average]", "test_sets: 'average' is the mean"),
        ("baseline: base row", "baseline: no row", r"tables\.1\.baseline: unknown row of table 1 'no row'"),
        ('baseline: "1/-1dB"', 'baseline: "3/-1dB"', r"tables\.2\.baseline: unknown table '3'"),
        ('better: "-1dB"', 'better: "-2dB"', r"tables\.1\.claims\[0\]\.better: unknown row of table 1 '-2dB'"),
        ('better: "-1dB"', "better: base row", r"tables\.1\.claims\[0\]: better and worse are the same row"),
        ("worse: base row}", "worse: base row, columns: [x]}", r"claims\[0\]\.columns: unknown column 'x'"),
        (
            "worse: base row}",
            "worse: base row, columns: [average]}",
            r"columns: unknown column 'average'; .*clean, other$",
        ),
        ("    baseline: base row", "    reduction: dirty", r"tables\.1\.reduction: unknown column 'dirty'"),
        ("train: [a, b]", "train: []", r"systems\.new\.train: must be a list with at least one item"),
        ("overrides: {encoder: new, encoder_conf: {size: 8}}", "overrides: [1]", r"new\.overrides: must be a mapping"),
        ("recipe: toy", "recipe: [toy", r"tables\.yaml: line \d+, column \d+: "),
        ("recipe: toy", "recipe: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
    ],
)
def test_mistakes_are_refused_with_their_place(toy: Path, old: str, new: str, message: str):
    check_refusal(toy, old, new, message)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("measures: [All, CH, EN]", "measures: []", "measures: must be a list"),
        ("measures: [All, CH, EN]", "measures: [All, ../CH]", r"measures: '\.\./CH' must be a name"),
        ("columns: [dev All]", "columns: [tst]", r"tables\.2\.columns: unknown column 'tst'; known are dev, "),
        ("columns: [dev All]", "columns: [dev Al]", r"columns: unknown column 'dev Al'"),
        ("columns: [dev All]", "columns: [dev All, dev All]", "columns: a name stands twice"),
        ("paper: {dev All: 11.0}", "paper: {All: 11.0}", r"rows\[0\] \(new\)\.paper: unknown key 'All'"),
        ("better: {from: new, to: more}", "better: more", r"claims\[0\]: better and worse must both be rows, or both"),
        ("better: {from: new, to: more}", "better: {from: new}", r"claims\[0\]\.better: the key 'to' is missing"),
        ("better: {from: new, to: more}", "better: {from: new, to: 2/new}", r"better: from and to are the same row"),
        ("better: {from: new, to: more}", "better: {from: old, to: more}", r"better: unknown row of table 2 'old'"),
        ("worse: {from: 1/base, to: 1/more}", "worse: {from: new, to: more}", r"the same row or change"),
    ],
)
def test_mistakes_in_measures_and_changes_are_refused(mixed: Path, old: str, new: str, message: str):
    check_refusal(mixed, old, new, message)


def check_refusal(path: Path, old: str, new: str, message: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message) as caught:
        load_tables(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("content", "message"), [(b"", "'recipe' is missing"), (b"- a", "mapping"), (b"\xff", "YAML")])
def test_files_that_hold_no_tables(toy: Path, content: bytes, message: str):
    toy.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_tables(toy)


def test_captions_of_pictures(toy: Path):
    assert load_tables(toy).pictures == {}
    toy.write_text(toy.read_text() + 'pictures: {fig1: "Fig. 1: energy"}\n')
    assert load_tables(toy).pictures == {"fig1": "Fig. 1: energy"}
    toy.write_text(toy.read_text().replace('"Fig. 1: energy"', "1"))
    with pytest.raises(InputError, match="pictures.fig1: must be one line of text"):
        load_tables(toy)
