"""Split Mandarin-English text into Han characters and words.

In data dirs no space stands beside a Han character
(:func:`espnet_ext.text.rules.no_blank_beside_han`).
"""

from collections.abc import Iterable
from itertools import chain

# The standard library's re knows no scripts.
import regex

UNKNOWN_MARK = "\u2047"  # sentencepiece's text for an unknown token
_TOKEN = regex.compile(rf"\p{{Han}}\p{{M}}*|{UNKNOWN_MARK}|[^\p{{Han}}{UNKNOWN_MARK}]+")
_HAN = regex.compile(r"\p{Han}")
_LATIN = regex.compile(r"\p{Latin}")
# From the radicals to the end of the plane of the last extensions.
_FIRST_HAN = 0x2E80
_LAST_HAN = 0x3FFFF


def has_han(text: str) -> bool:
    """Return whether ``text`` has a Han character.

    Of script Han are all CJK extensions, radicals, 々 and 〇.

    >>> has_han("我"), has_han("𠮷"), has_han("want"), has_han("3"), has_han("，")
    (True, True, False, False, False)
    """
    return _HAN.search(text) is not None


def split_mixed_text(text: str) -> list[str]:
    """Split a transcript into what the mixed error rate counts (P1, section 4.2).

    Every Han character is a token, with the variation selectors and combining marks
    after it; so is every run of other characters up to the next Han character or white
    space. So spaces beside Han characters do not matter. Characters that are neither
    Han nor Latin (digits, kana, punctuation) are part of a word; only the mark of an
    unknown token is a token of its own. Nothing is normalised: spell out numbers and
    remove punctuation in both texts before scoring.

    >>> split_mixed_text("我 想去library借3本don't panic")
    ['我', '想', '去', 'library', '借', '3', '本', "don't", 'panic']
    """
    return [token for word in text.split() for token in _TOKEN.findall(word)]


def find_other_letters(texts: Iterable[str]) -> str:
    """Find the letters in texts that are neither Han nor Latin, at most ten.

    They count as English.

    >>> find_other_letters(["我 go カラ", "да 15"])
    'адカラ'
    """
    others: set[str] = set()
    for letter in set(chain.from_iterable(texts)):
        known = has_han(letter) or _LATIN.search(letter) is not None
        if letter.isalpha() and not known:
            others.add(letter)
    return "".join(sorted(others))[:10]


def list_han_characters() -> list[str]:
    """Return all characters of script Han, in the order of their code points."""
    return _HAN.findall("".join(map(chr, range(_FIRST_HAN, _LAST_HAN + 1))))


def detect_language(text: str, otherwise: str) -> str:
    """Return ``zh`` for Han, ``en`` for Latin letters, ``cs`` for both.

    For neither, such as digits alone, it is ``otherwise``.
    """
    han = has_han(text)
    latin = _LATIN.search(text) is not None
    if han and latin:
        return "cs"
    if han:
        return "zh"
    return "en" if latin else otherwise
