"""Token lists and sentencepiece models."""

import io
import random
import tracemalloc

import pytest
import sentencepiece
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.text.tokens import (
    make_token_list,
    make_tokens,
    train_pieces,
    write_tokens,
)

TEXTS = [
    "THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG",
    "A LAZY DOG IS NOT A QUICK FOX",
    "THE DOG AND THE FOX ARE QUICK",
    "BROWN DOGS JUMP OVER BROWN FOXES",
]


def processor(data: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=data)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_vocabulary_has_the_size_asked_for(model_type):
    model = train_pieces(TEXTS, 32, model_type)
    # the unknown symbol is one of them
    assert len(model.pieces) == 31 and len(set(model.pieces)) == 31
    assert processor(model.data).get_piece_size() == 32 and "<unk>" not in model.pieces
    assert not {"<s>", "</s>", "<blank>"} & set(model.pieces)


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
@pytest.mark.parametrize(
    "texts", [TEXTS, ["A"], ["AB AB"], ["你好 世界"], ["ZERO ONE", "TWO"] * 9]
)
def test_too_large_a_vocabulary_falls_to_the_largest(model_type, texts):
    model = train_pieces(texts, 5000, model_type)
    size = len(model.pieces) + 1
    assert size < 5000
    assert train_pieces(texts, size, model_type).pieces == model.pieces
    # one more is what the text cannot give
    assert len(train_pieces(texts, size + 1, model_type).pieces) + 1 == size


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_same_text_gives_the_same_bytes(model_type):
    assert (
        train_pieces(TEXTS, 40, model_type).data
        == train_pieces(iter(TEXTS), 40, model_type).data
    )


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def pieces(request):
    return train_pieces(TEXTS, 60, request.param)


@given(
    st.lists(
        st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=1, max_size=9),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_encoding_and_decoding_gives_the_text_back(pieces, words):
    assert {letter for text in TEXTS for letter in text} == set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ "
    )
    text, model = " ".join(words), processor(pieces.data)
    encoded = model.encode(text, out_type=str)
    assert set(encoded) <= set(pieces.pieces)
    assert model.decode(encoded) == text


@given(
    st.lists(st.text("AB你好é'", min_size=1, max_size=6), min_size=1, max_size=6),
    st.sampled_from(["bpe", "unigram"]),
    st.integers(0, 60),
)
@settings(max_examples=60)
def test_any_text_gives_a_vocabulary_or_one_clear_line(texts, model_type, size):
    letters = {letter for text in texts for letter in text}
    try:
        model = train_pieces(texts, size, model_type)
    except InputError as error:
        assert f"no vocabulary of {size} word pieces can be learnt" in str(
            error
        ) and "\n" not in str(error)
        assert size < len(letters) + 2
    else:
        assert letters <= set(model.pieces) and len(model.pieces) < max(size, 2)
        for text in texts:
            assert (
                processor(model.data).decode(processor(model.data).encode(text)) == text
            )


def test_pieces_are_those_of_the_whole_texts():
    """Counts of words give what sentencepiece learns from the texts themselves."""
    rng = random.Random(0)
    words = [
        "".join(rng.choices("abcdefghij", k=rng.randint(2, 9))) for _ in range(300)
    ]
    texts = [
        " ".join(rng.choices(words, weights=range(300, 0, -1), k=rng.randint(1, 90)))
        for _ in range(100)
    ]
    data = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=data,
        model_type="bpe",
        vocab_size=150,
        bos_id=-1,
        eos_id=-1,
        unk_id=0,
        character_coverage=1.0,
        minloglevel=2,
    )
    model = processor(data.getvalue())
    assert train_pieces(iter(texts), 150).pieces == tuple(
        model.id_to_piece(index) for index in range(1, 150)
    )


def test_texts_larger_than_memory_are_read_line_by_line(tmp_path):
    """7 MB of a few long words: the peak of Python's memory is far below."""
    line = " ".join([20 * "the", 20 * "cat", 20 * "sat", 20 * "on", 20 * "mat"] * 79)
    with (tmp_path / "text").open("w") as file:
        file.writelines(f"u{number:04d} {line}\n" for number in range(300))
    tracemalloc.start()
    make_tokens(tmp_path / "text", tmp_path / "tokens", "bpe", 12)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (tmp_path / "text").stat().st_size > 6.5e6 and peak < 4e6


def test_long_transcripts_are_not_left_out():
    """sentencepiece skips texts above 4,192 bytes by default."""
    long = " ".join(["ZERO"] * 2000)
    assert set("ZERO") <= set(train_pieces([long, "NINE"], 12, "bpe").pieces)
    assert "▁ZERO" in train_pieces([long], 12, "bpe").pieces


