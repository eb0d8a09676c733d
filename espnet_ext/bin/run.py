"""Run any command of ESPnet, or the ``run.py`` of an ESPnet3 recipe, with all plugins.

They are those of espnet_ext and of third parties::

    python -m espnet_ext.bin.run espnet2.bin.asr_transducer_train --config train.yaml
    python -m espnet_ext.bin.run run.py --stages train --training_config train.yaml

A command that espnet_ext has too, such as ``asr_inference``, is ours, with its options.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from runpy import run_module

from espnet_ext.errors import InputError, UsageError
from espnet_ext.upstream.espnet3 import keep_normaliser
from espnet_ext.upstream.with_plugins import with_plugins

# The commands of each.
ESPNETS = "espnet2.bin."
OURS = "espnet_ext.bin."
# The environment variable by which a spawned process knows the file that runs.
FILE = "ESPNET_EXT_RUN_FILE"


def main(words: Sequence[str] | None = None) -> None:
    """Run the module or file that the first of ``words`` names; the others are its own.

    By default they are the process's command line.
    """
    sys.argv = list(sys.argv[1:] if words is None else words)
    if not sys.argv:
        raise UsageError(
            "name a program: python -m espnet_ext.bin.run espnet2.bin.st_train "
            "OPTIONS, or run.py OPTIONS"
        )
    if sys.argv[0].endswith(".py"):
        _run_file(Path(sys.argv[0]))
        return
    try:
        found = find_spec(sys.argv[0])
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise UsageError(
            f"{sys.argv[0]}: no such module, such as espnet2.bin.st_train, nor a "
            "file that ends in .py"
        )
    ours = OURS + sys.argv[0].removeprefix(ESPNETS)
    if sys.argv[0].startswith(ESPNETS) and find_spec(ours):
        import_module(ours).main()
        return
    # This module stays the program, so that processes which ESPnet spawns import it,
    # and with it the plugins.
    run_module(sys.argv[0], run_name="__main__")


def _run_file(path: Path) -> None:
    """Run a file's code in this module.

    Spawned processes look here for what it defines.
    """
    if not path.is_file():
        raise InputError(f"{path} does not exist")
    keep_normaliser()
    path = path.resolve()
    os.environ[FILE] = str(path)
    sys.path.insert(0, str(path.parent))
    globals()["__file__"] = str(path)
    exec(compile(path.read_bytes(), path, "exec"), globals())


with_plugins(main, __name__)
# The name that multiprocessing gives to the program in a process that it spawns.
if __name__ == "__mp_main__" and FILE in os.environ:
    _run_file(Path(os.environ[FILE]))
