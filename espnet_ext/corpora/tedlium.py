"""Prepare TED-LIUM 3 (Hernandez et al. 2018) as whole talks (P5, section 3.1).

The layout is ``legacy/<part>/sph/<talk>.sph`` and ``legacy/<part>/stm/<talk>.stm``, or
without ``legacy``. Segments that scoring ignores, which Lhotse's recipe drops, go to a
file, so that decoding can silence them.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from espnet_ext.corpora.checks import Faults, Options, find_files_by_id, require_corpus
from espnet_ext.corpora.long_recordings import (
    Transcript,
    pair_transcripts,
    write_recordings,
)
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
    """Check talks, and write a data dir of each part (``train``, ``dev``, ``test``).

    Also writes ``tedlium_ignored_<part>.txt``, lines ``talk start end``, in seconds.
    """
    corpus = require_corpus(corpus_dir, "legacy/dev and legacy/test")
    output = Path(output_dir)
    faults = Faults(corpus, output / "tedlium_faults.txt", Options(**options))
    audio: dict[str, dict[str, Path]] = {}
    talks: dict[str, dict[str, Transcript]] = {}
    for part in parts:
        folder = _find_part_folder(corpus, part)
        audio[part] = find_files_by_id([folder / "sph"], "*.sph", part, faults)
        stms = find_files_by_id([folder / "stm"], "*.stm", part, faults)
        talks[part] = pair_transcripts(audio[part], stms, read_stm, part, faults)
    data = write_recordings(audio, talks, faults, output)
    for part, tables in data.items():
        ignored = {}
        for talk in tables.utterances:
            regions = talks[part][talk].ignored
            if regions:
                ignored[talk] = regions
        write_regions(output / f"tedlium_ignored_{part}.txt", ignored)
    return data


def _find_part_folder(corpus: Path, part: str) -> Path:
    """Find the folder of a part, which holds stm and sph."""
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
    # Braces are no alternatives here, but marks such as {NOISE}.
    turns = list(formats.read_stm(path, alternatives=True))
    others = [turn.recording for turn in turns if turn.recording != path.stem]
    if others:
        raise InputError(
            f"{path}: it has a line of the talk {others[0]}, and is named "
            f"{path.stem}: fix one of them"
        )
    ignored = []
    segments = []
    for turn in turns:
        if turn.words == (formats.IGNORED,):
            ignored.append(turn.span)
        else:
            segments.append((*turn.span, _clean_text(turn.text)))
    spoken = [segment for segment in sorted(segments) if segment[2]]
    text = " ".join(text for _, _, text in spoken)
    end = max((end for _, end, _ in spoken), default=0.0)
    return Transcript(text, ignored, end)


def _clean_text(text: str) -> str:
    plain = _PRONUNCIATION.sub("", text)
    plain = _UTTERANCE.sub("", plain)
    words = [word for word in plain.split() if word[0] not in "<{["]
    # What join_suffix.py does in Kaldi's recipe: "we 're" becomes "we're".
    return " ".join(words).replace(" '", "'")
