"""The languages of tokens."""

import pytest

from espnet_ext.codeswitch.token_languages import (
    find_languages,
    number_languages,
    read_languages,
    write_languages,
)
from espnet_ext.errors import InputError
from espnet_ext.text.tokens import write_tokens


@pytest.mark.parametrize(
    ("tokens", "language"),
    [
        ("A \u2581THE ING 'S É ﬁ MP3 O' <A", "en"),
        ("你 们 𠀀 々 〇 你好 \u2581好", "zh"),
        ("<blank> <unk> <space> <sos/eos> <noise> [NOISE] [笑] (LAUGHS) {UH}", "-"),
        ("\u2581 7 3.5 ' - . ， 。 ( ) [ < > [] ア Ж", "-"),
        ("A股 T恤", "-"),
    ],
)
def test_the_script_of_its_letters_tells_a_tokens_language(tokens, language):
    tokens = tokens.split(" ")
    assert find_languages(tokens) == [language] * len(tokens)


def test_a_file_is_read_as_it_was_written(tmp_path):
    # characters that some of Python's functions take for ends of lines
    tokens = write_tokens(["AB 你好 A", "7 \u2028 \x85 \u00a0"], tmp_path, "char")
    write_languages(tmp_path / "languages.txt", tokens)
    languages = read_languages(tmp_path / "languages.txt")
    assert list(languages) == tokens
    expected = {
        "<blank>": "-",
        "<space>": "-",
        "7": "-",
        "A": "en",
        "你": "zh",
        "<sos/eos>": "-",
    }
    assert languages.items() >= expected.items()


def test_codes():
    assert number_languages(["-", "zh", "en", "-"], ["en", "zh"]) == [0, 2, 1, 0]
    with pytest.raises(
        InputError, match="the language 'fr' of a token is not one of en, zh"
    ):
        number_languages(["zh", "fr"], ["en", "zh"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"A en\nB\n", "line 2: 'B' is not a token and its language"),
        (b"A en\n\nB en\n", "line 2: '' is not"),
        (b"A en\n zh\n", "line 2: ' zh' is not"),
        (b"A \n", "line 1: 'A ' is not"),
        (b"", "line 1: '' is not"),
        (b"A en\nA zh\n", "line 2: the token 'A' comes twice"),
        (b"\xff en\n", "not UTF-8 text"),
    ],
)
def test_bad_files_are_refused(tmp_path, content, message):
    path = tmp_path / "languages.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"^{path}: .*{message}"):
        read_languages(path)
    with pytest.raises(InputError, match="no such file"):
        read_languages(tmp_path / "none.txt")
