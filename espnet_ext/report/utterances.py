"""The utterances of a decoding as the error browser reads them: worst first, compact, in chunks of JavaScript.

A page that is opened from a disk may not fetch files, but it may load scripts; so a chunk is a script that hands its
records to the page. A record is a list, whose places ``FIELDS`` names.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from espnet_ext.codeswitch.mixed_text import has_han
from espnet_ext.scoring.aligned_text import Aligned, Pair
from espnet_ext.scoring.error_rate import ErrorRate, count_pairs
from espnet_ext.scoring.switch_points import split_at_switches

# reference, hypothesis: tokens with blanks between; the hypothesis only where it differs from the reference.
# marks: a letter a column of the alignment: C (correct), S, D or I. switches: columns at which the language changes.
# near: errors next to a switch point. audio: a file's number, or null.
FIELDS = (
    "id", "speaker", "words", "sub", "del", "ins", "reference", "hypothesis", "marks", "switches", "near", "audio",
)  # fmt: skip
CHUNK = 1000  # utterances, or fewer where they are long
CHUNK_CHARACTERS = 1_000_000


def worst(blocks: Iterable[Aligned], most: int) -> list[Aligned]:
    """The ``most`` blocks with most errors, in falling order; of equally many, those of the shorter reference first.

    >>> from espnet_ext.scoring.error_rate import count_errors
    >>> blocks = [Aligned(name, None, count_errors(name.split("-"), ["x"]), ()) for name in ("x", "a-b-c", "d", "e-x")]
    >>> [block.key for block in worst(blocks, 3)]
    ['a-b-c', 'd', 'e-x']
    """
    return sorted(blocks, key=lambda block: (-_errors(block), _words(block), block.key, block.speaker or ""))[:most]


def _errors(block: Aligned) -> float:
    return block.counts.errors if block.counts else float("inf")  # too long to count is too long to be flawless


def _words(block: Aligned) -> int:
    return block.counts.reference_length if block.counts else 0


def record(block: Aligned, speakers: Mapping[str, str], mixed: bool, audio: Mapping[str, int]) -> list[Any]:
    """One utterance as a list of ``FIELDS``.

    Args:
        speakers: of utterances that are not of a speaker by themselves, as far as they are known.
        mixed: whether the text is Mandarin-English, so that it has switch points.
        audio: the number of an utterance's audio file, as far as there is one.

    >>> block = Aligned("u", None, ErrorRate(1, 1, 1, 1), (("我", "我"), ("go", "够"), ("x", None), (None, "y")))
    >>> record(block, {"u": "ann"}, True, {"u": 3})
    ['u', 'ann', 3, 1, 1, 1, '我 go x', '够 y', 'CSDI', [1], 1, 3]
    """
    counts = block.counts or ErrorRate(0, 0, 0, 0)
    reference = " ".join(left for left, _ in block.pairs if left is not None)
    hypothesis = " ".join(right for left, right in block.pairs if right is not None and right != left)
    switches, near = _switches(block.pairs) if mixed else ([], 0)
    return [
        block.key, block.speaker or speakers.get(block.key, ""), counts.reference_length, counts.substitutions,
        counts.deletions, counts.insertions, reference, hypothesis, "".join(map(_mark, block.pairs)), switches, near,
        audio.get(block.key),
    ]  # fmt: skip


def _mark(pair: Pair) -> str:
    left, right = pair
    return "I" if left is None else "D" if right is None else "C" if left == right else "S"


def _switches(pairs: Sequence[Pair]) -> tuple[list[int], int]:
    """The columns whose token of the reference is of another language than the one before; errors next to them."""
    tokens = [(column, has_han(left)) for column, (left, _) in enumerate(pairs) if left is not None]
    near, _ = split_at_switches(pairs, has_han)
    return [column for (_, before), (column, after) in pairwise(tokens) if before != after], count_pairs(near).errors


def chunks(records: Iterable[Sequence[Any]]) -> Iterator[list[str]]:
    """Records as JSON, parted so that none holds more than ``CHUNK``, and none but one of a single record is long."""
    chunk: list[str] = []
    size = 0
    for each in records:
        text = json.dumps(each, ensure_ascii=False, separators=(",", ":"))
        if chunk and (len(chunk) == CHUNK or size + len(text) > CHUNK_CHARACTERS):
            yield chunk
            chunk, size = [], 0
        chunk.append(text)
        size += len(text)
    if chunk:
        yield chunk


def write_chunks(folder: Path, number: int, records: Iterable[Sequence[Any]]) -> list[str]:
    """Write the scripts ``<number>-<chunk>.js`` of one decoding into a folder; return their names."""
    names = []
    for index, chunk in enumerate(chunks(records)):
        names.append(f"{number}-{index}.js")
        # A script ends at U+2028 for old browsers, though JSON may hold it.
        body = ",\n".join(chunk).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
        (folder / names[-1]).write_text(f"takeUtterances({number},{index},[\n{body}\n]);\n", encoding="utf-8")
    return names
