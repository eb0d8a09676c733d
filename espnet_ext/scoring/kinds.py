"""Error rates by kind of word, such as names and other words, where a file says of which kind each word is."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from espnet_ext.errors import InputError
from espnet_ext.scoring.error_rate import ErrorRate, Pair, align, count_pairs
from espnet_ext.scoring.score import Score, add_up, split_units


def score_by_kind(score: Score, kinds: Mapping[str, str], name: str = "kinds") -> Score:
    """A score with a part for each kind of word.

    A substitution or deletion counts for the kind of the reference's word. What a hypothesis inserts is of no kind: it
    counts only for the whole.

    Args:
        score: of texts in words.
        kinds: by utterance, the kind of each word of the reference, separated by spaces.
        name: what the messages call ``kinds``.

    Raises:
        InputError: an utterance without kinds, or with more or fewer of them than words.

    >>> from espnet_ext.scoring.score import score_texts
    >>> scored = score_by_kind(score_texts({"u": "ann met bob"}, {"u": "ann saw him bob"}), {"u": "name other name"})
    >>> {kind: part.total.rate for kind, part in scored.parts.items()}
    {'name': 0.0, 'other': 1.0}
    """
    counts: dict[str, dict[str, ErrorRate]] = {}
    every = sorted({kind for text in kinds.values() for kind in text.split()})
    for key, text in score.reference.items():
        words, own = split_units(text, score.unit), kinds.get(key, "").split()
        if len(words) != len(own):
            raise InputError(f"{name}: utterance {key} has {len(own)} kinds, but its reference {len(words)} words")
        pairs = list(_with_kind(align(words, split_units(score.hypothesis[key], score.unit)), own))
        for kind in every:
            counts.setdefault(kind, {})[key] = count_pairs(pair for pair, of in pairs if of == kind)
    parts = {
        kind: add_up(score.unit, score.reference, score.hypothesis, by_utterance, score.speaker_of)
        for kind, by_utterance in counts.items()
    }
    return replace(score, parts=parts)


def _with_kind(pairs: list[Pair], kinds: list[str]) -> Iterator[tuple[Pair, str]]:
    """The pairs of reference words, each with its kind; insertions are left out."""
    yield from zip((pair for pair in pairs if pair[0] is not None), kinds, strict=True)
