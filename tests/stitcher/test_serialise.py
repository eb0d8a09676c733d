import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.stitcher.hypotheses import WindowHypothesis, group_by_speaker
from espnet_ext.stitcher.serialise import GAP, WINDOW_CHANGE, serialise_windows, stitch_examples
from espnet_ext.stitcher.windows import Windowing


def windows(*texts: str, overlap: float = 0.5, speaker: str = "a") -> list[WindowHypothesis]:
    windowing = Windowing(16.0, overlap)
    return [
        WindowHypothesis("r", index, speaker, tuple(text.split()), *windowing.span(index))
        for index, text in enumerate(texts)
    ]


def test_serialised():
    assert serialise_windows(windows("A B", "", "C"), "wc") == (("A", "B", "<wc>", "<wc>", "C"),)
    assert serialise_windows(windows("A B", "", "C"), "wco_wce") == (("<wco>", "A", "B", "<wce>", "<wco>", "C"),)
    assert serialise_windows(windows("A B"), "wc") == (("A", "B"),)


def test_aligned():
    odd, even = serialise_windows(windows("A B C", "B C D", "D E"), "alignment")
    assert " ".join(odd) == "A B C <wc> D E"
    assert " ".join(even) == "<gap> B C <gap> D <gap>"


TEXTS = st.lists(st.lists(st.sampled_from("ABC"), max_size=5).map(" ".join), min_size=1, max_size=7)


@given(TEXTS)
@settings(max_examples=60, deadline=None)
def test_nothing_is_lost(texts):
    sides = serialise_windows(windows(*texts), "alignment")
    assert len(sides[0]) == len(sides[1])
    for side in (0, 1):
        tokens = [token for token in sides[side] if token != GAP]
        assert " ".join(tokens).split(WINDOW_CHANGE) == " ".join(serialise(texts[side::2])).split(WINDOW_CHANGE)


def serialise(texts: list[str]) -> list[str]:
    tokens: list[str] = []
    for number, text in enumerate(texts):
        tokens += [WINDOW_CHANGE] * (number > 0) + text.split()
    return tokens


def test_serialised_stitchers_take_any_overlap_but_alignment_does_not():
    for overlap in (0.0, 0.25):
        assert serialise_windows(windows("A", "B", overlap=overlap), "wco_wce") == (("<wco>", "A", "<wce>", "B"),)
        with pytest.raises(InputError, match="overlap by less than half"):
            serialise_windows(windows("A", "B", overlap=overlap), "alignment")


def test_examples():
    grouped = group_by_speaker([*windows("A B", "B"), *windows("", "", speaker="b"), *windows("", "X", speaker="c")])
    examples = stitch_examples(grouped, "wc", {"r": {"a": ("A", "B"), "b": ("LOST",)}})
    assert [(example.id, example.target) for example in examples] == [("r--a", ("A", "B")), ("r--c", ())]
    assert stitch_examples(grouped, "wc")[0].target is None


def test_unknown_style():
    with pytest.raises(ValueError, match="unknown style 'x': wc, wco_wce, alignment"):
        serialise_windows(windows("A"), "x")
