"""TED-LIUM 3 (Hernandez et al. 2018) as whole talks, for decoding long recordings (P5, section 3.1).

The layout is that of the release's archive, ``legacy/<part>/sph/<talk>.sph`` and ``legacy/<part>/stm/<talk>.stm``;
``legacy`` may be left out. Lhotse's recipe makes one supervision for each segment and drops the segments that scoring
ignores. Here a talk is one supervision, and those segments are kept in a file of their own, so that decoding can
silence them.
"""

import math
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.corpora import long_recordings
from espnet_ext.corpora.checks import require_corpus
from espnet_ext.corpora.faults import Faults, faults_file
from espnet_ext.data.manifests import Manifests, write_parts
from espnet_ext.errors import InputError
from espnet_ext.longform.recording_audio import write_regions

PARTS = ("dev", "test")
IGNORED = "ignore_time_segment_in_scoring"


def prepare_tedlium(
    corpus_dir: str | Path,
    output_dir: str | Path | None = None,
    parts: Sequence[str] = PARTS,
    num_jobs: int = 1,
    check_audio: str = "auto",
    skip_faulty: float = 0.0,
) -> dict[str, Manifests]:
    """Check talks, and make the Lhotse manifests of each part.

    Args:
        corpus_dir: The folder described above, or the one above it.
        output_dir: Where ``tedlium_recordings_<part>.jsonl.gz``, ``tedlium_supervisions_<part>.jsonl.gz`` and
            ``tedlium_ignored_<part>.txt`` (lines ``talk start end``) go.
        parts: Some of ``train``, ``dev``, ``test``.
        num_jobs, check_audio, skip_faulty: See :func:`espnet_ext.corpora.librispeech.prepare_librispeech`.

    Raises:
        InputError: A folder is missing; or more talks than ``skip_faulty`` allows have audio but no transcript, the
            reverse, or one of these is faulty.
    """
    corpus = require_corpus(corpus_dir, "legacy/dev and legacy/test")
    faults = Faults(corpus, faults_file(output_dir, "tedlium"), skip_faulty)
    talks: dict[str, list[long_recordings.Transcribed]] = {}
    for part in parts:
        folder = _part_folder(corpus, part)
        audio = long_recordings.files_by_id(folder / "sph", "*.sph", faults)
        stm = long_recordings.files_by_id(folder / "stm", "*.stm", faults)
        talks[part] = long_recordings.paired(audio, stm, lambda path: read_stm(path)[0], part, faults)
    manifests = long_recordings.manifests_of(talks, faults, check_audio, num_jobs)
    if output_dir is not None:
        write_parts("tedlium", manifests, Path(output_dir))
        for part, sets in manifests.items():
            stm_folder = _part_folder(corpus, part) / "stm"
            regions = {talk: read_stm(stm_folder / f"{talk}.stm")[1] for talk in sets["recordings"].ids}
            ignored = {talk: found for talk, found in regions.items() if found}
            write_regions(Path(output_dir) / f"tedlium_ignored_{part}.txt", ignored)
    return manifests


def _part_folder(corpus: Path, part: str) -> Path:
    places = [corpus / "legacy" / part, corpus / part, corpus / "TEDLIUM_release-3" / "legacy" / part]
    for folder in places:
        if (folder / "stm").is_dir() and (folder / "sph").is_dir():
            return folder
    raise InputError(f"{places[0]}: it has no sph and stm: give the folder of TEDLIUM_release-3")


def read_stm(path: Path) -> tuple[str, list[tuple[float, float]]]:
    """A talk's text in order of time, and the regions that scoring ignores, in seconds.

    Suffixes are joined to their words ("we 're"), and marks such as ``<unk>`` and ``{NOISE}`` are left out.

    Raises:
        InputError: Not UTF-8; a line that is no ``talk channel speaker start end labels text``, or runs backwards.
    """
    segments: list[tuple[float, str]] = []
    ignored: list[tuple[float, float]] = []
    for number, line in enumerate(long_recordings.transcript_text(path).split("\n"), 1):
        if not line.strip() or line.startswith(";;"):
            continue
        try:
            _, _, _, start, end, _, *words = line.split()
            times = float(start), float(end)
        except ValueError:
            raise InputError(
                f"{path}: line {number} is no `talk channel speaker start end labels text`: fix it"
            ) from None
        if not 0 <= times[0] <= times[1] < math.inf:
            raise InputError(f"{path}: line {number} ends before it begins, or has an impossible time: fix it")
        if words == [IGNORED]:
            ignored.append(times)
        else:
            kept = (word for word in words if word[0] not in "<{[")
            segments.append((times[0], " ".join(kept).replace(" '", "'")))
    return " ".join(text for _, text in sorted(segments) if text), ignored
