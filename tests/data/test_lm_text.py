import gzip

import pytest

from espnet_ext.bin.lm_text import main
from espnet_ext.data.kaldi import read_table
from espnet_ext.data.lm_text import write_lm_text
from espnet_ext.errors import InputError


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_lines_become_a_sorted_table(name, tmp_path):
    lines = [f"SENTENCE {number}" for number in range(12)]
    content = "\n\n".join(lines).replace("SENTENCE 3", "  SENTENCE\t 3 ").encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    main(["--text", str(tmp_path / name), "--output", str(tmp_path / "out" / "lm")])
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
