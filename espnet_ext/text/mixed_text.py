"""Mandarin-English text: which characters are Han, and how a transcript splits into Han characters and words.

In data dirs such text has no space beside a Han character and single spaces between words
(:func:`espnet_ext.text.rules.no_blank_beside_han`); :func:`mixed_tokens` accepts any spacing.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass

import regex  # the standard library's re knows no scripts

from espnet_ext.errors import InputError

UNKNOWN_MARK = "\u2047"  # sentencepiece's text for an unknown token
_TOKEN = regex.compile(rf"\p{{Han}}\p{{M}}*|{UNKNOWN_MARK}|[^\p{{Han}}{UNKNOWN_MARK}]+")
_HAN = regex.compile(r"\p{Han}")
_LATIN = regex.compile(r"\p{Latin}")
_LONG_VOWEL = "ー"  # of Hiragana and Katakana, and so of no script in Unicode
_FIRST, _LAST = 0x2E80, 0x3FFFF  # from the radicals to the end of the plane of the last extensions


def has_han(text: str) -> bool:
    """Return whether ``text`` has a Han character. Of script Han are all CJK extensions, radicals, 々 and 〇.

    >>> has_han("我"), has_han("𠮷"), has_han("want"), has_han("3"), has_han("，")
    (True, True, False, False, False)
    """
    return _HAN.search(text) is not None


def mixed_tokens(text: str) -> list[str]:
    """Split a transcript into Han characters and words: what the mixed error rate counts (P1, section 4.2).

    Every Han character is a token, with the variation selectors and combining marks after it; so is every run of other
    characters up to the next Han character or white space. So spaces beside Han characters do not matter. Characters
    that are neither Han nor Latin (digits, kana, punctuation) are part of a word; only the mark of an unknown token is
    a token of its own. Nothing is normalised: spell out numbers and remove punctuation in both texts before scoring.

    >>> mixed_tokens("我 想去library借3本don't panic")
    ['我', '想', '去', 'library', '借', '3', '本', "don't", 'panic']
    """
    return [token for word in text.split() for token in _TOKEN.findall(word)]


# Scripts that are written without spaces between words: their characters are counted.
BY_CHARACTER = ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar")


@dataclass(frozen=True)
class ScriptPair:
    """Two languages that are told apart by their scripts (Unicode's names), and what they are called in results.

    A token with a letter of the first script is of the first language; all others are of the second: digits, and
    letters of a third script, too. A language of several scripts names them all (``Han+Hiragana+Katakana``).

    >>> pair = script_pair("Devanagari,Latin")
    >>> pair.tokens("मुझे phone चाहिए"), [pair.is_first(token) for token in pair.tokens("मुझे phone")], pair.names
    (['मुझे', 'phone', 'चाहिए'], [True, False], ('Devanagari', 'Latin'))
    >>> script_pair("Thai,Latin").tokens("ไปlibrary")
    ['ไ', 'ป', 'library']
    """

    scripts: tuple[str, str] = ("Han", "Latin")
    names: tuple[str, str] = ("CH", "EN")  # as in P1's tables

    def tokens(self, text: str) -> list[str]:
        """Split a transcript into what is counted: characters of the scripts in ``BY_CHARACTER``, words of others.

        Of Mandarin and English only Han characters are (:func:`mixed_tokens`).
        """
        if self == ScriptPair():
            return mixed_tokens(text)
        return [token for word in text.split() for token in _by_character().findall(word)]

    def is_first(self, token: str) -> bool:
        """Return whether a token is of the first language."""
        return _letters_of(self.scripts[0]).search(token) is not None

    def other_letters(self, texts: Iterable[str]) -> str:
        """Return the letters of third scripts in texts, at most ten: all of them count as the second language.

        >>> ScriptPair().other_letters(["我 go カラ", "да 15"])
        'адカラ'
        """
        ours = [_letters_of(script) for script in self.scripts]
        letters = {mark for text in texts for mark in text if mark.isalpha()}
        return "".join(sorted(mark for mark in letters if not any(each.search(mark) for each in ours)))[:10]


def script_pair(scripts: str) -> ScriptPair:
    """Return the languages of two scripts, as ``--scripts`` names them: ``Han,Latin``, ``Han+Hiragana,Latin``.

    Raises InputError: not two different names of scripts in Unicode, or several with ``+`` between.
    """
    names = tuple(name.strip() for name in scripts.split(","))
    if len({name.lower() for name in names}) != 2 or len(names) != 2:
        raise InputError(f"--scripts takes two scripts with a comma between, such as Han,Latin, not '{scripts}'")
    if names == ScriptPair().scripts:
        return ScriptPair()
    for name in names:
        try:
            _letters_of(name)
        except regex.error:
            raise InputError(f"'{name}' is no script of Unicode: Han, Latin, Arabic, Devanagari, Thai ...") from None
    return ScriptPair(names, names)


@functools.cache
def _letters_of(script: str) -> regex.Pattern:
    kana = _LONG_VOWEL if {"hiragana", "katakana"} & set(script.lower().split("+")) else ""
    for name in script.split("+"):
        if not regex.fullmatch("[A-Za-z_]+", name):
            raise regex.error(f"no name of a script: {name}")
    return regex.compile("[" + "".join(rf"\p{{Script={name}}}" for name in script.split("+")) + kana + "]")


@functools.cache
def _by_character() -> regex.Pattern:
    single = "".join(rf"\p{{{script}}}" for script in BY_CHARACTER)
    single += _LONG_VOWEL
    return regex.compile(rf"[{single}]\p{{M}}*|{UNKNOWN_MARK}|[^{single}{UNKNOWN_MARK}]+")


def han_characters() -> list[str]:
    """Return all characters of script Han, in the order of their code points."""
    return _HAN.findall("".join(map(chr, range(_FIRST, _LAST + 1))))


def language_of(text: str, otherwise: str) -> str:
    """Return ``zh`` for Han, ``en`` for Latin letters, ``cs`` for both, ``otherwise`` for neither (digits alone)."""
    han, latin = has_han(text), _LATIN.search(text) is not None
    if han and latin:
        return "cs"
    return "zh" if han else "en" if latin else otherwise
