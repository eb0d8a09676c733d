"""STM against CTM as sclite (NIST SCTK) scores them, for comparison with published
numbers: each STM segment is aligned by itself.

A word of a CTM belongs to the first segment of its channel that ends after the word's
middle, and to the last if none does. Case does not count; ``a;x`` is ``a`` with a tag,
``@`` is no word, and a reference's ``(word)`` need not be said (``-D``).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import kaldialign

from espnet_ext.errors import InputError
from espnet_ext.scoring.error_rate import Pair
from espnet_ext.scoring.score import check_ids
from espnet_ext.text.transcripts import OF_WORDS, STM, TRN, Transcripts
from espnet_ext.text.words import Segment, group_by_recording

# sclite's costs; with them an alignment may have more errors than the fewest.
SUBSTITUTION, DELETION, INSERTION = 4, 3, 3
_TAG = re.compile(r"(?<=\S);\S*")
_OPTIONAL = re.compile(r"\(([^()\s]+)\)")
_NO_WORD = "@"


@dataclass(frozen=True)
class Segments:
    """The texts of STM segments by name, ``<recording>-<number>``, and the speakers."""

    reference: dict[str, str]
    hypothesis: dict[str, str]
    speakers: dict[str, str]


def cut_at_segments(reference: Transcripts, hypothesis: Transcripts) -> Segments:
    """Cut an STM and a CTM at the STM's segments; those not scored take their words
    with them.

    Raises InputError: other formats, or a recording is in only one of the files.
    """
    if reference.format != STM or hypothesis.format not in OF_WORDS:
        raise InputError(
            f"--align segment: {reference.path} is {reference.format} and "
            f"{hypothesis.path} {hypothesis.format}: give an STM and a CTM"
        )
    words = group_by_recording(hypothesis.segments)
    turns = group_by_recording([*reference.segments, *reference.ignored])
    scored = group_by_recording(reference.segments)
    names = str(reference.path), str(hypothesis.path)
    check_ids(scored, [name for name in words if name in scored], names, "recording")
    check_ids(turns, [*turns, *words], names, "recording")
    found = Segments({}, {}, {})
    for recording in scored:
        own = sorted(turns[recording], key=lambda turn: turn.start)
        cut = _words_of_segments(own, words[recording])
        for number, (turn, heard) in enumerate(zip(own, cut, strict=True), start=1):
            if turn in reference.ignored:
                continue
            key = f"{recording}-{number:05d}"
            found.reference[key] = _words_of(turn.words)
            found.hypothesis[key] = _words_of(heard)
            found.speakers[key] = turn.speaker
    return found


def _words_of_segments(
    turns: Sequence[Segment], words: Sequence[Segment]
) -> list[list[str]]:
    """Return the words of each segment."""
    cut: list[list[str]] = [[] for _ in turns]
    place = 0
    for word in sorted(words, key=lambda word: word.start):
        middle = (word.start + word.end) / 2
        while place + 1 < len(turns) and middle >= turns[place].end:
            place += 1
        cut[place] += word.words
    return cut


def _words_of(words: Iterable[str]) -> str:
    plain = (_TAG.sub("", word) for word in words)
    return " ".join(word for word in plain if word != _NO_WORD).lower()


def align_like_sclite(
    reference: Sequence[str], hypothesis: Sequence[str]
) -> list[Pair]:
    """Align two texts with sclite's costs; ``(word)`` of the reference counts as
    correct if it is not said.

    >>> align_like_sclite("(uh) yes (i-) go".split(), "yes i- go".split())
    [('(uh)', '(uh)'), ('yes', 'yes'), ('i-', 'i-'), ('go', 'go')]
    """
    optional = [_OPTIONAL.fullmatch(word) for word in reference]
    if not any(optional):
        return [
            (left or None, right or None)
            for left, right in kaldialign.align(
                list(reference), list(hypothesis), "", sclite_mode=True
            )
        ]
    spoken = [
        found[1] if found else word
        for word, found in zip(reference, optional, strict=True)
    ]
    dropped = [0 if found else DELETION for found in optional]
    rows = [[INSERTION * count for count in range(len(hypothesis) + 1)]]
    for word, cost in zip(spoken, dropped, strict=True):
        row = [rows[-1][0] + cost]
        for place, heard in enumerate(hypothesis):
            paired = rows[-1][place] + (0 if word == heard else SUBSTITUTION)
            row.append(min(paired, rows[-1][place + 1] + cost, row[-1] + INSERTION))
        rows.append(row)
    pairs: list[Pair] = []
    i, j = len(spoken), len(hypothesis)
    while i or j:
        here = rows[i][j]
        same = i and j and spoken[i - 1] == hypothesis[j - 1]
        paired = 0 if same else SUBSTITUTION
        if i and j and here == rows[i - 1][j - 1] + paired:
            i, j = i - 1, j - 1
            pairs.append((spoken[i], hypothesis[j]))
        elif i and here == rows[i - 1][j] + dropped[i - 1]:
            i -= 1
            left = reference[i]
            pairs.append((left, left if optional[i] else None))
        else:
            j -= 1
            pairs.append((None, hypothesis[j]))
    return pairs[::-1]


def warn_of_sclite_words(transcripts: Transcripts) -> list[str]:
    """Return a line if a file has words that sclite reads in another way than they are
    written.
    """
    if transcripts.format not in (TRN, STM, *OF_WORDS):
        return []
    texts = [*transcripts.texts.values(), *(turn.text for turn in transcripts.segments)]
    words = (word for text in texts for word in text.split())
    odd = next(
        (
            word
            for word in words
            if word == _NO_WORD
            or _OPTIONAL.fullmatch(word)
            or re.search(r"\S;\S", word)
        ),
        None,
    )
    if odd is None:
        return []
    return [
        f"{transcripts.path}: `{odd}` is compared as it is written; sclite reads `a;x` "
        "as `a`, `@` as no word, and with -D `(a)` as one that need not be said "
        "(--align segment does, for STM and CTM)"
    ]
