"""Checks that the commands run in the right environment. Any Python 3 can import this file to report what is wrong."""

import sys
from importlib.util import find_spec

NEEDED = ("click", "soundfile", "espnet2")


def require_environment() -> None:
    """Exit with one line that says which Python to use, if this one lacks what all commands need."""
    if sys.version_info < (3, 12) or any(find_spec(name) is None for name in NEEDED):
        sys.exit(
            "error: {} (Python {}.{}) is not the environment of this repository: activate it "
            "(. tools/venv/bin/activate), or make it first (make -C tools install)".format(
                sys.executable, *sys.version_info[:2]
            )
        )
