import gzip
from collections import Counter

import pytest

from espnet_ext.data.kaldi_tables import read_table
from espnet_ext.data.lm_text import sample, sentences, write_lm_text
from espnet_ext.errors import InputError


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_lines_become_a_sorted_table(name, tmp_path, capsys):
    lines = [f"SENTENCE {number}" for number in range(12)]
    content = "\n\n".join(lines).replace("SENTENCE 3", "  SENTENCE\t 3 ").encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert write_lm_text(tmp_path / name, tmp_path / "out" / "lm") == 12
    assert capsys.readouterr().out == f"12 sentences -> {tmp_path}/out/lm\n"
    assert list(read_table(tmp_path / "out" / "lm", require_sorted=True).values()) == lines


def test_text_that_cannot_be_read_is_refused_and_nothing_written(tmp_path):
    output = tmp_path / "lm"
    for name, content, message in (
        ("none.txt", None, "none.txt: no such file"),
        ("plain.gz", b"SENTENCE\n", "plain.gz: cannot be read"),
        ("cut.gz", gzip.compress(b"SENTENCE\n" * 999)[:-20], "cut.gz: cannot be read"),
        ("latin.txt", b"\xff\xfe", "latin.txt: cannot be read"),
        ("empty.txt", b"\n \n", "empty.txt: holds no text"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=message):
            write_lm_text(tmp_path / name, output)
    assert not output.exists()


def test_a_sample_is_drawn_evenly_and_again_the_same():
    lines = [str(number) for number in range(20)]
    counts = Counter(line for seed in range(2000) for line in sample(lines, 5, seed))
    assert min(counts.values()) > 400 and max(counts.values()) < 600  # 500 each; a standard deviation is 19
    assert sample(iter(lines), 5, 1) == sample(lines, 5, 1)
    assert sorted(sample(lines, 20)) == sorted(lines) == sorted(sample(lines, None))
    with pytest.raises(InputError, match="sentences must be a whole number of at least 1, not 1.5"):
        sample(lines, 1.5)


def test_sentences_of_text_and_of_transcripts(tmp_path):
    (tmp_path / "a.txt").write_text("ONE  CAT\n\nTWO CATS\n")
    (tmp_path / "text").write_text("u1 A DOG\nu2\n")
    assert list(sentences([tmp_path / "a.txt"], [tmp_path / "text"])) == ["ONE CAT", "TWO CATS", "A DOG"]
