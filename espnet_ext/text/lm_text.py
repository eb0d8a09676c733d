"""Write a language model's text as ESPnet reads it: Kaldi tables, in splits.

The ids are line numbers.
"""

import io
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.tables import read_table
from espnet_ext.work.files import atomic_write, open_unpacked
from espnet_ext.work.once import NOTE, fingerprint, replace_folder
from espnet_ext.work.parallel import Place, map_shards


def read_lines(path: str | Path) -> Iterator[str]:
    """Read the lines of a text file, plain or gzipped, with single spaces in them.

    Empty ones are left out. Raises InputError: the file is missing, or is not gzip or
    UTF-8 text.
    """
    path = Path(path)
    try:
        with open_unpacked(path) as file:
            for line in io.TextIOWrapper(file, encoding="utf-8"):
                if line.strip():
                    yield " ".join(line.split())
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file: check the path of the language model's text"
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: cannot be read as text ({error}): download it again"
        ) from None


def write_splits(text: str | Path, output: str | Path, splits: int) -> int:
    """Distribute the lines of ``text`` over files in a folder, to each in turn.

    The files are ``split.0`` and so on.

    ESPnet reads them with ``--multiple_iterator true``, one in memory at a time. Each
    line gets an id, ``lm-<number>``. The folder appears when it is complete. Returned
    is the number of lines. Raises InputError: fewer lines than splits.
    """
    if not Path(text).is_file():
        raise InputError(
            f"{text}: no such file: check the path of the language model's text"
        )
    count = 0
    with (
        replace_folder(output, fingerprint(splits, files=[text])) as folder,
        ExitStack() as stack,
    ):
        files = [
            stack.enter_context(open(folder / f"split.{n}", "w", encoding="utf-8"))
            for n in range(splits)
        ]
        for count, line in enumerate(read_lines(text), start=1):
            # Enough digits to keep the ids of LibriSpeech's 40 million lines sorted.
            files[count % splits].write(f"lm-{count:09d} {line}\n")
        if count < splits:
            raise InputError(
                f"{text}: holds {count} lines of text, fewer than the {splits} "
                "files for them (lm_splits)"
            )
        (folder / "num_splits").write_text(f"{splits}\n")
    say(f"{count:,} sentences -> {splits} files in {output}")
    return count


def write_lengths(text: Path, tokeniser: Sequence[str], output: Path) -> None:
    """Write the length in tokens of each line of a Kaldi table.

    ESPnet's ``collect_stats`` writes the same. ``tokeniser`` is ESPnet's type of
    tokens, and the model of word pieces if there is one.
    """
    from espnet2.text.build_tokenizer import build_tokenizer

    kind, *model = tokeniser
    split = build_tokenizer(
        token_type=kind, bpemodel=model[0] if model else None
    ).text2tokens
    with atomic_write(output) as file, open(text, encoding="utf-8") as lines:
        for line in lines:
            key, _, words = line.rstrip("\n").partition(" ")
            file.write(f"{key} {len(split(words))}\n")


def write_split_lengths(
    text: Path,
    tokeniser: Sequence[str],
    output: str | Path,
    nj: int = 1,
    parallel: Place | None = None,
) -> None:
    """Write the lengths of all splits, several at a time.

    The files have the same names as the splits, in another folder.
    """
    numbers = range(int((text / "num_splits").read_text()))
    kind, *model = tokeniser
    # The note holds the key of the splits: their text need not be hashed again.
    key = fingerprint(kind, files=[text / NOTE, *model])
    with replace_folder(output, key) as folder:
        target = folder.absolute()
        jobs = [
            (text / f"split.{n}", tuple(tokeniser), target / f"split.{n}")
            for n in numbers
        ]
        map_shards(_write_lengths, jobs, nj=nj, config=parallel, describe="lengths")
        (folder / "num_splits").write_text(f"{len(jobs)}\n")


def _write_lengths(job: tuple[Path, Sequence[str], Path]) -> None:
    write_lengths(*job)


def read_sentences(
    text: Iterable[str | Path] = (), transcripts: Iterable[str | Path] = ()
) -> Iterator[str]:
    """Read the sentences of text files, and then of Kaldi tables, without empty ones.

    Text files are read as by :func:`read_lines`.
    """
    for path in text:
        yield from read_lines(path)
    for path in transcripts:
        for sentence in read_table(path).values():
            if sentence:
                yield sentence


def sample_lines(lines: Iterable[str], count: int | None, seed: int = 0) -> list[str]:
    """Draw at most ``count`` lines, each equally likely, in one pass.

    Only those are held in memory. A count of None takes all.
    """
    if count is None:
        return list(lines)
    if not isinstance(count, int) or count < 1:
        raise InputError(
            f"sentences must be a whole number of at least 1, not {count!r}"
        )
    draw = random.Random(seed)
    kept: list[str] = []
    # Vitter's reservoir (algorithm R): line n replaces one of those kept with
    # probability count / n, so that all lines so far are equally likely to be there.
    for number, line in enumerate(lines):
        if number < count:
            kept.append(line)
            continue
        place = int(draw.random() * (number + 1))
        if place < count:
            kept[place] = line
    return kept
