"""Count mixed errors of Mandarin-English speech: Han characters and English words.

They are counted together, and by language.

P1, section 4.2: "We count word error for English and character error for Chinese." One
alignment of both languages gives all three numbers of its tables: a substitution or
deletion counts for the language of the reference's token, an insertion for that of the
hypothesis's. So All is the mean of CH and EN, weighted by their shares of the
reference, as the numbers of P1 are in every row. A token that is not Han counts as
English, digits too. Of equally cheap alignments kaldialign takes one, on which the
split into languages may depend; All does not.

The other habit, here with the suffix ``-filtered``, removes the other language from
both texts and aligns the rest. It counts a word heard as characters twice; no mean of
its two rates gives All.

Errors are also split into those near the points where the language changes, between two
tokens of a reference, and the rest: of a token whose neighbour is of another language,
and insertions at the switch point itself. Read the two classes by language: next to a
switch there is more of the language that comes in single words.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from espnet_ext.scoring.error_rate import (
    ErrorRate,
    Pair,
    align,
    count_errors,
    count_pairs,
)
from espnet_ext.scoring.score import NAMES, Score, score_texts
from espnet_ext.text.mixed_text import has_han, split_mixed_text

LANGUAGES = {"CH": True, "EN": False}  # as in P1's tables; whether its tokens are Han
FILTERED = "-filtered"
NEAR, ELSEWHERE = "near-switch", "elsewhere"
# Tokens on each side of a switch point that are near it; ``score.json`` names it.
WITHIN = 1


def split_at_switches(
    pairs: Sequence[Pair], language: Callable[[str], Any]
) -> tuple[list[Pair], list[Pair]]:
    """Split aligned pairs (None: a gap) into those near a switch point and the others.

    ``language`` gives a token's language; a pair is of reference and hypothesis.

    >>> pairs = [("我", "我"), ("想", "想"), (None, "要")]
    >>> pairs += [("go", "够"), ("home", "home")]
    >>> split_at_switches(pairs, str.isascii)
    ([('想', '想'), (None, '要'), ('go', '够')], [('我', '我'), ('home', 'home')])
    """
    languages = [language(left) for left, _ in pairs if left is not None]
    near: list[Pair] = []
    rest: list[Pair] = []
    place = 0  # of the next token of the reference
    for pair in pairs:
        before = max(0, place - WITHIN)
        after = place + WITHIN
        # An insertion is near a switch that lies between the tokens around it.
        is_token = pair[0] is not None
        if is_token:
            place += 1
            after += 1
        around = set(languages[before:after])
        if len(around) > 1:
            near.append(pair)
        else:
            rest.append(pair)
    return near, rest


def count_switches(
    references: Iterable[Sequence[str]], language: Callable[[str], Any]
) -> dict[str, int]:
    """Count the switch points in the references, and the references that have any.

    >>> count_switches([["我", "go", "吧"], ["go"]], str.isascii)
    {'switch_points': 2, 'utterances_with_switch': 1}
    """
    points = 0
    utterances = 0
    for tokens in references:
        languages = map(language, tokens)
        own = sum(before != after for before, after in pairwise(languages))
        points += own
        if own:
            utterances += 1
    return {"switch_points": points, "utterances_with_switch": utterances}


def count_filtered_errors(
    reference: Sequence[str], hypothesis: Sequence[str]
) -> dict[str, ErrorRate]:
    """Count errors by the other habit: each language is aligned without the other."""
    counts = {}
    for name, han in LANGUAGES.items():
        real = _select_tokens(reference, han)
        heard = _select_tokens(hypothesis, han)
        counts[name + FILTERED] = count_errors(real, heard)
    return counts


def _select_tokens(tokens: Sequence[str], han: bool) -> list[str]:
    """Select the tokens with a Han character, or those without."""
    return [token for token in tokens if has_han(token) == han]


def count_by_language(pairs: Iterable[Pair]) -> dict[str, ErrorRate]:
    """Count aligned pairs by the language of the reference's or the inserted token.

    >>> counts = count_by_language([("我", "我"), ("go", "够"), (None, "吧")])
    >>> counts["CH"].counts, counts["EN"].counts
    ((1, 0, 0, 1), (0, 1, 0, 0))
    """
    sides: dict[bool, list[Pair]] = {True: [], False: []}
    for pair in pairs:
        reference, inserted = pair
        token = reference or inserted or ""
        sides[has_han(token)].append(pair)
    return {name: count_pairs(sides[han]) for name, han in LANGUAGES.items()}


def score_mixed_texts(
    reference: Mapping[str, str],
    hypothesis: Mapping[str, str],
    *,
    utt2spk: Mapping[str, str] | None = None,
    names: tuple[str, str, str] = NAMES,
) -> Score:
    """Score mixed transcripts: the mixed error rate, and its ``parts``.

    Arguments and errors are those of :func:`espnet_ext.scoring.score.score_texts`. The
    parts are ``CH`` and ``EN``; the same with the suffix ``-filtered`` (the other
    habit, see above); ``near-switch`` and ``elsewhere``; and these two by language,
    since near a switch there is more English.

    >>> score = score_mixed_texts({"u1": "我想 go home"}, {"u1": "我想狗 home"})
    >>> score.total.rate, score.parts["CH"].total.rate
    (0.25, 0.0)
    >>> score.parts["near-switch-EN"].total.rate
    1.0
    """
    whole = score_texts(
        reference, hypothesis, unit="mixed", utt2spk=utt2spk, names=names
    )
    parts: dict[str, dict[str, ErrorRate]] = {}
    for key in whole.utterances:
        real = split_mixed_text(reference[key])
        heard = split_mixed_text(hypothesis[key])
        for name, counts in _count_parts(real, heard).items():
            parts.setdefault(name, {})[key] = counts
    scores = {name: whole.replace_counts(counts) for name, counts in parts.items()}
    return replace(whole, parts=scores)


def _count_parts(reference: list[str], hypothesis: list[str]) -> dict[str, ErrorRate]:
    """Count the errors of each part of an utterance, by the part's name."""
    pairs = align(reference, hypothesis)
    parts = count_by_language(pairs) | count_filtered_errors(reference, hypothesis)
    near, rest = split_at_switches(pairs, has_han)
    for name, some in ((NEAR, near), (ELSEWHERE, rest)):
        parts[name] = count_pairs(some)
        for language, counts in count_by_language(some).items():
            parts[f"{name}-{language}"] = counts
    return parts
