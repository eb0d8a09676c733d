"""What the folder of a stitcher says of itself: ``stitcher.json``, written with its training pairs."""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.multitalker.heard.hypotheses import Grouped
from espnet_ext.multitalker.windows import MOST_OVERLAP, Windowing
from espnet_ext.stitcher.long_recordings import Longest
from espnet_ext.work.files import write_json

ALIGNMENT = "alignment"
STYLES = ("wc", "wco_wce", ALIGNMENT)
NOTE = "stitcher.json"


@dataclass(frozen=True)
class StitcherNote:
    """What a folder of training pairs, or of a model trained on them, says of itself.

    Attributes:
        style: of the source texts, one of ``STYLES``.
        longest: the length that nearly all training pairs do not exceed.
        windows: how the recordings of the training pairs were cut; None: they are not cut alike.
        pieces: the source text is word pieces (aligned pairs of a sentencepiece model), not words.
    """

    style: str
    longest: Longest
    windows: Windowing | None
    pieces: bool


def write_note(folder: Path, note: StitcherNote) -> None:
    write_json(folder / NOTE, asdict(note))


def read_note(folder: str | Path) -> StitcherNote:
    """Read the note of a folder.

    Raises:
        InputError: there is none, or it has another form.
    """
    path = Path(folder) / NOTE
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        windows = record["windows"] and Windowing(**record["windows"])
        note = StitcherNote(record["style"], Longest(**record["longest"]), windows, bool(record["pieces"]))
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise InputError(f"{path.parent}: no such folder: give that of a trained stitcher") from None
        raise InputError(f"{path}: no such file: copy it from the folder of the training pairs") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not the note of a stitcher ({error!r}): write the training pairs again") from None
    if note.style not in STYLES:
        raise InputError(f"{path}: unknown style {note.style!r}: {', '.join(STYLES)}")
    return note


def windowing_of(grouped: Grouped) -> Windowing | None:
    """How most recordings were cut; None where no recording has two windows, or they overlap by more than half."""
    lengths: Counter[float] = Counter()
    shifts: Counter[float] = Counter()
    for speakers in grouped.values():
        for windows in list(speakers.values())[:1]:
            for left, right in pairwise(windows):
                lengths[round(left.end - left.start, 3)] += 1
                shifts[round(right.start - left.start, 3)] += 1
    if not lengths:
        return None
    (length, _), (shift, _) = lengths.most_common(1)[0], shifts.most_common(1)[0]
    overlap = round(1 - shift / length, 4)
    return Windowing(length, max(0.0, overlap)) if overlap <= MOST_OVERLAP else None


def require_windows(note: StitcherNote, found: Windowing | None, folder: Path) -> None:
    """Refuse windows of another kind than those that a stitcher has learnt from.

    Args:
        note: the stitcher's.
        found: how recordings are cut; None: it is not known.
        folder: the stitcher's, for the message.

    Raises:
        InputError: the windows are longer or shorter, or overlap more or less.
    """
    known = note.windows
    if known is None or found is None:
        return
    if abs(known.length - found.length) > 0.01 * known.length or abs(known.overlap - found.overlap) > 0.01:
        raise InputError(
            f"{folder}: it stitches windows of {known.length:g} s that overlap by {100 * known.overlap:g} %, not of "
            f"{found.length:g} s by {100 * found.overlap:g} %: cut and decode with --window {known.length:g} "
            f"--window-overlap {known.overlap:g}, or merge them by time"
        )
