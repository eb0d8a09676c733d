"""Reports: the aligned text and the files in the folder."""

import json
import unicodedata
from io import StringIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.scoring.alignment_file import (
    format_alignment,
    format_alignment_blocks,
    format_speaker_blocks,
    parse_alignment,
    read_alignment,
)
from espnet_ext.scoring.alignments import Measure
from espnet_ext.scoring.comparison import System, compare_systems
from espnet_ext.scoring.error_rate import ErrorRate, align, bootstrap_interval
from espnet_ext.scoring.mixed import score_mixed_texts
from espnet_ext.scoring.score import score_texts
from espnet_ext.scoring.score_files import (
    describe_interval,
    evaluate,
    summarise,
    write_reports,
)
from espnet_ext.scoring.significance import estimate_interval
from espnet_ext.scoring.speaker_attributed import score_speakers
from espnet_ext.text.words import Segment

REFERENCE = {"al-1": "one two three", "bo-1": "five six"}
HYPOTHESIS = {"al-1": "one too three four", "bo-1": "six"}
SPEAKERS = {"al-1": "al", "bo-1": "bo"}


def columns(text: str) -> int:
    """Width in a terminal, for the characters of the tests below."""
    return sum(
        0 if unicodedata.category(c) == "Mn" else 2 if "\u4e00" <= c <= "\u9fff" else 1
        for c in text
    )


def test_a_block_an_utterance():
    assert "".join(format_alignment_blocks(score_texts(REFERENCE, HYPOTHESIS))) == (
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


WORDS = st.lists(
    st.sampled_from(["a", "bbb", "你好", "e\u0301", "*", "cc"]), max_size=8
)


@given(WORDS, WORDS)
@settings(max_examples=100)
def test_marks_stand_at_the_beginning_of_their_words(reference, hypothesis):
    pairs = align(reference, hypothesis)
    rows = [line[6:] for line in format_alignment(pairs).splitlines()]
    start = 0
    for left, right in pairs:
        mark = (
            "I"
            if left is None
            else "D"
            if right is None
            else " "
            if left == right
            else "S"
        )
        for row, word in zip(rows, (left, right, mark), strict=True):
            at = next(
                (n for n in range(len(row) + 1) if columns(row[:n]) == start), len(row)
            )
            assert row[at:].startswith((word or "*").rstrip())
        start += 1 + max(columns(left or ""), columns(right or ""))


def test_summary_holds_what_tables_read():
    score = score_texts(REFERENCE, HYPOTHESIS)
    summary = summarise(score, normaliser="lower")
    assert summary.pop("ci95") == [
        round(100 * limit, 4)
        for limit in bootstrap_interval([*score.utterances.values()])
    ]
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
        "interval": {
            "unit": "utterance",
            "number": 2,
            "method": "bootstrap",
            "replicas": 10_000,
            "seed": 0,
        },
    }


def test_one_utterance_has_no_interval():
    """Nor has one beside others that say nothing."""
    for reference in ({"u": "a b"}, {"u": "a b", "v": ""}):
        hypothesis = {**reference, "u": "a c"}
        summary = summarise(score_texts(reference, hypothesis))
        assert summary["value"] == 50.0 and summary["ci95"] is None
        assert describe_interval(summary).startswith("no interval")


def test_reports_are_written_and_stale_ones_deleted(tmp_path):
    score = score_texts(REFERENCE, HYPOTHESIS, utt2spk=SPEAKERS)
    summary = summarise(score)
    write_reports(tmp_path / "new" / "folder", score, summary)
    folder = tmp_path / "new" / "folder"
    assert json.loads((folder / "score.json").read_text()) == summary
    assert (folder / "per_utterance.tsv").read_text() == (
        "id\twords\tcorrect\tsub\tdel\tins\tspeaker\nal-1\t3\t2\t1\t0\t1\tal\nbo-1\t2\t1\t0\t1\t0\tbo\n"
    )
    assert (folder / "per_speaker.tsv").read_text() == (
        "id\twords\tcorrect\tsub\tdel\tins\nal\t3\t2\t1\t0\t1\nbo\t2\t1\t0\t1\t0\n"
    )
    assert (folder / "alignment.txt").read_text().count("id: (") == 2

    write_reports(folder, score_texts(REFERENCE, HYPOTHESIS), summary)
    assert sorted(path.name for path in folder.iterdir()) == [
        "alignment.txt",
        "per_utterance.tsv",
        "score.json",
    ]
    table = (folder / "per_utterance.tsv").read_text()
    assert table.startswith("id\twords\tcorrect\tsub\tdel\tins\nal-1\t3\t2\t1\t0\t1\n")


