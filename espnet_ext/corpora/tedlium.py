"""TED-LIUM 3 (Hernandez et al. 2018) as whole talks, for decoding long recordings (P5,
section 3.1).

The layout is ``legacy/<part>/sph/<talk>.sph`` and ``legacy/<part>/stm/<talk>.stm``, or
without ``legacy``. Segments that scoring ignores, which Lhotse's recipe drops, go to a
file, so that decoding can silence them.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from espnet_ext.corpora.checks import Faults, Options, files_by_id, require_corpus
from espnet_ext.corpora.long_recordings import Transcript, paired, write_recordings
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
    **options: Any,
) -> dict[str, DataDir]:
    """Check talks, and write a data dir of each part (``train``, ``dev``, ``test``) of
    the folder or the one above it.

    Also writes ``tedlium_ignored_<part>.txt``, lines ``talk start end``, in seconds.
    """
    corpus, output = (
        require_corpus(corpus_dir, "legacy/dev and legacy/test"),
        Path(output_dir),
    )
    faults = Faults(corpus, output / "tedlium_faults.txt", Options(**options))
    audio: dict[str, dict[str, Path]] = {}
    talks: dict[str, dict[str, Transcript]] = {}
    for part in parts:
        folder = _part_folder(corpus, part)
        audio[part] = files_by_id([folder / "sph"], "*.sph", part, faults)
        stms = files_by_id([folder / "stm"], "*.stm", part, faults)
        talks[part] = paired(audio[part], stms, read_stm, part, faults)
    data = write_recordings(audio, talks, faults, output)
    for part, tables in data.items():
        ignored = {
            talk: talks[part][talk].ignored
            for talk in tables.utterances
            if talks[part][talk].ignored
        }
        write_regions(output / f"tedlium_ignored_{part}.txt", ignored)
    return data


def _part_folder(corpus: Path, part: str) -> Path:
    places = [
        corpus / "legacy" / part,
        corpus / part,
        corpus / "TEDLIUM_release-3" / "legacy" / part,
    ]
    for folder in places:
        if (folder / "stm").is_dir() and (folder / "sph").is_dir():
            return folder
    raise InputError(
        f"{places[0]}: it has no sph and stm: give the folder of TEDLIUM_release-3"
    )


def read_stm(path: Path) -> Transcript:
    """Read the stm of one talk, which is named after it.

    As in Kaldi's recipe of TED-LIUM, suffixes are joined to their words ("we 're"), and
    the numbers of pronunciations ("the(2)"), an utterance's name in brackets at the
    end, and marks such as ``<unk>`` and ``{NOISE}`` are left out.
    """
    turns = list(formats.read_stm(path, alternatives=True))
    if other := next(
        (turn.recording for turn in turns if turn.recording != path.stem), None
    ):
        raise InputError(
            f"{path}: it has a line of the talk {other}, and is named "
            f"{path.stem}: fix one of them"
        )
    ignored = [turn.span for turn in turns if turn.words == (formats.IGNORED,)]
    segments = sorted(
        (*turn.span, _words(turn.text))
        for turn in turns
        if turn.words != (formats.IGNORED,)
    )
    spoken = [(start, end, text) for start, end, text in segments if text]
    return Transcript(
        " ".join(text for *_, text in spoken),
        ignored,
        max((end for _, end, _ in spoken), default=0.0),
    )


def _words(text: str) -> str:
    plain = _UTTERANCE.sub("", _PRONUNCIATION.sub("", text))
    return " ".join(word for word in plain.split() if word[0] not in "<{[").replace(
        " '", "'"
    )
