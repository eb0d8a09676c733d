"""TED-LIUM 3 (Hernandez et al. 2018) as whole talks, for decoding long recordings (P5, section 3.1).

The layout is that of the release's archive, ``legacy/<part>/sph/<talk>.sph`` and ``legacy/<part>/stm/<talk>.stm``;
``legacy`` may be left out. Lhotse's recipe makes a supervision of each segment and drops the segments that scoring
ignores. Here an utterance is a whole talk, and those segments go to a file, so that decoding can silence them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from espnet_ext.corpora import long_recordings
from espnet_ext.corpora.checks import Faults, require_corpus, write_parts
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir
from espnet_ext.text import formats
from espnet_ext.text.word_times import write_regions

PARTS = ("dev", "test")
_PRONUNCIATION = re.compile(r"\([0-9]\)")
_UTTERANCE = re.compile(r"(^|\s)\(\S*\)$")


def prepare_tedlium(
    corpus_dir: str | Path,
    output_dir: str | Path,
    parts: Sequence[str] = PARTS,
    *,
    names: Mapping[str, str] | None = None,
    num_jobs: int = 1,
    check_audio: str = "auto",
    skip_faulty: float = 0.0,
) -> dict[str, DataDir]:
    """Check talks, and write a data dir of each part.

    Args (others: see :func:`espnet_ext.corpora.librispeech.prepare_librispeech`):
        corpus_dir: The folder described above, or the one above it.
        output_dir: Also gets ``tedlium_ignored_<part>.txt``, lines ``talk start end``.
        parts: Some of ``train``, ``dev``, ``test``.
    """
    corpus = require_corpus(corpus_dir, "legacy/dev and legacy/test")
    faults = Faults(corpus, Path(output_dir) / "tedlium_faults.txt", skip_faulty)
    talks: dict[str, list[long_recordings.Transcribed]] = {}
    stms: dict[str, dict[str, Stm]] = {}
    for part in parts:
        talks[part], stms[part] = _read_part(_part_folder(corpus, part), part, faults)
    data = long_recordings.checked_parts(talks, faults, check_audio, num_jobs)
    for part, tables in data.items():
        ignored = {talk: found for talk in tables.utterances if (found := stms[part][talk].ignored)}
        write_regions(Path(output_dir) / f"tedlium_ignored_{part}.txt", ignored)
    write_parts(data, output_dir, names)
    return data


def _read_part(folder: Path, part: str, faults: Faults) -> tuple[list[long_recordings.Transcribed], dict[str, "Stm"]]:
    """Read the talks of a part, and what the stm of each holds."""
    audio = long_recordings.files_by_id([folder / "sph"], "*.sph", part, faults)
    files = long_recordings.files_by_id([folder / "stm"], "*.stm", part, faults)
    read: dict[str, Stm] = {}

    def text(path: Path) -> str:
        read[path.stem] = read_stm(path)
        return read[path.stem].text

    talks = long_recordings.paired(audio, files, text, part, faults)
    return [replace(talk, end=read[talk.id].end) for talk in talks], read


def _part_folder(corpus: Path, part: str) -> Path:
    places = [corpus / "legacy" / part, corpus / part, corpus / "TEDLIUM_release-3" / "legacy" / part]
    for folder in places:
        if (folder / "stm").is_dir() and (folder / "sph").is_dir():
            return folder
    raise InputError(f"{places[0]}: it has no sph and stm: give the folder of TEDLIUM_release-3")


class Stm(NamedTuple):
    """A talk's text in order of time, the regions that scoring ignores, and where its last words end, in seconds."""

    text: str
    ignored: list[tuple[float, float]]
    end: float


def read_stm(path: Path) -> Stm:
    """Read the stm of one talk, which is named after it.

    The label of a line, such as ``<o,f0,male>``, may be left out. As in Kaldi's recipe of TED-LIUM, suffixes are joined
    to their words ("we 're"), and the numbers of pronunciations ("the(2)"), an utterance's name in brackets at the end,
    and marks such as ``<unk>`` and ``{NOISE}`` are left out.
    """
    turns = list(formats.read_stm(path, alternatives=True))
    if other := next((turn.recording for turn in turns if turn.recording != path.stem), None):
        raise InputError(f"{path}: it has a line of the talk {other}, and is named {path.stem}: fix one of them")
    ignored = [turn.span for turn in turns if turn.words == (formats.IGNORED,)]
    segments = sorted((*turn.span, _words(turn.text)) for turn in turns if turn.words != (formats.IGNORED,))
    spoken = [(start, end, text) for start, end, text in segments if text]
    return Stm(" ".join(text for *_, text in spoken), ignored, max((end for _, end, _ in spoken), default=0.0))


def _words(text: str) -> str:
    plain = _UTTERANCE.sub("", _PRONUNCIATION.sub("", text))
    return " ".join(word for word in plain.split() if word[0] not in "<{[").replace(" '", "'")
