"""The command line of the package: groups of commands, and commands.

Groups are modules that are imported only when they are used; neither torch nor ESPnet
is before a command needs it.
"""

import sys
from collections.abc import Sequence

from espnet_ext.environment import require_environment


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command line (default: that of the process) and exit.

    The exit status is 0 after success, 1 after an error, which is one line on stderr, 2
    after a wrong command line, and 130 after Ctrl-C.
    """
    require_environment()
    from espnet_ext.cli.program import call
    from espnet_ext.command import run_main
    from espnet_ext.work.gpus import hide_unless_asked

    words = sys.argv[1:] if argv is None else argv
    # ``check`` tells whether PyTorch sees any GPU.
    if list(words[:1]) != ["check"]:
        hide_unless_asked(words)
    run_main(lambda: call(argv))
