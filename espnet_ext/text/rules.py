"""Normalise transcripts of Mandarin and English: pure functions, and compositions.

A rule's name is written beside results, so it stays as it is.

>>> MANDARIN_ENGLISH("［NOISE］ 那个 ｄoctor，don't like 红酒。")
"那个DOCTOR DON'T LIKE红酒"
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import regex

Rule = Callable[[str], str]

# Unicode has full-width forms in the order of ASCII, 0xFEE0 above it; not the space.
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: " "}
_APOSTROPHES = dict.fromkeys(map(ord, "’‘ʼ´`′"), "'")
_MARK_LENGTH = 30  # characters; longer text between brackets is not a mark
_NOISE_MARK = re.compile(
    "|".join(
        rf"{re.escape(left)}(?! )"
        rf"[^{re.escape(left + right)}]{{1,{_MARK_LENGTH}}}"
        rf"{re.escape(right)}"
        for left, right in ("[]", "<>", "{}", "【】")
    )
    + r"|\(pp[bclo]\)",  # SEAME's breath, cough, laughter and others
    re.IGNORECASE,
)
_BESIDE_HAN = regex.compile(r"(?<=\p{Han}) | (?=\p{Han})")
_NUMBER = re.compile(
    r"((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?)((?:st|nd|rd|th|'?s)\b)?",
    re.IGNORECASE,
)
_DIGIT_BESIDE_LETTER = re.compile(
    r"(?<=[a-z])(?=[0-9])|(?<=[0-9])(?=[a-z])(?!(?:st|nd|rd|th|s)\b)", re.IGNORECASE
)
_YEAR = re.compile("1[1-9][0-9]{2}")
_LONGEST_NUMBER = 12  # digits; longer ones are read digit by digit
_TITLES = {"mr": "mister", "mrs": "missus", "dr": "doctor", "st": "saint"}
# Not in capitals, so that LibriSpeech's transcripts and the output of these rules do
# not change.
_ANY_TITLE = "|".join(f"[{name[0]}{name[0].upper()}]{name[1:]}" for name in _TITLES)
_TITLE = re.compile(rf"\b({_ANY_TITLE})\b\.?(?=\s+[A-Z])")
_VARIATIONS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_ACCENTED = regex.compile(r"(\p{Latin})[\u0300-\u036f]+")


@dataclass(frozen=True)
class TextRules:
    """Rules that are applied one after the other, and the name of them all."""

    name: str
    rules: tuple[Rule, ...]

    def __call__(self, text: str) -> str:
        for rule in self.rules:
            text = rule(text)
        return text

    @property
    def record(self) -> dict[str, Any]:
        """The name of the composition and those of its rules in order."""
        return {"name": self.name, "rules": [rule.__name__ for rule in self.rules]}


def full_width_to_half(text: str) -> str:
    """Write full-width characters (U+FF01 to U+FF5E, and the wide space) as ASCII."""
    return text.translate(_FULL_WIDTH)


def straight_apostrophes(text: str) -> str:
    """Write curly apostrophes, and accents used as apostrophes, as ``'``."""
    return text.translate(_APOSTROPHES)


def drop_noise_marks(text: str) -> str:
    """Replace marks of noise in square, angle, curly or 【】 brackets by a space.

    A mark has up to 30 characters and does not begin with a space, as a comparison
    does. Words in round brackets stay, but for SEAME's ``(ppb)``, ``(ppc)``, ``(ppl)``
    and ``(ppo)``.

    >>> drop_noise_marks("[NOISE] 好 <laugh>ok</laugh>{cough}")
    '  好  ok  '
    >>> drop_noise_marks("a < b > c (ppl) (app)")
    'a < b > c   (app)'
    """
    return _NOISE_MARK.sub(" ", text)


def drop_invisible(text: str) -> str:
    """Remove what cannot be seen; control characters become a space.

    Zero-width spaces, byte-order marks, soft hyphens and variation selectors go.

    >>> drop_invisible("\\ufeff喜\\u200b欢\\tTEA")
    '喜欢 TEA'
    """
    # Unicode's categories: Cf formats what is around it, Cc are tabs and the like.
    becomes = {"Cf": "", "Cc": " "}
    # Variation selectors are marks (Mn), as accents are, and those must stay.
    visible = _VARIATIONS.sub("", text)
    return "".join(becomes.get(unicodedata.category(char), char) for char in visible)


