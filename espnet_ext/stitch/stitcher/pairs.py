"""Write what stitchers read and are trained to write (P4, 3.2, 3.3 and 4.1.1).

These are text files for ESPnet's MT task. :func:`serialise_windows` has the styles:
words, or for aligned pairs word pieces in turn (:func:`interleave`).
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Annotated

from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.stitch.stitcher.by_time import MAX_SHIFT
from espnet_ext.stitch.stitcher.long_recordings import (
    Longest,
    Windows,
    cut_at_silence,
    cut_by_half,
    find_longest,
    number_windows,
)
from espnet_ext.stitch.stitcher.overlapping import align_windows, check_overlap
from espnet_ext.stitch.stitcher.simulated_errors import list_spoken_words
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.window_hypotheses import Grouped, is_timed, read_grouped
from espnet_ext.text.windows import MOST_OVERLAP, Windowing
from espnet_ext.text.words import MOST_WINDOWS, Segment, group_by_recording
from espnet_ext.work.files import write_json
from espnet_ext.work.settings import (
    Positive,
    StrictMapping,
    read_settings,
    require_one_of,
)

ALIGNMENT = "alignment"
STYLES = ("wc", "wco_wce", ALIGNMENT)
TRAINED_ON = "stitcher.json"
WINDOW_CHANGE = "<wc>"
ODD_WINDOW = "<wco>"
EVEN_WINDOW = "<wce>"
GAP = "<gap>"
SYMBOLS = (WINDOW_CHANGE, ODD_WINDOW, EVEN_WINDOW, GAP)
Pieces = Callable[[str], Sequence[str]]  # a word -> its word pieces


@dataclass(frozen=True)
class StitchExample:
    """Hold what a stitcher reads of one speaker in one recording, and should write.

    It reads one sequence, or two that are aligned, ``sources``, and writes ``target``.
    ``id``: ``<recording>--<speaker>``, followed by ``--<number>`` if recordings are cut
    into stretches.
    """

    id: str
    windows: Windows
    sources: tuple[tuple[str, ...], ...]
    target: tuple[str, ...]


def serialise_windows(
    windows: Sequence[Segment], style: str, within: float | None = MAX_SHIFT
) -> tuple[tuple[str, ...], ...]:
    """Write one speaker's hypotheses of a recording as a stitcher's input.

    ``style`` is one of ``STYLES``:

    - ``wc``: the windows' words with ``<wc>`` (window change) between neighbouring
      windows.
    - ``wco_wce``: each window's words after ``<wco>`` or ``<wce>``, for windows 1, 3, 5
      ... and 2, 4, 6 ... (from 1).
    - ``alignment``: the words of odd and of even windows, aligned with the fewest
      edits, as P4 does; if ``within`` is given and words have times, only within that
      many seconds; ``<gap>`` where one of the two has no token. P4 joins each by
      ``<wc>`` before it aligns; here ``<wc>`` is put in afterwards, and is never paired
      with a word.

    A window in which the speaker is silent keeps its symbols, so that the number of
    windows is known.

    >>> one = Segment("r", "a", ("A",), 0.0, 16.0, window=0)
    >>> two = Segment("r", "a", ("B",), 8.0, 24.0, window=1)
    >>> serialise_windows([one, two], "wc"), serialise_windows([one, two], "wco_wce")
    ((('A', '<wc>', 'B'),), (('<wco>', 'A', '<wce>', 'B'),))
    """
    tokens: list[str] = []
    if style == "wc":
        for item in windows:
            tokens += (WINDOW_CHANGE, *item.words)
        # Between windows only: nothing changes at the first one.
        return (tuple(tokens[1:]),)
    if style == "wco_wce":
        for number, item in enumerate(windows):
            # P4 counts windows from 1, so that number 0 is odd.
            symbol = EVEN_WINDOW if number % 2 else ODD_WINDOW
            tokens += (symbol, *item.words)
        return (tuple(tokens),)
    if style != ALIGNMENT:
        raise ValueError(f"unknown style {style!r}: {', '.join(STYLES)}")
    seconds = math.inf
    least = 0.5  # without times, only windows that overlap by half can be aligned
    if within is not None and is_timed(windows):
        seconds = within
        least = 0.0
    check_overlap(windows, least)
    columns = list(_serialise_aligned(windows, seconds))
    odd = tuple(first for first, _ in columns)
    even = tuple(second for _, second in columns)
    return odd, even


def _serialise_aligned(
    windows: Sequence[Segment], within: float
) -> Iterator[tuple[str, str]]:
    """Yield pairs of tokens.

    On each side a change of windows comes before the first word of the new window.
    """
    # The window that each side is in; a side has every other window.
    at = [0, 1]
    changes = ((WINDOW_CHANGE, GAP), (GAP, WINDOW_CHANGE))
    for pair in align_windows(windows, within):
        for side, heard in enumerate(pair):
            while heard is not None and at[side] < heard.window:
                at[side] += 2
                yield changes[side]
        first, second = pair
        odd = GAP if first is None else first.word.text
        even = GAP if second is None else second.word.text
        yield odd, even
    # After the last words the speaker is silent, and windows change all the same.
    for side in (0, 1):
        for _ in range(at[side] + 2, len(windows), 2):
            yield changes[side]


def write_source(sources: Sequence[Sequence[str]], pieces: Pieces) -> str:
    """Write a stitcher's input as the source text of ESPnet's MT task.

    The text has words, or the word pieces of pairs in turn.
    """
    if len(sources) == 1:
        return " ".join(sources[0])
    odd, even = sources
    return " ".join(interleave(odd, even, pieces))


def interleave(
    odd: Sequence[str], even: Sequence[str], pieces: Pieces
) -> Iterator[str]:
    """Yield word pieces of aligned words in turn: odd windows, even windows, odd ...

    Where one word of a pair has fewer pieces than the other, the piece of ``<gap>``
    fills it up.

    >>> " ".join(interleave(["A-B", "<gap>"], ["C", "D"], lambda word: word.split("-")))
    'A C B <gap> <gap> D'
    """
    (gap,) = pieces(GAP)
    for words in zip(odd, even, strict=True):
        for pair in zip_longest(*map(pieces, words), fillvalue=gap):
            yield from pair


def make_examples(
    grouped: Grouped,
    style: str,
    turns: Sequence[Segment],
    stretch: int | None = None,
    within: float | None = MAX_SHIFT,
) -> list[StitchExample]:
    """Make a stitcher's inputs and targets, of each recording and speaker heard.

    A speaker who was heard but says nothing has an empty target. With ``stretch``,
    windows are cut into stretches of at most that many words and symbols, as long
    recordings are when stitching: a stitcher that has learnt from short texts reads a
    long one in stretches, and is no worse on it. The target of a stretch are the words
    that are said in its time.
    """
    longest = Longest(MOST_WINDOWS, stretch) if stretch else None
    said = group_by_recording(turns)
    examples: dict[str, StitchExample] = {}
    for recording, speakers in grouped.items():
        spoken = list_spoken_words(said.get(recording, []))
        for speaker, windows in speakers.items():
            own = [word for word in spoken if word.speaker == speaker]
            stretches = _cut_stretches(windows, longest)
            for number, (part, start, end) in enumerate(stretches):
                name = f"{recording}--{speaker}"
                if longest:
                    name += f"--{number:03d}"
                # The separator may also be a part of names: of "a--b" and "c", and of
                # "a" and "b--c".
                if name in examples:
                    other = examples[name].windows[0]
                    raise InputError(
                        f"{recording} with speaker {speaker} and "
                        f"{other.recording} with speaker {other.speaker} have "
                        f"the same id {name}: rename a recording or a speaker"
                    )
                sources = serialise_windows(number_windows(part), style, within)
                target = tuple(
                    word.text for word in own if word.lies_between(start, end)
                )
                examples[name] = StitchExample(name, part, sources, target)
    return list(examples.values())


def _cut_stretches(
    windows: Windows, longest: Longest | None
) -> Iterator[tuple[Windows, float, float]]:
    """Yield parts of a speaker's windows, with start and end of what they transcribe.

    The times are in seconds.
    """
    if longest is None:
        if any(item.words for item in windows):
            yield windows, -math.inf, math.inf
        return
    # Stretches follow each other without a gap, from before the first window to after
    # the last one: no word that is said is left out of all targets.
    begin = -math.inf
    stretches = cut_at_silence(windows, longest)
    for number, stretch in enumerate(stretches, start=1):
        until = stretch[-1].end if number < len(stretches) else math.inf
        parts = cut_by_half(stretch, longest)
        for place, part in enumerate(parts, start=1):
            start = begin if place == 1 else part[0].start
            end = until if place == len(parts) else part[-1].end
            yield part, start, end
        begin = until


def make_pairs(
    hypotheses: Path,
    references: Path,
    output: Path,
    *,
    style: str,
    bpemodel: Path,
    stretch: int | None = None,
    within: float | None = MAX_SHIFT,
) -> None:
    """Write what a stitcher reads (``src_text``) and is to write (``text``).

    It also writes ``stitcher.json``. An empty target is written as ``<gap>``: ESPnet
    reads no empty texts. ``references`` are SegLST with times, ``bpemodel`` is
    sentencepiece's, for aligned pairs; without ``stretch`` a speaker's windows of a
    recording are one text, as in P4.
    """
    grouped = read_grouped(hypotheses)
    turns = read_segments(references)
    examples = make_examples(grouped, style, turns, stretch, within)
    if not examples:
        raise InputError(
            f"{output}: nobody was heard in any window, so that there is nothing "
            "to stitch: decode again"
        )
    pieces = make_piece_splitter(bpemodel)
    sources = {item.id: write_source(item.sources, pieces) for item in examples}
    targets = {item.id: " ".join(item.target) or GAP for item in examples}
    write_table(output / "src_text", sources)
    write_table(output / "text", targets)
    # In use, a stitcher reads at once no more than what it has learnt on.
    longest = find_longest([item.windows for item in examples])
    trained_on = TrainedOn(
        style=style, longest=longest, windows=find_windowing(grouped), within=within
    )
    write_json(output / TRAINED_ON, trained_on.model_dump())
    say(f"{len(examples)} examples in the style {style}, written to {output}")


def join_pairs(folders: Sequence[Path], output: Path) -> None:
    """Write the texts of several folders as one, sorted by id."""
    for name in ("src_text", "text"):
        rows: dict[str, str] = {}
        for folder in folders:
            rows |= read_table(folder / name)
        write_table(output / name, rows)


def make_piece_splitter(model: str | Path) -> Pieces:
    """Return a function that makes word pieces of a word, by a sentencepiece model."""
    import sentencepiece

    if not Path(model).is_file():
        raise InputError(
            f"{model}: no such file: run the token stage first, or check the path"
        )
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return lambda word: processor.encode(word, out_type=str)


class TrainedOn(StrictMapping):
    """Say what a stitcher has learnt from.

    ``longest``: the length that nearly all training pairs do not exceed; ``windows``:
    how the recordings were cut, None: not alike; ``within``: see
    :func:`serialise_windows`.
    """

    style: Annotated[str, require_one_of(STYLES)]
    longest: Longest
    windows: Windowing | None
    within: Positive | None = MAX_SHIFT


def read_trained_on(folder: str | Path) -> TrainedOn:
    """Read ``stitcher.json`` of a stitcher's folder."""
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: no such folder: give that of a trained stitcher")
    return read_settings(
        TrainedOn,
        Path(folder) / TRAINED_ON,
        "copy it from the folder of the training pairs",
    )


