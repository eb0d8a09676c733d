"""Make a call that another process has written to a file.

``python -m espnet_ext.recipe.call FILE``
"""

import pickle
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from espnet_ext.command import run_main
from espnet_ext.recipe.scripts import pickle_with_scripts
from espnet_ext.work.launch import run_launched


def launch_call(call: partial, launch: Sequence[str], log: Path) -> None:
    """Make a call in a process that ``launch`` starts, maybe on another machine.

    ``call`` is of a function of a module or a script. What it prints goes to ``log``
    and is printed here.
    """
    # beside the log, since both machines see that folder
    path = log.with_suffix(".pickle")
    path.write_bytes(pickle_with_scripts(call))
    run_launched(launch, log, ["-m", "espnet_ext.recipe.call", str(path)])
    path.unlink()


def make_call(path: Path) -> None:
    """Make the call in a file."""
    pickle.loads(path.read_bytes())()


if __name__ == "__main__":
    run_main(lambda: make_call(Path(sys.argv[1])))
