"""Which files of a folder are transcripts that were written before: these are left out or replaced, and no others."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from espnet_ext.transcription.recordings import Recording
from espnet_ext.transcription.request import Request
from espnet_ext.work.files import files_below, write_json
from espnet_ext.work.json_text import parse_json
from espnet_ext.work.once import digest
from espnet_ext.work.shards import file_stamps, fingerprint

NOTE = ".transcripts.json"


def key_of(model: Path | None, request: Request, recording: Recording) -> str:
    """What the transcripts of a recording depend on: model, options, and the files that these name."""
    options = {name: str(getattr(request, name)) for name in sorted(request.given() - {"work", "nj"})}
    paths = [value for value in (recording.path, model, *map(Path, options.values())) if value and value.exists()]
    files = [str(file) for path in paths for file in (files_below(path) if path.is_dir() else [path])]
    return fingerprint(str(model), request.device, options, file_stamps(dict(zip(files, files, strict=True))))


class Written:
    """The transcripts in a folder, as a note in it says.

    Args:
        output: the folder.
    """

    def __init__(self, output: Path):
        self._output, self._note = output, output / NOTE

    def are_done(self, targets: Collection[Path], key: str) -> bool:
        """Whether all are there, were made with this key, and nobody has changed them since."""
        noted = self._noted()
        return all(noted.get(self._name(target)) == {"key": key, "sha256": digest(target)} for target in targets)

    def in_the_way(self, targets: Collection[Path]) -> Path | None:
        """The first file that is there and was not written by a transcription, or was changed after it."""
        noted = self._noted()
        there = (target for target in targets if target.exists())
        return next((path for path in there if noted.get(self._name(path), {}).get("sha256") != digest(path)), None)

    def add(self, target: Path, key: str) -> None:
        """Note a file that was written just now."""
        write_json(self._note, {**self._noted(), self._name(target): {"key": key, "sha256": digest(target)}})

    def _name(self, target: Path) -> str:
        return target.relative_to(self._output).as_posix()

    def _noted(self) -> Mapping[str, Any]:
        try:
            found = parse_json(self._note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return (
            {name: entry for name, entry in found.items() if isinstance(entry, dict)} if isinstance(found, dict) else {}
        )