def test_parts_are_summarised_and_written_each_in_its_folder(tmp_path):
    reference, hypothesis = (
        {"u1": "我想 go home", "u2": "好的"},
        {"u1": "我想 home", "u2": "好 ok"},
    )
    score = score_mixed_texts(reference, hypothesis, utt2spk={"u1": "a", "u2": "b"})
    summary = summarise(score)
    write_reports(tmp_path, score, summary)
    assert json.loads((tmp_path / "score.json").read_text()) == summary
    assert (summary["unit"], summary["errors"], summary["words"]) == ("mixed", 2, 6)
    han, english = summary["measures"]["CH"], summary["measures"]["EN"]
    # What replaced the second character counts for the reference's language.
    assert (han["errors"], han["words"], han["value"], han["sentence_error_rate"]) == (
        1,
        4,
        25.0,
        50.0,
    )
    assert (english["errors"], english["words"], english["value"]) == (1, 2, 50.0)
    assert english["ci95"] is None  # only one of them speaks it
    assert {path.name for path in (tmp_path / "parts").iterdir()} == set(
        summary["measures"]
    )
    assert (tmp_path / "parts" / "EN" / "per_utterance.tsv").read_text() == (
        "id\twords\tcorrect\tsub\tdel\tins\tspeaker\nu1\t2\t1\t0\t1\t0\ta\nu2\t0\t0\t0\t0\t0\tb\n"
    )
    assert (tmp_path / "parts" / "CH" / "per_speaker.tsv").read_text().splitlines()[
        2
    ] == "b\t2\t1\t1\t0\t0"
    none = summarise(score_mixed_texts({"u": "好的"}, {"u": "好 ok"}))["measures"]["EN"]
    assert (none["value"], none["ci95"], none["words"], none["errors"]) == (
        None,
        None,
        0,
        0,
    )
    lines = (tmp_path / "measures.txt").read_text().splitlines()
    assert summary["interval"] == {"unit": "speaker", "number": 2, "method": "t"}
    low, high = estimate_interval([[1, 1]], [4, 2])
    assert lines[2].split() == [
        "All",
        "33.33",
        f"{100 * low:.2f}",
        "to",
        f"{100 * high:.2f}",
        "6",
        "2",
        "1",
        "1",
        "0",
    ]
    assert (
        (tmp_path / "alignment.txt")
        .read_text()
        .startswith("id: (u1)\nScores: (#C #S #D #I) 3 0 1 0\nREF:  我 想 go")
    )

    write_reports(tmp_path, score_texts(REFERENCE, HYPOTHESIS), summary)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "alignment.txt",
        "per_utterance.tsv",
        "score.json",
    ]


# Asterisks are words here too, though a gap looks like them; so are wide, combining and
# zero-width characters.
TEXT = st.lists(
    st.sampled_from(
        ["a", "b", "*", "**", "a-word", "我", "é", "e\u0301", "\u200d", "S", "REF:"]
    ),
    max_size=8,
)


@given(TEXT.filter(bool), TEXT)
def test_words_come_back(reference, hypothesis):
    text = "".join(
        format_alignment_blocks(
            score_texts({"u": " ".join(reference)}, {"u": " ".join(hypothesis)})
        )
    )
    (block,) = parse_alignment(StringIO(text))
    assert list(block.pairs) == align(reference, hypothesis)


def test_characters_and_mixed_text():
    text = "".join(
        format_alignment_blocks(score_texts({"u": "a bc"}, {"u": "ab"}, unit="char"))
    )
    (block,) = parse_alignment(StringIO(text))
    assert [left for left, _ in block.pairs if left] == ["a", "\u2423", "b", "c"]
    text = "".join(
        format_alignment_blocks(
            score_mixed_texts({"u": "我想 go home"}, {"u": "我 go hum 吧"})
        )
    )
    (block,) = parse_alignment(StringIO(text))
    assert block.pairs == (
        ("我", "我"),
        ("想", None),
        ("go", "go"),
        ("home", "hum"),
        (None, "吧"),
    )