def find_windowing(grouped: Grouped) -> Windowing | None:
    """Return how most recordings are cut.

    None if no recording has two windows, or they overlap by more than half.
    """
    # The lengths of windows, and the distances of their starts. All speakers of a
    # recording have the same windows.
    lengths: Counter[float] = Counter()
    shifts: Counter[float] = Counter()
    for speakers in grouped.values():
        windows = next(iter(speakers.values()), ())
        # The last window, which may be shorter, is never a left one.
        for left, right in pairwise(windows):
            lengths[round(left.end - left.start, 3)] += 1
            shifts[round(right.start - left.start, 3)] += 1
    if not lengths:
        return None
    ((length, _),) = lengths.most_common(1)
    ((shift, _),) = shifts.most_common(1)
    overlap = round(1 - shift / length, 4)
    if overlap > MOST_OVERLAP:
        return None
    return Windowing(length, max(0.0, overlap))  # below 0: there is audio in between


def require_windows(
    known: Windowing | None, found: Windowing | None, folder: Path
) -> None:
    """Refuse windows of another length or overlap than a stitcher has learnt from."""
    if known is None or found is None:
        return
    other_length = abs(known.length - found.length) > 0.01 * known.length
    other_overlap = abs(known.overlap - found.overlap) > 0.01
    if other_length or other_overlap:
        raise InputError(
            f"{folder}: it stitches windows of {known.length:g} s that overlap by "
            f"{100 * known.overlap:g} %, not of "
            f"{found.length:g} s by {100 * found.overlap:g} %: cut and decode "
            f"with --window {known.length:g} "
            f"--window-overlap {known.overlap:g}, or merge them by time"
        )
