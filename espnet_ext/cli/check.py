"""``espnet-ext check``: is the installation complete?"""

import click

from espnet_ext.cli import options as common

EXTRAS = ("rescore", "longform", "stitch", "mini", "report", "dev")


@click.command()
@click.option("--extras", default=",".join(EXTRAS), show_default=True, metavar="A,B", help="Extras that must be there.")
def check(extras: str) -> None:
    """Check the installation.

    Looks at the versions of Python, bash and all packages, registers the plugins, computes loss and gradients of a
    small model, and speaks a word with the speech synthesiser.
    """
    from espnet_ext.installation import check_installation

    check_installation(common.names(extras))
    click.echo("The installation is complete.")
