"""The exception for bad input, and what is printed for people to read."""

import re
import sys

# What changes a terminal, or the order in which a line is shown: control characters but
# tabs and ends of lines, separators of lines, marks of direction, halves of characters.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_BYTE = 0xDC00  # Python's mark of a byte that is not UTF-8


class InputError(Exception):
    """Bad input.

    The message says what is wrong, in which file and utterance, and what to do.
    """

    status = 1  # the exit status of a command that ends with it


class UsageError(InputError):
    """A command line that no command understands."""

    status = 2


def escape_controls(text: str) -> str:
    r"""Escape what a terminal would obey: ids and file names come from anybody.

    >>> escape_controls("a\x1b[31mb\u202ec"), escape_controls("sp\udce9ech große 我们")
    ('a\\x1b[31mb\\u202ec', 'sp\\xe9ech große 我们')
    """

    def escape(found: re.Match[str]) -> str:
        code = ord(found[0])
        # Bytes of a name that are not UTF-8, which Python holds as U+DC80 to U+DCFF.
        if _BYTE + 0x80 <= code < _BYTE + 0x100:
            code -= _BYTE
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

    return _UNSEEN.sub(escape, text)


def say(text: object = "", *, error: bool = False, end: str = "\n") -> None:
    """Print what people read, to stdout or (``error``) stderr.

    All messages go through here, where what a terminal would obey is escaped.
    """
    stream = sys.stderr if error else sys.stdout
    print(escape_controls(str(text)), file=stream, end=end, flush=True)


def warn(text: str) -> None:
    """Print a warning to stderr."""
    say(f"warning: {text}", error=True)
