"""``espnet-ext table`` and ``espnet-ext report``: a paper's tables, and results as web pages."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from espnet_ext.cli import options as common
from espnet_ext.cli.lazy import OrderedGroup
from espnet_ext.errors import InputError

if TYPE_CHECKING:
    from espnet_ext.tables.reading import Table, Tables


@click.group(cls=OrderedGroup)
def table() -> None:
    """The tables of a paper: what they need, and what came out."""


def _recipe(function: Callable[..., Any]) -> Callable[..., Any]:
    return common.path("--recipe", "Folder of the recipe, such as egs/librispeech_sem.", metavar="DIR", required=True)(
        function
    )


def _recipes(function: Callable[..., Any]) -> Callable[..., Any]:
    return common.path(
        "--recipe", "Folder of a recipe; repeat it for several.  [default: all in egs/]", metavar="DIR", several=True
    )(function)


def _scale(default: str | None) -> Callable[..., Any]:
    return click.option(
        "--scale", metavar="NAME", default=default, show_default=True, help="Scale of the run: a file of conf."
    )


def _selection(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return which tables and rows."""
    rows = click.option("--rows", metavar="A,B", help="Rows with commas between them.  [default: all]")
    tables = click.option(
        "--table", "tables", default="all", show_default=True, metavar="1,2", help="Tables with commas between them."
    )
    return tables(rows(function))


def _selected(
    recipe: Path, scale: str | None, tables: str, rows: str | None
) -> "tuple[Tables, list[Table], list[str] | None]":
    from espnet_ext.tables.plan import select
    from espnet_ext.tables.reading import load_tables

    every = load_tables(recipe / "conf" / "tables.yaml", scale)
    wanted_rows = common.names(rows) if rows else None
    return every, select(every, None if tables == "all" else common.names(tables), wanted_rows), wanted_rows


@table.command()
@_recipe
@_scale(None)
@_selection
def plan(recipe: Path, scale: str | None, tables: str, rows: str | None) -> None:
    """Print the systems that tables need.

    Each is printed with its config section, its training data and its decodings.
    """
    from espnet_ext.tables.plan import sets_needed, systems_needed

    every, selected, _ = _selected(recipe, scale, tables, rows)
    decodings = sets_needed(every, selected)
    for system in systems_needed(every, selected):
        made = f"section {system.config}" if system.config else system.kind
        data = f", data {' '.join(system.data)}" if system.data else ""
        names = ", ".join(decoding for name, decoding in decodings if name == system.name)
        click.echo(f"{system.name}: {made}{data}; decodings: {names}")


@table.command()
@_recipe
@_scale("full")
@click.option("--system", metavar="NAME", help="Print the training config of this system.")
@click.option("--decoding", metavar="NAME", help="Print the config of this decoding.")
def config(recipe: Path, scale: str, system: str | None, decoding: str | None) -> None:
    """Print the merged config of a system or a decoding.

    It is what a run of the recipe at this scale uses: the section of conf/full.yaml, the changes of the scale, and
    those of the system or decoding.
    """
    import yaml

    from espnet_ext.tables.plan import decode_config, load_scale, system_config
    from espnet_ext.tables.reading import load_tables
    from espnet_ext.work.settings import known

    if bool(system) == bool(decoding):
        raise InputError("give --system or --decoding")
    sections = load_scale(recipe, scale)
    tables = load_tables(recipe / "conf" / "tables.yaml", scale)
    if system and system not in tables.systems:
        raise InputError(f"{tables.path}: no system {system!r}; {known(tables.systems)}")
    if system:
        found = system_config(sections, tables.systems[system])
    else:
        found = decode_config(sections, tables, decoding or "")
    click.echo(yaml.safe_dump(found, sort_keys=False, allow_unicode=True), nl=False)


@table.command()
@_recipes
@common.path("--results", "Folder with a run's scores, exp/<run>/results, to be kept.", metavar="DIR")
def results(recipe: tuple[Path, ...], results: Path | None) -> None:
    """Keep a run's results, and write RESULTS.md.

    They replace those that the recipe keeps of the same scale and corpus. RESULTS.md holds the claims, the main tables
    and conf/notes.md; results/<scale>-<corpus>/tables.md holds all.
    """
    from espnet_ext.tables.publish import keep_results, recipes_with_results, write_pages

    if results and len(recipe) != 1:
        raise InputError("--results: give the one --recipe that these results are of")
    if results:
        click.echo(f"kept: {keep_results(results, recipe[0])}")
    for folder in recipe or recipes_with_results():
        changed = write_pages(folder)
        for path in changed:
            click.echo(f"written: {path}")
        if not changed:
            click.echo(f"{folder}: all pages are up to date")


@table.command()
@_recipes
def verify(recipe: tuple[Path, ...]) -> None:
    """Render the kept results again, and compare.

    A difference ends the command with status 1.
    """
    from espnet_ext.tables.publish import recipes_with_results, verify_pages

    for folder in recipe or recipes_with_results():
        for path in verify_pages(folder):
            click.echo(f"{path}: as the scores give it")


@click.command()
@click.argument("folders", nargs=-1, required=True, type=common.PATH, metavar="DIR...")
@common.output("Folder of the pages; an older report in it is replaced.")
def report(folders: tuple[Path, ...], output: Path) -> None:
    """Write results and errors as web pages, one per recipe.

    DIR is the folder of a recipe, of its experiments (egs/<recipe>/exp), or of a run (egs/<recipe>/exp/mini). The pages
    show tables with the paper's numbers beside the run's, verdicts on claims, and the worst utterances with their audio
    and the aligned output of all systems. Open index.html in a browser; no network or server is needed.
    """
    from espnet_ext.pages.report import write_report

    for note in write_report(folders, output):
        click.echo(f"note: {note}")
    click.echo(f"written: {output / 'index.html'}")
