"""Han characters and English word pieces in one sentencepiece model, read by ESPnet's
own tokenizer.
"""

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.codeswitch.mixed_units import (
    list_han_units,
    make_mixed_tokens,
    train_mixed_pieces,
    write_mixed_tokens,
)
from espnet_ext.errors import InputError
from espnet_ext.text.mixed_text import (
    UNKNOWN_MARK,
    has_han,
    list_han_characters,
    split_mixed_text,
)
from espnet_ext.text.rules import no_blank_beside_han
from espnet_ext.text.tokens import train_pieces

ENGLISH = [
    "THE DOCTOR LIKES THE RED WINE",
    "MY TEACHER DOESN'T LIKE RED CARS",
    "THE TEACHERS AND THE DOCTORS DRINK WINE",
    "WE LIKE DRINKING",
] * 3
MIXED = ["那个DOCTOR喜欢RED WINE"] * 11 + ["那个老师喝3杯酒"] * 10
UNITS = "个喜欢那"  # more than 10 occurrences
RARE = "老师喝杯酒"
ALPHABET = set("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokens")
    write_mixed_tokens([*MIXED, *ENGLISH], ENGLISH, folder, vocab_size=60)
    return folder


@pytest.fixture(scope="module")
def tokens(folder: Path) -> list[str]:
    return (folder / "tokens.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def tokenizer(folder: Path):
    """ESPnet's tokenizer of ``token_type: bpe``."""
    from espnet2.text.build_tokenizer import build_tokenizer

    return build_tokenizer("bpe", folder / "bpe.model")


@pytest.fixture(scope="module")
def converter(tokens: list[str]):
    from espnet2.text.token_id_converter import TokenIDConverter

    return TokenIDConverter(tokens)


def test_units(tokens: list[str]) -> None:
    assert tokens[:2] == ["<blank>", "<unk>"] and tokens[-1] == "<sos/eos>"
    assert len(tokens) == len(set(tokens)) == 3 + 60 + len(UNITS)
    assert [token for token in tokens if has_han(token)] == [
        f"▁{char}" for char in UNITS
    ]
    assert set(tokens) > ALPHABET and "▁THE" in tokens


def test_pieces_are_learnt_from_the_english_text_only() -> None:
    """They are what sentencepiece learns from it without any Han characters."""
    model = train_mixed_pieces(ENGLISH, 60)
    absent = [
        piece
        for piece in model.pieces
        if piece in ALPHABET and piece not in str(ENGLISH)
    ]
    english = [
        piece for piece in model.pieces if not has_han(piece) and piece not in absent
    ]
    alone = train_pieces(ENGLISH, 60 - len(absent) + 1).pieces
    assert english == list(alone)


@pytest.mark.parametrize(
    "text",
    [
        "那个 DOCTOR 喜欢 RED WINE",
        "那个DOCTOR喜欢RED WINE",
        " 那 个  DOCTOR 喜欢RED WINE ",
    ],
)
def test_no_boundary_mark_between_scripts(tokenizer, text: str) -> None:
    pieces = tokenizer.text2tokens(text)
    assert "▁" not in pieces
    assert [piece for piece in pieces if has_han(piece)] == ["▁那", "▁个", "▁喜", "▁欢"]
    assert tokenizer.tokens2text(pieces) == "那个DOCTOR喜欢RED WINE"


def test_english_is_encoded_as_without_mandarin(tokenizer) -> None:
    alone = tokenizer.text2tokens("RED WINE")
    assert tokenizer.text2tokens("喜欢RED WINE")[2:] == alone
    assert tokenizer.text2tokens("RED WINE喜欢")[: len(alone)] == alone


HAN = st.sampled_from(list_han_characters())
WORDS = st.text(sorted(ALPHABET), min_size=1, max_size=7)


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A line of Han characters and words in any spacing, and its tokens."""
    tokens = draw(
        st.lists(st.one_of(st.sampled_from(UNITS + RARE), HAN, WORDS), max_size=12)
    )
    text = draw(st.sampled_from(["", " "]))
    for left, right in zip(["", *tokens], [*tokens, ""], strict=True):
        between_words = left and right and not has_han(left) and not has_han(right)
        text += (
            draw(st.sampled_from([" ", "  "] if between_words else ["", " ", "  "]))
            + right
        )
    return text, tokens


@given(lines())
@settings(max_examples=300)
def test_encoding_and_decoding_gives_the_tokens_back(
    tokenizer, line: tuple[str, list[str]]
) -> None:
    text, expected = line
    pieces = tokenizer.text2tokens(text)
    decoded = tokenizer.tokens2text(pieces)
    assert split_mixed_text(decoded) == split_mixed_text(text) == expected
    assert decoded == no_blank_beside_han(text)
    # the mark alone only begins a word that has no piece for its beginning
    assert not any(
        mark == "▁" and following[0] == "▁"
        for mark, following in pairwise([*pieces, "▁"])
    )


@given(lines())
@settings(max_examples=200)
def test_only_rare_characters_become_unknown_and_each_becomes_one(
    tokenizer, converter, line: tuple[str, list[str]]
) -> None:
    """Through the ids that ESPnet trains on, and back as its decoding does."""
    text, expected = line
    ids = converter.tokens2ids(tokenizer.text2tokens(text))
    decoded = tokenizer.tokens2text(converter.ids2tokens(ids))
    kept = [
        UNKNOWN_MARK if has_han(token) and token not in UNITS else token
        for token in expected
    ]
    assert split_mixed_text(decoded) == kept
    assert ids.count(converter.token2id["<unk>"]) == kept.count(UNKNOWN_MARK)


@given(st.data())
@settings(max_examples=200)
def test_any_hypothesis_is_readable(
    tokenizer, tokens: list[str], data: st.DataObject
) -> None:
    """Whatever units a model puts in a row: no blank beside a Han character or the
    unknown mark, no character lost.
    """
    units = [token for token in tokens[1:-1] if token != "▁"]
    chosen = data.draw(st.lists(st.sampled_from(units), max_size=12))
    text = tokenizer.tokens2text(chosen)
    assert "▁" not in text and "  " not in text
    assert not re.search(
        rf"[{UNITS}{UNKNOWN_MARK}] | [{UNITS}{UNKNOWN_MARK}]", text.strip()
    )
    assert Counter(filter(has_han, split_mixed_text(text))) == Counter(
        token[1:] for token in chosen if has_han(token)
    )
    assert text.count(UNKNOWN_MARK) == chosen.count("<unk>")


def test_word_error_rate_of_espnet_counts_mixed_tokens(tokenizer) -> None:
    """ESPnet's training log joins the pieces and splits at the mark: Han characters are
    words there.
    """
    pieces = tokenizer.text2tokens("那个DOCTOR喜欢RED WINE")
    assert "".join(pieces).replace("▁", " ").split() == split_mixed_text(
        "那个DOCTOR喜欢RED WINE"
    )


def test_han_units_are_those_with_more_occurrences() -> None:
    texts = ["好" * 11, "的" * 10, "A的OK"]
    assert list_han_units(texts) == ["好", "的"]
    assert list_han_units(texts, 11) == []
    assert list_han_units(["的" * 10]) == []


def test_same_text_same_bytes() -> None:
    assert train_mixed_pieces(ENGLISH, 50).data == train_mixed_pieces(ENGLISH, 50).data


def test_a_small_text_gives_what_it_can() -> None:
    model = train_mixed_pieces(["THE RED WINE"], 5000)
    pieces = [piece for piece in model.pieces if not has_han(piece)]
    assert 38 < len(pieces) < 60


def test_too_few_pieces_are_refused() -> None:
    with pytest.raises(
        InputError,
        match=(
            "^37 English word pieces are too few for the text's letters: give 38 or "
            "more$"
        ),
    ):
        train_mixed_pieces(ENGLISH, 37)
    assert (
        len(
            [
                piece
                for piece in train_mixed_pieces(ENGLISH, 38).pieces
                if not has_han(piece)
            ]
        )
        == 38
    )


def test_han_in_the_english_text_is_refused() -> None:
    with pytest.raises(
        InputError, match="the English text holds Han characters .'喜欢RED WINE'"
    ):
        train_mixed_pieces(["RED WINE", "喜欢RED WINE"], 50)


@pytest.mark.parametrize(
    ("texts", "english"), [([], ENGLISH), ([" "], ENGLISH), (MIXED, []), (MIXED, [" "])]
)
def test_empty_text_is_refused_and_nothing_written(
    tmp_path: Path, texts: list[str], english: list[str]
) -> None:
    with pytest.raises(InputError, match="there is no text"):
        write_mixed_tokens(texts, english, tmp_path / "tokens", 50)
    assert list(tmp_path.iterdir()) == []


def table(path: Path, texts: list[str]) -> str:
    path.write_text(
        "".join(f"u{number:03d} {text}\n" for number, text in enumerate(texts)),
        encoding="utf-8",
    )
    return str(path)


def test_tokens_of_text_files(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture
) -> None:
    text, one, two = (tmp_path / name for name in ("text", "one", "two"))
    english = [table(one, ENGLISH[:6]), table(two, ENGLISH[6:])]
    make_mixed_tokens(table(text, [*MIXED, *ENGLISH]), english, tmp_path / "tokens", 60)
    assert capsys.readouterr().out.splitlines() == [
        f"67 tokens -> {tmp_path}/tokens/tokens.txt",
        "4 Han characters, 60 English word pieces",
    ]
    for name in ("tokens.txt", "prior.txt", "bpe.model"):
        assert (tmp_path / "tokens" / name).read_bytes() == (folder / name).read_bytes()
