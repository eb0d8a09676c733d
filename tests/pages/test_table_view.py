"""Tables as the page draws them."""

from dataclasses import replace

import pytest

from espnet_ext.pages.table_view import round_up, table_view
from espnet_ext.tables.publish import read_results
from espnet_ext.tables.result import Cell, TableResult


@pytest.fixture
def result(toy_recipe) -> TableResult:
    recipe = toy_recipe()
    return read_results(recipe / "exp" / "mini" / "results", recipe)[0]


def test_bars_lie_where_their_numbers_are(result: TableResult):
    view = table_view(result)
    assert (view.title, view.metric) == ("Table 1. New against base", "WER (%)")
    (group,) = view.groups
    assert group.columns == ("clean", "clean against base") and group.axes[1] == ""
    top = float(group.axes[0])
    base, new = group.rows
    assert (base.name, base.system, base.seeds, new.name) == ("base", "base", "1 2", "new <b>")
    for row, given in zip(group.rows, result.rows, strict=True):
        (cell,), bar = given.cells.values(), row.cells[0].bar
        numbers = [cell.paper, cell.here.value, *cell.here.interval]
        assert [bar.paper, bar.here, *bar.interval] == pytest.approx([100 * n / top for n in numbers], abs=0.01)
        assert row.cells[0].here.startswith(f"{cell.here.value:.2f}")
        assert row.cells[1].bar is None
    (cell,) = result.rows[0].cells.values()
    assert base.cells[0].bar.seeds == pytest.approx([100 * n / top for n in cell.here.by_seed.values()], abs=0.01)


def test_claims(result: TableResult):
    (claim,) = table_view(result).claims
    assert (claim.claim.verdict, claim.claim.reason, claim.corrected) == ("undecided", "1 seed", "-")
    assert claim.tests[0].bar.interval is None and claim.tests[0].p_value == "-"
    (judged,) = result.claims
    (test,) = judged.tests
    points = test.here.points
    tested = replace(test, here=replace(test.here, interval=(points - 2.0, points + 1.5), p_value=0.03125))
    (claim,) = table_view(replace(result, claims=(replace(judged, tests=(tested,)),))).claims
    (shown,) = claim.tests
    assert (shown.p_value, shown.seeds, shown.units) == ("0.031", "1", "7 speakers")
    assert shown.effect.startswith(f"{abs(points):.2f} ")
    assert shown.bar.zero == 50.0 and (shown.bar.here > 50.0) == (points > 0)
    low, high = shown.bar.interval
    assert 0.0 <= low <= shown.bar.here <= high <= 100.0


def test_what_has_not_run(result: TableResult):
    row = result.rows[1]
    (column,) = row.cells
    for cell, drawn in ((Cell(15.0, None), True), (Cell(None, None), False)):
        rows = (result.rows[0], replace(row, cells={column: cell}))
        bar = table_view(replace(result, rows=rows)).groups[0].rows[1].cells[0].bar
        assert (bar is not None) == drawn and (bar is None or (bar.here, bar.interval) == (None, None))


@pytest.mark.parametrize("value", [0.013, 0.5, 1.0, 7.4, 10.0, 1234.0])
def test_round_up(value):
    assert value <= round_up(value) <= 1.6 * value
