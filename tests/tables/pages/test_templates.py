"""Templates take numbers from kept results, and refuse what is not there."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.tables.kept.facts import read_facts, write_facts
from espnet_ext.tables.pages.results_md import write_recipe_report
from espnet_ext.tables.pages.templates import names_of_recipe, names_of_repository, render_sections, render_template
from espnet_ext.tables.plans.plan import select
from espnet_ext.tables.plans.reading import load_tables
from espnet_ext.tables.table_results import write_tables


@pytest.fixture
def recipe(toy: Path, tmp_path: Path, scored: Callable, capsys: pytest.CaptureFixture) -> Path:
    """Base: 10 and 20 % on clean; new: 5 % with one seed; facts of how often something was seen."""
    scored("base", 1, "clean", [1] * 20)
    scored("base", 2, "clean", [2] * 20)
    scored("new", 1, "clean", [0, 1] * 10)
    tables = load_tables(toy)
    write_tables(tables, select(tables, ["1"]), None, tmp_path / "exp", scale="mini", corpus="synthetic")
    folder = tmp_path / "egs" / "toy"
    (tmp_path / "egs").mkdir()
    toy.parents[1].rename(folder)
    write_recipe_report(folder, [tmp_path / "exp" / "results"])
    write_facts(
        folder / "results" / "seen.json", "How often", "local/see.py", {"at": {"-20": 0.743}, "counts": [12345]}
    )
    capsys.readouterr()
    return folder


@pytest.fixture
def render(recipe: Path) -> Callable[[str], str]:
    path = recipe / "conf" / "page.md"

    def rendered(text: str) -> str:
        path.write_text(text)
        return render_template(path, names_of_recipe(recipe)).rstrip("\n")

    return rendered


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ('{{ value("table1", "base row", "clean") }}', "15.0"),
        ('{{ value("table1", "base row", "clean", seed=2, digits=2) }}', "20.00"),
        ('{{ value("table1", "-1dB", "clean", seed=1) }}', "5.0"),
        ('{{ paper("table1", "base row", "other") }}', "20.0"),
        ('{{ spread("table1", "base row", "clean") }}', "7.1"),  # 10 / sqrt(2)
        ('{{ lower_by("table1", "-1dB", "base row", "clean") }}', "10.0"),
        ('{{ higher_by("table1", "base row", "-1dB", "clean", seed=1, digits=0) }}', "5"),
        ('{{ change("table1", "-1dB", "base row", "clean") | fixed(2) }}', "-10.00"),
        ('{{ reduction("table1", "-1dB", "base row", "clean") }} %', "66.7 %"),
        ('{{ seeds("table1", "-1dB") }}, {{ seeds("table1", "base row") }}', "1 seed, 2 seeds"),
        ('{{ mean("table1", "base row", "clean", [2]) }}', "20.0"),
        ('{{ mean("table1", "base row", "clean", [1, 2]) }}', "15.0"),
        ('{{ seed_numbers("table1", "base row") }}', "[1, 2]"),
        ('{{ verdict("table1", "new is better") }}', "not run"),
        ('{{ verdict_if_any("table1", "new is better") }}', "not run"),
        ('{{ verdict_if_any("table1", "new is best") }}', "no longer tested"),
        ('{{ effect("table1", "new is better", "clean") }}', "5.00 lower -"),
        ('{{ claims() }}: {{ claims("not run") | words }}, {{ claims("holds") | words }}', "2: two, no"),
        ('{{ claims(own=True) }}, {{ is_own_if_any("table1", "new is better") }}', "0, False"),
        ("{{ verdicts() }}", "none holds, none is contradicted, none is undecided, 2 have not run"),
        ('{{ fact("seen", "at", "-20") | percent(1) }}; {{ fact("seen", "counts", 0) | thousands }}', "74.3 %; 12,345"),
        ('{{ kept("mini-synthetic").value("table1", "-1dB", "clean") }}', "5.0"),
        ('{{ recipe("toy").value("table1", "-1dB", "clean") }}', "5.0"),
        ('{{ check(number("table1", "-1dB", "clean") < 6, "below six") }}Below six.', "Below six."),
    ],
)  # fmt: skip
def test_numbers_by_name(render: Callable, template: str, text: str):
    assert render(template) == text


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ('\n\n{{ value("table9", "-1dB", "clean") }}', "line 3: .*no table 'table9'; known are table1"),
        ('{{ value("table1", "1dB", "clean") }}', "line 1: .*no row '1dB'; known are -1dB, base row"),
        ('{{ value("table1", "-1dB", "dirty") }}', "no column 'dirty'; known are clean, other, average"),
        ('{{ value("table1", "-1dB", "other") }}', "'other' has not run"),
        ('{{ value("table1", "-1dB", "clean", seed=3) }}', "no seed '3'; known are 1"),
        ('{{ spread("table1", "-1dB", "clean") }}', "has a single seed, and so no spread"),
        ('{{ lower_by("table1", "base row", "-1dB", "clean") }}', "'base row' is not lower than '-1dB'"),
        ('{{ verdict("table1", "new is best") }}', "no claim 'new is best'; known are new is better, new is worse"),
        ('{{ claims("maybe") }}', "no verdict 'maybe'"),
        ('{{ fact("unseen") }}', "unseen.json: no such file of facts; known are seen"),
        ('{{ fact("seen", "at", "-30") }}', "no key '-30'; known are -20"),
        ('{{ fact("seen", "counts", 1) }}', "1 leads nowhere"),
        ('{{ kept("mini-real").value("table1", "-1dB", "clean") }}', "no table 'table1'"),
        ('{{ recipe("none").claims() }}', "no recipe 'none' with results"),
        ("\n{{ valu }}", "line 2: 'valu' is undefined"),
        ("{{ value( }}", "line 1: "),
        ('{{ check(number("table1", "-1dB", "clean") > 6, "above six") }}', "the text says 'above six', which its num"),
        ('{{ value.__globals__ }}', "unsafe"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused(render: Callable, recipe: Path, template: str, message: str):
    with pytest.raises(InputError, match=f"^{recipe}/conf/page.md: .*{message}"):
        render(template)


def test_sections_of_a_page(recipe: Path):
    (recipe / "conf" / "a.md").write_text('{{ value("table1", "-1dB", "clean") }} %.\n')
    page = recipe / "README.md"
    page.write_text("# A\n<!-- rendered from conf/a.md -->\nold\n<!-- end of rendered -->\nBy hand: {{ 1 }}.\n")
    assert render_sections(page, names_of_recipe(recipe)) == (
        "# A\n<!-- rendered from conf/a.md -->\n5.0 %.\n<!-- end of rendered -->\nBy hand: {{ 1 }}.\n"
    )
    page.write_text("<!-- rendered from conf/a.md -->\nold\n")
    with pytest.raises(InputError, match="README.md: a rendered section has no end"):
        render_sections(page, names_of_recipe(recipe))
    page.write_text("<!-- rendered from conf/b.md -->\nold\n<!-- end of rendered -->\n")
    with pytest.raises(InputError, match="conf/b.md: no such template"):
        render_sections(page, names_of_recipe(recipe))


def test_facts_with_other_keys_are_refused(recipe: Path):
    path = recipe / "results" / "seen.json"
    assert read_facts(path)["about"] == "How often"
    path.write_text(json.dumps({**read_facts(path), "unit": "dB"}))
    with pytest.raises(InputError, match="seen.json: not a file of facts: .*unknown key 'unit'"):
        read_facts(path)
    path.write_text("{")
    with pytest.raises(InputError, match="seen.json: not a file of facts"):
        read_facts(path)


def test_the_address_of_the_repository_is_one_setting(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("git clone {{ repository }}")
    with pytest.raises(InputError, match="repository"):
        render_template(page, names_of_repository(tmp_path))
    (tmp_path / "pyproject.toml").write_text('[project.urls]\nRepository = "https://git.somewhere.org/a"\n')
    assert render_template(page, names_of_repository(tmp_path)) == "git clone https://git.somewhere.org/a\n"