def test_speakers_of_a_recording():
    def turn(speaker, words):
        return Segment("r1", speaker, tuple(words.split()), 0.0, 1.0)

    result = score_speakers(
        [turn("ann", "one two"), turn("bob", "three")],
        [turn("ann", "one"), turn("eve", "x")],
    )
    blocks = {
        block.speaker: block
        for block in parse_alignment(
            "".join(format_speaker_blocks(result.pairs)).splitlines(True)
        )
    }
    assert list(blocks) == ["ann", "bob", "eve"] and {
        block.key for block in blocks.values()
    } == {"r1"}
    assert blocks["ann"].pairs == (("one", "one"), ("two", None))
    assert blocks["eve"].counts == ErrorRate(0, 0, 0, 1)


GOOD = "id: (u)\nScores: (#C #S #D #I) 1 1 0 0\nREF:  a b\nHYP:  a c\nEVAL:   S\n\n"


@pytest.mark.parametrize(
    "bad",
    [
        GOOD.replace("id: (u)", "utterance u"),
        GOOD.replace("1 1 0 0", "2 0 0 0"),
        GOOD.replace("HYP:  a c", "HYP:  a"),
        GOOD.replace("HYP:  a c\n", ""),
        GOOD.replace("  S\n", "  D\n"),
        GOOD.replace("  S\n", "  X\n"),
        GOOD.removesuffix("\n"),
        GOOD[:40],
    ],
)
def test_what_scoring_did_not_write_is_refused(tmp_path, bad):
    path = tmp_path / "alignment.txt"
    path.write_text(GOOD + bad, encoding="utf-8")
    with pytest.raises(InputError, match=r"alignment\.txt: line 7: "):
        list(read_alignment(path))


def test_segments_are_scored_as_sclite_does(tmp_path):
    """By hand, with sclite's costs: shifted words are inserted and deleted."""
    (tmp_path / "r.stm").write_text(
        "m A ann 0 2 a b c d e\nm A gap 2 3 ignore_time_segment_in_scoring\n"
        "m A bob 3 5 (uh) Yes @ (i-) go;x\nm B eve 0 1 six\n"
    )
    words = "d;x e x y z go noise yes go"
    starts = (0.1, 0.3, 0.5, 0.7, 1.0, 1.9, 2.5, 3.1, 9.0)
    timed = zip(starts, words.split(), strict=True)
    (tmp_path / "h.ctm").write_text(
        "".join(f"m A {start} 0.05 {word}\n" for start, word in timed)
    )
    files = tmp_path / "r.stm", tmp_path / "h.ctm"
    score, summary = evaluate(*files, tmp_path / "out", by_segment=True)
    assert {key: each.counts for key, each in score.utterances.items()} == {
        "m/A-00001": (2, 0, 3, 4),
        "m/A-00003": (4, 0, 0, 0),
        "m/B-00001": (0, 0, 1, 0),
    }
    assert summary["interval"] == {"unit": "speaker", "number": 3, "method": "t"}
    read = list(read_alignment(tmp_path / "out" / "alignment.txt"))
    assert [each.counts for each in read] == list(score.utterances.values())
    with pytest.raises(InputError, match=r"h\.ctm is ctm"):
        evaluate(files[1], files[1], by_segment=True)


@pytest.mark.parametrize("word", ["a;x", "@", "(i-)"])
def test_what_sclite_reads_otherwise_is_named(tmp_path, capsys, word):
    (tmp_path / "r.trn").write_text(f"b {word} c (u1)\n")
    evaluate(tmp_path / "r.trn", tmp_path / "r.trn")
    assert f"r.trn: `{word}`" in capsys.readouterr().err
    systems = [System(name, (tmp_path / "r.trn",)) for name in "ab"]
    found = compare_systems(tmp_path / "r.trn", systems, Measure()).result
    assert f"r.trn: `{word}`" in found["warnings"][0]
