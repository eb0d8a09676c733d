"""``espnet-ext check``: is the installation complete?"""

import click

from espnet_ext.cli import options as common


@click.command()
@click.option("--extras", default="", metavar="A,B", help="Extras that must be complete.  [default: only the core]")
def check(extras: str) -> None:
    """Check the installation.

    Looks at the versions of Python, bash and all packages, registers the plugins, and computes loss and gradients of a
    small model. Says which CUDA build of PyTorch is installed, which driver it needs, and which extras are complete.
    """
    from espnet_ext.installation import check_installation

    check_installation(common.names(extras))
    click.echo("The installation is complete.")
