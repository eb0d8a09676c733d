"""``espnet-ext check`` and ``plugins``: what is installed, and added to ESPnet."""

import click

from espnet_ext.cli import options as common
from espnet_ext.errors import say


@click.command()
@click.option(
    "--extras",
    default="",
    metavar="A,B",
    help="Extras that must be complete.  [default: only the core]",
)
def check(extras: str) -> None:
    """Check the installation.

    Looks at the versions of Python, bash and all packages, registers the plugins, and
    computes loss and gradients of a small model. Says which CUDA build of PyTorch is
    installed, whether it sees a GPU, and which extras are complete.
    """
    from espnet_ext.cli.installation import check_installation

    check_installation(common.split_names(extras))
    say("The installation is complete.")


@click.command()
def plugins() -> None:
    """List the names that this package and others add to ESPnet's YAML files."""
    from espnet_ext.registry import list_packages

    for key, package in list_packages().items():
        slot, _, name = key.partition(".")
        say(f"{slot.removeprefix('mt_') + ':':<11} {name:<22} {package}")
