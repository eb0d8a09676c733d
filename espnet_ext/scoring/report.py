"""Write what scoring found: ``score.json``, tables by utterance and speaker, and the aligned text."""

import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from espnet_ext.files import atomic_write, write_json
from espnet_ext.scoring.bootstrap import REPLICAS
from espnet_ext.scoring.error_rate import ErrorRate, align
from espnet_ext.scoring.score import Score, split_units

# An alignment holds 4 bytes a cell of its table: beyond 1.6 GB (20,000 x 20,000 words) only the counts are written.
MAX_ALIGNMENT_CELLS = 400_000_000


def summarise(
    score: Score, *, by_speaker: bool = False, replicas: int = REPLICAS, seed: int = 0, normaliser: str = "none"
) -> dict[str, Any]:
    """The content of ``score.json``; rates are in percent, ``words`` is the reference length in ``unit``.

    ``normaliser`` names what was done to both texts before; scoring itself changes nothing.
    """
    total = score.total
    low, high = score.interval(by_speaker=by_speaker, replicas=replicas, seed=seed)
    return {
        "unit": score.unit,
        "value": percent(total.rate),
        "ci95": [percent(low), percent(high)],
        "errors": total.errors,
        "words": total.reference_length,
        "correct": total.correct,
        "substitutions": total.substitutions,
        "deletions": total.deletions,
        "insertions": total.insertions,
        "utterances": len(score.utterances),
        "sentence_error_rate": percent(score.sentence_error_rate),
        "normaliser": normaliser,
        "bootstrap": {"replicas": replicas, "seed": seed, "resample": "speaker" if by_speaker else "utterance"},
    }


def percent(fraction: float) -> float:
    """A fraction as percent, to four decimals."""
    return round(100 * fraction, 4)


def write_reports(folder: str | Path, score: Score, summary: Mapping[str, Any], *, alignment: bool = True) -> None:
    """Write the reports into ``folder``; ``score.json`` comes last, so that where it stands the rest is complete.

    ``per_speaker.tsv`` is written where speakers are known, ``alignment.txt`` unless switched off; what an earlier
    call left of them is deleted otherwise.
    """
    folder = Path(folder)
    for name in ("score.json", "per_speaker.tsv", "alignment.txt"):
        (folder / name).unlink(missing_ok=True)
    _write_counts(folder / "per_utterance.tsv", score.utterances)
    if score.speakers:
        _write_counts(folder / "per_speaker.tsv", score.speakers)
    if alignment:
        with atomic_write(folder / "alignment.txt") as file:
            file.writelines(alignment_blocks(score))
    write_json(folder / "score.json", summary)


def alignment_blocks(score: Score) -> Iterable[str]:
    """One block of text an utterance, in the manner of sclite's ``pra`` report."""
    for key, counts in score.utterances.items():
        numbers = f"{counts.correct} {counts.substitutions} {counts.deletions} {counts.insertions}"
        yield f"id: ({key})\nScores: (#C #S #D #I) {numbers}\n"
        if counts.reference_length * counts.hypothesis_length > MAX_ALIGNMENT_CELLS:
            yield f"(too long to align: {counts.reference_length} x {counts.hypothesis_length})\n\n"
            continue
        pairs = align(split_units(score.reference[key], score.unit), split_units(score.hypothesis[key], score.unit))
        yield format_alignment(pairs) + "\n"


def format_alignment(pairs: Iterable[tuple[str | None, str | None]]) -> str:
    """Reference, hypothesis and S, D or I for each error, in columns as wide as they look in a terminal.

    A gap is a row of asterisks. Words stay as they are (sclite prints errors in capitals, which hides differences of
    case). A space that was counted as a character shows as U+2423.

    >>> print(format_alignment([("the", "the"), ("cat", "hat"), (None, "sat"), ("down", None)]), end="")
    REF:  the cat *** down
    HYP:  the hat sat ****
    EVAL:     S   I   D
    """
    columns = [_column(reference, hypothesis) for reference, hypothesis in pairs]
    rows = (" ".join(cells) for cells in zip(*columns, strict=True)) if columns else ("", "", "")
    names = ("REF: ", "HYP: ", "EVAL:")
    return "".join(f"{name} {row}".rstrip() + "\n" for name, row in zip(names, rows, strict=True))


@lru_cache(maxsize=100_000)  # the same pairs of words come again and again
def _column(reference: str | None, hypothesis: str | None) -> tuple[str, str, str]:
    """One pair as three cells of equal width: reference, hypothesis, mark."""
    upper, lower = ("\u2423" if word == " " else word for word in (reference, hypothesis))
    if upper is None:
        upper, mark = "*" * _width(lower), "I"
    elif lower is None:
        lower, mark = "*" * _width(upper), "D"
    else:
        mark = "" if reference == hypothesis else "S"
    width = max(_width(upper), _width(lower))
    return tuple(cell + " " * (width - _width(cell)) for cell in (upper, lower, mark))


def _width(word: str) -> int:
    """Columns of a terminal: Han and other wide characters take two, combining marks none; at least one."""
    if word.isascii():
        return len(word)
    columns = 0
    for character in word:
        if not unicodedata.combining(character):
            columns += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return max(columns, 1)


def _write_counts(path: Path, counts: Mapping[str, ErrorRate]) -> None:
    with atomic_write(path) as file:
        file.write("id\twords\tcorrect\tsub\tdel\tins\n")
        file.writelines(
            f"{key}\t{c.reference_length}\t{c.correct}\t{c.substitutions}\t{c.deletions}\t{c.insertions}\n"
            for key, c in counts.items()
        )
