"""Read and write Kaldi's text tables: ``id rest-of-line``, UTF-8, sorted by id.

Python sorts ``str`` by code point, which is the byte order of UTF-8, and so the order
of ``LC_ALL=C sort``.
"""

import codecs
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write, open_unpacked

# Only these separate fields. Other characters that Python calls white space, such as
# the ideographic space U+3000, belong to the text.
_BLANKS = " \t"
_BLANK = re.compile("[ \t]")
# Bytes: a gzipped file of some megabytes may hold a line of gigabytes.
LONGEST_LINE = 256 << 20


@dataclass(frozen=True)
class TableScan:
    """A table as it is on disk, faults included.

    ``table`` is in the file's order; of an id that comes twice, it has the first line.
    ``conflicts`` are those ``duplicates`` whose lines differ, ``unsorted`` the ids that
    are smaller than the id before them, and ``lines_without_id`` the numbers of empty
    lines and of lines that begin with white space. ``odd_lines`` are characters that
    Kaldi refuses: what they are, and the ids of their lines.
    """

    table: dict[str, str]
    duplicates: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    unsorted: tuple[str, ...] = ()
    lines_without_id: tuple[int, ...] = ()
    odd_lines: tuple[tuple[str, str], ...] = ()


def read_table(path: str | Path, *, marked: bool = False) -> dict[str, str]:
    """Read a table such as ``text`` into ``{id: rest of the line}``, in its order.

    A line that holds nothing but an id gives ``""``. White space around the value is
    dropped. ``marked`` is that of :func:`read_text_lines`.
    """
    table: dict[str, str] = {}
    for key, value in read_table_lines(path, marked=marked):
        if key in table:
            advice = (
                "keep one of its lines, or, if the lines have no ids, begin each with "
                "one"
            )
            raise InputError(f"{path}: id {key} comes twice: {advice}")
        table[key] = value
    return table


def scan_table(path: str | Path) -> TableScan:
    """Read a table and say what is wrong with it, for checks and repairs.

    See :func:`read_table` for plain reading.
    """
    table: dict[str, str] = {}
    duplicates: dict[str, bool] = {}  # whether the lines differ
    unsorted: list[str] = []
    lines_without_id: list[int] = []
    previous = ""
    for number, key, value in _read_rows(path):
        if not key:
            lines_without_id.append(number)
            continue
        # Against the line before, whatever its place: else one high id would make all
        # that follow it unsorted.
        if key < previous:
            unsorted.append(key)
        previous = key
        if key in table:
            duplicates[key] = duplicates.get(key, False) or table[key] != value
        table.setdefault(key, value)
    conflicts = tuple(key for key, differ in duplicates.items() if differ)
    return TableScan(
        table, tuple(duplicates), conflicts, tuple(unsorted), tuple(lines_without_id)
    )


