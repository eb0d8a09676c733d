"""``espnet-ext table`` and ``espnet-ext report``: a paper's tables, and results as web pages."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from espnet_ext.cli import options as common
from espnet_ext.cli.lazy import OrderedGroup
from espnet_ext.errors import InputError

if TYPE_CHECKING:
    from espnet_ext.tables.pages.paste import Style
    from espnet_ext.tables.plans.tables import Table, Tables


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
    """Which tables and rows."""
    rows = click.option("--rows", metavar="A,B", help="Rows with commas between them.  [default: all]")
    tables = click.option(
        "--table", "tables", default="all", show_default=True, metavar="1,2", help="Tables with commas between them."
    )
    return tables(rows(function))


def _selected(
    recipe: Path, scale: str | None, tables: str, rows: str | None
) -> "tuple[Tables, list[Table], list[str] | None]":
    from espnet_ext.tables.plans.plan import select
    from espnet_ext.tables.plans.reading import load_tables

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
    from espnet_ext.tables.plans.plan import decodings_needed, systems_needed

    every, selected, _ = _selected(recipe, scale, tables, rows)
    decodings = decodings_needed(selected)
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

    from espnet_ext.tables.plans.plan import decode_config, load_scale, system_config
    from espnet_ext.tables.plans.reading import load_tables
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
@_recipe
@_scale("mini")
@_selection
@common.path("--expdir", "Folder of the run, such as exp/mini.", metavar="DIR", required=True)
@click.option("--corpus-name", required=True, metavar="NAME", help="What the results call the corpus.")
@common.path("--lm-perplexity", "File with the language model's perplexity per token, for tables that use one.")
def write(
    recipe: Path,
    scale: str,
    tables: str,
    rows: str | None,
    expdir: Path,
    corpus_name: str,
    lm_perplexity: Path | None,
) -> None:
    """Write and print tables: the paper's numbers and those of a run.

    They go into <expdir>/results, as the last stage of a recipe writes them.
    """
    from espnet_ext.tables.table_results import write_tables

    every, selected, wanted_rows = _selected(recipe, scale, tables, rows)
    write_tables(every, selected, wanted_rows, expdir, scale=scale, corpus=corpus_name, lm_perplexity=lm_perplexity)


@table.command()
@_recipes
@common.path(
    "--results", "Folder with table*.json of a run, to be kept; repeat it for several.", metavar="DIR", several=True
)
@click.option("--by", default="", metavar="NAME", help="Keep them as the results of NAME, beside those of the recipe.")
@click.option("--address", default="", metavar="TEXT", help="With --by: a page or e-mail address for questions.")
@click.option(
    "--add", is_flag=True, help="Add their seeds and rows to those that are kept, instead of replacing tables."
)
def results(recipe: tuple[Path, ...], results: tuple[Path, ...], by: str, address: str, add: bool) -> None:
    """Keep the results of runs, and write the pages that show them.

    RESULTS.md holds all results that are kept, below the text of conf/results_notes.md. Sections of README.md and of
    the repository's own pages that are rendered from templates are written again. CONTRIBUTING.md says how templates
    name numbers.
    """
    from espnet_ext.tables.pages.results_md import recipes_with_results, write_recipe_report

    if by and not results:
        raise InputError("--by: give the run's folder with --results")
    if results and len(recipe) != 1:
        raise InputError("--results: give the one --recipe that these results are of")
    if add and (by or not results):
        raise InputError("--add: give the run's folder with --results, and no --by")
    for folder in recipe or recipes_with_results():
        changed = write_recipe_report(folder, results, by, address, add=add)
        for path in changed:
            click.echo(f"written: {path}")
        if not changed:
            click.echo(f"{folder}: all pages are up to date")


@table.command()
@_recipe
@click.option("--table", "number", required=True, metavar="N", help="Number of the table.")
@click.option("--rows", metavar="A,B", help="Rows with commas between them.  [default: all]")
@click.option("--columns", metavar="A,B", help="Columns with commas between them.  [default: all]")
@click.option(
    "--format",
    "style",
    type=click.Choice(["markdown", "latex"]),
    default="markdown",
    show_default=True,
    help="LaTeX is that of booktabs.",
)
@click.option(
    "--kept", default="mini-synthetic", show_default=True, metavar="NAME", help="Folder of results/ with the table."
)
def show(recipe: Path, number: str, rows: str | None, columns: str | None, style: "Style", kept: str) -> None:
    """Print rows of a kept table, to paste.

    The paper's numbers, ours with their spread between trainings, 95% intervals, and seeds.
    """
    from espnet_ext.tables.pages.numbers import KeptNumbers
    from espnet_ext.tables.pages.paste import paste_table

    result = KeptNumbers(recipe / "results" / kept).table(f"table{number}")
    names = (common.names(each) if each else None for each in (rows, columns))
    click.echo(paste_table(result, style, *names))


@table.command()
@_recipes
def verify(recipe: tuple[Path, ...]) -> None:
    """Recompute the tables and claims that a recipe keeps.

    They are recomputed from the scores by utterance that are kept beside them, and compared digit by digit; so are
    RESULTS.md and the rendered sections of other pages. Pictures must be drawn from the data beside them, and all files
    be as they were kept. A difference ends the command with status 1.
    """
    from espnet_ext.tables.pages.results_md import recipes_with_results
    from espnet_ext.tables.verify import verify_recipe

    for folder in recipe or recipes_with_results():
        for each in verify_recipe(folder):
            how = "recomputed, all digits agree" if each.recomputed else "as it was kept; its scores are not kept"
            click.echo(f"{each.path}: {each.name}: {how}")


@click.command()
@click.argument("folders", nargs=-1, required=True, type=common.PATH, metavar="DIR...")
@common.output("Folder of the pages; an older report in it is replaced.")
@click.option(
    "--utterances",
    type=click.IntRange(min=0),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Utterances of each test set that can be browsed, those with most errors first.",
)
@click.option(
    "--audio",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    metavar="N",
    help="Utterances of each test set whose audio is copied, as MP3.",
)
@common.path("--datadir", "Data dirs, if a single run is given.  [default: data/<run> of the recipe]", metavar="DIR")
def report(folders: tuple[Path, ...], output: Path, utterances: int, audio: int, datadir: Path | None) -> None:
    """Write results, figures and errors as web pages.

    DIR is the folder of a recipe, of its experiments (egs/<recipe>/exp), or of a run (egs/<recipe>/exp/mini). The pages
    show tables with the paper's numbers beside the run's, training curves, figures, and the errors of each utterance.
    Open index.html in a browser; no network or server is needed.
    """
    from espnet_ext.pages.error_browser import Limits
    from espnet_ext.pages.runs import find_recipes
    from espnet_ext.pages.site import write_site

    for page in write_site(find_recipes(folders, datadir), output, Limits(utterances, audio)):
        for note in page.errors.notes:
            click.echo(f"note: {page.name}: {note}")
    click.echo(f"written: {output / 'index.html'}")
