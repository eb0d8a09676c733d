"""The exception for bad input, and warnings."""

import sys


class InputError(Exception):
    """Bad input. The message says what is wrong, in which file and utterance, and what to do."""


def warn(text: str) -> None:
    """Print a warning to stderr."""
    print(f"warning: {text}", file=sys.stderr, flush=True)
