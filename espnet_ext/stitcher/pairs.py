"""What stitchers read and are trained to write (P4, 3.2, 3.3 and 4.1.1), as text files for ESPnet's MT task.

Hypotheses of all windows become one token sequence, or two that are aligned:

- ``wc``: the windows' words with ``<wc>`` (window change) between neighbouring windows.
- ``wco_wce``: each window's words after ``<wco>`` or ``<wce>``, for windows 1, 3, 5 ... and 2, 4, 6 ... (from 1).
- ``alignment``: the words of odd and of even windows, each joined by ``<wc>``, and aligned with the fewest edits, where
  the recogniser gives times only within a second; ``<gap>`` where one of the two has no token. Two sequences of equal
  length. P4 joins with ``<wc>`` before it aligns; here ``<wc>`` is put in afterwards, and is never paired with a word.

A window in which the speaker is silent keeps its symbols, so that the number of windows is known.

The text of the first two is words. Aligned pairs are already word pieces, those of the two sequences in turn
(:func:`interleave`), from which :mod:`espnet_ext.encoder.aligned_pairs` makes pairs again.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.multitalker.heard.hypotheses import MOST_WINDOWS, Grouped, WindowHypothesis, is_timed
from espnet_ext.multitalker.heard.importers import read_grouped
from espnet_ext.multitalker.windows import Windowing
from espnet_ext.stitcher.by_time import WITHIN
from espnet_ext.stitcher.long_recordings import Longest, Windows, cut_at_silence, cut_by_half, longest_of, renumbered
from espnet_ext.stitcher.note import ALIGNMENT, STYLES, StitcherNote, windowing_of, write_note
from espnet_ext.stitcher.overlapping import align_windows, check_overlap
from espnet_ext.stitcher.simulated_errors import spoken_words
from espnet_ext.text.transcript import SPEAKER
from espnet_ext.text.turns import Turn, by_recording, read_turns, words_by_speaker

WINDOW_CHANGE, ODD_WINDOW, EVEN_WINDOW, GAP = "<wc>", "<wco>", "<wce>", "<gap>"
SYMBOLS = (WINDOW_CHANGE, ODD_WINDOW, EVEN_WINDOW, GAP)


@dataclass(frozen=True)
class StitchExample:
    """What a stitcher reads of one speaker in one recording, and what it should write.

    Attributes:
        id: ``<recording>--<speaker>``.
        windows: the speaker's hypotheses of all windows.
        sources: one token sequence, or the two aligned ones.
        target: the speaker's words in the recording, or None if they are not known.
    """

    id: str
    recording: str
    speaker: str
    windows: tuple[WindowHypothesis, ...]
    sources: tuple[tuple[str, ...], ...]
    target: tuple[str, ...] | None


def serialise_windows(windows: Sequence[WindowHypothesis], style: str) -> tuple[tuple[str, ...], ...]:
    """One speaker's hypotheses of all windows of a recording as a stitcher's input, in one of ``STYLES``.

    >>> one, two = (WindowHypothesis("r", i, "a", (word,), 8.0 * i, 8.0 * i + 16) for i, word in enumerate("AB"))
    >>> serialise_windows([one, two], "wc"), serialise_windows([one, two], "wco_wce")
    ((('A', '<wc>', 'B'),), (('<wco>', 'A', '<wce>', 'B'),))

    Raises:
        InputError: ``alignment`` with windows that do not overlap by half and words without times, or with windows that
            overlap with others than their neighbours.
        ValueError: an unknown style.
    """
    if style == "wc":
        tokens = [token for item in windows for token in (WINDOW_CHANGE, *item.words)]
        return (tuple(tokens[1:]),)
    if style == "wco_wce":
        symbols = (ODD_WINDOW, EVEN_WINDOW)
        return (tuple(token for number, item in enumerate(windows) for token in (symbols[number % 2], *item.words)),)
    if style != ALIGNMENT:
        raise ValueError(f"unknown style {style!r}: {', '.join(STYLES)}")
    timed = is_timed(windows)
    check_overlap(windows, 0.0 if timed else 0.5)
    columns = list(_aligned(windows, WITHIN if timed else math.inf))
    return tuple(column[0] for column in columns), tuple(column[1] for column in columns)


def _aligned(windows: Sequence[WindowHypothesis], within: float) -> Iterator[tuple[str, str]]:
    """Pairs of tokens; on each side a change of windows comes before the first word of the new window."""
    at = [0, 1]  # the window that each side is in
    for pair in align_windows(windows, within):
        for side, heard in enumerate(pair):
            while heard is not None and at[side] < heard.window:
                at[side] += 2
                yield _change(side)
        odd, even = (GAP if heard is None else heard.word for heard in pair)
        yield odd, even
    for side in (0, 1):
        for _ in range(at[side] + 2, len(windows), 2):
            yield _change(side)


def _change(side: int) -> tuple[str, str]:
    return (WINDOW_CHANGE, GAP) if side == 0 else (GAP, WINDOW_CHANGE)


def source_text(sources: Sequence[Sequence[str]], pieces: Callable[[str], Sequence[str]]) -> str:
    """A stitcher's input as the source text of ESPnet's MT task: words, or the word pieces of pairs in turn."""
    if len(sources) == 1:
        return " ".join(sources[0])
    odd, even = sources
    return " ".join(interleave(odd, even, pieces))


def interleave(odd: Sequence[str], even: Sequence[str], pieces: Callable[[str], Sequence[str]]) -> Iterator[str]:
    """Word pieces of aligned words in turn: of the odd windows, of the even windows, of the odd windows ...

    Where one word of a pair has fewer pieces than the other, the piece of ``<gap>`` fills it up.

    >>> " ".join(interleave(["A-B", "<gap>"], ["C", "D"], lambda word: word.split("-")))
    'A C B <gap> <gap> D'
    """
    (gap,) = pieces(GAP)
    for words in zip(odd, even, strict=True):
        for pair in zip_longest(*map(pieces, words), fillvalue=gap):
            yield from pair


def stitch_examples(
    grouped: Grouped, style: str, references: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None
) -> list[StitchExample]:
    """A stitcher's inputs, one for each recording and speaker of whom something was heard, and their targets.

    Args:
        grouped: hypotheses by recording and speaker.
        references: words by recording and speaker; a speaker who was heard but is not in the reference has an empty
            target. None: the words are not known, as when stitching.

    Raises:
        InputError: two examples have the same id.
    """
    examples = [
        StitchExample(
            id=f"{recording}--{speaker}",
            recording=recording,
            speaker=speaker,
            windows=windows,
            sources=serialise_windows(windows, style),
            target=None if references is None else references.get(recording, {}).get(speaker, ()),
        )
        for recording, speakers in grouped.items()
        for speaker, windows in speakers.items()
        if any(item.words for item in windows)
    ]
    return _with_own_ids(examples)


def stretch_examples(grouped: Grouped, style: str, turns: Sequence[Turn] | None, words: int) -> list[StitchExample]:
    """The same, each speaker's windows cut into stretches of so many words, as long recordings are when stitching.

    A stitcher that has learnt from short texts reads a long one in stretches, and is no worse on it.

    Args:
        turns: the references, with times: the target of a stretch are the words that are said in its time.
        words: the most words and symbols of a stretch, see :func:`espnet_ext.stitcher.long_recordings.length`.

    Raises:
        InputError: two examples have the same id, or a turn without times.
    """
    longest = Longest(MOST_WINDOWS, words)
    said = None if turns is None else {name: spoken_words(own) for name, own in by_recording(turns).items()}
    examples = []
    for recording, speakers in grouped.items():
        for speaker, windows in speakers.items():
            own = [word for word in (said or {}).get(recording, []) if word.speaker == speaker]
            for number, (part, start, end) in enumerate(_stretches(windows, longest)):
                target = tuple(word.text for word in own if start <= word.middle < end)
                sources = serialise_windows(renumbered(part), style)
                name = f"{recording}--{speaker}--{number:03d}"
                known = None if said is None else target
                examples.append(StitchExample(name, recording, speaker, part, sources, known))
    return _with_own_ids(examples)


def _stretches(windows: Windows, longest: Longest) -> Iterator[tuple[Windows, float, float]]:
    """The parts of a speaker's windows, and from when to when their words are said, in seconds."""
    begin = -math.inf
    stretches = cut_at_silence(windows, longest)
    for number, stretch in enumerate(stretches, start=1):
        until = stretch[-1].end if number < len(stretches) else math.inf
        parts = cut_by_half(stretch, longest)
        for place, part in enumerate(parts, start=1):
            yield part, begin if place == 1 else part[0].start, until if place == len(parts) else part[-1].end
        begin = until


