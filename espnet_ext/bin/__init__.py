"""Commands. With a Python that lacks what they need, one line says which one to take in its place."""

import sys
from importlib.util import find_spec

if sys.version_info < (3, 12) or find_spec("soundfile") is None or find_spec("espnet2") is None:
    sys.exit(
        "error: {} (Python {}.{}) is not the environment of this repository: activate it (. tools/venv/bin/activate), "
        "or make it first (make -C tools install)".format(sys.executable, *sys.version_info[:2])
    )
