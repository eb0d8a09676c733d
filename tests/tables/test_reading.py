"""tables.yaml: what is read from it, systems made by sweeps, and mistakes that are
refused with their place.
"""

from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.design import Change
from espnet_ext.tables.publish import check_registered
from espnet_ext.tables.reading import Column, load_tables
from espnet_ext.tables.schema import System


def test_toy_is_read(toy: Path):
    tables = load_tables(toy)
    assert list(tables.systems) == ["base", "new"]
    assert tables.systems["base"] == System(
        name="base", kind="train", config="train", data=["train"]
    )
    assert tables.systems["new"].data == ("a", "b")
    assert tables.decodings == {"default": {}, "lm": {"lm_weight": 0.5}}
    first, second = tables.tables.values()
    assert first.baseline == "1/base row" and second.baseline == "1/-1dB"
    columns = (
        Column("clean", ("clean",)),
        Column("other", ("other",)),
        Column("average", ("clean", "other")),
    )
    assert first.columns == columns and first.reductions == columns[2:]
    assert tables.list_tested_columns(tables.claims["better"]) == list(columns[:2])
    assert tables.rows["2/lm"].paper == {"clean": 3.0, "other": None, "average": None}
    assert tables.rows["2/lm"].decoding == "lm" and first.rows[0].decoding == "default"
    assert tables.recipe_dir == toy.parent.parent


def test_a_table_is_made_at_its_scales_alone(toy: Path):
    toy.write_text(toy.read_text().replace('  "2":\n', '  "2":\n    scales: [own]\n'))
    assert list(load_tables(toy).tables) == ["1", "2"]
    assert list(load_tables(toy, "own").tables) == ["1", "2"]
    assert list(load_tables(toy, "mini").tables) == ["1"]


def test_measures_and_changes_are_read(mixed: Path):
    tables = load_tables(mixed)
    first = tables.tables["1"]
    assert first.columns[1] == Column("dev CH", ("dev",), "CH")
    assert first.columns[3] == Column("average EN", ("dev", "test"), "EN")
    assert [column.name for column in first.reductions] == ["dev CH"]
    assert [
        column.name for column in tables.list_tested_columns(tables.claims["more"])
    ] == [
        "dev All",
        "dev EN",
    ]
    claim = tables.claims["gain"]
    assert claim.better == Change.model_validate({"from": "2/new", "to": "2/more"})
    assert claim.rows == ("2/new", "2/more", "1/base", "1/more")


@pytest.mark.parametrize(
    "numbers", ["", ", paper: null", ", paper: [null, null, null]"]
)
def test_a_row_of_ones_own_needs_no_numbers_of_the_paper(toy: Path, numbers: str):
    own = f"      - {{name: mine, system: new{numbers}}}\n"
    toy.write_text(toy.read_text().replace("    rows:\n", f"    rows:\n{own}", 1))
    row = load_tables(toy).rows["1/mine"]
    assert row.paper == dict.fromkeys(("clean", "other", "average"))


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "'recipe' is missing"), (b"- a", "mapping"), (b"\xff", "YAML")],
)
def test_files_that_hold_no_tables(toy: Path, content: bytes, message: str):
    toy.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_tables(toy)


def test_seeds_of_the_design(toy: Path):
    assert load_tables(toy).list_seeds("base", "mini") == [1]
    for scale, content in (("mini", "{}"), ("short", "over: mini"), ("smoke", "{}")):
        toy.with_name(f"{scale}.yaml").write_text(content)
    toy.write_text(
        toy.read_text() + "seeds: {mini: {default: 2, base: 3}, short: {new: 4}}\n"
    )
    tables = load_tables(toy)
    assert [tables.list_seeds(name, "mini") for name in ("base", "new")] == [
        [1, 2, 3],
        [1, 2],
    ]
    assert [tables.list_seeds(name, "short") for name in ("base", "new")] == [
        [1, 2, 3],
        [1, 2, 3, 4],
    ]  # over: mini
    assert (
        tables.list_seeds("base", "smoke") == tables.list_seeds("base", "full") == [1]
    )
    toy.with_name("short.yaml").unlink()
    with pytest.raises(InputError, match="seeds: no scale 'short'"):
        load_tables(toy)
    toy.with_name("short.yaml").write_text("")
    toy.write_text(toy.read_text().replace("base: 3", "bass: 3"))
    with pytest.raises(InputError, match="seeds.mini: unknown system 'bass'"):
        load_tables(toy)


