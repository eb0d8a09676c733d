"""Aligned errors of several systems on one test set, as ``aligned.js`` draws them on
all pages.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from espnet_ext.scoring.alignments import Aligned, Row
from espnet_ext.scoring.error_rate import Pair, mark


def aligned_data(
    name: str,
    rows: Sequence[Row],
    systems: Mapping[str, Mapping[str, Aligned]],
    most: int,
) -> dict[str, Any]:
    """Return a test set as the script reads it: of its rows, the ``most`` with most
    errors of all systems together.

    ``systems`` has, by name and by what a training is called (such as its seed), the
    tokens aligned by row. In the result, ``systems`` are names, each with those of its
    trainings, and ``rows`` lists of label, speaker, tokens of the reference joined by
    blanks, place among the rows, what was recognised, and address of the audio, which
    may be put there. What was recognised is, by system and training, the marks of the
    alignment and the tokens that differ from the reference.
    """
    every = [list(files.values()) for files in systems.values()]

    def errors(row: Row) -> int:
        return sum(
            a != b for aligned in chain(*every) for a, b in aligned.get(row.key, ())
        )

    numbered = [(errors(row), number, row) for number, row in enumerate(rows)]
    worst = sorted(
        (each for each in numbered if each[0] or each[2].tokens),
        key=lambda each: -each[0],
    )[:most]
    return {
        "name": name,
        "systems": [
            {"name": system, "files": list(files)} for system, files in systems.items()
        ],
        "total": len(rows),
        "rows": [
            [
                row.label,
                row.speaker,
                " ".join(map(shown, row.tokens)),
                number,
                [
                    [_recognised(aligned.get(row.key, ())) for aligned in files]
                    for files in every
                ],
                None,
            ]
            for _, number, row in worst
        ],
    }


def _recognised(pairs: Sequence[Pair]) -> list[str]:
    words = (
        shown(right) for left, right in pairs if right is not None and right != left
    )
    return ["".join(map(mark, pairs)), " ".join(words)]


def shown(token: str) -> str:
    """Return a token as it is shown; a blank, which counts as a character, as U+2423."""
    return "\u2423" if token == " " else token
