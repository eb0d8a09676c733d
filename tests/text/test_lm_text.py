import gzip
import random
from collections import Counter

import pytest

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.text.lm_text import (
    read_sentences,
    sample_lines,
    write_lengths,
    write_split_lengths,
    write_splits,
)


def damaged(content: bytes) -> bytes:
    packed = bytearray(gzip.compress(content))
    packed[len(packed) // 2] ^= 0xFF
    return bytes(packed)


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_lines_are_distributed_over_sorted_tables(name, tmp_path, capsys):
    lines = [f"SENTENCE {number}" for number in range(1, 13)]
    content = "\n\n".join(lines).replace("SENTENCE 3", "  SENTENCE\t 3 ").encode()
    (tmp_path / name).write_bytes(
        gzip.compress(content) if name.endswith("gz") else content
    )
    output = tmp_path / "out" / "lm"
    assert write_splits(tmp_path / name, output, 5) == 12
    assert capsys.readouterr().out == f"12 sentences -> 5 files in {output}\n"
    tables = [read_table(output / f"split.{n}") for n in range(5)]
    assert all(list(table) == sorted(table) for table in tables)
    assert [len(table) for table in tables] == [2, 3, 3, 2, 2]
    assert {key: line for table in tables for key, line in table.items()} == {
        f"lm-{number:09d}": line for number, line in enumerate(lines, 1)
    }
    assert (output / "num_splits").read_text() == "5\n"


def test_text_that_cannot_be_read_is_refused_and_nothing_written(tmp_path):
    output = tmp_path / "lm"
    for name, content, message in (
        ("none.txt", None, "none.txt: no such file"),
        ("plain.gz", b"SENTENCE\n", "plain.gz: cannot be read"),
        ("damaged.gz", damaged(b"SENTENCE\n" * 999), "damaged.gz: cannot be read"),
        (
            "cut.gz",
            gzip.compress(b"SENTENCE\n" * 999, mtime=0)[:-20],
            "cut.gz: cannot be read",
        ),
        ("latin.txt", b"\xff\xfe", "latin.txt: cannot be read"),
        (
            "empty.txt",
            b"\n \n",
            "empty.txt: holds 0 lines of text, fewer than the 3 files",
        ),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            write_splits(tmp_path / name, output, 3)
    assert not output.exists()


@pytest.mark.parametrize("nj", [1, 2])
def test_lengths_are_those_of_sentencepiece(tmp_path, nj):
    import sentencepiece

    random.seed(0)
    lines = [
        " ".join(
            random.choices(["HELLO", "WORLD", "LANGUAGE", "MODEL", "A"], k=n % 7 + 1)
        )
        for n in range(40)
    ]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    sentencepiece.SentencePieceTrainer.train(
        input=str(tmp_path / "text.txt"),
        model_prefix=str(tmp_path / "bpe"),
        vocab_size=20,
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "bpe.model"))
    write_splits(tmp_path / "text.txt", tmp_path / "text", 3)
    write_split_lengths(
        tmp_path / "text", ["bpe", str(tmp_path / "bpe.model")], tmp_path / "shape", nj
    )
    for number in range(3):
        table, lengths = (
            read_table(tmp_path / name / f"split.{number}")
            for name in ("text", "shape")
        )
        assert lengths == {
            key: str(len(model.encode(line))) for key, line in table.items()
        }
    assert (tmp_path / "shape" / "num_splits").read_text() == "3\n"
    write_lengths(tmp_path / "text" / "split.0", ["char"], tmp_path / "chars")
    assert read_table(tmp_path / "chars") == {
        key: str(len(line))
        for key, line in read_table(tmp_path / "text" / "split.0").items()
    }


def test_a_sample_is_drawn_evenly_and_again_the_same():
    lines = [str(number) for number in range(20)]
    counts = Counter(
        line for seed in range(2000) for line in sample_lines(lines, 5, seed)
    )
    assert (
        min(counts.values()) > 400 and max(counts.values()) < 600
    )  # 500 each; a standard deviation is 19
    assert sample_lines(iter(lines), 5, 1) == sample_lines(lines, 5, 1)
    assert (
        sorted(sample_lines(lines, 20))
        == sorted(lines)
        == sorted(sample_lines(lines, None))
    )
    with pytest.raises(
        InputError, match="sentences must be a whole number of at least 1, not 1.5"
    ):
        sample_lines(lines, 1.5)


def test_sentences_of_text_and_of_transcripts(tmp_path):
    (tmp_path / "a.txt").write_text("ONE  CAT\n\nTWO CATS\n")
    (tmp_path / "text").write_text("u1 A DOG\nu2\n")
    assert list(read_sentences([tmp_path / "a.txt"], [tmp_path / "text"])) == [
        "ONE CAT",
        "TWO CATS",
        "A DOG",
    ]
