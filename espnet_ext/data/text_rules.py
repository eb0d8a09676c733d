"""Rules that bring transcripts of Mandarin and English into one form: pure functions with names, and compositions.

A composition is recorded by its name and by those of its rules, so that a result says what its text went through.

>>> MANDARIN_ENGLISH("［NOISE］ 那个 ｄoctor，don't like 红酒。")
"那个DOCTOR DON'T LIKE红酒"
>>> MANDARIN_ENGLISH.name
'mandarin_english'
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import regex

Rule = Callable[[str], str]

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: " "}
_APOSTROPHES = dict.fromkeys(map(ord, "’‘ʼ´`′"), "'")
_MARK_LENGTH = 30  # characters; what is longer between two brackets is text with a bracket too many
_NOISE_MARK = re.compile(
    "|".join(
        rf"{re.escape(left)}[^{re.escape(left + right)}]{{1,{_MARK_LENGTH}}}{re.escape(right)}"
        for left, right in ("[]", "<>", "{}", "【】")
    )
)
_BESIDE_HAN = regex.compile(r"(?<=\p{Han}) | (?=\p{Han})")
_VARIATIONS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_COMBINING = re.compile("[\u0300-\u036f]")


@dataclass(frozen=True)
class TextRules:
    """Rules that are applied one after the other, under one name."""

    name: str
    rules: tuple[Rule, ...]

    def __call__(self, text: str) -> str:
        for rule in self.rules:
            text = rule(text)
        return text

    @property
    def record(self) -> dict[str, Any]:
        """What to write beside results: the composition's name, and its rules' in their order."""
        return {"name": self.name, "rules": [rule.__name__ for rule in self.rules]}


def full_width_to_half(text: str) -> str:
    """Full-width letters, digits and signs (U+FF01 to U+FF5E) and the ideographic space become ASCII.

    >>> full_width_to_half("ＡＰＰ２，　好")
    'APP2, 好'
    """
    return text.translate(_FULL_WIDTH)


def straight_apostrophes(text: str) -> str:
    """Curly apostrophes and accents that stand for one become ``'``.

    >>> straight_apostrophes("don’t, it`s")
    "don't, it's"
    """
    return text.translate(_APOSTROPHES)


def drop_noise_marks(text: str) -> str:
    """Marks of noise and the like in square, angle, curly or 【】 brackets become a blank.

    >>> drop_noise_marks("[NOISE] 好 <laugh>ok</laugh>{cough}")
    '  好  ok  '
    """
    return _NOISE_MARK.sub(" ", text)


def drop_invisible(text: str) -> str:
    """Zero-width blanks, byte-order marks, soft hyphens and variation selectors go; control characters become a blank.

    >>> drop_invisible("\\ufeff喜\\u200b欢\\tTEA")
    '喜欢 TEA'
    """
    text = _VARIATIONS.sub("", text)
    return "".join(_INVISIBLE.get(unicodedata.category(char), char) for char in text)


_INVISIBLE = {"Cf": "", "Cc": " "}


def upper_case_english(text: str) -> str:
    """Letters become upper case, as in LibriSpeech's transcripts.

    >>> upper_case_english("喜欢 red Wine")
    '喜欢 RED WINE'
    """
    return text.upper()


def drop_accents(text: str) -> str:
    """Letters lose their accents.

    >>> drop_accents("CAFÉ")
    'CAFE'
    """
    return unicodedata.normalize("NFC", _COMBINING.sub("", unicodedata.normalize("NFD", text)))


def drop_punctuation(text: str) -> str:
    """Punctuation and symbols become a blank, but for the apostrophe inside an English word.

    >>> drop_punctuation("'DON'T', 他说：E-MAIL。")
    " DON'T   他说 E MAIL "
    """
    return "".join(
        char if unicodedata.category(char)[0] not in "PS" or _is_inside_word(text, index) else " "
        for index, char in enumerate(text)
    )


def _is_inside_word(text: str, index: int) -> bool:
    neighbours = text[max(index - 1, 0) : index] + text[index + 1 : index + 2]
    return text[index] == "'" and len(neighbours) == 2 and neighbours.isascii() and neighbours.isalnum()


def no_blank_beside_han(text: str) -> str:
    """Single blanks between words, and none beside a Han character.

    >>> no_blank_beside_han(" 那 个  DOCTOR 喜欢 RED  WINE ")
    '那个DOCTOR喜欢RED WINE'
    """
    return _BESIDE_HAN.sub("", " ".join(text.split()))


MANDARIN_ENGLISH = TextRules(
    "mandarin_english",
    (
        full_width_to_half,
        straight_apostrophes,
        drop_noise_marks,
        drop_invisible,
        upper_case_english,
        drop_accents,
        drop_punctuation,
        no_blank_beside_han,
    ),
)
