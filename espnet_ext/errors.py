"""The one exception for bad input, and the wrapper that turns it into one clear line."""

import sys
from collections.abc import Callable


class InputError(Exception):
    """Bad input from the user: the message says what is wrong, in which file and utterance, and what to do."""


def run_main(main: Callable[[], int | None]) -> None:
    """Run a command's ``main`` and exit; an :class:`InputError` becomes one line on stderr and exit status 1.

    A full disk and a missing file are the user's to fix too, and a traceback would hide them.
    """
    try:
        status = main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        status = 1
    except OSError as error:
        print(f"error: {error.strerror or error}: {error.filename or ''}".rstrip(": "), file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        status = 130
    sys.exit(status or 0)
