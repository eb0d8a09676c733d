"""Options of ESPnet's commands: which are refused, and how they are parsed."""

import argparse
import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout

from espnet_ext.errors import InputError
from espnet_ext.registry import strip_package


def list_option_values(options: Sequence[str]) -> list[str]:
    """Return the values among command-line options, which may be paths.

    Values stand in ``--name value`` and ``--name=value``.
    """
    values = []
    for option in options:
        if option.startswith("--"):
            _, _, option = option.partition("=")
        values.append(option)
    return values


def refuse_options(options: Sequence[str], ours: Mapping[str, str]) -> None:
    """Refuse ESPnet options that a command of this package sets itself."""
    for option in options:
        name = option.partition("=")[0]
        if name in ours:
            raise InputError(f"{name} cannot be given after `--`: {ours[name]}")


def parse_options(
    parser: argparse.ArgumentParser,
    options: Sequence[str],
) -> argparse.Namespace:
    """Parse ESPnet options.

    Raises InputError: see :func:`espnet_ext.upstream.arguments.check_arguments`.
    """
    from espnet_ext.upstream.arguments import checked_arguments

    # ``--help`` would print the options of another command.
    try:
        with checked_arguments(), redirect_stdout(io.StringIO()):
            return parser.parse_args(list(options))
    except InputError as error:
        raise InputError(f"options for ESPnet: {error}") from None
    except SystemExit:
        raise InputError("options for ESPnet: --help is no option here") from None


def read_sampling_rate(config: Mapping) -> int | None:
    """Return the sampling rate of a config's frontend in Hz; None if it is unknown."""
    frontend = strip_package(config.get("frontend"))
    options = config.get("frontend_conf") or {}
    default = 16000 if frontend in ("default", "power_mel") else None
    rate = options.get("fs", default)
    if rate is None or not frontend:
        return None
    # ESPnet takes "16k", too.
    if isinstance(rate, str):
        import humanfriendly

        return humanfriendly.parse_size(rate)
    return int(rate)
