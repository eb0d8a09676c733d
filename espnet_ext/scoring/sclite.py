"""Score an STM against a CTM as sclite (NIST SCTK) does, segment by segment.

For comparison with published numbers. A word of a CTM belongs to the first segment of
its channel that ends after the word's middle, and to the last if none does. Case does
not count; ``a;x`` is ``a`` with a tag, ``@`` is no word, and a reference's ``(word)``
need not be said (``-D``).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import kaldialign

from espnet_ext.errors import InputError
from espnet_ext.scoring.error_rate import Pair
from espnet_ext.scoring.score import check_ids
from espnet_ext.text.transcripts import OF_WORDS, STM, TRN, Transcripts
from espnet_ext.text.words import Segment, group_by_recording

# sclite's costs: a substitution is dearer than a deletion or an insertion, but cheaper
# than both. With them an alignment may have more errors than the fewest.
SUBSTITUTION = 4
DELETION = 3
INSERTION = 3

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
    """Cut an STM and a CTM at the STM's segments.

    Segments that are not scored take their words with them. Raises InputError: other
    formats, or a recording is in only one of the files.
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
    # Each scored recording must be in the CTM, and each of the CTM in the STM, where
    # all of it may be ignored.
    recognised = [name for name in words if name in scored]
    check_ids(scored, recognised, names, "recording")
    check_ids(turns, [*turns, *words], names, "recording")
    found = Segments({}, {}, {})
    for recording in scored:
        own = sorted(turns[recording], key=lambda turn: turn.start)
        cut = _distribute_words(own, words[recording])
        for number, (turn, heard) in enumerate(zip(own, cut, strict=True), start=1):
            if turn in reference.ignored:
                continue
            key = f"{recording}-{number:05d}"
            found.reference[key] = _join_plain_words(turn.words)
            found.hypothesis[key] = _join_plain_words(heard)
            found.speakers[key] = turn.speaker
    return found


def _distribute_words(
    turns: Sequence[Segment], words: Sequence[Segment]
) -> list[list[str]]:
    """Give each word to the first segment that ends after its middle, or the last."""
    cut: list[list[str]] = [[] for _ in turns]
    # Like a merge: it never goes back, so a long word may take the next one with it.
    place = 0
    for word in sorted(words, key=lambda word: word.start):
        middle = (word.start + word.end) / 2
        while place + 1 < len(turns) and middle >= turns[place].end:
            place += 1
        cut[place] += word.words
    return cut


def _join_plain_words(words: Iterable[str]) -> str:
    """Join words without tags and in lower case, as sclite compares them."""
    plain = [_TAG.sub("", word) for word in words]
    spoken = [word for word in plain if word != _NO_WORD]
    return " ".join(spoken).lower()


def align_like_sclite(
    reference: Sequence[str], hypothesis: Sequence[str]
) -> list[Pair]:
    """Align two texts with sclite's costs; None is a gap.

    ``(word)`` of the reference counts as correct if it is not said.

    >>> align_like_sclite("(uh) yes (i-) go".split(), "yes i- go".split())
    [('(uh)', '(uh)'), ('yes', 'yes'), ('i-', 'i-'), ('go', 'go')]
    """
    words = [_read_reference_word(word) for word in reference]
    # kaldialign, in C++, has one price for all deletions.
    if any(word.is_optional for word in words):
        costs = _compute_costs(words, hypothesis)
        return _trace_back(words, hypothesis, costs)
    pairs = kaldialign.align(list(reference), list(hypothesis), "", sclite_mode=True)
    return [(left or None, right or None) for left, right in pairs]


class _ReferenceWord(NamedTuple):
    """A word of the reference, how it is compared, and what leaving it out costs."""

    written: str
    spoken: str
    is_optional: bool

    @property
    def deletion(self) -> int:
        return 0 if self.is_optional else DELETION


def _read_reference_word(word: str) -> _ReferenceWord:
    found = _OPTIONAL.fullmatch(word)
    if found is None:
        return _ReferenceWord(word, word, False)
    return _ReferenceWord(word, found[1], True)


def _compute_costs(
    words: Sequence[_ReferenceWord], hypothesis: Sequence[str]
) -> list[list[int]]:
    """Compute the lowest costs of aligning the first i words with the first j heard.

    Returned is costs[i][j], (len(words) + 1, len(hypothesis) + 1): Levenshtein's table,
    with a price of its own for the deletion of each word.
    """
    costs = [[INSERTION * count for count in range(len(hypothesis) + 1)]]
    for word in words:
        above = costs[-1]
        row = [above[0] + word.deletion]
        for place, heard in enumerate(hypothesis):
            paired = above[place] + _price_pair(word, heard)
            deleted = above[place + 1] + word.deletion
            inserted = row[-1] + INSERTION
            row.append(min(paired, deleted, inserted))
        costs.append(row)
    return costs


def _price_pair(word: _ReferenceWord, heard: str) -> int:
    return 0 if word.spoken == heard else SUBSTITUTION


def _trace_back(
    words: Sequence[_ReferenceWord], hypothesis: Sequence[str], costs: list[list[int]]
) -> list[Pair]:
    """Follow the lowest costs back from the end; of equals, pairs go first."""
    pairs: list[Pair] = []
    i = len(words)
    j = len(hypothesis)
    while i or j:
        here = costs[i][j]
        word = words[i - 1] if i else None
        heard = hypothesis[j - 1] if j else None
        if (
            word is not None
            and heard is not None
            and here == costs[i - 1][j - 1] + _price_pair(word, heard)
        ):
            pairs.append((word.spoken, heard))
            i -= 1
            j -= 1
        elif word is not None and here == costs[i - 1][j] + word.deletion:
            # Paired with itself, an optional word counts as correct.
            heard_as = word.written if word.is_optional else None
            pairs.append((word.written, heard_as))
            i -= 1
        else:
            pairs.append((None, heard))
            j -= 1
    pairs.reverse()
    return pairs


def warn_of_sclite_words(transcripts: Transcripts) -> list[str]:
    """Warn, in a line, if a file has words that sclite reads otherwise than written."""
    if transcripts.format not in (TRN, STM, *OF_WORDS):
        return []
    texts = [*transcripts.texts.values(), *(turn.text for turn in transcripts.segments)]
    words = (word for text in texts for word in text.split())
    odd = next((word for word in words if _is_read_otherwise(word)), None)
    if odd is None:
        return []
    return [
        f"{transcripts.path}: `{odd}` is compared as it is written; sclite reads `a;x` "
        "as `a`, `@` as no word, and with -D `(a)` as one that need not be said "
        "(--align segment does, for STM and CTM)"
    ]


def _is_read_otherwise(word: str) -> bool:
    if word == _NO_WORD or _OPTIONAL.fullmatch(word):
        return True
    return re.search(r"\S;\S", word) is not None
