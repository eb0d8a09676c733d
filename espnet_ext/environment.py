"""What must be installed, and what is tested. Any Python 3 can import this file to
report what is wrong.
"""

import sys
from importlib.util import find_spec

NEEDED = ("click", "soundfile", "espnet2")
# the oldest and the newest release with which all tests pass
ESPNET_TESTED = ("202610", "202611")


def require_environment() -> None:
    """Exit with one line that says which Python to use, if this one lacks what all
    commands need.
    """
    if sys.version_info < (3, 12) or any(find_spec(name) is None for name in NEEDED):
        sys.exit(
            "error: {} (Python {}.{}) is not the environment of this repository: "
            "activate it (. tools/venv/bin/activate), or make it first "
            "(make -C tools install)".format(sys.executable, *sys.version_info[:2])
        )


def espnet_release(version: str) -> "tuple[str, str]":
    """Return which side of the tested releases an ESPnet is on ("older", "tested" or
    "newer"), and their names.

    >>> espnet_release("202610.post2")
    ('tested', '202610 to 202611')
    >>> espnet_release("202511")[0], espnet_release("202701")[0]
    ('older', 'newer')
    """
    oldest, newest = ESPNET_TESTED
    release = version.partition(".")[0]
    side = "older" if release < oldest else "newer" if release > newest else "tested"
    return side if release.isdigit() else "tested", f"{oldest} to {newest}"