def _with_own_ids(examples: list[StitchExample]) -> list[StitchExample]:
    """The examples; InputError if two have the same id."""
    seen: dict[str, StitchExample] = {}
    for item in examples:
        other = seen.setdefault(item.id, item)
        if other is not item:
            raise InputError(
                f"{item.recording} with speaker {item.speaker} and {other.recording} with speaker {other.speaker} have "
                f"the same id {item.id}: rename a recording or a speaker"
            )
    return examples


def make_pairs(
    hypotheses: Path,
    output: Path,
    *,
    style: str,
    references: Path | None = None,
    bpemodel: Path | None = None,
    segments: Path | None = None,
    speaker: str = SPEAKER,
    stretch: int | None = None,
) -> None:
    """Write what a stitcher reads and, with references, what it is to write: see :func:`write_pairs`.

    Args:
        hypotheses: of a recogniser, in a format of :mod:`espnet_ext.multitalker.heard.importers`.
        output: a folder.
        style: one of ``STYLES``.
        references: SegLST.
        bpemodel: see :func:`write_pairs`.
        segments, speaker: see :func:`espnet_ext.multitalker.heard.importers.read_grouped`.
        stretch: cut texts that are longer than so many words and symbols; None: a speaker's windows of a recording are
            one text, as in P4.
    """
    turns = read_turns(references) if references else None
    grouped = read_grouped(hypotheses, segments, speaker=speaker)
    if stretch:
        examples = stretch_examples(grouped, style, turns, stretch)
    else:
        examples = stitch_examples(grouped, style, None if turns is None else words_by_speaker(turns))
    write_pairs(output, examples, style, bpemodel, windowing_of(grouped))
    print(f"{len(examples)} examples in the style {style}, written to {output}")


