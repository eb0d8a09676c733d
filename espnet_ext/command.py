"""What every command is run by."""

import sys
from collections.abc import Callable

from espnet_ext.errors import InputError


def run_main(main: Callable[[], int | None]) -> None:
    """Run a command's ``main`` and exit. An :class:`InputError` is printed as one line, and the exit status is 1.

    The same holds for an OSError, such as a full disk or a missing file: a traceback would hide it. For a package of an
    extra that is not installed, the line says how to install it.
    """
    try:
        status = main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        status = 1
    except ModuleNotFoundError as error:
        from espnet_ext.packages import how_to_install

        advice = how_to_install(error.name or "")
        if not advice:
            raise
        print(f"error: {advice}", file=sys.stderr)
        status = 1
    except OSError as error:
        print(f"error: {error.strerror or error}: {error.filename or ''}".rstrip(": "), file=sys.stderr)
        status = 1
    except KeyboardInterrupt:
        status = 130
    sys.exit(status or 0)
