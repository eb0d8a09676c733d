"""Check what must be installed, and say what is tested.

Any Python 3 can import this file to report what is wrong.
"""

import sys
from importlib.util import find_spec

NEEDED = ("click", "soundfile", "espnet2")
# The oldest and the newest release with which all tests pass.
ESPNET_TESTED = ("202610", "202611")


def require_environment() -> None:
    """Exit with a line that says which Python to use, if this one lacks packages."""
    if sys.version_info < (3, 12) or any(find_spec(name) is None for name in NEEDED):
        sys.exit(
            "error: {} (Python {}.{}) is not the environment of this repository: "
            "activate it (. tools/venv/bin/activate), or make it first "
            "(make -C tools install)".format(sys.executable, *sys.version_info[:2])
        )


def compare_release(version: str) -> "tuple[str, str]":
    """Tell on which side of the tested releases an ESPnet is, and name them.

    The side is "older", "tested" or "newer".

    >>> compare_release("202610.post2")
    ('tested', '202610 to 202611')
    >>> compare_release("202511")[0], compare_release("202701")[0]
    ('older', 'newer')
    """
    oldest, newest = ESPNET_TESTED
    # Year and month, so that they compare as text.
    release = version.partition(".")[0]
    side = "tested"
    # Anything else is somebody's own version.
    if release.isdigit():
        if release < oldest:
            side = "older"
        elif release > newest:
            side = "newer"
    return side, f"{oldest} to {newest}"
