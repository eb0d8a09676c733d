"""Draw English sentences of a seeded phrase grammar of about 190 words.

``resources/english.yaml`` has weighted expansions for each ``<name>``. Verbs agree with
their subjects and choose their objects (one reads letters and drinks tea), so that the
next word is predictable from those before, and a language model has something to learn.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from espnet_ext.work.yaml_files import read_yaml

# (weight, line) or (weight, line, order): order holds the positions of the line's items
# in the order of another language.
Expansion = tuple[float, str] | tuple[float, str, tuple[int, ...]]
Rules = dict[str, tuple[Expansion, ...]]
_EXPANSION = re.compile(r"(?:([\d.]+) )?(.*?)(?: @([\d,]+))?")


@cache
def read_grammar(name: str) -> dict[str, Any]:
    """Read a file of ``resources/``; english.yaml says what it may hold."""
    return read_yaml(Path(__file__).parent / "resources" / f"{name}.yaml")


def read_table_rows(table: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the rows of a table of a grammar: column -> word."""
    columns = table["columns"].split()
    rows = []
    for row in table["rows"]:
        words = row.split()
        rows.append(dict(zip(columns, words, strict=True)))
    return rows


def read_rules(section: Mapping[str, Any]) -> Rules:
    """Return the rules of a section: those that are written out, and its tables'."""
    rules: Rules = {}
    for name, line in section["rules"].items():
        rules[name] = _read_expansions(line)
    for table in section.get("tables", {}).values():
        _add_table(rules, table)
    return rules


def _add_table(rules: Rules, table: Mapping[str, Any]) -> None:
    """Add the rules of a table.

    A line of ``all`` gives one rule an expansion for each row, a line of ``each`` gives
    each row a rule of its own.
    """
    rows = read_table_rows(table)
    for name, lines in table.get("all", {}).items():
        if isinstance(lines, str):
            lines = [lines]
        for line in lines:
            _extend_rules(rules, name, line, rows)
    for name, line in table.get("each", {}).items():
        for row in rows:
            own = name.format(**row)
            rules[own] = _read_expansions(line.format(**row))


def _extend_rules(
    rules: Rules,
    name: str,
    line: str,
    rows: list[dict[str, str]],
) -> None:
    """Add the expansions that a line makes of each row to those of the row's name."""
    for row in rows:
        own = name.format(**row)
        before = rules.get(own, ())
        rules[own] = (*before, *_read_expansions(line.format(**row)))


def _read_expansions(line: str) -> tuple[Expansion, ...]:
    return tuple(_read_expansion(text) for text in line.split(" / "))


def _read_expansion(text: str) -> Expansion:
    found = _EXPANSION.fullmatch(text)
    assert found  # every text matches: all groups but the words may be missing
    weight, words, order = found.groups()
    if not order:
        return float(weight or 1), words
    positions = tuple(map(int, order.split(",")))
    return float(weight or 1), words, positions


@dataclass(frozen=True)
class Grammar:
    """Weighted rules of a language.

    Weights need not sum to one; sentences of other lengths are drawn again.
    """

    rules: Mapping[str, tuple[Expansion, ...]]
    start: str = "sentence"
    min_words: int = 4
    max_words: int = 10

    def draw_sentence(self, rng: random.Random) -> str:
        """Draw a sentence: upper-case words with one space between them."""
        while True:
            words = self._expand(self.start, rng)
            if self.min_words <= len(words) <= self.max_words:
                return " ".join(words).upper()

    def _expand(self, name: str, rng: random.Random) -> list[str]:
        weights, texts = zip(*self.rules[name], strict=True)
        words: list[str] = []
        chosen = rng.choices(texts, weights)[0]
        for word in chosen.split():
            if word.startswith("<"):
                words += self._expand(word[1:-1], rng)
            else:
                words.append(word)
        return words


@cache
def build_english_grammar() -> Grammar:
    """Return the English grammar."""
    return Grammar(read_rules(read_grammar("english")["sentences"]))


@cache
def build_phrase_grammar() -> Grammar:
    """Return phrases such as TWO SMALL RED BOXES, which small models soon learn.

    They are of 40 words of the English grammar.
    """
    own = read_rules(read_grammar("english")["phrases"])
    rules = {**build_english_grammar().rules, **own}
    return Grammar(rules, start="phrase", min_words=3, max_words=4)


@cache
def build_text_grammar() -> Grammar:
    """Return another kind of English text, which does not tell the speech.

    It is for language models that must not know the speech. Its verbs take any object,
    so that one may drink a door. Its sentences are longer and begin otherwise. What it
    shares with :func:`build_english_grammar` are words, noun phrases and the agreement
    of subject and verb.
    """
    own = read_rules(read_grammar("english")["text"])
    rules = {**build_english_grammar().rules, **own}
    return Grammar(rules, min_words=6, max_words=16)
