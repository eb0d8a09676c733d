"""Tables as the page draws them."""

import json

import pytest

from espnet_ext.pages.table_view import round_up, table_view


@pytest.fixture
def result(toy_recipe):
    return json.loads((toy_recipe() / "exp" / "mini" / "results" / "table1.json").read_text(encoding="utf-8"))


def test_bars_lie_where_their_numbers_are(result):
    view = table_view(result)
    assert (view.title, view.metric) == ("Table 1. New against base", "WER (%)")
    (group,) = view.groups
    assert group.columns == ("clean", "reduction of clean") and group.axes[1] == ""
    top = float(group.axes[0])
    base, new = group.rows
    assert (base.name, base.system, base.seeds, new.name) == ("base", "base", "1 2", "new <b>")
    for row, given in zip(group.rows, result["rows"], strict=True):
        here, bar = given["cells"]["clean"]["here"], row.cells[0].bar
        numbers = [given["cells"]["clean"]["paper"], here["value"], *here["ci95"]]
        assert [bar.paper, bar.here, *bar.interval] == pytest.approx([100 * n / top for n in numbers], abs=0.01)
        assert row.cells[0].here.startswith(f"{here['value']:.2f}")
        assert row.cells[0].interval == f"[{here['ci95'][0]:.2f}, {here['ci95'][1]:.2f}]"
        assert row.cells[1].bar is None
    assert base.cells[0].bar.seeds == pytest.approx(
        [100 * value / top for value in result["rows"][0]["cells"]["clean"]["here"]["values"].values()], abs=0.01
    )
    highest = max(row["cells"]["clean"]["here"]["ci95"][1] for row in result["rows"])
    assert top >= max(20.0, highest)


def test_a_column_that_is_no_error_rate_has_its_unit(result):
    (group,) = table_view(result, {"clean": "ms"}).groups
    assert group.columns == ("clean (ms)", "reduction of clean")


def test_claims(result):
    (claim,) = table_view(result).claims
    test = result["claims"][0]["tests"]["clean"]
    assert (claim.verdict, claim.reason, claim.corrected) == ("undecided", "1 seed", "-")
    assert claim.tests[0].bar.interval is None and claim.tests[0].p_value == "-"
    test |= {"ci95": [test["lower_by"] - 2.0, test["lower_by"] + 1.5], "p_value": 0.03125}
    (claim,) = table_view(result).claims
    assert claim.verdict == result["claims"][0]["verdict"]
    (shown,) = claim.tests
    assert (shown.p_value, shown.seeds, shown.units) == ("0.031", "1", "7 speakers")
    assert shown.effect.startswith(f"{abs(test['lower_by']):.2f} ")
    assert shown.bar.zero == 50.0 and (shown.bar.here > 50.0) == (test["lower_by"] > 0)
    low, high = shown.bar.interval
    assert 0.0 <= low <= shown.bar.here <= high <= 100.0


def test_what_has_not_run(result):
    result["rows"][1]["cells"]["clean"]["here"] = None
    result["claims"][0] |= {"verdict": "not run", "tests": {"clean": None}}
    view = table_view(result)
    bar = view.groups[0].rows[1].cells[0].bar
    assert bar.here is None and bar.interval is None and bar.paper is not None
    assert view.claims[0].verdict == "not run" and view.claims[0].tests[0].effect == "not run"
    result["rows"][1]["cells"]["clean"]["paper"] = None
    assert table_view(result).groups[0].rows[1].cells[0].bar is None


@pytest.mark.parametrize("value", [0.013, 0.5, 1.0, 7.4, 10.0, 1234.0])
def test_round_up(value):
    assert value <= round_up(value) <= 1.6 * value
