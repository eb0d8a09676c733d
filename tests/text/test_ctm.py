"""The one reader of CTM."""

import pytest

from espnet_ext.errors import InputError
from espnet_ext.text.ctm import CTMWord, read_ctm


def test_words_of_each_tool(tmp_path):
    lines = [
        ";; a comment",
        "r 1 0.5 0.25 five",
        "r A .5 1e-2 six 0.5",
        "",
        "s 1 2 0 seven NA lex bob",
        "s 1 2. 1 8 -1.5 lex <NA>",
    ]
    (tmp_path / "x.ctm").write_text("\n".join(lines) + "\n")
    assert list(read_ctm(tmp_path / "x.ctm")) == [
        CTMWord("r", "1", "five", 0.5, 0.75),
        CTMWord("r", "A", "six", 0.5, 0.51, 0.5),
        CTMWord("s", "1", "seven", 2.0, 2.0, None, "bob"),
        CTMWord("s", "1", "8", 2.0, 3.0, -1.5),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "r 1 0 1",  # no word
        "r 1 0 1 a 0.5 lex bob more",
        "r 1 -0.1 1 a",
        "r 1 0 -1 a",
        "r 1 nan 1 a",
        "r 1 0 1e999 a",
        "r 1 1_0 1 a",
        "r 1 ９ 1 a",
        "r 1 0 1 a high",
    ],
)
def test_a_line_of_another_format_is_refused(tmp_path, line):
    (tmp_path / "x.ctm").write_text(f"r 1 0 1 a\n{line}\n")
    with pytest.raises(InputError, match=r"x.ctm: line 2 is not `recording channel start duration word \[confidence"):
        list(read_ctm(tmp_path / "x.ctm"))
