"""What every command is run by."""

import sys
from collections.abc import Callable

from espnet_ext.errors import InputError, say


def run_main(main: Callable[[], int | None]) -> None:
    """Run a command's ``main`` and exit. Bad input is one line, with status 1 (2: a
    wrong command line); so are an OSError, such as a full disk, and a missing package
    of an extra, with how to install it.
    """
    try:
        sys.exit(main() or 0)
    except InputError as error:
        say(f"error: {error}", error=True)
        sys.exit(error.status)
    except ModuleNotFoundError as error:
        from espnet_ext.packages import how_to_install

        text = how_to_install(error.name or "")
        if not text:
            raise
    except OSError as error:
        text = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
    except KeyboardInterrupt:
        sys.exit(130)
    say(f"error: {text}", error=True)
    sys.exit(1)
