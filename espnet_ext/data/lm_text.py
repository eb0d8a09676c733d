"""Text for a language model as ESPnet reads it: a Kaldi table whose ids are line numbers."""

import gzip
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from espnet_ext.data.kaldi_tables import read_table
from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a text file, plain or ``.gz``, with single spaces between words; empty ones are left out.

    Raises:
        InputError: a missing file, or one that is not gzip or UTF-8 text.
    """
    path = Path(path)
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for line in file:
                if line.strip():
                    yield " ".join(line.split())
    except FileNotFoundError:
        raise InputError(f"{path}: no such file: check the path of the language model's text") from None
    except (gzip.BadGzipFile, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text ({error}): download it again") from None


def write_lm_text(text: str | Path, output: str | Path) -> int:
    """Write the lines of ``text`` with ids ``lm-<number>`` to ``output``, whole or not at all; print how many.

    Raises:
        InputError: as :func:`read_lines`, or no text.
    """
    count = 0
    with atomic_write(output) as file:
        for count, line in enumerate(read_lines(text), start=1):
            # enough digits to keep the ids of LibriSpeech's 40 million lines sorted
            file.write(f"lm-{count:09d} {line}\n")
        if count == 0:
            raise InputError(f"{text}: holds no text")
    print(f"{count:,} sentences -> {output}")
    return count


def sentences(text: Iterable[str | Path] = (), transcripts: Iterable[str | Path] = ()) -> Iterator[str]:
    """The sentences of text files, as :func:`read_lines` reads them, and of Kaldi tables; empty ones are left out.

    Raises:
        InputError: a file is missing or not readable as what it should be.
    """
    for path in text:
        yield from read_lines(path)
    for path in transcripts:
        yield from filter(None, read_table(path).values())


def sample(lines: Iterable[str], count: int | None, seed: int = 0) -> list[str]:
    """At most ``count`` lines, each equally likely, in one pass; only those are held in memory. None takes all.

    >>> len(sample(map(str, range(1000)), 10)), sample(["A", "B"], 10)
    (10, ['A', 'B'])

    Raises:
        InputError: ``count`` is neither None nor a whole number of at least 1.
    """
    if count is None:
        return list(lines)
    if not isinstance(count, int) or count < 1:
        raise InputError(f"sentences must be a whole number of at least 1, not {count!r}")
    draw = random.Random(seed)
    kept: list[str] = []
    for number, line in enumerate(lines):
        if number < count:
            kept.append(line)
        elif (place := int(draw.random() * (number + 1))) < count:
            kept[place] = line
    return kept