def read_table_lines(
    path: str | Path, *, marked: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield the ids and values of a table in its order, a line in memory at a time."""
    for number, key, value in _read_rows(path, marked):
        if not key:
            raise InputError(
                f"{path}: line {number} has no id; each line must be `id value`: "
                "delete or fix it"
            )
        yield key, value


def _read_rows(
    path: str | Path, marked: bool = False
) -> Iterator[tuple[int, str, str]]:
    """Yield the number of each line, its id ("" if it has none), and its value."""
    for number, line in enumerate(read_text_lines(path, marked=marked), start=1):
        # A line that begins with a blank splits into "", which is no id, and the rest.
        key, *rest = _BLANK.split(line, maxsplit=1)
        value = rest[0].strip(_BLANKS) if rest else ""
        yield number, key, value


def read_text_lines(path: str | Path, *, marked: bool = False) -> Iterator[str]:
    """Yield the lines of a text file that must hold something, one in memory at a time.

    It may be gzipped. A byte-order mark, which Kaldi takes for a part of the first id,
    is refused; with ``marked`` it says what the encoding is (UTF-8, UTF-16 or UTF-32).
    """
    try:
        with open_unpacked(path) as file:
            encoding, mark = _find_marked_encoding(file) if marked else ("utf-8", b"")
            if encoding == "utf-8":
                file.read(len(mark))
                yield from _decode_lines(path, file)
            else:
                # A line feed has several bytes there, so the whole is decoded first.
                recoded = io.BytesIO(_recode(path, file, encoding))
                yield from _decode_lines(path, recoded)
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file: check the path, or run the stage that writes it"
        ) from None
    except IsADirectoryError:
        raise InputError(
            f"{path}: is a folder, not a file: name the table itself"
        ) from None


def _find_marked_encoding(file: BinaryIO) -> tuple[str, bytes]:
    """Return the encoding that a byte-order mark names, and the mark."""
    begin = cast(io.BufferedReader, file).peek(4)
    # UTF-32 first: its little-endian mark begins with that of UTF-16.
    for encoding, marks in (
        ("utf-32", (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)),
        ("utf-16", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)),
        ("utf-8", (codecs.BOM_UTF8,)),
    ):
        for mark in marks:
            if begin.startswith(mark):
                return encoding, mark
    return "utf-8", b""


def _recode(path: str | Path, file: BinaryIO, encoding: str) -> bytes:
    """Return the content of a file in another encoding as UTF-8."""
    data = _read_limited(path, file)
    try:
        return data.decode(encoding).encode()
    except UnicodeError:
        raise InputError(
            f"{path}: not {encoding.upper()}, as its byte-order mark says: convert "
            "the file with iconv"
        ) from None


def _read_limited(path: str | Path, file: BinaryIO) -> bytes:
    data = file.read(LONGEST_LINE + 1)
    if len(data) > LONGEST_LINE:
        raise InputError(
            f"{path}: more than {LONGEST_LINE >> 20} MB: is this a transcript? Split it"
        )
    return data


def read_text(path: str | Path) -> str:
    """Read a whole file, as UTF-8 or what its byte-order mark says.

    Raises InputError: it is missing, too large, or in another encoding.
    """
    try:
        with open_unpacked(path) as file:
            encoding, mark = _find_marked_encoding(file)
            data = _read_limited(path, file)
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file: check the path, or run the stage that writes it"
        ) from None
    except IsADirectoryError:
        raise InputError(
            f"{path}: is a folder, not a file: name the file itself"
        ) from None
    # The decoders of UTF-16 and UTF-32 need the mark, and take it away themselves.
    if encoding == "utf-8":
        data = data.removeprefix(mark)
    try:
        return data.decode(encoding)
    except UnicodeError:
        raise InputError(
            f"{path}: not {encoding.upper()} text: convert it with iconv"
        ) from None


def _decode_lines(path: str | Path, file: BinaryIO) -> Iterator[str]:
    """Yield the lines of UTF-8; InputError names the first that is not, or is odd."""
    # Lines before the first that holds something, so that a file of blank lines is
    # refused as empty before it has given one; None: that line was found.
    blank: list[str] | None = []
    # Not splitlines(): it also breaks at U+2028 and form feeds, which may occur in a
    # text.
    lines = iter(partial(file.readline, LONGEST_LINE), b"")
    for number, data in enumerate(lines, start=1):
        if len(data) == LONGEST_LINE:
            raise InputError(
                f"{path}: line {number} is longer than {LONGEST_LINE >> 20} MB: "
                "is this a text?"
            )
        if number == 1 and data.startswith(b"\xef\xbb\xbf"):
            raise InputError(
                f"{path}: begins with a byte-order mark, which would be part of "
                "the first id: delete it"
            )
        try:
            line = data.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path}: line {number} is not UTF-8 (byte "
                f"{data[error.start]:#04x}): convert the file with iconv"
            ) from None
        if "\r" in line:
            raise InputError(
                f"{path}: line {number} has a carriage return in it: end lines "
                "with a line feed"
            )
        if blank is not None and not data.strip():
            blank.append(line)
            continue
        yield from blank or ()
        blank = None
        yield line
    if blank is not None:
        raise InputError(
            f"{path}: empty file: write it again with the stage that makes it"
        )


def write_table(path: str | Path, table: Mapping[str, str]) -> None:
    """Write ``{id: value}`` as a table sorted by id.

    ``path`` appears whole or is left as it was.
    """
    if not table:
        raise InputError(f"{path}: there is nothing to write: the table would be empty")
    for key, value in table.items():
        if not key or any(blank in key for blank in " \t\r\n"):
            raise InputError(
                f"{path}: {key!r} cannot be an id: ids are not empty and hold no "
                "white space"
            )
        if "\n" in value or "\r" in value:
            raise InputError(
                f"{path}: the value of {key} holds a line break: take it out"
            )
    with atomic_write(path) as file:
        file.writelines(
            f"{key} {table[key]}".rstrip(_BLANKS) + "\n" for key in sorted(table)
        )
