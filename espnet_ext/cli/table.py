"""``espnet-ext table`` and ``report``: a paper's tables, and results as web pages."""

from pathlib import Path

import click

from espnet_ext.cli import options as common
from espnet_ext.errors import InputError, say

TABLES = Path("conf") / "tables.yaml"
_recipe = common.path(
    "--recipe",
    "Folder of the recipe, such as egs/librispeech_sem.",
    metavar="DIR",
    required=True,
)
_recipes = common.path(
    "--recipe",
    "Folder of a recipe; repeat it for several.  [default: all in egs/]",
    metavar="DIR",
    several=True,
)


@click.group(cls=common.OrderedGroup)
def table() -> None:
    """The tables of a paper: what they need, and what came out."""


@table.command()
@_recipe
@click.option(
    "--scale",
    metavar="NAME",
    default="full",
    show_default=True,
    help="Scale of the run: a file of conf.",
)
@click.option("--system", metavar="NAME", help="The system.  [default: list all]")
def config(recipe: Path, scale: str, system: str | None) -> None:
    """Print the whole training config of a system, or list all.

    The config is what a run at this scale uses: the section of conf/full.yaml, the
    changes of the scale, those of the system.
    """
    import yaml

    from espnet_ext.tables.plan import load_scale, merge_system_config
    from espnet_ext.tables.reading import load_tables
    from espnet_ext.work.settings import list_known

    tables = load_tables(recipe / TABLES, scale)
    if system is None:
        say("\n".join(tables.systems))
        return
    if system not in tables.systems:
        raise InputError(
            f"{tables.path}: no system {system!r}; {list_known(tables.systems)}"
        )
    found = merge_system_config(load_scale(recipe, scale), tables.systems[system])
    # Not say(), which escapes what a terminal would obey: this is YAML for a file.
    click.echo(yaml.safe_dump(found, sort_keys=False, allow_unicode=True), nl=False)


@table.command()
@_recipe
def runs(recipe: Path) -> None:
    """Show the error rates of all runs of a recipe, own systems too.

    Each run in exp has a table: a line for each decoding of each system, the mean and
    the spread over its seeds.
    """
    from espnet_ext.tables.overview import summarise_runs

    say(summarise_runs(recipe))


@table.command()
@_recipes
@common.path(
    "--results",
    "Folder with a run's scores, exp/<run>/results, to be kept.",
    metavar="DIR",
)
def results(recipe: tuple[Path, ...], results: Path | None) -> None:
    """Keep a run's results, and write RESULTS.md.

    They replace those that the recipe keeps of the same scale and corpus. RESULTS.md
    holds the claims, the main tables and conf/notes.md;
    results/<scale>-<corpus>/tables.md holds all. Printed are all claims with every
    design: baselines, units, verdict and p-value.
    """
    from espnet_ext.tables.publish import (
        find_recipes_with_results,
        keep_results,
        read_claims,
        write_pages,
    )
    from espnet_ext.tables.render import list_claim_lines

    if results and len(recipe) != 1:
        raise InputError("--results: give the one --recipe that these results are of")
    if results:
        say(f"kept: {keep_results(results, recipe[0])}")
    for folder in recipe or find_recipes_with_results():
        changed = write_pages(folder)
        for path in changed:
            say(f"written: {path}")
        if not changed:
            say(f"{folder}: all pages are up to date")
        say("\n".join(list_claim_lines(read_claims(folder))))


@table.command()
@_recipes
def verify(recipe: tuple[Path, ...]) -> None:
    """Render the kept results again, and compare.

    A difference ends the command with status 1.
    """
    from espnet_ext.tables.publish import find_recipes_with_results, verify_pages

    for folder in recipe or find_recipes_with_results():
        for path in verify_pages(folder):
            say(f"{path}: as the scores give it")


@click.command()
@click.argument("folders", nargs=-1, required=True, type=common.PATH, metavar="DIR...")
@common.output("Folder of the pages; an older report in it is replaced.")
def report(folders: tuple[Path, ...], output: Path) -> None:
    """Write results and errors as web pages, one per recipe.

    DIR is the folder of a recipe, of its experiments (egs/<recipe>/exp), or of a run
    (egs/<recipe>/exp/mini). The pages show tables with the paper's numbers beside the
    run's, verdicts on claims, and the worst utterances with their audio and the aligned
    output of all systems. Open index.html in a browser; no network or server is needed.
    """
    from espnet_ext.pages.report import write_report

    for note in write_report(folders, output):
        say(f"note: {note}")
    say(f"written: {output / 'index.html'}")