SWEPT = """
recipe: toy
paper: {id: P0, title: A title, authors: A. Author, year: 2020, metric: WER (%)}
test_sets: [clean]
systems:
  base: {kind: train, config: train, data: train}
  mask:
    kind: train
    config: train
    data: train
    overrides: {normalize: mask, normalize_conf: {scale: 1.0}}
    sweep: [normalize_conf.low, normalize_conf.high]
  more: {kind: train, config: train, sweep: {data: {a: [one], a_b: [one, two]}}}
  cut: {kind: merge, method: join, sweep: windows}
decodings:
  lm: {overrides: {beam_size: 3}, sweep: lm_weight}
tables:
  "1":
    caption: Swept
    columns: [clean]
    rows:
      - {name: base, system: base, paper: [5.0]}
      - {name: low, system: {mask: [-80.0, -0.5]}, paper: [4.0]}
      - {name: low with lm, system: {mask: [-80, -0.5]}, decoding: {lm: 0.40},
         paper: [4.0]}
      - {name: a+b, system: {more: a_b}, paper: [null]}
      - {name: cut, system: {cut: windows25}, paper: [3.0]}
"""


@pytest.fixture
def swept(toy: Path) -> Path:
    toy.write_text(SWEPT)
    toy.with_name("design.yaml").unlink()
    return toy


def test_rows_give_the_values_of_a_sweep(swept: Path):
    """Each value makes a system and a decoding, once; nothing is made of a sweep that
    no row uses.
    """
    tables = load_tables(swept)
    assert list(tables.systems) == [
        "base",
        "mask_m80_m0.5",
        "more_a_b",
        "cut_windows25",
    ]
    mask = tables.systems["mask_m80_m0.5"]
    assert mask.overrides == {
        "normalize": "mask",
        "normalize_conf": {"scale": 1.0, "low": -80, "high": -0.5},
    }
    assert tables.systems["more_a_b"].data == ("one", "two")
    assert tables.systems["cut_windows25"].windows == "windows25"
    assert tables.decodings == {
        "default": {},
        "lm_0.4": {"beam_size": 3, "lm_weight": 0.4},
    }
    rows = [(row.system, row.decoding) for row in tables.tables["1"].rows[1:3]]
    assert rows == [("mask_m80_m0.5", "default"), ("mask_m80_m0.5", "lm_0.4")]


# the fixture, what is replaced in its file, by what, and the place that the message
# names
MISTAKES = [
    ("toy", "recipe: toy", "recipe: [toy", r"line \d+, column \d+"),
    (
        "toy",
        "recipe: toy",
        "recipe: !!python/object/apply:os.getcwd []",
        "could not determine a constructor",
    ),
    ("toy", "recipe: toy", "recipe: toy\nrecipes: toy", "unknown key 'recipes'"),
    ("toy", "recipe: toy", "recipe: ../toy", "recipe: '"),
    (
        "toy",
        "test_sets: [clean, other]",
        "test_sets: [clean, other, average]",
        "test_sets: 'average'",
    ),
    (
        "toy",
        "  new: {kind",
        "  base: {kind",
        "line 7, column 3: the key 'base' stands twice",
    ),
    ("toy", "data: [a, b]", "data: [a, a]", r"systems\.new\.data: a name stands twice"),
    ("toy", ", data: [a, b]", "", r"systems\.new: the key 'data' is missing"),
    (
        "toy",
        "overrides: {encoder: new, encoder_conf: {size: 8}}",
        "overrides: [1]",
        r"systems\.new\.overrides",
    ),
    (
        "toy",
        "base: {kind: train,",
        "base: {kind: merge,",
        r"systems\.base: the key 'method' is missing",
    ),
    (
        "toy",
        "base: {kind: train,",
        "base: {kind: tune,",
        r"systems\.base\.kind: must be 'train', 'merge' or 'measure'",
    ),
    (
        "toy",
        "base: {kind: train,",
        "base: {kind: measure,",
        r"rows\[1\] \(base row\)\.system: 'base' is only measured",
    ),
    (
        "toy",
        "base: {kind: train,",
        "base: {kind: train, windows: no,",
        r"systems\.base\.windows: .*False",
    ),
    ("toy", "  lm: {overrides", "  default: {overrides", "decodings: 'default'"),
    ("toy", '  "2":', "  2:", r"tables\.2"),
    ("toy", "caption: New", "capton: New", r"tables\.1: unknown key 'capton'"),
    (
        "toy",
        "columns: [clean, other, average]",
        "columns: [clean, other, dirty]",
        r"tables\.1\.columns: .*'dirty'",
    ),
    (
        "toy",
        "    baseline: base row",
        "    reduction: dirty",
        r"tables\.1\.reduction: unknown column",
    ),
    (
        "toy",
        "baseline: base row",
        "baseline: no row",
        r"tables\.1\.baseline: unknown row of table 1 'no row'",
    ),
    (
        "toy",
        'baseline: "1/-1dB"',
        'baseline: "3/-1dB"',
        r"tables\.2\.baseline: unknown table '3'",
    ),
    (
        "toy",
        "system: base,",
        "system: bass,",
        r"tables\.1\.rows\[1\] \(base row\)\.system: unknown .*'bass'.*base, n",
    ),
    (
        "toy",
        "system: base,",
        "system: {base: 1},",
        r"rows\[1\] \(base row\)\.system: .*got \[1\]",
    ),
    (
        "toy",
        "name: base row",
        'name: "-1dB"',
        r"tables\.1: rows\[1\]: the row '-1dB' stands twice",
    ),
    ("toy", "name: base row", "name: 0.5", r"rows\[1\]\.name: .* in quotes\), is 0\.5"),
    ("toy", "name: base row", 'name: "a,b"', r"rows\[1\] \(a,b\)\.name"),
    ("toy", "[4.0", "[four", r"rows\[0\] \(-1dB\)\.paper\[0\]: .*number.*'four'"),
    ("toy", "[4.0", "[-4.0", r"rows\[0\] \(-1dB\)\.paper\[0\]: .*-4\.0"),
    ("toy", "[4.0, ", "[", r"tables\.1: rows\[0\] \(-1dB\)\.paper: .*, holds 2"),
    ("toy", "[4.0, 10.0, 7.0]", "4.0", r"\(-1dB\)\.paper: must be a list"),
    (
        "toy",
        "decoding: lm,",
        "decoding: ml,",
        r"rows\[0\] \(lm\)\.decoding: unknown .*'ml'; known are default, lm",
    ),
    (
        "mixed",
        "columns: [dev All]",
        "columns: [dev Al]",
        r"tables\.2\.columns: .*'dev Al'; known are dev, ",
    ),
    (
        "swept",
        "{mask: [-80.0, -0.5]}",
        "mask",
        r"\(low\)\.system: .*normalize_conf\.low, norm.*got \[\]",
    ),
    ("swept", "{mask: [-80.0, -0.5]}", "{mask: [-80, true]}", r"\(low\)\.system"),
    (
        "swept",
        "{more: a_b}",
        "{more: b}",
        r"\(a\+b\)\.system: unknown label of data 'b'; known are a, a_b",
    ),
    (
        "swept",
        "{cut: windows25}",
        "{cut: windows30}",
        r"\(cut\)\.system: windows: .*'windows30'",
    ),
    (
        "swept",
        "  cut: {kind",
        "  more_a_b: {kind: measure}\n  cut: {kind",
        "'more_a_b' is also a system",
    ),
]


