"""A corpus's Lhotse manifests: checked, and written when all parts are found good."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_ext.errors import InputError

if TYPE_CHECKING:  # Lhotse imports torch
    from lhotse import Recording, RecordingSet, SupervisionSegment, SupervisionSet

    Manifests = Mapping[str, RecordingSet | SupervisionSet]


def checked_manifests(
    recordings: Iterable["Recording"], supervisions: Iterable["SupervisionSegment"], where: str | Path
) -> dict[str, "RecordingSet | SupervisionSet"]:
    """The ``recordings`` and ``supervisions`` of one part, sorted by id and validated by Lhotse.

    Raises:
        InputError: Lhotse refuses them; the message begins with ``where``.
    """
    from lhotse import RecordingSet, SupervisionSet
    from lhotse.qa import validate_recordings_and_supervisions

    sets = {
        "recordings": RecordingSet.from_items(sorted(recordings, key=lambda item: item.id)),
        "supervisions": SupervisionSet.from_items(sorted(supervisions, key=lambda item: item.id)),
    }
    try:
        validate_recordings_and_supervisions(**sets)
    except AssertionError as error:
        raise InputError(f"{where}: Lhotse refuses its manifests: {error}") from error
    return sets


def write_parts(corpus: str, manifests: Mapping[str, "Manifests"], folder: Path) -> None:
    """Write ``<corpus>_recordings_<part>.jsonl.gz`` and ``..._supervisions_...`` of each part, each file whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, sets in manifests.items():
        for kind, manifest in sets.items():
            temporary = folder / f".{corpus}_{kind}_{part}.tmp.jsonl.gz"  # Lhotse takes the format from the suffix
            try:
                manifest.to_file(temporary)
                os.replace(temporary, folder / f"{corpus}_{kind}_{part}.jsonl.gz")
            finally:
                temporary.unlink(missing_ok=True)
