"""Which windows a stitcher was trained on: ``stitcher.json``, written with its training pairs."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Annotated

from espnet_ext.errors import InputError
from espnet_ext.stitcher.long_recordings import Longest
from espnet_ext.text.window_hypotheses import Grouped
from espnet_ext.text.windows import MOST_OVERLAP, Windowing
from espnet_ext.work.settings import StrictMapping, checked, one_of

ALIGNMENT = "alignment"
STYLES = ("wc", "wco_wce", ALIGNMENT)
TRAINED_ON = "stitcher.json"


class TrainedOn(StrictMapping):
    """What a stitcher has learnt from.

    Attributes:
        style: of the source texts, one of ``STYLES``.
        longest: the length that nearly all training pairs do not exceed.
        windows: how the recordings of the training pairs were cut; None: they are not cut alike.
    """

    style: Annotated[str, one_of(STYLES)]
    longest: Longest
    windows: Windowing | None


def read_trained_on(folder: str | Path) -> TrainedOn:
    """Read ``stitcher.json`` of a stitcher's folder.

    Raises:
        InputError: there is none, or it has another form.
    """
    path = Path(folder) / TRAINED_ON
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise InputError(f"{path.parent}: no such folder: give that of a trained stitcher") from None
        raise InputError(f"{path}: no such file: copy it from the folder of the training pairs") from None
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error}): write the training pairs again") from None
    return checked(TrainedOn, record if isinstance(record, dict) else {}, str(path))


def windowing_of(grouped: Grouped) -> Windowing | None:
    """Return how most recordings are cut; None if no recording has two windows, or they overlap by more than half."""
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


def require_windows(known: Windowing | None, found: Windowing | None, folder: Path) -> None:
    """Refuse windows of another kind than those that a stitcher has learnt from.

    Args:
        known: the stitcher's.
        found: how recordings are cut; None: it is not known.
        folder: the stitcher's, for the message.

    Raises:
        InputError: the windows are longer or shorter, or overlap more or less.
    """
    if known is None or found is None:
        return
    if abs(known.length - found.length) > 0.01 * known.length or abs(known.overlap - found.overlap) > 0.01:
        raise InputError(
            f"{folder}: it stitches windows of {known.length:g} s that overlap by {100 * known.overlap:g} %, not of "
            f"{found.length:g} s by {100 * found.overlap:g} %: cut and decode with --window {known.length:g} "
            f"--window-overlap {known.overlap:g}, or merge them by time"
        )
