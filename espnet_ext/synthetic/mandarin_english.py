"""Mandarin-English sentences: a phrase grammar of both languages at once, and
code-switching between them.

A rule stands for weighted lines of rule names ``<name>`` and of word pairs
``Mandarin|English``, in the order of Mandarin, and of English unless another is given.
As the Equivalence Constraint says (P1, section 1, and its reference 16), a phrase may
change the language unless it is part of one that has another order in English.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from espnet_ext.synthetic.english import Expansion, read_grammar, rules_of, table_rows

MANDARIN, ENGLISH = "zh", "en"


@dataclass(frozen=True, eq=False)
class Phrase:
    """A node of a derivation: ``words`` in Mandarin and English, or ``parts`` in
    Mandarin's order.

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
        """Return the words of one language: Mandarin's are as the grammar groups them,
        English ones in upper case.
        """
        if not self.parts:
            return (
                [self.words[0]]
                if language == MANDARIN
                else self.words[1].upper().split("_")
            )
        order = range(len(self.parts)) if language == MANDARIN else self.order
        return [word for index in order for word in self.parts[index].say(language)]

    def switchable(self) -> Iterator["Phrase"]:
        """Yield the phrases below this one that may change their language by
        themselves, each before its parts.
        """
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
        """Join Mandarin without spaces, English with single ones."""
        return ("" if self.language == MANDARIN else " ").join(self.words)


@dataclass(frozen=True)
class BilingualGrammar:
    """Weighted rules of two languages: rule name -> expansions, whose weights need not
    sum to one.

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
        while True:
            phrase = self._expand(self.start, rng)
            if self.lengths[0] <= len("".join(phrase.say(MANDARIN))) <= self.lengths[1]:
                return phrase

    def _expand(self, name: str, rng: random.Random) -> Phrase:
        expansions = self.rules[name]
        _, line, *order = rng.choices(
            expansions, [expansion[0] for expansion in expansions]
        )[0]
        items = line.split()
        if len(items) == 1 and "|" in items[0]:
            return Phrase(name, words=pair_of(items[0]))
        parts = tuple(
            self._expand(item[1:-1], rng)
            if item.startswith("<")
            else Phrase("", words=pair_of(item))
            for item in items
        )
        return Phrase(
            name, parts=parts, order=order[0] if order else tuple(range(len(parts)))
        )

    def mix(self, phrase: Phrase, rng: random.Random) -> tuple[Fragment, ...] | None:
        """Say a sentence in Mandarin with one or two phrases in English.

        A homophone in English takes its subject along (``agreements``). None if no
        phrase of it may change, if all of it would, or if a homophone in Mandarin would
        have an English subject.
        """
        candidates = [
            part for part in phrase.switchable() if self.switches.get(_kind(part), 0)
        ]
        if not candidates:
            return None
        english = rng.choices(
            candidates, [self.switches[_kind(part)] for part in candidates], k=2
        )
        if rng.random() >= self.second_switch:
            english.pop()
        alone = self._alone(phrase, english)
        english += [
            part
            for part in candidates
            if any(inner.rule in alone for inner in part.parts)
        ]
        if self._alone(phrase, english):
            return None
        fragments: list[Fragment] = []
        for language, words in _spans(phrase, english):
            if fragments and fragments[-1].language == language:
                words = fragments.pop().words + words
            fragments.append(Fragment(language, words))
        return tuple(fragments) if len(fragments) > 1 else None

    def _alone(self, phrase: Phrase, english: list[Phrase]) -> set[str]:
        """Find the subjects of homophones (``agreements``) that are not said in the
        same language as the homophone.
        """
        said = dict(_said(phrase, english))
        return {
            subject
            for rule, (subject, language) in self.agreements.items()
            if said.get(rule) == language and said[subject] != language
        }


def bilingual_grammar() -> BilingualGrammar:
    """Return the grammar of ``resources/mandarin_english.yaml``."""
    grammar = read_grammar("mandarin_english")
    return BilingualGrammar(
        rules=rules_of(grammar["sentences"]),
        switches=grammar["switches"],
        second_switch=grammar["second_switch"],
        lengths=tuple(grammar["lengths"]),
        agreements={
            f"word.{row['word']}": (f"who.{row['subject']}", row["language"])
            for row in homophones()
        },
    )


def homophones() -> list[dict[str, str]]:
    """Return the homophones of the grammar, the two of a pair after each other; the
    file says what a row has.
    """
    return table_rows(
        read_grammar("mandarin_english")["sentences"]["tables"]["homophones"]
    )


def pair_of(item: str) -> tuple[str, str]:
    mandarin, english = item.split("|")
    return mandarin, english


def _kind(phrase: Phrase) -> str:
    return phrase.rule.split(".")[0]


def _said(
    phrase: Phrase, english: list[Phrase], language: str = MANDARIN
) -> Iterator[tuple[str, str]]:
    """Yield the rules of a sentence's words, and the language in which each is said."""
    if any(phrase is one for one in english):
        language = ENGLISH
    if not phrase.parts:
        yield phrase.rule, language
    for part in phrase.parts:
        yield from _said(part, english, language)


def _spans(
    phrase: Phrase, english: list[Phrase]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    if any(phrase is one for one in english):
        yield ENGLISH, tuple(phrase.say(ENGLISH))
    elif phrase.monotone and phrase.parts:
        for part in phrase.parts:
            yield from _spans(part, english)
    else:
        yield MANDARIN, tuple(phrase.say(MANDARIN))
