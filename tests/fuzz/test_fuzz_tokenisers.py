"""Tokenisers on any text: the tokens are those of a walk over its characters, and
nothing of it is lost.
"""

import unicodedata

import pytest
import sentencepiece
from damage import FUZZ, INPUTS, WORDS, read_or_refuse, several
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.codeswitch.mixed_units import train_mixed_pieces
from espnet_ext.codeswitch.token_languages import (
    find_languages,
    read_languages,
    write_languages,
)
from espnet_ext.errors import InputError
from espnet_ext.text.mixed_text import has_han, split_mixed_text
from espnet_ext.text.rules import LIBRISPEECH, MANDARIN_ENGLISH
from espnet_ext.text.tokens import read_prior, write_tokens

ANY = st.text(max_size=24)
MIXED = st.text(
    alphabet="我你𠀀々〇葛ABZ9'，é\u0301\u2047▁ \t\u3000\u2028\U000e0100", max_size=20
)

KNOWN = "我你葛ABCDEHINRSTW9' \t"


@pytest.fixture(scope="session")
def pieces() -> sentencepiece.SentencePieceProcessor:
    model = train_mixed_pieces(
        ["THE RED WINE AND THE REST", "RED RED WINE"], vocab_size=60
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.data)


@FUZZ
@given(several(MIXED | ANY))
def test_mixed_tokens_lose_nothing_and_part_han(texts):
    for text in texts:
        tokens = split_mixed_text(text)
        assert "".join(tokens) == "".join(text.split())
        assert all(token and not any(map(str.isspace, token)) for token in tokens)
        for token in filter(has_han, tokens):
            assert has_han(token[0]) and all(
                unicodedata.category(other)[0] == "M" for other in token[1:]
            )
        assert split_mixed_text(" ".join(tokens)) == tokens
        for rules in (MANDARIN_ENGLISH, LIBRISPEECH):
            once = rules(text)
            assert rules(once) == once == " ".join(once.split())


@FUZZ
@given(several(st.text(alphabet=KNOWN, max_size=20) | ANY))
def test_mixed_units_decode_to_what_was_encoded(pieces, texts):
    for text in texts:
        encoded = pieces.encode(text, out_type=str)
        assert sum(map(has_han, encoded)) == sum(map(has_han, text))
        decoded = pieces.decode(encoded)
        if set(text) <= set(KNOWN):
            assert not any(len(piece) > 2 for piece in encoded if has_han(piece))
            assert split_mixed_text(decoded) == split_mixed_text(text)


@FUZZ
@given(
    several(st.lists(st.lists(WORDS, max_size=4).map(" ".join), max_size=4)),
    st.sampled_from(["char", "word"]),
)
def test_token_lists_are_read_back_and_know_all_text(scratch, inputs, token_type):
    for texts in inputs:
        try:
            tokens = write_tokens(texts, scratch, token_type)
        except InputError:
            continue
        assert len(set(tokens)) == len(tokens)
        wanted = {
            w
            for text in texts
            for w in (text.split() if token_type == "word" else text.replace(" ", ""))
        }
        assert wanted <= set(tokens)
        assert (scratch / "tokens.txt").read_text().split("\n")[:-1] == tokens
        assert list(read_or_refuse(read_prior, scratch / "prior.txt")) == tokens
        write_languages(scratch / "languages.txt", tokens)
        languages = read_or_refuse(read_languages, scratch / "languages.txt")
        assert list(languages.items()) == list(
            zip(tokens, find_languages(tokens), strict=True)
        )


# One input at a time: most of it is the training of the model.
@settings(FUZZ, max_examples=INPUTS)
@given(
    st.lists(ANY, max_size=3), st.sampled_from(["bpe", "unigram"]), st.integers(3, 30)
)
def test_word_pieces_of_any_text(scratch, texts, token_type, size):
    try:
        tokens = write_tokens(texts, scratch, token_type, size)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert (scratch / "tokens.txt").read_text().split("\n")[:-1] == tokens
    assert list(read_or_refuse(read_prior, scratch / "prior.txt")) == tokens
