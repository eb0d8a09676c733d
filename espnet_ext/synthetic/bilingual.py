"""A phrase grammar of two languages at once, and code-switching under the Equivalence Constraint.

A rule stands for weighted expansions. An expansion is a line of rule names ``<name>`` and of word pairs
``Mandarin|English``; it is the order of the phrases in Mandarin, and in English too unless it says another. A
derivation (:class:`Phrase`) is thus a sentence in both languages.

The Equivalence Constraint (P1, section 1, and its reference 16) lets a speaker change the language only where the order
of both languages agrees, so that what stands in one language also stands, whole, in a sentence of that language. Here:
a phrase may change its language unless a phrase that it is part of has an order of its own in English. All before such
a phrase comes before it in either language, and a fragment of a mixed sentence (the words of one language between two
changes) is a piece of that derivation's sentence in that language.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# (weight, line) or (weight, line, order): order holds the line's positions in the order of English.
Expansion = tuple[float, str] | tuple[float, str, tuple[int, ...]]
MANDARIN, ENGLISH = "zh", "en"


@dataclass(frozen=True, eq=False)
class Phrase:
    """A node of a derivation: ``words`` in Mandarin and English, or ``parts`` in Mandarin's order.

    Attributes:
        rule: the rule's name; empty for a pair of words inside a line.
        order: positions of the parts in the order of English.
    """

    rule: str
    words: tuple[str, str] = ("", "")
    parts: tuple["Phrase", ...] = ()
    order: tuple[int, ...] = ()

    @property
    def monotone(self) -> bool:
        """Do its parts come in the same order in both languages?"""
        return self.order == tuple(range(len(self.parts)))

    def say(self, language: str) -> list[str]:
        """The words of one language: Mandarin's are as the grammar groups them, English ones in upper case."""
        if not self.parts:
            return [self.words[0]] if language == MANDARIN else self.words[1].upper().split("_")
        order = range(len(self.parts)) if language == MANDARIN else self.order
        return [word for index in order for word in self.parts[index].say(language)]

    def switchable(self) -> Iterator["Phrase"]:
        """The phrases below this one that may change their language by themselves, each before its parts."""
        if self.monotone:
            for part in self.parts:
                yield part
                yield from part.switchable()


@dataclass(frozen=True)
class Fragment:
    """The words of one language between two changes of the language."""

    language: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """Mandarin without blanks, English with single ones."""
        return ("" if self.language == MANDARIN else " ").join(self.words)


@dataclass(frozen=True)
class BilingualGrammar:
    """Weighted rules of two languages.

    Attributes:
        rules: rule name -> expansions. Weights need not sum to one.
        switches: the kind of a phrase (its rule's name up to the first dot) -> how readily it turns English in a
            Mandarin sentence. Other kinds never do.
        second_switch: probability that a second phrase turns English.
        lengths: fewest and most Han characters of a sentence; others are drawn again.
    """

    rules: Mapping[str, tuple[Expansion, ...]]
    switches: Mapping[str, float]
    second_switch: float
    lengths: tuple[int, int]
    start: str = "sentence"

    def derive(self, rng: random.Random) -> Phrase:
        """Draw a sentence of both languages."""
        while True:
            phrase = self._expand(self.start, rng)
            if self.lengths[0] <= len("".join(phrase.say(MANDARIN))) <= self.lengths[1]:
                return phrase

    def _expand(self, name: str, rng: random.Random) -> Phrase:
        expansions = self.rules[name]
        _, line, *order = rng.choices(expansions, [expansion[0] for expansion in expansions])[0]
        items = line.split()
        if len(items) == 1 and "|" in items[0]:
            return Phrase(name, words=_pair(items[0]))
        parts = tuple(
            self._expand(item[1:-1], rng) if item.startswith("<") else Phrase("", words=_pair(item)) for item in items
        )
        return Phrase(name, parts=parts, order=order[0] if order else tuple(range(len(parts))))

    def mix(self, phrase: Phrase, rng: random.Random) -> tuple[Fragment, ...] | None:
        """Say a sentence in Mandarin with one or two phrases in English; None if no phrase of it may change."""
        candidates = [part for part in phrase.switchable() if self.switches.get(_kind(part), 0)]
        if not candidates:
            return None
        english = rng.choices(candidates, [self.switches[_kind(part)] for part in candidates], k=2)
        if rng.random() >= self.second_switch:
            english.pop()
        fragments: list[Fragment] = []
        for language, words in _spans(phrase, english):
            if fragments and fragments[-1].language == language:
                words = fragments.pop().words + words
            fragments.append(Fragment(language, words))
        return tuple(fragments)


def _pair(item: str) -> tuple[str, str]:
    mandarin, english = item.split("|")
    return mandarin, english


def _kind(phrase: Phrase) -> str:
    return phrase.rule.split(".")[0]


def _spans(phrase: Phrase, english: list[Phrase]) -> Iterator[tuple[str, tuple[str, ...]]]:
    if any(phrase is one for one in english):
        yield ENGLISH, tuple(phrase.say(ENGLISH))
    elif phrase.monotone and phrase.parts:
        for part in phrase.parts:
            yield from _spans(part, english)
    else:
        yield MANDARIN, tuple(phrase.say(MANDARIN))
