"""The picture of a recording: which words are errors, and that all of them are drawn."""

from recording_figure import (
    DELETED,
    INSERTED,
    MARKS,
    RIGHT,
    SUBSTITUTED,
    as_values,
    compare,
    draw_recording,
    draw_values,
)

from espnet_ext.scoring.error_rate import count_errors

REFERENCE = [("ONE", (0.0, 1.0)), ("TWO", (1.0, 2.0)), ("SIX", (9.0, 10.0))]
HEARD = [("ONE", (0.1, 0.9)), ("TEN", (1.0, 2.0)), ("NINE", (12.0, 12.5))]


def test_errors_are_those_that_scoring_counts():
    real, heard = compare(REFERENCE, [*HEARD, ("FIVE", (13.0, 13.2))])
    counts = count_errors([word for word, _ in REFERENCE], ["ONE", "TEN", "NINE", "FIVE"])
    kinds = [word.kind for word in heard]
    assert kinds.count(SUBSTITUTED) == counts.substitutions
    assert kinds.count(INSERTED) == counts.insertions and kinds.count(RIGHT) == counts.correct
    real, heard = compare(REFERENCE, HEARD[:1])
    assert [word.kind for word in real] == [RIGHT, DELETED, DELETED]
    assert [(word.text, word.start) for word in heard] == [("ONE", 0.1), ("", 1.0), ("", 9.0)]


def test_each_word_stands_in_its_line_with_its_mark():
    figure = draw_recording("r", {"a": compare(REFERENCE, HEARD), "b": ([], [])}, [(0.0, 8.0), (4.0, 13.0)], 13.0)
    lines = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    assert len(lines) == 2
    for wanted in ("one", "≠ten", "≠two"):
        assert wanted in lines[0]
    assert "≠six" in lines[1] and "≠nine" in lines[1]
    assert [sum(text.startswith("window") for text in line) for line in lines] == [2, 1]
    assert len({mark for _, mark in MARKS.values()}) == len(MARKS) == len({colour for colour, _ in MARKS.values()})


def test_kept_data_give_the_same_picture():
    speakers = {"a": compare(REFERENCE, HEARD), "b": ([], [])}
    direct = draw_recording("r: reference (ref) and transcript (hyp) of each speaker", speakers, [(0.0, 8.0)], 13.0)
    kept = draw_values(as_values("r", speakers, [(0.0, 8.0)], 13.0))
    for one, other in zip(direct.axes, kept.axes, strict=True):
        assert [(text.get_text(), text.get_position()) for text in one.texts] == [
            (text.get_text(), text.get_position()) for text in other.texts
        ]