DESIGN_MISTAKES = [
    (
        "toy",
        "better: 1/-1dB",
        "better: -1dB",
        r"claims\.better: '-1dB' must be table/row",
    ),
    (
        "toy",
        "better: 1/-1dB",
        "better: 1/-2dB",
        r"claims\.better: unknown row of table 1 '-2dB'",
    ),
    ("toy", "better: 1/-1dB", "better: 1/base row", r"claims\.better: .* the same row"),
    (
        "toy",
        "worse: 1/base row}",
        "worse: 1/base row, columns: [average]}",
        r"claims\.better: columns: .*'average'",
    ),
    (
        "toy",
        "claims: [better, worse]",
        "claims: [better]",
        r"claims\.worse: no design says how it is decided",
    ),
    (
        "toy",
        "claims: [better, worse]",
        "claims: [better, worse, x]",
        "unknown claim 'x'",
    ),
    ("toy", "commit: abc, ", "", "names no commit"),
    ("toy", "seeds: [1, 2, 3]", "seeds: []", r"designs\[0\]\.seeds"),
    (
        "toy",
        "claims: [better, worse]",
        "claims: [better, worse, a, b, c, d, e]",
        r"designs\[0\]\.claims",
    ),
    (
        "mixed",
        "better: {from: 2/new, to: 2/more}",
        "better: 2/more",
        "gain: .* both be rows, or both changes",
    ),
    (
        "mixed",
        "better: {from: 2/new, to: 2/more}",
        "better: {from: 2/new}",
        r"gain\.better: the key 'to' is missing",
    ),
    (
        "mixed",
        "better: {from: 2/new, to: 2/more}",
        "better: {from: 2/new, to: 2/new}",
        "gain: from and to are",
    ),
    (
        "mixed",
        "better: {from: 2/new, to: 2/more}",
        "better: {from: 2/old, to: 2/more}",
        "gain: unknown row",
    ),
    (
        "mixed",
        "worse: {from: 1/base, to: 1/more}",
        "worse: {from: 2/new, to: 2/more}",
        "the same row or change",
    ),
]


@pytest.mark.parametrize(
    ("file", "fixture", "old", "new", "place"),
    [("tables", *each) for each in MISTAKES]
    + [("design", *each) for each in DESIGN_MISTAKES],
)
def test_mistakes_are_refused_with_their_place(
    request: pytest.FixtureRequest, file, fixture, old, new, place
):
    tables: Path = request.getfixturevalue(fixture)
    path = tables.with_name(f"{file}.yaml")
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=rf"{file}\.yaml: .*{place}") as caught:
        check_registered(load_tables(tables))
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)
