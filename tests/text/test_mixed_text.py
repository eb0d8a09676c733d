"""Tokens of Mandarin-English text, against Unicode's own ranges; tests/fuzz has a walk
over the characters.
"""

import unicodedata

import pytest

from espnet_ext.text.mixed_text import (
    detect_language,
    has_han,
    list_han_characters,
    split_mixed_text,
)

# By Scripts.txt of Unicode: the basic block, extensions A to H, a compatibility form,
# 々 and 〇.
HAN = "一龥㐀豈𠀀𪜀𫝀𫠠𬺰\U00030000\U00031350々〇"
OTHER = "aZéß9９Ａかカ한，。、·'-_é"


@pytest.mark.parametrize("character", HAN + OTHER)
def test_han_characters_are_tokens_each_and_others_words(character):
    is_han = character in HAN
    assert has_han(character) == is_han
    expected = [character] * 2 if is_han else [character * 2]
    assert split_mixed_text(f"我{character}{character}你") == ["我", *expected, "你"]


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
        (
            "葛\U000e0100城",
            ["葛\U000e0100", "城"],
        ),  # a variation selector belongs to its character
        ("cafe\u0301好", ["cafe\u0301", "好"]),
        ("我\u2047\u2047want\u2047", ["我", "\u2047", "\u2047", "want", "\u2047"]),
    ],
)
def test_tokens(text, tokens):
    assert split_mixed_text(text) == tokens


def test_all_han_characters_are_there():
    characters = list_han_characters()
    assert len(set(characters)) == len(characters) and characters == sorted(characters)
    assert all(has_han(character) for character in characters) and set(HAN) <= set(
        characters
    )
    # what Python's Unicode names an ideograph
    names = ("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH")
    assert {
        code
        for code in map(chr, range(0x110000))
        if unicodedata.name(code, "").startswith(names)
    } < {*characters}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("我们", "zh"),
        ("DON'T", "en"),
        ("我LIKE它", "cs"),
        ("3 5", "?"),
        ("三5", "zh"),
        ("", "?"),
    ],
)
def test_language(text, language):
    assert detect_language(text, "?") == language
