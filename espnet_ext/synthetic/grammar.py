"""A seeded phrase grammar: sentences that a language model can learn from, in any number of languages.

A grammar is plain data: each rule's name, written ``<name>``, stands for one of several weighted expansions, which hold
words and further names. :func:`grammar_of` gives the grammar of a language.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from espnet_ext.errors import InputError
from espnet_ext.synthetic import english

Expansion = tuple[float, str]


@dataclass(frozen=True)
class Grammar:
    """Weighted production rules of one language.

    Attributes:
        language: Language code, such as ``en``.
        rules: From a rule's name to its weighted expansions. Weights need not sum to one.
        start: The rule that stands for a sentence.
        min_words, max_words: Sentences of other lengths are drawn again.
    """

    language: str
    rules: Mapping[str, tuple[Expansion, ...]]
    start: str = "sentence"
    min_words: int = 4
    max_words: int = 10

    def sentence(self, rng: random.Random) -> str:
        """Draw a sentence: upper-case words with one space between them.

        >>> grammar = Grammar("en", {"sentence": ((1.0, "<who> is here today"),), "who": ((1.0, "the cat"),)})
        >>> grammar.sentence(random.Random(0))
        'THE CAT IS HERE TODAY'
        """
        while True:
            words = self._expand(self.start, rng)
            if self.min_words <= len(words) <= self.max_words:
                return " ".join(words).upper()

    def words(self) -> set[str]:
        """All words that the rules hold, in upper case."""
        expansions = (text for rule in self.rules.values() for _, text in rule)
        return {word.upper() for text in expansions for word in text.split() if not word.startswith("<")}

    def _expand(self, name: str, rng: random.Random) -> list[str]:
        weights, texts = zip(*self.rules[name], strict=True)
        words: list[str] = []
        for word in rng.choices(texts, weights)[0].split():
            words += self._expand(word[1:-1], rng) if word.startswith("<") else [word]
        return words


# Language code -> its rules. Another language is one more module and one more entry.
_RULES: dict[str, Callable[[], Mapping[str, tuple[Expansion, ...]]]] = {"en": english.rules}


def grammar_of(language: str) -> Grammar:
    """The grammar of ``language``. Raises :class:`InputError` for a language that has none."""
    if language not in _RULES:
        raise InputError(f"the mini corpus has no grammar for the language {language!r}; known: {', '.join(_RULES)}")
    return Grammar(language, _RULES[language]())
