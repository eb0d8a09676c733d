"""English sentences that a language model can learn from: a seeded phrase grammar of
about 190 words.

``resources/english.yaml`` has weighted expansions for each ``<name>``. Verbs agree with
their subjects and choose their objects (one reads letters and drinks tea), so that the
next word is predictable from those before.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from espnet_ext.work.yaml_files import read_yaml

# (weight, line) or (weight, line, order): order holds the line's positions in the order
# of another language.
Expansion = tuple[float, str] | tuple[float, str, tuple[int, ...]]
Rules = dict[str, tuple[Expansion, ...]]
_EXPANSION = re.compile(r"(?:([\d.]+) )?(.*?)(?: @([\d,]+))?")


@cache
def read_grammar(name: str) -> dict[str, Any]:
    """Read a file of ``resources/``; english.yaml says what it may hold."""
    return read_yaml(Path(__file__).parent / "resources" / f"{name}.yaml")


def table_rows(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the rows of a table of a grammar: column -> word."""
    return [
        dict(zip(table["columns"].split(), row.split(), strict=True))
        for row in table["rows"]
    ]


def rules_of(section: Mapping[str, Any]) -> Rules:
    """Return the rules of a section of a grammar: those that are written out, and those
    of its tables.
    """
    rules = {name: _expansions(line) for name, line in section["rules"].items()}
    for table in section.get("tables", {}).values():
        rows = table_rows(table)
        for name, lines in table.get("all", {}).items():
            for line in [lines] if isinstance(lines, str) else lines:
                _extend_rules(rules, name, line, rows)
        for name, line in table.get("each", {}).items():
            for row in rows:
                rules[name.format(**row)] = _expansions(line.format(**row))
    return rules


def _extend_rules(
    rules: Rules, name: str, line: str, rows: list[dict[str, str]]
) -> None:
    """Add the expansions that a line makes of each row to those of the row's name."""
    for row in rows:
        own = name.format(**row)
        before = rules.get(own, ())
        rules[own] = (*before, *_expansions(line.format(**row)))


def _expansions(line: str) -> tuple[Expansion, ...]:
    return tuple(_read_expansion(text) for text in line.split(" / "))


def _read_expansion(text: str) -> Expansion:
    found = _EXPANSION.fullmatch(text)
    assert found  # every text matches: all groups but the words may be missing
    weight, words, order = found.groups()
    if not order:
        return float(weight or 1), words
    return float(weight or 1), words, tuple(map(int, order.split(",")))


@dataclass(frozen=True)
class Grammar:
    """Weighted rules of a language. Weights need not sum to one; sentences of other
    lengths are drawn again.
    """

    rules: Mapping[str, tuple[Expansion, ...]]
    start: str = "sentence"
    min_words: int = 4
    max_words: int = 10

    def sentence(self, rng: random.Random) -> str:
        """Draw a sentence: upper-case words with one space between them."""
        while True:
            words = self._expand(self.start, rng)
            if self.min_words <= len(words) <= self.max_words:
                return " ".join(words).upper()

    def _expand(self, name: str, rng: random.Random) -> list[str]:
        weights, texts = zip(*self.rules[name], strict=True)
        words: list[str] = []
        for word in rng.choices(texts, weights)[0].split():
            if word.startswith("<"):
                words += self._expand(word[1:-1], rng)
            else:
                words.append(word)
        return words


@cache
def english_grammar() -> Grammar:
    """Return the English grammar."""
    return Grammar(rules_of(read_grammar("english")["sentences"]))


@cache
def phrase_grammar() -> Grammar:
    """Return phrases such as TWO SMALL RED BOXES, of 40 words of the grammar, which
    small models soon learn.
    """
    rules = {**english_grammar().rules, **rules_of(read_grammar("english")["phrases"])}
    return Grammar(rules, start="phrase", min_words=3, max_words=4)


@cache
def text_grammar() -> Grammar:
    """Return another kind of English text with the same words, for language models that
    must not know the speech.

    Its verbs take any object, so that one may drink a door. Its sentences are longer
    and begin otherwise. What it shares with :func:`english_grammar` are words, noun
    phrases and the agreement of subject and verb.
    """
    rules = {**english_grammar().rules, **rules_of(read_grammar("english")["text"])}
    return Grammar(rules, min_words=6, max_words=16)
