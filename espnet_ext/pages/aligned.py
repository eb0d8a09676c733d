"""Aligned errors of several systems on one test set, as ``aligned.js`` draws them."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from espnet_ext.scoring.alignments import Aligned, Row
from espnet_ext.scoring.error_rate import Pair, mark_pair


def make_aligned_data(
    name: str,
    rows: Sequence[Row],
    systems: Mapping[str, Mapping[str, Aligned]],
    most: int,
) -> dict[str, Any]:
    """Return a test set as the script reads it.

    Of its rows there are ``most``, those with most errors of all systems together.
    ``systems`` has, by name and by what a training is called (such as its seed), the
    tokens aligned by row. In the result, ``systems`` are names, each with those of its
    trainings, and ``rows`` lists of label, speaker, tokens of the reference joined by
    blanks, place among the rows, what was recognised, and address of the audio, which
    may be put there. What was recognised is, by system and training, the marks of the
    alignment and the tokens that differ from the reference.
    """
    every = [list(files.values()) for files in systems.values()]

    # of all trainings together, of which some may lack the row
    def count_errors(row: Row) -> int:
        errors = 0
        for aligned in chain(*every):
            errors += sum(a != b for a, b in aligned.get(row.key, ()))
        return errors

    numbered = []
    for number, row in enumerate(rows):
        errors = count_errors(row)
        # A row without words and errors shows nothing.
        if errors or row.tokens:
            numbered.append((errors, number, row))
    # Stable, so that rows with as many errors stay in the order of the reference.
    worst = sorted(numbered, key=lambda each: -each[0])[:most]
    # lists in place of mappings: the names of keys would be most of a page of 10,000
    # rows
    listed = []
    for _, number, row in worst:
        tokens = " ".join(map(show_token, row.tokens))
        heard = [
            [_describe_heard(aligned.get(row.key, ())) for aligned in files]
            for files in every
        ]
        listed.append([row.label, row.speaker, tokens, number, heard, None])
    return {
        "name": name,
        "systems": [
            {"name": system, "files": list(files)} for system, files in systems.items()
        ],
        "total": len(rows),
        "rows": listed,
    }


def _describe_heard(pairs: Sequence[Pair]) -> list[str]:
    """Return the marks of an alignment, and the tokens that differ in it."""
    differ = []
    for left, right in pairs:
        if right is not None and right != left:
            differ.append(show_token(right))
    return ["".join(map(mark_pair, pairs)), " ".join(differ)]


def show_token(token: str) -> str:
    """Return a token as it is shown: a blank, which is a character too, as U+2423."""
    return "\u2423" if token == " " else token
