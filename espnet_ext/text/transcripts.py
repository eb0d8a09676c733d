"""Read transcripts in any format, which is detected by the file's name and content.

Kaldi text, trn and NeMo's manifests name utterances. The others say at what time of a
recording something was said.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table, read_text_lines
from espnet_ext.text import captions, formats, whisper_json
from espnet_ext.text.words import Segment, group_by_recording, sort_by_start

KALDI, TRN, STM, CTM, RTTM, SEGLST, WHISPER, SRT, VTT, NEMO, WINDOWS = FORMATS = (
    "kaldi", "trn", "stm", "ctm", "rttm", "seglst", "whisper", "srt", "vtt", "nemo",
    "windows",
)  # fmt: skip
OF_UTTERANCES = (KALDI, TRN, NEMO)
OF_WORDS = (CTM, RTTM)
AUTO = "auto"
_SUFFIXES = {
    ".trn": TRN,
    ".stm": STM,
    ".ctm": CTM,
    ".rttm": RTTM,
    ".srt": SRT,
    ".vtt": VTT,
    ".seglst": SEGLST,
}
_JSON = (".json", ".jsonl")
_JSON_BEGIN = re.compile(r'\s*([\[{]\s*$|\{\s*["}]|\[\s*[\[{"\]0-9-])')
# What would pass for Kaldi text, of which almost any line is one, and how it begins.
_OTHERS = {
    "XML or HTML": re.compile(r"\s*<[?!a-zA-Z]+[\s>]"),
    "a TextGrid": re.compile(r"\s*File type\s*="),
    "a table with a header": re.compile(
        r"(start\tend\ttext|client_id\t|path[\t,]|[a-z_]+,[a-z_,]*(text|sentence|transcript))"
    ),
}
_RTTM_TYPES = ("LEXEME", "SPEAKER", "SPKR-INFO")
_SAMPLE = 50  # lines that decide on a format


@dataclass(frozen=True)
class Transcripts:
    """What one file holds."""

    path: Path
    format: str  # one of FORMATS
    texts: dict[str, str]  # by utterance id, in the file's order; empty for recordings
    # What is said in recordings, in the file's order; empty for utterances.
    segments: tuple[Segment, ...] = ()
    # What an STM excludes from scoring, without words.
    ignored: tuple[Segment, ...] = ()

    @property
    def of_utterances(self) -> bool:
        """Whether the file names utterances and not recordings."""
        return self.format in OF_UTTERANCES

    @property
    def plain(self) -> dict[str, str]:
        """Text by utterance or recording.

        What several people say in a recording is in the order of time.
        """
        if self.of_utterances:
            return self.texts
        texts: dict[str, str] = {}
        recordings = group_by_recording(sort_by_start(self.segments))
        for name, own in recordings.items():
            words = [word for segment in own for word in segment.words]
            texts[name] = " ".join(words)
        return texts


def _read_whisper_segments(path: Path) -> Iterator[Segment]:
    """Read the segments of Whisper's JSON.

    A window, or a file, without a word is a recording in which nobody speaks.
    """
    for window in whisper_json.read_whisper(path):
        yield from window.segments or (Segment(window.utterance, "", ()),)


def _refuse_windows(path: Path) -> list[Segment]:
    raise InputError(
        f"{path}: hypotheses of windows overlap: join them first (espnet-ext "
        "stitch join)"
    )


def read_transcripts(
    path: str | Path, form: str = AUTO, *, recognised: bool = False
) -> Transcripts:
    """Read transcripts in a format, or in the one that is detected.

    ``recognised`` reads hypotheses and not references, where a file holds both. Raises
    InputError: the file cannot be read, or a line is not of the format.
    """
    path = Path(path)
    form = detect_format(path) if form == AUTO else form
    if form == KALDI:
        return Transcripts(path, form, read_table(path, marked=True))
    if form == TRN:
        return Transcripts(path, form, formats.read_trn(path))
    if form == NEMO:
        return Transcripts(path, form, formats.read_nemo(path, recognised=recognised))
    if form not in _SEGMENTS:
        raise InputError(f"unknown format {form!r}: choose one of {', '.join(FORMATS)}")
    scored: list[Segment] = []
    ignored: list[Segment] = []
    for segment in _SEGMENTS[form](path):
        if form == STM and segment.words == (formats.IGNORED,):
            ignored.append(replace(segment, words=()))
        else:
            scored.append(segment)
    return Transcripts(path, form, {}, tuple(scored), tuple(ignored))


def _make_word_reader(
    read: Callable[[Path], Iterable[Segment]],
) -> Callable[[Path], Iterator[Segment]]:
    """Return a reader of words, whose channel is their speaker if they name none."""

    def read_with_speakers(path: Path) -> Iterator[Segment]:
        for word in read(path):
            yield word if word.speaker else replace(word, speaker=word.channel)

    return read_with_speakers


_SEGMENTS: Mapping[str, Callable[[Path], Iterable[Segment]]] = {
    STM: formats.read_stm,
    CTM: _make_word_reader(formats.read_ctm),
    RTTM: _make_word_reader(formats.read_rttm),
    SEGLST: formats.read_seglst,
    WHISPER: _read_whisper_segments,
    SRT: captions.read_captions,
    VTT: captions.read_captions,
    WINDOWS: _refuse_windows,
}


def read_segments(
    path: str | Path, *, may_be_empty: bool = False, form: str = AUTO
) -> list[Segment]:
    """Read what was said in recordings, in any format that names speakers.

    Raises InputError: as :func:`read_transcripts`; the file names utterances; or it
    holds nothing and may not be empty.
    """
    found = read_transcripts(path, form)
    if found.of_utterances:
        raise InputError(
            f"{path}: {found.format} does not say who spoke when: give STM, CTM "
            "or SegLST"
        )
    if not found.segments and not may_be_empty:
        raise InputError(
            f"{path}: not a list of turns: write SegLST, one object per turn"
        )
    return list(found.segments)


def detect_format(path: Path) -> str:
    """Return the format of a file: by its name, else by its first lines.

    What is nothing else is Kaldi text. Raises InputError: the file is empty, JSON of
    another kind, or known not to be a transcript.
    """
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix in _SUFFIXES:
        return _SUFFIXES[suffix]
    if suffix in _JSON or _begins_as_json(path):
        return _detect_json_format(path)
    lines = [line for _, line in islice(formats.read_nist_lines(path), _SAMPLE)]
    if not lines:
        return KALDI
    if lines[0].startswith("WEBVTT"):
        return VTT
    # The first cue of SRT has its number above its times.
    numbered = len(lines) > 1 and lines[0].strip().isdecimal()
    if captions.is_timing(lines[1] if numbered else lines[0]):
        return SRT
    if all(line.split()[0] in _RTTM_TYPES for line in lines):
        return RTTM
    # STM first: it has one field more before the times, so that with a numeral for a
    # speaker it would pass for CTM.
    if all(map(formats.is_stm, lines)) and _are_times(lines, slice(3, 5)):
        return STM
    if all(map(formats.is_ctm, lines)) and _are_times(lines, slice(2, 4)):
        return CTM
    if all(map(formats.TRN_LINE.fullmatch, lines)):
        return TRN
    for what, begin in _OTHERS.items():
        if begin.match(lines[0]):
            raise InputError(
                f"{path}: {what}, which is not read: convert it to one of "
                f"{', '.join(FORMATS)}"
            )
    return KALDI


def _begins_as_json(path: Path) -> bool:
    """Return whether the first line with text begins an object or a list of JSON."""
    for line in read_text_lines(path, marked=True):
        if line.strip():
            return _JSON_BEGIN.match(line) is not None
    return False


def _are_times(lines: list[str], places: slice) -> bool:
    """Return whether fields are times, and not numerals that are words of Kaldi text.

    In Kaldi text each id comes once; in a file of times a recording has many lines, or
    some time has a decimal point in each.
    """
    names = [line.split()[0] for line in lines]
    if len(set(names)) < len(names):
        return True
    fields = [line.split()[places] for line in lines]
    return all(any("." in field for field in times) for times in fields)


def _detect_json_format(path: Path) -> str:
    content: Any = formats.load_json(path)
    if content == []:
        return SEGLST
    first = content[0] if isinstance(content, list) else content
    if not isinstance(first, dict):
        raise InputError(
            f"{path}: entry 1: not an object: write Whisper's JSON or SegLST"
        )
    if "session_id" in first:
        return SEGLST
    if any(key in first for key in whisper_json.PARTS):
        return WHISPER
    if "audio_filepath" in first:
        return NEMO
    if whisper_json.is_segment_list(content):
        return WHISPER
    if "utts" in first:
        raise InputError(
            f"{path}: ESPnet1's data.json, which is not read: give ref.trn and "
            "hyp.trn of its scoring"
        )
    if "window" in first and "recording" in first:
        return WINDOWS
    if isinstance(content, list):
        return SEGLST  # whose reader says what is missing in which entry
    raise InputError(
        f"{path}: neither Whisper's JSON nor SegLST: write SegLST, Whisper's JSON "
        "or NeMo's manifest"
    )