def write_pairs(
    folder: str | Path,
    examples: Sequence[StitchExample],
    style: str,
    bpemodel: str | Path | None = None,
    windows: Windowing | None = None,
) -> None:
    """Write ``src_text``, ``recording_speaker``, ``stitcher.json`` and, if targets are known, ``text``.

    An id is ``<recording>--<speaker>``; ``recording_speaker`` holds the two. An empty target is written as ``<gap>``.

    Args:
        examples: of :func:`stitch_examples`.
        style: theirs.
        bpemodel: the sentencepiece model for aligned pairs; None: their tokens are words.
        windows: how the recordings were cut.

    Raises:
        InputError: there is no example, or no such model.
    """
    if not examples:
        raise InputError(f"{folder}: nobody was heard in any window, so that there is nothing to stitch: decode again")
    folder = Path(folder)
    bpemodel = bpemodel if style == ALIGNMENT else None
    pieces = piece_maker(bpemodel)
    write_table(folder / "src_text", {item.id: source_text(item.sources, pieces) for item in examples})
    write_table(folder / "recording_speaker", {item.id: f"{item.recording} {item.speaker}" for item in examples})
    targets = {item.id: item.target for item in examples if item.target is not None}
    if len(targets) == len(examples):
        # the target of a speaker who said nothing is a symbol: ESPnet reads no empty texts
        write_table(folder / "text", {key: " ".join(words) or GAP for key, words in targets.items()})
    write_note(folder, StitcherNote(style, longest_of([item.windows for item in examples]), windows, bool(bpemodel)))


def join_pairs(folders: Sequence[Path], output: Path) -> None:
    """Write the texts of several folders as one, sorted by id."""
    for name in ("src_text", "text"):
        write_table(output / name, {key: row for folder in folders for key, row in read_table(folder / name).items()})


def piece_maker(model: str | Path | None) -> Callable[[str], Sequence[str]]:
    """A function that makes word pieces of a word, by a sentencepiece model; None: a word is its own piece.

    Raises:
        InputError: no such file.
    """
    if model is None:
        return lambda word: [word]
    import sentencepiece

    if not Path(model).is_file():
        raise InputError(f"{model}: no such file: run the token stage first, or check the path")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return lambda word: processor.encode(word, out_type=str)
