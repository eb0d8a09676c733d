"""Tokens of Mandarin-English text, against Unicode's own ranges and against a walk over the characters."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.text.mixed_text import han_characters, has_han, language_of, mixed_tokens

# By Scripts.txt of Unicode: the basic block, extensions A to H, a compatibility form, 々 and 〇.
HAN = "一龥㐀豈𠀀𪜀𫝀𫠠𬺰\U00030000\U00031350々〇"
OTHER = "aZéß9９Ａかカ한，。、·'-_é"
TEXTS = st.text(alphabet=HAN[:4] + "𠀀々ab9'，é \t\u3000", max_size=30)


def walked(text: str) -> list[str]:
    """Tokens by looking at one character after the other."""
    tokens = [""]
    for character in text:
        name = unicodedata.name(character, "")
        if "IDEOGRAPHIC" in name and not character.isspace() or "IDEOGRAPH-" in name:
            tokens += [character, ""]
        elif character.isspace():
            tokens.append("")
        else:
            tokens[-1] += character
    return [token for token in tokens if token]


@pytest.mark.parametrize("character", HAN + OTHER)
def test_han_characters_are_tokens_each_and_others_words(character):
    is_han = character in HAN
    assert has_han(character) == is_han
    expected = [character] * 2 if is_han else [character * 2]
    assert mixed_tokens(f"我{character}{character}你") == ["我", *expected, "你"]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" \u3000\t", []),
        ("我想去library借书", ["我", "想", "去", "library", "借", "书"]),
        ("don't panic", ["don't", "panic"]),
        ("ok吗 o k", ["ok", "吗", "o", "k"]),
        ("2019年Q3", ["2019", "年", "Q3"]),
        ("我的 i-phone 6s", ["我", "的", "i-phone", "6s"]),
        ("今天\u3000天气", ["今", "天", "天", "气"]),
        ("葛\U000e0100城", ["葛\U000e0100", "城"]),  # a variation selector belongs to its character
        ("cafe\u0301好", ["cafe\u0301", "好"]),
        ("我\u2047\u2047want\u2047", ["我", "\u2047", "\u2047", "want", "\u2047"]),
    ],
)
def test_tokens(text, tokens):
    assert mixed_tokens(text) == tokens


@given(TEXTS)
@settings(max_examples=300)
def test_tokens_equal_those_of_a_walk_and_keep_every_character(text):
    tokens = mixed_tokens(text)
    assert tokens == walked(text)
    assert "".join(tokens) == "".join(text.split())
    assert mixed_tokens(" ".join(tokens)) == tokens


@given(
    st.lists(st.sampled_from(["我", "去", "𠀀", "go", "don't", "9"]), max_size=12), st.randoms(use_true_random=False)
)
@settings(max_examples=200)
def test_spaces_beside_han_do_not_matter(tokens, generator):
    text = ""
    for token in tokens:
        needed = text and not (has_han(token) or has_han(text[-1]))
        text += (" " if needed else generator.choice(["", " ", "\u3000 "])) + token
    assert mixed_tokens(text) == tokens


def test_all_han_characters_are_there():
    characters = han_characters()
    assert len(set(characters)) == len(characters) and characters == sorted(characters)
    assert all(has_han(character) for character in characters) and set(HAN) <= set(characters)
    # what Python's Unicode names an ideograph
    names = ("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH")
    assert {code for code in map(chr, range(0x110000)) if unicodedata.name(code, "").startswith(names)} < {*characters}


@pytest.mark.parametrize(
    ("text", "language"), [("我们", "zh"), ("DON'T", "en"), ("我LIKE它", "cs"), ("3 5", "?"), ("三5", "zh"), ("", "?")]
)
def test_language(text, language):
    assert language_of(text, "?") == language
