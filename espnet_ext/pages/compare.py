"""A comparison as one web page that needs no other file: the tests, the most frequent errors, and all aligned rows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import jinja2

from espnet_ext import __version__
from espnet_ext.scoring.alignments import Aligned, Row
from espnet_ext.scoring.comparison import Compared
from espnet_ext.scoring.comparison_tables import NAMES, paper_rows, shown_value, verdict, what_is_covered
from espnet_ext.scoring.error_rate import Pair, mark
from espnet_ext.scoring.formatting import format_interval, format_p
from espnet_ext.work.files import atomic_write, write_json

CONFUSIONS = 15  # that are listed for each kind of error
ROWS = 10_000  # that the page holds unless told otherwise


def write_comparison(folder: Path, compared: Compared, rows: int = ROWS) -> None:
    """Write ``compare.json``, the page ``compare.html``, and tables to paste, ``compare.md`` and ``compare.tex``."""
    write_page(folder / "compare.html", compared, rows)
    for name, style in (("compare.md", "pipe"), ("compare.tex", "latex_booktabs")):
        with atomic_write(folder / name) as file:
            file.write(paper_rows(compared.result, style) + "\n")
    write_json(folder / "compare.json", compared.result)


def write_page(path: Path, compared: Compared, rows: int = ROWS) -> None:
    """Write the page; of long test sets, the ``rows`` with the most errors of all systems together."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("espnet_ext.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "shown_value": shown_value,
        "interval": format_interval,
        "format_p": format_p,
        "verdict": verdict,
        "covered": what_is_covered,
    }
    text = environment.get_template("compare.html.j2").render(
        result=compared.result,
        rate=NAMES[compared.result["rate"]],
        data=page_data(compared, rows),
        confusions=confusions(compared),
        version=__version__,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )
    with atomic_write(path) as file:
        file.write(text)


def page_data(compared: Compared, most: int) -> dict[str, Any]:
    """What the page's script reads.

    Returns:
        ``systems``: names, each with its files. ``rows``: lists of key, speaker, tokens of the reference joined by
        blanks, and by system and file the marks of the alignment and the tokens that differ from the reference.
    """
    every = {name: list(files) for name, files in compared.aligned.items()}

    def errors(row: Row) -> int:
        return sum(a != b for found in chain(*every.values()) for a, b in found[row.key])

    rows = [row for row in compared.rows if row.tokens or errors(row)]
    kept = sorted(rows, key=errors, reverse=True)[:most]
    numbers = {row.key: number for number, row in enumerate(rows)}
    return {
        "systems": [
            {"name": system["name"], "files": [Path(file).name for file in system["files"]]}
            for system in compared.result["systems"]
        ],
        "total": len(rows),
        "rows": [
            [row.key, row.speaker, " ".join(map(_shown, row.tokens)), numbers[row.key], _heard(row, every)]
            for row in kept
        ],
    }


def _heard(row: Row, aligned: Mapping[str, Sequence[Aligned]]) -> list[list[list[str]]]:
    return [[_marks_and_words(found[row.key]) for found in files] for files in aligned.values()]


def _marks_and_words(pairs: Sequence[Pair]) -> list[str]:
    words = (_shown(right) for left, right in pairs if right is not None and right != left)
    return ["".join(map(mark, pairs)), " ".join(words)]


def _shown(token: str) -> str:
    """A token; a blank, which counts as a character, as U+2423."""
    return "\u2423" if token == " " else token


def confusions(compared: Compared) -> list[dict[str, Any]]:
    """The most frequent errors by kind: substituted, deleted and inserted tokens, with their number by system.

    Numbers are means over the files of a system.
    """
    counters = {
        name: Counter(pair for found in files for pairs in found.values() for pair in pairs if pair[0] != pair[1])
        for name, files in compared.aligned.items()
    }
    totals: Counter[Pair] = sum(counters.values(), start=Counter())
    kinds = {
        "Substituted": [pair for pair in totals if None not in pair],
        "Deleted": [pair for pair in totals if pair[1] is None],
        "Inserted": [pair for pair in totals if pair[0] is None],
    }
    return [
        {
            "kind": kind,
            "rows": [
                {
                    "said": _shown(pair[0] or ""),
                    "heard": _shown(pair[1] or ""),
                    "counts": [
                        f"{counters[name][pair] / len(files):.1f}".removesuffix(".0")
                        for name, files in compared.aligned.items()
                    ],
                }
                for pair in sorted(pairs, key=lambda pair: (-totals[pair], str(pair)))[:CONFUSIONS]
            ],
        }
        for kind, pairs in kinds.items()
        if pairs
    ]
