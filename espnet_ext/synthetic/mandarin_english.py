"""Draw Mandarin-English sentences, which change the language within a sentence.

One phrase grammar is of both languages at once.

A rule stands for weighted lines of rule names ``<name>`` and of word pairs
``Mandarin|English``, in the order of Mandarin, and of English unless another is given.
As the Equivalence Constraint says (P1, section 1, and its reference 16), a phrase may
change the language unless it is part of one that has another order in English.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from espnet_ext.synthetic.english import (
    Expansion,
    read_grammar,
    read_rules,
    read_table_rows,
)

MANDARIN, ENGLISH = "zh", "en"


# A phrase equals only itself, since the same words may occur twice in a sentence.
@dataclass(frozen=True, eq=False)
class Phrase:
    """A node of a derivation.

    It has either ``words``, in Mandarin and English, or ``parts``, in Mandarin's order.
    ``rule`` is the rule's name, empty for a pair of words inside a line; ``order`` the
    parts' positions in English.
    """

    rule: str
    words: tuple[str, str] = ("", "")
    parts: tuple["Phrase", ...] = ()
    order: tuple[int, ...] = ()

    @property
    def monotone(self) -> bool:
        """Tell whether its parts come in the same order in both languages."""
        return self.order == tuple(range(len(self.parts)))

    def say(self, language: str) -> list[str]:
        """Return the words of one language.

        Mandarin's are as the grammar groups them, English ones in upper case.
        """
        if not self.parts:
            mandarin, english = self.words
            return [mandarin] if language == MANDARIN else english.upper().split("_")
        order: Iterable[int] = self.order
        if language == MANDARIN:
            order = range(len(self.parts))
        words: list[str] = []
        for index in order:
            words += self.parts[index].say(language)
        return words

    def list_switchable(self) -> Iterator["Phrase"]:
        """Yield the phrases below this one that may change their language alone.

        Each comes before its parts.
        """
        # The Equivalence Constraint: no change where the two orders of words differ.
        if self.monotone:
            for part in self.parts:
                yield part
                yield from part.list_switchable()


@dataclass(frozen=True)
class Fragment:
    """The words of one language between two changes of the language."""

    language: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """Join Mandarin without spaces, English with single ones."""
        space = "" if self.language == MANDARIN else " "
        return space.join(self.words)


@dataclass(frozen=True)
class BilingualGrammar:
    """Weighted rules of two languages: rule name -> expansions.

    Weights need not sum to one.
    ``switches`` is the kind of a phrase (its rule's name up to the first dot) -> how
    readily it turns English in a Mandarin sentence; other kinds never do.
    ``second_switch`` is the probability that a second phrase does. ``lengths`` are the
    fewest and most Han characters of a sentence; others are drawn again. ``agreements``
    has the rule of a homophone -> the rule of its subject, and the language in which it
    is one: there it is said only if its subject is.
    """

    rules: Mapping[str, tuple[Expansion, ...]]
    switches: Mapping[str, float]
    second_switch: float
    lengths: tuple[int, int]
    agreements: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    start: str = "sentence"

    def derive(self, rng: random.Random) -> Phrase:
        """Draw a sentence of both languages."""
        fewest, most = self.lengths
        while True:
            phrase = self._expand(self.start, rng)
            characters = "".join(phrase.say(MANDARIN))
            if fewest <= len(characters) <= most:
                return phrase

    def _expand(self, name: str, rng: random.Random) -> Phrase:
        expansions = self.rules[name]
        weights = [expansion[0] for expansion in expansions]
        _, line, *order = rng.choices(expansions, weights)[0]
        items = line.split()
        if len(items) == 1 and "|" in items[0]:
            return Phrase(name, words=split_pair(items[0]))
        parts = tuple(self._expand_item(item, rng) for item in items)
        positions = order[0] if order else tuple(range(len(parts)))
        return Phrase(name, parts=parts, order=positions)

    def _expand_item(self, item: str, rng: random.Random) -> Phrase:
        if item.startswith("<"):
            return self._expand(item[1:-1], rng)
        return Phrase("", words=split_pair(item))

    def mix(self, phrase: Phrase, rng: random.Random) -> tuple[Fragment, ...] | None:
        """Say a sentence in Mandarin with one or two phrases in English.

        A homophone in English takes its subject along (``agreements``). None if no
        phrase of it may change, if all of it would, or if a homophone in Mandarin would
        have an English subject.
        """
        candidates = []
        weights = []
        for part in phrase.list_switchable():
            readiness = self.switches.get(_find_kind(part), 0)
            if readiness:
                candidates.append(part)
                weights.append(readiness)
        if not candidates:
            return None
        # Two are always drawn, so that what follows does not depend on second_switch.
        english = rng.choices(candidates, weights, k=2)
        if rng.random() >= self.second_switch:
            english.pop()
        alone = self._find_lone_subjects(phrase, english)
        for part in candidates:
            if any(inner.rule in alone for inner in part.parts):
                english.append(part)
        if self._find_lone_subjects(phrase, english):
            return None
        fragments = _join_fragments(_find_spans(phrase, english))
        return fragments if len(fragments) > 1 else None

    def _find_lone_subjects(self, phrase: Phrase, english: list[Phrase]) -> set[str]:
        """Find the subjects of homophones that are said in the other language.

        Homophones are those of ``agreements``: who hears only one of them could not
        tell how it is written.
        """
        said = dict(_find_languages(phrase, english))
        alone = set()
        for rule, (subject, language) in self.agreements.items():
            if said.get(rule) == language and said[subject] != language:
                alone.add(subject)
        return alone


def build_bilingual_grammar() -> BilingualGrammar:
    """Return the grammar of ``resources/mandarin_english.yaml``."""
    grammar = read_grammar("mandarin_english")
    agreements = {}
    for row in read_homophones():
        subject = f"who.{row['subject']}"
        agreements[f"word.{row['word']}"] = (subject, row["language"])
    return BilingualGrammar(
        rules=read_rules(grammar["sentences"]),
        switches=grammar["switches"],
        second_switch=grammar["second_switch"],
        lengths=tuple(grammar["lengths"]),
        agreements=agreements,
    )


def read_homophones() -> list[dict[str, str]]:
    """Return the homophones of the grammar, the two of a pair after each other.

    ``resources/mandarin_english.yaml`` says what a row has.
    """
    tables = read_grammar("mandarin_english")["sentences"]["tables"]
    return read_table_rows(tables["homophones"])


def split_pair(item: str) -> tuple[str, str]:
    """Split ``Mandarin|English``."""
    mandarin, english = item.split("|")
    return mandarin, english


def _find_kind(phrase: Phrase) -> str:
    return phrase.rule.split(".")[0]


def _find_languages(
    phrase: Phrase,
    english: list[Phrase],
    language: str = MANDARIN,
) -> Iterator[tuple[str, str]]:
    """Yield the rules of a sentence's words, and the language in which each is said."""
    if phrase in english:
        language = ENGLISH
    if not phrase.parts:
        yield phrase.rule, language
    for part in phrase.parts:
        yield from _find_languages(part, english, language)


def _find_spans(
    phrase: Phrase,
    english: list[Phrase],
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield languages and words in the order in which they are said."""
    if phrase in english:
        yield ENGLISH, tuple(phrase.say(ENGLISH))
    elif phrase.monotone and phrase.parts:
        for part in phrase.parts:
            yield from _find_spans(part, english)
    else:
        yield MANDARIN, tuple(phrase.say(MANDARIN))


def _join_fragments(
    spans: Iterable[tuple[str, tuple[str, ...]]],
) -> tuple[Fragment, ...]:
    """Join neighbours of the same language."""
    fragments: list[Fragment] = []
    for language, words in spans:
        if fragments and fragments[-1].language == language:
            words = fragments.pop().words + words
        fragments.append(Fragment(language, words))
    return tuple(fragments)
