"""Write what scoring found: ``score.json``, tables by utterance and speaker, and the aligned text."""

import shutil
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tabulate import tabulate

from espnet_ext.scoring.bootstrap import REPLICAS
from espnet_ext.scoring.error_rate import MAX_ALIGNMENT_CELLS, ErrorRate, align
from espnet_ext.scoring.score import WHOLE, Score, split_units
from espnet_ext.work.files import atomic_write, write_json

PARTS = "parts"  # the folder of a score's parts


def summarise(
    score: Score, *, by_speaker: bool = False, replicas: int = REPLICAS, seed: int = 0, normaliser: str = "none"
) -> dict[str, Any]:
    """The content of ``score.json``; rates are in percent, ``words`` is the reference length in ``unit``.

    ``normaliser`` names what was done to both texts before; scoring itself changes nothing. Where the score has parts,
    ``measures`` holds the same figures of each by name; ``value`` and ``ci95`` are null where the reference has no
    token of a part.
    """
    draws = {"by_speaker": by_speaker, "replicas": replicas, "seed": seed}
    return {
        **_figures(score, **draws),
        "normaliser": normaliser,
        "bootstrap": {"replicas": replicas, "seed": seed, "resample": "speaker" if by_speaker else "utterance"},
        **({"measures": {name: _figures(part, **draws) for name, part in score.parts.items()}} if score.parts else {}),
    }


def _figures(score: Score, **draws: Any) -> dict[str, Any]:
    total, known = score.total, score.total.reference_length > 0
    return {
        "unit": score.unit,
        "value": percent(total.rate) if known else None,
        "ci95": [percent(limit) for limit in score.interval(**draws)] if known else None,
        "errors": total.errors,
        "words": total.reference_length,
        "correct": total.correct,
        "substitutions": total.substitutions,
        "deletions": total.deletions,
        "insertions": total.insertions,
        "utterances": len(score.utterances),
        "sentence_error_rate": percent(score.sentence_error_rate),
    }


def measures_table(summary: Mapping[str, Any]) -> str:
    """The whole and its parts, a line each, to read: rate with its interval, tokens of the reference, and errors.

    >>> figures = {"errors": 1, "words": 4, "substitutions": 1, "deletions": 0, "insertions": 0}
    >>> english = {**figures, "value": None, "ci95": None, "words": 0}
    >>> print(measures_table({**figures, "value": 25.0, "ci95": [0.0, 50.0], "measures": {"EN": english}}))
      measure    rate %    95% interval    tokens    errors    sub    del    ins
    ---------  --------  --------------  --------  --------  -----  -----  -----
          All     25.00   0.00 to 50.00         4         1      1      0      0
           EN         -               -         0         1      1      0      0
    """
    counts = ("words", "errors", "substitutions", "deletions", "insertions")
    rows = [
        [name, _rate(figures["value"]), _interval(figures["ci95"]), *(figures[key] for key in counts)]
        for name, figures in {WHOLE: summary, **summary["measures"]}.items()
    ]
    return _draw(["measure", "rate %", "95% interval", "tokens", "errors", "sub", "del", "ins"], rows)


def comparison_table(result: Mapping[str, Any]) -> str:
    """Two systems on the whole and its parts, a line each: the content of ``compare.json`` to read."""
    rows = [
        [
            name, _rate(test["a"]["value"]), _rate(test["b"]["value"]), f"{test['difference']:+.2f}",
            _interval(test["ci95"], "+"), f"{test['p_value']:.4f}", test["words"],
        ]
        for name, test in {WHOLE: result, **result["measures"]}.items()
    ]  # fmt: skip
    names = [f"{result[side]['name']} %" for side in ("a", "b")]
    return _draw(["measure", *names, "difference", "95% interval", "p", "tokens"], rows)


def _draw(header: list[str], rows: list[list[Any]]) -> str:
    return tabulate(rows, header, disable_numparse=True, stralign="right")


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _interval(limits: Sequence[float] | None, sign: str = "") -> str:
    return "-" if limits is None else " to ".join(f"{limit:{sign}.2f}" for limit in limits)


def percent(fraction: float) -> float:
    """A fraction as percent, to four decimals."""
    return round(100 * fraction, 4)


def write_reports(
    folder: str | Path, score: Score, summary: Mapping[str, Any], *, alignment: bool | Iterable[str] = True
) -> None:
    """Write the reports into ``folder``; ``score.json`` comes last, so that where it stands the rest is complete.

    ``per_speaker.tsv`` is written where speakers are known, ``alignment.txt`` unless switched off; ``alignment`` may
    also be its text. Where the score has parts, ``measures.txt`` lists them and ``parts/<name>/`` holds the counts of
    each, in files of the same names. What an earlier call left of all these is deleted otherwise.
    """
    folder = Path(folder)
    for name in ("score.json", "per_speaker.tsv", "measures.txt", "alignment.txt"):
        (folder / name).unlink(missing_ok=True)
    if (folder / PARTS).is_dir():
        shutil.rmtree(folder / PARTS)
    _write_tables(folder, score)
    for name, part in score.parts.items():
        _write_tables(folder / PARTS / name, part)
    if score.parts:
        with atomic_write(folder / "measures.txt") as file:
            file.write(measures_table(summary) + "\n")
    if alignment:
        with atomic_write(folder / "alignment.txt") as file:
            file.writelines(alignment_blocks(score) if alignment is True else alignment)
    write_json(folder / "score.json", summary)


def alignment_blocks(score: Score) -> Iterable[str]:
    """One block of text an utterance, in the manner of sclite's ``pra`` report."""
    for key, counts in score.utterances.items():
        numbers = f"{counts.correct} {counts.substitutions} {counts.deletions} {counts.insertions}"
        yield f"id: ({key})\nScores: (#C #S #D #I) {numbers}\n"
        if counts.reference_length * counts.hypothesis_length > MAX_ALIGNMENT_CELLS:  # the counts need no table
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
        upper, mark = "*" * display_width(lower), "I"
    elif lower is None:
        lower, mark = "*" * display_width(upper), "D"
    else:
        mark = "" if reference == hypothesis else "S"
    width = max(display_width(upper), display_width(lower))
    return tuple(cell + " " * (width - display_width(cell)) for cell in (upper, lower, mark))


def display_width(word: str) -> int:
    """Columns of a terminal: Han and other wide characters take two, combining marks none; at least one."""
    if word.isascii():
        return len(word)
    columns = 0
    for character in word:
        if not unicodedata.combining(character):
            columns += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return max(columns, 1)


def _write_tables(folder: Path, score: Score) -> None:
    _write_counts(folder / "per_utterance.tsv", score.utterances)
    if score.speakers:
        _write_counts(folder / "per_speaker.tsv", score.speakers)


def _write_counts(path: Path, counts: Mapping[str, ErrorRate]) -> None:
    with atomic_write(path) as file:
        file.write("id\twords\tcorrect\tsub\tdel\tins\n")
        file.writelines(
            f"{key}\t{c.reference_length}\t{c.correct}\t{c.substitutions}\t{c.deletions}\t{c.insertions}\n"
            for key, c in counts.items()
        )
