"""Files as they should be, and as they should not: what the fuzz tests feed to the
readers of this package.

A reader has two ways only: it gives what stands in the file, or it refuses it by an
``InputError`` of one line.
"""

import os
from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError

# `make -C tools fuzz` sets the number; the normal test run takes few, as a check of the
# tests themselves.
INPUTS = int(os.environ.get("FUZZ_INPUTS", "100"))
# An example of hypothesis holds so many inputs: making one takes ten times as long as
# reading a small file.
AT_ONCE = 20
FUZZ = settings(
    max_examples=-(-INPUTS // AT_ONCE),
    database=None,
    suppress_health_check=list(HealthCheck),
)

# Nothing here is white space to Python, which is what a word is; marks of formats are
# among them.
WORDS = st.text(
    alphabet="aBé中𠀀々9'\"\\|<>{}[];,.:-_#%\u0301\u200b\u2047▁\x00\x7f",
    min_size=1,
    max_size=5,
)
NAMES = st.text(alphabet="abZ9中-_.", min_size=1, max_size=6).filter(
    lambda name: name.strip(".")
)
TEXTS = st.lists(WORDS, min_size=1, max_size=4).map(" ".join)
SECONDS = st.integers(0, 400_000).map(lambda number: number / 100)

# What breaks readers: other bytes than text, other white space, other numbers, other
# JSON.
_PIECES = [
    *(b"", b"\xff", b"\xc3", b"\x00", b"\xef\xbb\xbf", b"\xed\xa0\x80"),
    *(
        b" ",
        b"\n",
        b"\r",
        b"\n\n",
        b"\t",
        b"\x0b",
        b"\x1c",
        "\u2028".encode(),
        "\u3000".encode(),
        "\x85".encode(),
    ),
    *(
        b"nan",
        b"inf",
        b"-1",
        b"0",
        b"1e999",
        b"1_0",
        "９".encode(),
        b"9" * 400,
        b"9" * 5000,
        b"-0.0",
        b".",
    ),
    *(
        b"null",
        b"NaN",
        b"-Infinity",
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\\ud800",
        b"\\",
        b"true",
        b'""',
    ),
    *(
        b"[" * 20_000,
        b'{"a":' * 20_000,
        b"[1]",
        b"{}",
        b"[]",
        b'{"a": 1}',
        b"|",
        b"<",
        b"a",
        b"hyp_1",
        b"hyp_01",
    ),
]


def several(inputs: st.SearchStrategy) -> st.SearchStrategy[list]:
    """``AT_ONCE`` inputs."""
    return st.lists(inputs, min_size=AT_ONCE, max_size=AT_ONCE)


@st.composite
def damaged(
    draw: Callable, files: st.SearchStrategy[tuple[str | bytes, Any]]
) -> list[tuple[bytes, Any]]:
    """A file and what stands in it; then the file with bytes cut out, put in and
    exchanged, each with None.
    """
    text, content = draw(files)
    data = text.encode() if isinstance(text, str) else text
    dice = Random(draw(st.integers(0, 1 << 32)))
    return [(data, content), *((damage(data, dice), None) for _ in range(AT_ONCE - 1))]


def damage(data: bytes, dice: Random) -> bytes:
    """The same bytes, changed in one to three places."""
    for _ in range(dice.randint(1, 3)):
        at = dice.randint(0, len(data))
        data = data[:at] + dice.choice(_PIECES) + data[at + dice.randint(0, 12) :]
    return data


def read_or_refuse(read: Callable, given: Any, content: Any = None) -> Any:
    """What ``read`` makes of a file or of what was read from one, which is to equal
    ``content`` if that is not None; None where it refuses.
    """
    try:
        found = read(given)
    except InputError as error:
        assert content is None, f"refused what is right: {error}"
        assert "\n" not in str(error), f"a message of several lines: {error}"
        return None
    assert content is None or found == content
    return found