def upper_case_english(text: str) -> str:
    """Write letters in upper case, as in LibriSpeech's transcripts."""
    return text.upper()


def drop_accents(text: str) -> str:
    """Drop the accents of Latin letters.

    Those of other scripts keep them: й and ё are letters of their own.
    """
    # Decomposed, an accent is a character of its own after its letter.
    decomposed = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", _ACCENTED.sub(r"\1", decomposed))


def drop_punctuation(text: str) -> str:
    """Replace punctuation by a blank, but for an apostrophe in an English word.

    >>> drop_punctuation("'DON'T', 他说：E-MAIL。")
    " DON'T   他说 E MAIL "
    """
    kept = []
    for index, char in enumerate(text):
        # P for punctuation and S for symbols, such as $ and +.
        drops = unicodedata.category(char)[0] in "PS"
        if drops and not _is_apostrophe_in_word(text, index):
            char = " "
        kept.append(char)
    return "".join(kept)


def _is_apostrophe_in_word(text: str, index: int) -> bool:
    """Return whether there is an apostrophe between two English letters or digits."""
    if text[index] != "'":
        return False
    neighbours = text[max(index - 1, 0) : index] + text[index + 1 : index + 2]
    return len(neighbours) == 2 and neighbours.isascii() and neighbours.isalnum()


def spell_titles(text: str) -> str:
    """Write out Mr, Mrs, Dr and St before a capital, unless they are in capitals.

    >>> spell_titles("Mr. Quilter and Mrs Bell, at St. Ives; St. is short")
    'mister Quilter and missus Bell, at saint Ives; St. is short'
    """
    return _TITLE.sub(lambda found: _TITLES[found[1].lower()], text)


def spell_numbers(text: str) -> str:
    """Write numbers in digits as English words.

    Four digits from 1100 to 1999 are read as a year.

    >>> spell_numbers("12 men, the 3rd of 1,234")
    'twelve men, the third of one thousand two hundred thirty-four'
    >>> spell_numbers("in 1815 or 1906: 2.5 miles, 007")
    'in eighteen fifteen or nineteen oh six: two point five miles, zero zero seven'
    >>> spell_numbers("the 1990s, a 3D film")
    'the nineteen nineties, a three D film'
    """
    text = _DIGIT_BESIDE_LETTER.sub(" ", text)
    return _NUMBER.sub(_spell_number, text)


def _spell_number(found: re.Match[str]) -> str:
    """Write a number and its suffix, such as th of 3rd and s of 1990s, as words."""
    # Only here: importing it takes over a second, and few texts have digits.
    import inflect

    engine: Any = inflect.engine()
    number = found[1]
    suffix = (found[2] or "").lower()
    digits = number.replace(",", "")
    has_leading_zero = digits[0] == "0" and digits[1:2].isdigit()
    if _YEAR.fullmatch(number):
        words = _spell_year(engine, number)
    elif has_leading_zero or len(digits) > _LONGEST_NUMBER:
        # As of telephone numbers: digit by digit.
        spoken = [
            "point" if digit == "." else engine.number_to_words(digit)
            for digit in digits
        ]
        words = " ".join(map(str, spoken))
    else:
        words = str(engine.number_to_words(digits, andword="", comma=""))
    if not suffix:
        return words
    return engine.plural(words) if suffix.endswith("s") else engine.ordinal(words)


def _spell_year(engine: Any, year: str) -> str:
    """Write a year as eighteen fifteen, nineteen oh six or nineteen hundred."""
    century = engine.number_to_words(year[:2])
    rest = year[2:]
    if rest == "00":
        return f"{century} hundred"
    words = engine.number_to_words(int(rest))
    return f"{century} oh {words}" if rest < "10" else f"{century} {words}"


def single_blanks(text: str) -> str:
    """Return one space between words, and none at the ends."""
    return " ".join(text.split())


def no_blank_beside_han(text: str) -> str:
    """Return single spaces between words, and none beside a Han character."""
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

# Written English, such as a recogniser's output, in the form of LibriSpeech's
# transcripts. Symbols such as $ are removed.
LIBRISPEECH = TextRules(
    "librispeech",
    (
        straight_apostrophes,
        drop_noise_marks,
        drop_invisible,
        spell_titles,
        spell_numbers,
        upper_case_english,
        drop_accents,
        drop_punctuation,
        single_blanks,
    ),
)
