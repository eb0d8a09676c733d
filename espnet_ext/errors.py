"""The exception for bad input, and warnings."""

import sys


class InputError(Exception):
    """Bad input. The message says what is wrong, in which file and utterance, and what
    to do.
    """

    status = 1  # the exit status of a command that ends with it


class UsageError(InputError):
    """A command line that no command understands."""

    status = 2


def warn(text: str) -> None:
    """Print a warning to stderr."""
    print(f"warning: {text}", file=sys.stderr, flush=True)
