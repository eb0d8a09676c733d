"""The English phrase grammar."""

import random
import re
from collections import Counter

import pytest

from espnet_ext.synthetic.english import Grammar, build_english_grammar


@pytest.fixture(scope="module")
def sentences() -> list[str]:
    rng = random.Random(0)
    return [build_english_grammar().draw_sentence(rng) for _ in range(5000)]


def test_every_word_comes_up(sentences: list[str]) -> None:
    words = {word for sentence in sentences for word in sentence.split()}
    lines = (
        text for rule in build_english_grammar().rules.values() for _, text in rule
    )
    assert words == {
        word.upper()
        for text in lines
        for word in text.split()
        if not word.startswith("<")
    }
    assert 120 <= len(words) <= 250
    assert all(
        re.fullmatch(r"[A-Z']+( [A-Z']+){3,9}", sentence) for sentence in sentences
    )


def test_subject_and_verb_agree(sentences: list[str]) -> None:
    """After a pronoun: a verb in -s with he and she, one without with we and they."""
    verbs = Counter()
    for sentence in sentences:
        for pronoun, verb in re.findall(
            r"\b(HE|SHE|WE|THEY) (?:ALWAYS |OFTEN |NEVER |SOMETIMES )?([A-Z']+)",
            sentence,
        ):
            if verb != "WILL":
                verbs[
                    pronoun in ("HE", "SHE"), verb.endswith("S") or verb == "DOESN'T"
                ] += 1
    assert verbs[True, True] > 100 and verbs[False, False] > 100
    assert verbs[True, False] == verbs[False, True] == 0


def test_weights_and_length() -> None:
    grammar = Grammar({"sentence": ((3, "a a a a"), (1, "b b b b"), (9, "c"))})
    rng = random.Random(0)
    counts = Counter(grammar.draw_sentence(rng) for _ in range(4000))
    assert set(counts) == {"A A A A", "B B B B"}  # one word is too short
    assert counts["A A A A"] / 4000 == pytest.approx(0.75, abs=0.03)
