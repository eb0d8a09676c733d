"""Regions of recordings in a text file: lines ``recording start end``, in seconds, several a recording."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from espnet_ext.data.data_dir import format_seconds, parse_segment
from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write

Regions = Mapping[str, Sequence[tuple[float, float]]]


def write_regions(path: str | Path, regions: Regions) -> None:
    """Write regions, sorted by recording."""
    with atomic_write(path) as file:
        for recording in sorted(regions):
            for start, end in regions[recording]:
                file.write(f"{recording} {format_seconds(start)} {format_seconds(end)}\n")


def read_regions(path: str | Path) -> dict[str, list[tuple[float, float]]]:
    """Read regions by recording.

    Raises:
        InputError: no such file, not UTF-8, or a line that is no ``recording start end`` or runs backwards.
    """
    regions: dict[str, list[tuple[float, float]]] = {}
    try:
        lines = Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file of regions: check the path, or prepare the corpus again") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8: prepare the corpus again") from None
    for number, line in enumerate(lines if lines != [""] else [], 1):
        try:
            region = parse_segment(line)
        except ValueError:
            raise InputError(f"{path}: line {number} is no `recording start end`: mend it") from None
        if not 0 <= region.start <= region.end:
            raise InputError(f"{path}: line {number} begins before 0, or ends before it begins: mend it")
        regions.setdefault(region.recording, []).append((region.start, region.end))
    return regions
