"""The page and the tables of a comparison."""

import json
import re

from espnet_ext.pages.compare import write_comparison
from espnet_ext.scoring.alignments import Measure
from espnet_ext.scoring.comparison import System, compare_systems


def compared(folder, rate="wer"):
    (folder / "ref").write_text("u1 one two </script>\nu2 one\nu3 three\n")
    (folder / "a").write_text("u1 one too </script>\nu2 one one\nu3 three\n")
    (folder / "b").write_text("u1 one two\nu2 one\nu3 three\n")
    systems = [
        System("A & B", (folder / "a", folder / "a")),
        System("b_1", (folder / "b", folder / "b")),
    ]
    return compare_systems(folder / "ref", systems, Measure(rate))


def data_of(path) -> dict:
    page = path.read_text(encoding="utf-8")
    [data] = json.loads(
        re.search(
            r'<script type="application/json" id="data">(.*?)</script>', page, re.S
        )[1]
    )
    return data


def test_files(tmp_path):
    result = compared(tmp_path)
    write_comparison(tmp_path / "out", result)
    page = (tmp_path / "out" / "compare.html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page), "nothing is loaded"
    assert "A &amp; B" in page
    assert json.loads((tmp_path / "out" / "compare.json").read_text()) == result.result
    assert "40.00 ± 0.00" in page
    found = data_of(tmp_path / "out" / "compare.html")
    assert found["systems"] == [
        {"name": "A & B", "files": ["1 a", "2 a"]},
        {"name": "b_1", "files": ["1 b", "2 b"]},
    ]
    assert found["total"] == 3 and [row[0] for row in found["rows"]] == [
        "u1",
        "u2",
        "u3",
    ], "the worst first"
    assert found["rows"][0][2:] == [
        "one two </script>",
        0,
        [[["CSC", "too"]] * 2, [["CCD", ""]] * 2],
        None,
    ]
    assert found["rows"][1][4] == [[["CI", "one"]] * 2, [["C", ""]] * 2]


def test_blanks_that_count_show(tmp_path):
    write_comparison(tmp_path / "out", compared(tmp_path, "cer"))
    row = data_of(tmp_path / "out" / "compare.html")["rows"][0]
    assert row[2].split(" ") == list("one\u2423two\u2423</script>")
