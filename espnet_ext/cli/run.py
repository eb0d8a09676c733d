"""``espnet-ext run STAGE``: a stage of a recipe, for all systems, seeds and sets that its tables ask for."""

from pathlib import Path

import click

from espnet_ext.cli.options import PATH
from espnet_ext.errors import InputError

REHEARSAL = "rehearsal"  # what run.sh --rehearse calls in place of the stages


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]})
@click.argument("stage")
@click.option("--recipe", type=PATH, default=Path(), show_default="this folder", help="Folder with recipe.py.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def run(stage: str, recipe: Path, options: tuple[str, ...]) -> None:
    """Run one stage of a recipe, or rehearse all (STAGE is then "rehearsal").

    A recipe's run.sh calls this for each of its stages. OPTIONS are those that ./run.sh --help lists, as --NAME=VALUE.
    """
    from espnet_ext.recipe.guard import end_at_once_with_parent
    from espnet_ext.recipe.run import prepare
    from espnet_ext.recipe.steps import check_parent

    end_at_once_with_parent()
    check_parent()  # it may be gone already
    given = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not name.startswith("--") or not equals:
            raise InputError(f"unexpected argument '{option}': options are given as --name=value")
        given[name.removeprefix("--").replace("-", "_")] = value
    prepared = prepare(recipe, given)
    stages = prepared.recipe.stages
    if stage == REHEARSAL:
        from espnet_ext.recipe.rehearsal import rehearse

        rehearse(prepared)
        return
    if stage not in stages:
        raise InputError(f"there is no stage '{stage}'; the stages are {', '.join(stages)}")
    prepared.run_stage(stage)
