"""The language of each token of a token list: ``languages.txt``.

Its lines are ``token language``, in the same order. The language is ``-`` for a token
without one (``<unk>``, ``<sos/eos>``, a space, a noise mark, a number).
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import regex

from espnet_ext.errors import InputError
from espnet_ext.text.tokens import read_token_values
from espnet_ext.work.files import atomic_write

NEITHER = "-"
# language -> its script in Unicode: the modelling units of P1, section 4.2
SCRIPTS = {
    "en": regex.compile(r"\p{Script=Latin}"),
    "zh": regex.compile(r"\p{Script=Han}"),
}
WORD_START = "\u2581"  # sentencepiece's mark of a word's first piece
SPECIAL = regex.compile(r"<.*>|\[.*\]|\(.+\)|\{.*\}")


def find_languages(tokens: Iterable[str]) -> list[str]:
    """Return the languages of tokens, by the script of their letters.

    Tokens are characters, word pieces or words. ``-`` stands for a symbol in brackets
    (``<unk>``, ``[NOISE]``), for a token without a letter of these scripts, and for one
    with letters of several.

    >>> find_languages(["<unk>", "▁HELLO", "'S", "你", "7", "T恤", "<sos/eos>"])
    ['-', 'en', 'en', 'zh', '-', '-', '-']
    """
    return [_find_language(token) for token in tokens]


def _find_language(token: str) -> str:
    if SPECIAL.fullmatch(token):
        return NEITHER
    found = [language for language, pattern in SCRIPTS.items() if pattern.search(token)]
    return found[0] if len(found) == 1 else NEITHER


def write_languages(path: str | Path, tokens: Sequence[str]) -> None:
    """Write the languages of a token list (:func:`find_languages`)."""
    with atomic_write(path) as file:
        file.writelines(
            f"{token} {language}\n"
            for token, language in zip(tokens, find_languages(tokens), strict=True)
        )


def read_languages(path: str | Path) -> dict[str, str]:
    """Read a languages file: token -> language or ``-``, in the list's order."""
    return read_token_values(path, lambda text: text or None, "language")


def number_languages(languages: Iterable[str], names: Sequence[str]) -> list[int]:
    """Return languages as numbers: 0 for ``-``, then by their place in ``names``.

    Raises InputError: a language that is not in ``names``.
    """
    codes = {NEITHER: 0, **{name: code for code, name in enumerate(names, start=1)}}
    try:
        return [codes[language] for language in languages]
    except KeyError as error:
        raise InputError(
            f"the language '{error.args[0]}' of a token is not one of "
            f"{', '.join(names)}"
        ) from None
