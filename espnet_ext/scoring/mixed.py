"""Mixed error rate of Mandarin-English speech: Han characters and English words counted together, and by language.

P1, section 4.2: "We count word error for English and character error for Chinese." One alignment of both languages
gives all three numbers of its tables: a substitution or deletion counts for the language of the reference's token, an
insertion for that of the hypothesis's. So the errors of CH and EN add up to those of All, and All is the mean of both
rates, weighted by their shares of the reference. The numbers of P1 keep to that: one share of English for each test set
gives All from CH and EN in every row. A token that is not Han counts as English, digits too.

The other habit, here with the suffix ``-filtered``, removes the other language from both texts and aligns the rest. It
counts a word heard as characters twice, as deleted in one language and inserted in the other; no mean of its two rates
gives All.

Of equally cheap alignments kaldialign takes one (:func:`espnet_ext.scoring.error_rate.count_errors`), and on that
choice the split into languages may depend, as does the split into substitutions, deletions and insertions. All does
not depend on it.

Errors are also split into those near the points where the language changes, and the rest. A switch point lies between
two tokens of a reference that are of different languages. A token of the reference is within n tokens of one if one of
the n tokens before or after it is of another language. What a hypothesis inserts stands between two tokens of the
reference, or at an end; it is within n tokens of a switch point if the n tokens before and the n after it are not all
of one language: for n = 1, at the switch point itself. So every token and every insertion of an alignment falls into
one of the two classes, and their counts add up to those of the whole. Read the two classes by language: next to a
switch there is more of the language that comes in single words, and what is hard about that language would pass for
what is hard about switching.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from espnet_ext.codeswitch.mixed_text import ScriptPair
from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.scoring.error_rate import MAX_ALIGNMENT_CELLS, ErrorRate, Pair, align, count_errors, count_pairs
from espnet_ext.scoring.normalise import normalised
from espnet_ext.scoring.score import Score, add_up, score_texts

MANDARIN_ENGLISH = ScriptPair()
HAN, ENGLISH = MANDARIN_ENGLISH.names
FILTERED = "-filtered"
NEAR, ELSEWHERE = "near-switch", "elsewhere"
WITHIN = 1  # tokens: those on both sides of the switch


def split_at_switches(
    pairs: Sequence[Pair], language: Callable[[str], Any], within: int = WITHIN
) -> tuple[list[Pair], list[Pair]]:
    """Split aligned pairs of reference and hypothesis (None: a gap) into those near a switch point and the others.

    ``language`` gives a token's language; ``within`` is the n of this module's description.

    >>> pairs = [("我", "我"), ("想", "想"), (None, "要"), ("go", "够"), ("home", "home")]
    >>> split_at_switches(pairs, str.isascii)
    ([('想', '想'), (None, '要'), ('go', '够')], [('我', '我'), ('home', 'home')])

    Raises:
        ValueError: ``within`` is below 1.
    """
    if within < 1:
        raise ValueError(f"within must be at least 1 token, not {within}")
    languages = [language(left) for left, _ in pairs if left is not None]
    near: list[Pair] = []
    rest: list[Pair] = []
    place = 0  # of the next token of the reference
    for pair in pairs:
        is_token = pair[0] is not None
        around = languages[max(0, place - within) : place + within + is_token]
        (near if len(set(around)) > 1 else rest).append(pair)
        place += is_token
    return near, rest


def count_switches(references: Iterable[Sequence[str]], language: Callable[[str], Any]) -> dict[str, int]:
    """The number of switch points in the references, and the number of references that have any.

    >>> count_switches([["我", "go", "吧"], ["go"]], str.isascii)
    {'switch_points': 2, 'utterances_with_switch': 1}
    """
    counts = [sum(a != b for a, b in pairwise(language(token) for token in tokens)) for tokens in references]
    return {"switch_points": sum(counts), "utterances_with_switch": sum(count > 0 for count in counts)}


@dataclass(frozen=True, slots=True)
class MixedErrorRate:
    """Counts of one alignment of mixed text, or the sum of such counts: all tokens, and those of both languages.

    >>> counts = MixedErrorRate(ErrorRate(3, 1, 0, 1), first=ErrorRate(3, 0, 0, 0), second=ErrorRate(0, 1, 0, 1))
    >>> (counts + counts).total.rate, (counts + counts).first.rate, (counts + counts).second.rate
    (0.5, 0.0, 2.0)

    Raises:
        ValueError: the two languages do not add up to the total.
    """

    total: ErrorRate
    first: ErrorRate
    second: ErrorRate

    def __post_init__(self) -> None:
        if self.first + self.second != self.total:
            raise ValueError(f"the errors of the two languages are not those of all tokens: {self}")

    def __add__(self, other: "MixedErrorRate") -> "MixedErrorRate":
        if not isinstance(other, MixedErrorRate):
            return NotImplemented
        return MixedErrorRate(self.total + other.total, self.first + other.first, self.second + other.second)


def count_filtered_errors(
    reference: Sequence[str], hypothesis: Sequence[str], languages: ScriptPair = MANDARIN_ENGLISH
) -> tuple[ErrorRate, ErrorRate]:
    """The other habit: errors of the Han characters alone, and of the English words alone, aligned without the rest.

    >>> count_filtered_errors(["我", "想", "go"], ["我", "想", "够"])
    (ErrorRate(correct=2, substitutions=0, deletions=0, insertions=1), \
ErrorRate(correct=0, substitutions=0, deletions=1, insertions=0))
    """
    first, second = (
        count_errors(
            *([token for token in side if languages.is_first(token) == wanted] for side in (reference, hypothesis))
        )
        for wanted in (True, False)
    )
    return first, second


def score_mixed_files(
    reference: str | Path,
    hypothesis: str | Path,
    *,
    utt2spk: str | Path | None = None,
    within: int = WITHIN,
    normaliser: Callable[[str], str] | None = None,
    languages: ScriptPair = MANDARIN_ENGLISH,
) -> Score:
    """Score two Kaldi ``text`` files as :func:`score_mixed_texts` does; ``normaliser`` is applied to both first.

    Raises:
        InputError: as :func:`espnet_ext.scoring.score.score_files`.
    """
    texts = read_table(reference), read_table(hypothesis)
    if normaliser is not None:
        texts = normalised(texts[0], normaliser), normalised(texts[1], normaliser)
    return score_mixed_texts(
        *texts,
        languages=languages,
        utt2spk=None if utt2spk is None else read_table(utt2spk),
        names=(str(reference), str(hypothesis), str(utt2spk)),
        within=within,
    )


def score_mixed_texts(
    reference: Mapping[str, str],
    hypothesis: Mapping[str, str],
    *,
    utt2spk: Mapping[str, str] | None = None,
    names: tuple[str, str, str] = ("reference", "hypothesis", "utt2spk"),
    within: int = WITHIN,
    languages: ScriptPair = MANDARIN_ENGLISH,
) -> Score:
    """Score mixed transcripts by utterance id: the mixed error rate, and in ``parts`` what it is made of.

    The parts are ``CH`` and ``EN`` (or the names of other ``languages``); the same with the suffix ``-filtered`` (the
    other habit, see above); ``near-switch`` and ``elsewhere``, the errors ``within`` so many tokens of a switch point
    and the rest; and these two by language, since near a switch there is more English than elsewhere.

    >>> score = score_mixed_texts({"u1": "我想 go home"}, {"u1": "我想狗 home"})
    >>> score.total.rate, score.parts["CH"].total.rate, score.parts["EN"].total.rate
    (0.25, 0.0, 0.5)
    >>> score.parts["near-switch-EN"].total.rate, score.parts["elsewhere-EN"].total.rate
    (1.0, 0.0)

    Raises:
        InputError: as :func:`espnet_ext.scoring.score.score_texts`; or an utterance too long to align.
        ValueError: the languages do not add up to the whole: an error of this program, not of the input.
    """
    if languages != MANDARIN_ENGLISH:  # so that all that splits the texts again finds the same tokens
        reference, hypothesis = (
            {key: " ".join(languages.tokens(text)) for key, text in side.items()} for side in (reference, hypothesis)
        )
    whole = score_texts(reference, hypothesis, unit="mixed", utt2spk=utt2spk, names=names)
    parts: dict[str, dict[str, ErrorRate]] = {}
    for key, total in whole.utterances.items():
        if total.reference_length * total.hypothesis_length > MAX_ALIGNMENT_CELLS:
            size = f"{total.reference_length} tokens against {total.hypothesis_length}"
            raise InputError(f"{names[1]}: utterance {key}: {size} are too many to align: split it in both files")
        tokens = languages.tokens(reference[key]), languages.tokens(hypothesis[key])
        for name, counts in _parts(*tokens, total, within, languages).items():
            parts.setdefault(name, {})[key] = counts
    scores = {
        name: add_up(whole.unit, reference, hypothesis, counts, whole.speaker_of) for name, counts in parts.items()
    }
    return replace(whole, parts=scores)


def _parts(
    reference: list[str], hypothesis: list[str], total: ErrorRate, within: int, languages: ScriptPair
) -> dict[str, ErrorRate]:
    pairs = align(reference, hypothesis)
    whole = MixedErrorRate(total, **by_language(pairs, languages))
    near, elsewhere = (
        MixedErrorRate(count_pairs(some), **by_language(some, languages))
        for some in split_at_switches(pairs, languages.is_first, within)
    )
    if near + elsewhere != whole:
        raise ValueError(f"errors near switch points and elsewhere are not all errors: {near}, {elsewhere}, {whole}")
    filtered = count_filtered_errors(reference, hypothesis, languages)
    first, second = languages.names
    parts = {first: whole.first, second: whole.second, first + FILTERED: filtered[0], second + FILTERED: filtered[1]}
    for name, counts in ((NEAR, near), (ELSEWHERE, elsewhere)):
        parts |= {name: counts.total, f"{name}-{first}": counts.first, f"{name}-{second}": counts.second}
    return parts


def by_language(pairs: Iterable[Pair], languages: ScriptPair = MANDARIN_ENGLISH) -> dict[str, ErrorRate]:
    """Counts of aligned pairs, first and second, by the language of the reference token or of the inserted token."""
    pairs = list(pairs)
    first = [languages.is_first(left or right or "") for left, right in pairs]
    return {
        "first": count_pairs(pair for pair, yes in zip(pairs, first, strict=True) if yes),
        "second": count_pairs(pair for pair, yes in zip(pairs, first, strict=True) if not yes),
    }
