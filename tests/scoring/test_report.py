"""Reports: the aligned text and the files in the folder."""

import json
import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.scoring import report
from espnet_ext.scoring.error_rate import align
from espnet_ext.scoring.report import alignment_blocks, format_alignment, summarise, write_reports
from espnet_ext.scoring.score import score_texts

REFERENCE = {"al-1": "one two three", "bo-1": "five six"}
HYPOTHESIS = {"al-1": "one too three four", "bo-1": "six"}
SPEAKERS = {"al-1": "al", "bo-1": "bo"}


def columns(text: str) -> int:
    """Width in a terminal, for the characters of the tests below."""
    return sum(
        0 if unicodedata.category(character) == "Mn" else 2 if "\u4e00" <= character <= "\u9fff" else 1
        for character in text
    )


def test_a_block_an_utterance():
    assert "".join(alignment_blocks(score_texts(REFERENCE, HYPOTHESIS))) == (
        "id: (al-1)\n"
        "Scores: (#C #S #D #I) 2 1 0 1\n"
        "REF:  one two three ****\n"
        "HYP:  one too three four\n"
        "EVAL:     S         I\n"
        "\n"
        "id: (bo-1)\n"
        "Scores: (#C #S #D #I) 1 0 1 0\n"
        "REF:  five six\n"
        "HYP:  **** six\n"
        "EVAL: D\n"
        "\n"
    )


def test_han_takes_two_columns_and_combining_marks_none():
    assert format_alignment([("你好", "hello"), ("e\u0301", "x"), ("好", None)]) == (
        "REF:  你好  e\u0301 好\nHYP:  hello x **\nEVAL: S     S D\n"
    )


def test_a_counted_space_can_be_seen():
    score = score_texts({"u": "a b"}, {"u": "ab"}, unit="char")
    assert "REF:  a \u2423 b\nHYP:  a * b\nEVAL:   D\n" in "".join(alignment_blocks(score))


WORDS = st.lists(st.sampled_from(["a", "bbb", "你好", "e\u0301", "*", "cc"]), max_size=8)


@given(WORDS, WORDS)
@settings(max_examples=100, deadline=None)
def test_marks_stand_at_the_beginning_of_their_words(reference, hypothesis):
    pairs = align(reference, hypothesis)
    rows = [line[6:] for line in format_alignment(pairs).splitlines()]
    start = 0
    for left, right in pairs:
        mark = "I" if left is None else "D" if right is None else " " if left == right else "S"
        for row, word in zip(rows, (left, right, mark), strict=True):
            at = next((n for n in range(len(row) + 1) if columns(row[:n]) == start), len(row))
            assert row[at:].startswith((word or "*").rstrip())
        start += 1 + max(columns(left or ""), columns(right or ""))


def test_a_table_too_large_for_memory_is_not_aligned(monkeypatch):
    monkeypatch.setattr(report, "MAX_ALIGNMENT_CELLS", 3)
    text = "".join(alignment_blocks(score_texts(REFERENCE, HYPOTHESIS)))
    assert "(too long to align: 3 x 4)\n\n" in text
    assert "HYP:  **** six\n" in text


def test_summary_holds_what_tables_read():
    score = score_texts(REFERENCE, HYPOTHESIS)
    summary = summarise(score, replicas=500, seed=3, normaliser="lower")
    assert summary.pop("ci95") == [round(100 * limit, 4) for limit in score.interval(replicas=500, seed=3)]
    assert summary == {
        "unit": "word",
        "value": 60.0,
        "errors": 3,
        "words": 5,
        "correct": 3,
        "substitutions": 1,
        "deletions": 1,
        "insertions": 1,
        "utterances": 2,
        "sentence_error_rate": 100.0,
        "normaliser": "lower",
        "bootstrap": {"replicas": 500, "seed": 3, "resample": "utterance"},
    }


def test_reports_are_written_and_stale_ones_deleted(tmp_path):
    score = score_texts(REFERENCE, HYPOTHESIS, utt2spk=SPEAKERS)
    summary = summarise(score, replicas=10)
    write_reports(tmp_path / "new" / "folder", score, summary)
    folder = tmp_path / "new" / "folder"
    assert json.loads((folder / "score.json").read_text()) == summary
    assert (folder / "per_utterance.tsv").read_text() == (
        "id\twords\tcorrect\tsub\tdel\tins\nal-1\t3\t2\t1\t0\t1\nbo-1\t2\t1\t0\t1\t0\n"
    )
    assert (folder / "per_speaker.tsv").read_text() == (
        "id\twords\tcorrect\tsub\tdel\tins\nal\t3\t2\t1\t0\t1\nbo\t2\t1\t0\t1\t0\n"
    )
    assert (folder / "alignment.txt").read_text().count("id: (") == 2

    write_reports(folder, score_texts(REFERENCE, HYPOTHESIS), summary, alignment=False)
    assert sorted(path.name for path in folder.iterdir()) == ["per_utterance.tsv", "score.json"]
