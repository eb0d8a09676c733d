"""What stitchers read: windows as token sequences, and the files of training pairs."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from text_windows import windows

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.stitch.stitcher.long_recordings import merge_parts
from espnet_ext.stitch.stitcher.pairs import (
    GAP,
    SYMBOLS,
    WINDOW_CHANGE,
    make_examples,
    make_pairs,
    serialise_windows,
)
from espnet_ext.stitch.stitcher.simulated_errors import (
    SimulatedErrors,
    simulate_recordings,
)
from espnet_ext.text.tokens import write_tokens
from espnet_ext.text.window_hypotheses import group_by_speaker
from espnet_ext.text.windows import Windowing
from espnet_ext.text.words import Segment
from espnet_ext.text.writing import write_hypotheses, write_segments


def test_serialised():
    assert serialise_windows(windows("A B", "", "C"), "wc") == (
        ("A", "B", "<wc>", "<wc>", "C"),
    )
    assert serialise_windows(windows("A B", "", "C"), "wco_wce") == (
        ("<wco>", "A", "B", "<wce>", "<wco>", "C"),
    )
    assert serialise_windows(windows("A B"), "wc") == (("A", "B"),)


def test_aligned():
    odd, even = serialise_windows(windows("A B C", "B C D", "D E"), "alignment")
    assert " ".join(odd) == "A B C <wc> D E"
    assert " ".join(even) == "<gap> B C <gap> D <gap>"


@pytest.mark.parametrize(("within", "even"), [(1.0, (GAP, "A")), (None, ("A",))])
def test_alignment_by_times_or_by_papers_rule(within, even):
    """A word at 1 s and the same word at 20 s: P4's rule makes a pair of them."""
    early = Segment("r", "a", ("A",), 0.0, 16.0, window=0, times=((1.0, 2.0),))
    late = Segment("r", "a", ("A",), 8.0, 24.0, window=1, times=((20.0, 21.0),))
    assert serialise_windows([early, late], "alignment", within) == (
        ("A", GAP)[: len(even)],
        even,
    )


TEXTS = st.lists(
    st.lists(st.sampled_from("ABC"), max_size=5).map(" ".join), min_size=1, max_size=7
)


@given(TEXTS)
@settings(max_examples=60)
def test_nothing_is_lost(texts):
    sides = serialise_windows(windows(*texts), "alignment")
    assert len(sides[0]) == len(sides[1])
    for side in (0, 1):
        tokens = [token for token in sides[side] if token != GAP]
        assert " ".join(tokens).split(WINDOW_CHANGE) == " ".join(
            serialise(texts[side::2])
        ).split(WINDOW_CHANGE)


def serialise(texts: list[str]) -> list[str]:
    tokens: list[str] = []
    for number, text in enumerate(texts):
        tokens += [WINDOW_CHANGE] * (number > 0) + text.split()
    return tokens


def test_examples():
    grouped = group_by_speaker(
        [
            *windows("A B", "B"),
            *windows("", "", speaker="b"),
            *windows("", "X", speaker="c"),
        ]
    )
    turns = [
        Segment("r", "b", ("LOST",), 2.0, 3.0),
        Segment("r", "a", ("B",), 1.0, 2.0),
        Segment("r", "a", ("A",), 0.0, 1.0),
    ]
    examples = make_examples(grouped, "wc", turns)
    assert [(example.id, example.target) for example in examples] == [
        ("r--a", ("A", "B")),
        ("r--c", ()),
    ]


def make(folder, heard: list[Segment], style: str, *words: str) -> Path:
    write_hypotheses(folder / "hyp.jsonl", heard)
    write_segments(folder / "ref.json", [Segment("r", "a", words, 0.0, 9.0)])
    write_tokens([" ".join(words)] * 3, folder / "tokens", "bpe", 12, SYMBOLS)
    pieces = folder / "tokens" / "bpe.model"
    make_pairs(
        folder / "hyp.jsonl",
        folder / "ref.json",
        folder / "out",
        style=style,
        bpemodel=pieces,
    )
    return folder / "out"


def test_text_of_a_stitcher(tmp_path, capsys):
    out = make(tmp_path, windows("A B", "B C"), "alignment", "A", "B", "C")
    assert read_table(out / "src_text") == {"r--a": "▁A ▁<gap> ▁B ▁B ▁<gap> ▁C"}
    assert read_table(out / "text") == {"r--a": "A B C"}
    assert json.loads((out / "stitcher.json").read_text()) == {
        "style": "alignment",
        "longest": {"windows": 2, "words": 6},
        "windows": {"length": 16, "overlap": 0.5},
        "within": 1.0,
    }
    assert "1 examples in the style alignment" in capsys.readouterr().out


def test_a_speaker_who_was_heard_but_said_nothing_has_a_symbol_to_write(tmp_path):
    out = make(tmp_path, [*windows("A B"), *windows("B", speaker="b")], "wc", "A", "B")
    assert read_table(out / "text") == {"r--a": "A B", "r--b": "<gap>"}


@pytest.mark.parametrize(
    ("style", "heard", "place"),
    [
        ("alignment", windows("A", "B", overlap=0.25), "less than half"),
        (
            "wc",
            [
                Segment(*names, ("A",), 0.0, 16.0, window=0)
                for names in (("r--a", "b"), ("r", "a--b"))
            ],
            "r--a--b",
        ),
        ("wc", [Segment("r", "", (), 0.0, 16.0, window=0)], "nobody"),
    ],
)
def test_windows_that_make_no_pairs_are_refused(tmp_path, style, heard, place):
    with pytest.raises(InputError, match=place):
        make(tmp_path, heard, style, "A", "B")


@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.5])
def test_stretches_of_a_long_text_have_the_words_said_in_their_time(overlap):
    """A word a second, and a pause of 40 s in between.

    Perfect stretches make the transcript again.
    """
    turns = [Segment("r", "a", tuple(f"W{n}" for n in range(80)), 0.0, 80.0)]
    turns += [
        Segment("r", "b", ("MM",), 90.0, 91.0),
        Segment("r", "a", tuple(f"V{n}" for n in range(30)), 120.0, 150.0),
    ]
    none = SimulatedErrors(rates={"alone": (0.0,) * 5, "overlapped": (0.0,) * 5})
    heard = group_by_speaker(
        simulate_recordings(turns, Windowing(16.0, overlap), none, 0)
    )
    own = [
        item
        for item in make_examples(heard, "wc", turns, 60)
        if item.windows[0].speaker == "a"
    ]
    assert len(own) > 2 and [item.id for item in own] == [
        f"r--a--{number:03d}" for number in range(len(own))
    ]
    for item in own:
        words = list(
            dict.fromkeys(word for window in item.windows for word in window.words)
        )
        assert list(item.target) == words, (
            "what is to be written is what the windows have"
        )
    merged = merge_parts([(item.windows, item.target) for item in own])
    assert [word.text for word in merged] == [*turns[0].words, *turns[2].words]
