"""``espnet-ext run STAGE...``: stages of a recipe.

They run for all systems, seeds and sets that its tables ask for.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from espnet_ext.cli.options import PATH
from espnet_ext.errors import InputError, say

if TYPE_CHECKING:
    from espnet_ext.recipe.run import Run


@click.command(
    context_settings={
        "ignore_unknown_options": True,
        "help_option_names": ["-h", "--help"],
    }
)
@click.option(
    "--recipe",
    type=PATH,
    default=Path(),
    show_default="this folder",
    help="Folder with recipe.py.",
)
@click.argument(
    "words", nargs=-1, type=click.UNPROCESSED, metavar="STAGE... [--NAME=VALUE]..."
)
def run(recipe: Path, words: tuple[str, ...]) -> None:
    """Run stages of a recipe in one process; "rehearsal" rehearses all.

    A recipe's run.sh calls this. The options are those that ./run.sh --help lists, as
    --NAME=VALUE.
    """
    from espnet_ext.recipe.guard import end_at_once_with_parent
    from espnet_ext.recipe.own_system import try_config
    from espnet_ext.recipe.start import prepare_run
    from espnet_ext.recipe.steps import check_parent

    end_at_once_with_parent()
    # It may be gone already: the system signals only an end that comes later.
    check_parent()
    given = {}
    asked = []
    for word in words:
        if not word.startswith("-"):
            asked.append(word)
            continue
        # The recipe declares the options, which are not known before it is loaded.
        name, equals, value = word.partition("=")
        if not name.startswith("--") or not equals:
            raise InputError(
                f"unexpected argument '{word}': options are given as --name=value"
            )
        given[name.removeprefix("--").replace("-", "_")] = value
    prepared = prepare_run(recipe, given)
    stages = ["rehearsal", *prepared.recipe.stages]
    for stage in asked:
        if stage not in stages:
            raise InputError(
                f"there is no stage '{stage}'; the stages are {', '.join(stages[1:])}"
            )
    if prepared.own:
        option = prepared.recipe.trained[prepared.own.option]
        try_config(prepared.own, option)
    try:
        run_stages(prepared, asked, stages)
    except KeyboardInterrupt:
        say("interrupted: the same command resumes", error=True)
        raise


def run_stages(run: "Run", asked: Sequence[str], stages: Sequence[str]) -> None:
    """Run the stages that are asked for, or rehearse all."""
    for stage in asked:
        # Stages count from 1; a rehearsal, at index 0, stands for all.
        number = stages.index(stage) or 1
        say(f"\n== Stage {number}: {stage.replace('_', ' ')}")
        if stage == "rehearsal":
            from espnet_ext.recipe.rehearsal import rehearse

            rehearse(run)
        else:
            run.run_stage(stage)
