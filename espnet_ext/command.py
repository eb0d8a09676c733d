"""Run a command, and end it with the status and the line that bad input gets."""

import sys
from collections.abc import Callable

from espnet_ext.errors import InputError, say


def run_main(main: Callable[[], int | None]) -> None:
    """Run a command's ``main`` and exit.

    Bad input is one line, with status 1 (2: a wrong command line); so are an OSError,
    such as a full disk, and a missing package of an extra, with how to install it.
    """
    try:
        sys.exit(main() or 0)
    except InputError as error:
        say(f"error: {error}", error=True)
        sys.exit(error.status)
    except ModuleNotFoundError as error:
        from espnet_ext.packages import advise_on_installing

        text = advise_on_installing(error.name or "")
        # Of no extra: a fault of ours, which needs its traceback.
        if not text:
            raise
    except OSError as error:
        text = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
    except KeyboardInterrupt:
        # As shells have it: 128 and the number of SIGINT.
        sys.exit(130)
    say(f"error: {text}", error=True)
    sys.exit(1)
