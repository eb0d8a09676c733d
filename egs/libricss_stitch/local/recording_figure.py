"""A picture of a recording: what each speaker said and what was transcribed, over time, with windows and errors."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from espnet_ext.scoring.error_rate import align
from espnet_ext.work.plot_style import BLUE, GREEN, PURPLE, VERMILLION

Span = tuple[float, float]
RIGHT, SUBSTITUTED, DELETED, INSERTED = "right", "substituted", "deleted", "inserted"
# An error's colour, and the mark that says the same without colour.
MARKS = {RIGHT: ("black", ""), SUBSTITUTED: (VERMILLION, "≠"), DELETED: (BLUE, "−"), INSERTED: (PURPLE, "+")}
SECONDS_A_LINE = 8.0
INCHES_A_SECOND = 1.6
ROW_INCHES = 0.62
_SIZE = 7.5  # of words, points


@dataclass(frozen=True)
class ShownWord:
    """A word in the picture: its text, when it is said, and what kind of error it is."""

    text: str
    start: float
    end: float
    kind: str


def compare(
    reference: Sequence[tuple[str, Span]], hypothesis: Sequence[tuple[str, Span]]
) -> tuple[list[ShownWord], list[ShownWord]]:
    """One speaker's words of reference and hypothesis, with their errors by the alignment that SA-WER counts.

    A word that was left out is in the reference as it was said, and in the hypothesis as an empty place.
    """
    real, heard = [], []
    at = [0, 0]
    for left, right in align([word for word, _ in reference], [word for word, _ in hypothesis]):
        if left is not None:
            kind = DELETED if right is None else RIGHT if left == right else SUBSTITUTED
            real.append(ShownWord(left, *reference[at[0]][1], kind))
            if right is None:
                heard.append(ShownWord("", *reference[at[0]][1], DELETED))
            at[0] += 1
        if right is not None:
            kind = INSERTED if left is None else RIGHT if left == right else SUBSTITUTED
            heard.append(ShownWord(right, *hypothesis[at[1]][1], kind))
            at[1] += 1
    return real, heard


def as_values(
    recording: str,
    speakers: Mapping[str, tuple[Sequence[ShownWord], Sequence[ShownWord]]],
    windows: Sequence[Span],
    seconds: float,
) -> dict[str, Any]:
    """The data of a picture, as facts keep them."""
    words = {
        name: {"reference": [astuple(word) for word in real], "hypothesis": [astuple(word) for word in heard]}
        for name, (real, heard) in speakers.items()
    }
    return json.loads(json.dumps({"recording": recording, "seconds": seconds, "windows": windows, "speakers": words}))


def draw_values(values: Mapping[str, Any]) -> Figure:
    """Draw what :func:`as_values` gives."""
    speakers = {
        name: tuple([ShownWord(*word) for word in words[side]] for side in ("reference", "hypothesis"))
        for name, words in values["speakers"].items()
    }
    title = f"{values['recording']}: reference (ref) and transcript (hyp) of each speaker"
    return draw_recording(title, speakers, [tuple(window) for window in values["windows"]], values["seconds"])


def draw_recording(
    title: str,
    speakers: Mapping[str, tuple[Sequence[ShownWord], Sequence[ShownWord]]],
    windows: Sequence[Span],
    seconds: float,
) -> Figure:
    """Draw a recording in lines of some seconds each, a row a speaker.

    Args:
        title: of the figure.
        speakers: name -> words of the reference and of the hypothesis.
        windows: start and end of each, in seconds; none for a recording that was not cut.
        seconds: the recording's length.
    """
    lines = max(1, math.ceil(seconds / SECONDS_A_LINE))
    height = lines * (ROW_INCHES * len(speakers) + 1.1) + 1.0
    figure = Figure(figsize=(SECONDS_A_LINE * INCHES_A_SECOND + 1.6, height), layout="constrained")
    figure.suptitle(title)
    grid = figure.subplots(lines, 1, squeeze=False)[:, 0]
    for line, axes in enumerate(grid):
        _draw_line(axes, line * SECONDS_A_LINE, speakers, windows)
    grid[-1].set_xlabel("time (s)")
    figure.legend(*_legend(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def _draw_line(axes: Axes, begin: float, speakers: Mapping, windows: Sequence[Span]) -> None:
    end = begin + SECONDS_A_LINE
    top = len(speakers)
    for number, (start, stop) in enumerate(windows):
        if stop <= begin or start >= end:
            continue
        level = top + 0.12 + 0.28 * (number % 2)
        axes.plot([max(start, begin), min(stop, end)], [level, level], color=GREEN, linewidth=3, solid_capstyle="butt")
        axes.text(max(start, begin) + 0.04, level + 0.05, f"window {number + 1}", fontsize=6.5, color="dimgray")
        for edge in (start, stop):
            if begin <= edge < end:
                axes.axvline(edge, color=GREEN, linewidth=0.7, linestyle=":")
    for row, (real, heard) in enumerate(reversed(list(speakers.values()))):
        axes.axhline(row, color="lightgray", linewidth=0.8)
        for words, height in ((real, row + 0.68), (heard, row + 0.28)):
            _draw_words(axes, words, height, begin, end)
    axes.set_xlim(begin, end)
    axes.set_ylim(0, top + 0.7)
    places = [row + part for row in range(top) for part in (0.28, 0.68)]
    axes.set_yticks(places, [f"{name}  {kind}" for name in reversed(list(speakers)) for kind in ("hyp", "ref")])
    axes.tick_params(axis="y", length=0, labelsize=8)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _draw_words(axes: Axes, words: Sequence[ShownWord], height: float, begin: float, end: float) -> None:
    """Write words at their starts; a word that would overlap the one before it is shifted to the right."""
    free = begin
    for word in sorted(words, key=lambda word: word.start):
        if not begin <= word.start < end:
            continue
        colour, mark = MARKS[word.kind]
        label = f"{mark}{word.text.lower()}" if word.text else "[ − ]"
        start = max(word.start, free)
        axes.text(start, height, label, color=colour, fontsize=_SIZE, va="center", clip_on=True)
        free = start + (len(label) + 0.8) * _SIZE * 0.6 / 72 / INCHES_A_SECOND


def _legend() -> tuple[list, list[str]]:
    from matplotlib.lines import Line2D

    texts = {
        RIGHT: "right",
        SUBSTITUTED: "≠ another word",
        DELETED: "− left out",
        INSERTED: "+ not said by this speaker",
    }
    handles = [Line2D([], [], color=MARKS[kind][0], marker="s", linestyle="") for kind in texts]
    handles.append(Line2D([], [], color=GREEN, linewidth=3))
    return handles, [*texts.values(), "window"]
