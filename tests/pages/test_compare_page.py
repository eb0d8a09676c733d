"""The page and the tables of a comparison."""

import json
import re

from espnet_ext.pages.compare import confusions, page_data, write_comparison
from espnet_ext.scoring.alignments import Measure
from espnet_ext.scoring.comparison import System, compare_systems
from espnet_ext.scoring.comparison_tables import what_is_covered


def compared(folder, rate="wer"):
    (folder / "ref").write_text("u1 one two </script>\nu2 one\nu3 three\n")
    (folder / "a").write_text("u1 one too </script>\nu2 one one\nu3 three\n")
    (folder / "b").write_text("u1 one two\nu2 one\nu3 three\n")
    systems = [System("A & B", (folder / "a", folder / "a")), System("b_1", (folder / "b", folder / "b"))]
    return compare_systems(folder / "ref", systems, Measure(rate))


def test_data_of_the_page(tmp_path):
    found = page_data(compared(tmp_path), most=2)
    assert found["systems"] == [{"name": "A & B", "files": ["a", "a"]}, {"name": "b_1", "files": ["b", "b"]}]
    assert found["total"] == 3 and [row[0] for row in found["rows"]] == ["u1", "u2"], "the worst"
    assert found["rows"][0] == ["u1", "", "one two </script>", 0, [[["CSC", "too"]] * 2, [["CCD", ""]] * 2]]
    assert found["rows"][1][4] == [[["CI", "one"]] * 2, [["C", ""]] * 2]


def test_blanks_that_count_show(tmp_path):
    row = page_data(compared(tmp_path, "cer"), most=1)["rows"][0]
    assert row[2].split(" ") == list("one\u2423two\u2423</script>")


def test_most_frequent_errors(tmp_path):
    assert confusions(compared(tmp_path)) == [
        {"kind": "Substituted", "rows": [{"said": "two", "heard": "too", "counts": ["1", "0"]}]},
        {"kind": "Deleted", "rows": [{"said": "</script>", "heard": "", "counts": ["0", "1"]}]},
        {"kind": "Inserted", "rows": [{"said": "", "heard": "one", "counts": ["1", "0"]}]},
    ]


def test_files(tmp_path):
    result = compared(tmp_path)
    write_comparison(tmp_path / "out", result)
    page = (tmp_path / "out" / "compare.html").read_text(encoding="utf-8")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert json.loads(data[1]) == page_data(result, 10), "text cannot end the script"
    assert not re.search(r"""(src|href)=["'](?!data:|#)""", page), "nothing is loaded"
    assert "A &amp; B" in page
    assert json.loads((tmp_path / "out" / "compare.json").read_text()) == result.result
    latex = (tmp_path / "out" / "compare.tex").read_text()
    assert r"A \& B" in latex and r"b\_1" in latex and r"\toprule" in latex
    assert "| A & B    | 40.00 ± 0.00 |" in (tmp_path / "out" / "compare.md").read_text()


def test_what_the_test_is_about(tmp_path):
    assert what_is_covered(compared(tmp_path).result) == (
        "The test covers other utterances. Of A & B and b_1 it takes the outputs as given: other trainings need three "
        "seeds a system. With so few utterances an exact sign-flip test must agree; p is at least 0.25. Utterances "
        "that share a speaker are not independent: give --utt2spk."
    )
