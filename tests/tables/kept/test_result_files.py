"""Kept results: what a file may hold."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.kept.result_files import read_results
from espnet_ext.tables.plans.reading import load_tables
from espnet_ext.tables.table_results import collect, write_results


@pytest.fixture
def path(toy: Path, exp: SimpleNamespace, meta: dict, tmp_path: Path) -> Path:
    tables = load_tables(toy)
    result = collect(tables, tables.tables["1"], exp.folder, "mini", "toy corpus", meta)
    return write_results(result, tmp_path / "results")[0]


def test_what_is_written_can_be_read(path: Path):
    assert read_results(path)["version"] == 2


def drop(*places: str) -> Callable[[dict], None]:
    def change(result: dict) -> None:
        *way, last = places
        for place in way:
            result = result[int(place) if isinstance(result, list) else place]
        del result[last]

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop("version"), "version 1, but this program reads 2; write the table again"),
        (lambda r: r.update(version=3), "version 3, but this program reads 2"),
        (drop("reductions"), "not a table's results: the key 'reductions' is missing"),
        (lambda r: r.update(reduction="clean"), "unknown key 'reduction'; known are version, recipe"),
        (drop("claims", "0", "compares"), r"claims\[0\]: the key 'compares' is missing"),
        (drop("claims", "0", "tests", "clean", "units"), r"tests\.clean: the key 'units' is missing"),
        (lambda r: r["claims"][0].update(verdict="fails"), r"verdict: must be .*'contradicted'"),
        (drop("rows", "0", "cells", "clean", "here", "ci95"), r"\(-1dB\)\.cells\.clean\.here: the key 'ci95'"),
        (drop("rows", "0", "cells", "clean"), "row '-1dB' must have a cell for each column"),
        (lambda r: r["rows"][0]["cells"]["clean"]["here"].update(value="4"), r"here\.value: "),
        (lambda r: r["rows"][0]["cells"]["clean"]["here"].update(spread=2.0), "spread 2.0 is not the standard"),
        (drop("rows", "0", "cells", "clean", "here", "spread"), "spread and values are there with several seeds"),
        (lambda r: r["rows"][0]["cells"]["clean"]["here"].update(errors=51), "51 errors in 1200 words do not give"),
        (lambda r: r.update(reductions=["test"]), "reductions: unknown column 'test'; known are clean, other, average"),
        (lambda r: r.update(groups=[["clean"]]), "groups must hold each of the columns once"),
        (lambda r: r["meta"].update(machine="x"), r"meta: unknown key 'machine'"),
    ],
)  # fmt: skip
def test_other_keys_and_values_are_refused_with_file_and_place(path: Path, change: Callable, message: str):
    result = json.loads(path.read_text())
    change(result)
    path.write_text(json.dumps(result))
    with pytest.raises(InputError, match=message) as caught:
        read_results(path)
    assert str(caught.value).startswith(f"{path}: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", "{broken"])
def test_what_is_no_result_is_refused(tmp_path: Path, text: str):
    path = tmp_path / "table1.json"
    path.write_text(text)
    with pytest.raises(InputError, match="table1.json: not a table's results"):
        read_results(path)
