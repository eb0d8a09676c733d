"""Files with a token and something about it in each line, parted by a blank: languages, priors."""

from collections.abc import Callable
from pathlib import Path

from espnet_ext.errors import InputError


def read_token_values[T](path: str | Path, parse: Callable[[str], T | None], what: str) -> dict[str, T]:
    """Read such a file: token -> value, in the order of the file.

    Args:
        path: the file.
        parse: makes a value of text; None if there is none in it.
        what: the value's name, for the messages.

    Raises:
        InputError: a missing file, not UTF-8, a line that is not a token and a value, or a token twice.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file: run the token stage first, or check the path") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: no text in UTF-8 ({error.reason}): run the token stage again") from None
    values: dict[str, T] = {}
    # not splitlines(), which also splits at characters that may be tokens
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        token, _, rest = line.rpartition(" ")
        value = parse(rest)
        if not token or value is None:
            raise InputError(f"{path}: line {number}: '{line}' is not a token and its {what}")
        if token in values:
            raise InputError(f"{path}: line {number}: the token '{token}' is there already: write the file again")
        values[token] = value
    return values