@pytest.mark.parametrize("token_type", ["bpe", "unigram", "char", "word"])
@pytest.mark.parametrize("texts", [[], [""], ["  ", "\t"]])
def test_empty_text_is_refused_and_nothing_written(tmp_path, token_type, texts):
    with pytest.raises(InputError, match="there is no text"):
        write_tokens(texts, tmp_path / "tokens", token_type, 10)
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize(
    ("text", "symbols"),
    [("\u200b", []), ("▁", []), ("\x7f \ufeff", []), ("<sc> <sc>", ["▁<sc>"])],
)
def test_text_of_which_sentencepiece_leaves_nothing_is_refused(text, symbols):
    with pytest.raises(
        InputError, match="there is no text"
    ):  # its trainer would end the process
        train_pieces([text], 5, "unigram", symbols)
    assert "a" in "".join(train_pieces([text, "a"], 9, "unigram", symbols).pieces)


@pytest.mark.parametrize("symbol", ["<blank>", "<unk>", "<sos/eos>"])
def test_espnets_own_symbols_are_refused(tmp_path, symbol):
    with pytest.raises(InputError, match=f"'{symbol}'"):
        make_token_list(["A", symbol])
    with pytest.raises(InputError, match=f"'{symbol}'"):
        write_tokens([f"A {symbol} B"], tmp_path, "word")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("token_type", "expected"),
    [("char", ["<space>", "A", "B", "é", "好"]), ("word", ["A", "AB", "é好"])],
)
def test_characters_and_words(tmp_path, token_type, expected):
    tokens = write_tokens(["AB A", "é好\u3000A\xa0A"], tmp_path, token_type)
    assert tokens == ["<blank>", "<unk>", *expected, "<sos/eos>"]
    # as ESPnet reads it
    assert [
        line.rstrip() for line in (tmp_path / "tokens.txt").open(encoding="utf-8")
    ] == tokens
    assert not (tmp_path / "bpe.model").exists()


def test_tokens_of_a_kaldi_text(tmp_path, capsys):
    text, output = tmp_path / "text", tmp_path / "tokens"
    with pytest.raises(InputError, match="text: no such file"):
        make_tokens(text, output, "bpe", 40)
    text.write_text("")
    with pytest.raises(InputError, match="text: empty file"):
        make_tokens(text, output, "bpe", 40)
    assert not output.exists()
    text.write_text("".join(f"u{number} {line}\n" for number, line in enumerate(TEXTS)))
    assert (
        make_tokens(text, output, "bpe", 40)
        == (output / "tokens.txt").read_text().splitlines()
    )
    assert capsys.readouterr().out == f"42 tokens -> {output}/tokens.txt\n"
    tokens = make_tokens(text, output, "bpe", 9000)
    assert capsys.readouterr().out.splitlines()[1] == (
        f"The text gives only {len(tokens) - 2} word pieces; 9000 were asked for."
    )


@pytest.mark.parametrize("token_type", ["bpe", "unigram", "char", "word"])
def test_symbols_are_one_token_in_espnets_tokenizer(token_type, tmp_path):
    from espnet2.text.build_tokenizer import build_tokenizer

    texts = ["THE FOX <sc> A DOG <sc> THE DOG", "A FOX"]
    tokens = write_tokens(texts, tmp_path, token_type, 24, ["<sc>"])
    symbol = "▁<sc>" if token_type in ("bpe", "unigram") else "<sc>"
    assert tokens.count(symbol) == 1 and not set("<>") & set(tokens)
    (tmp_path / "symbols").write_text("<sc>\n")
    kind, model = (
        ("bpe", str(tmp_path / "bpe.model")) if symbol != "<sc>" else (token_type, None)
    )
    tokenizer = build_tokenizer(
        kind, bpemodel=model, non_linguistic_symbols=tmp_path / "symbols"
    )
    found = tokenizer.text2tokens(texts[0])
    assert found.count(symbol) == 2 and set(found) <= set(tokens)
    assert tokenizer.tokens2text(found).split() == texts[0].split()
    # its prior is counted as that of any other token
    prior = dict(
        line.split() for line in (tmp_path / "prior.txt").read_text().splitlines()
    )
    assert float(prior[symbol]) > float(prior["<unk>"])


def test_normalisation_is_kept_in_the_model(tmp_path):
    """With case folding, tokens have no capitals, and text with capitals gets the same
    tokens.
    """
    texts = ["The Cat sat", "the CAT Sat down", "THE DOG sat"] * 5
    tokens = write_tokens(texts, tmp_path, "bpe", 20, normalisation="nmt_nfkc_cf")
    assert all(token == token.lower() for token in tokens)
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "bpe.model"))
    assert model.encode("The CAT", out_type=str) == model.encode(
        "the cat", out_type=str
    )
