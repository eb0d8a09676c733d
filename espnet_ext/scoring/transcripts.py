"""Transcripts in the formats of other toolkits: Kaldi text, sclite's trn, STM, CTM and SegLST.

Kaldi text and trn name utterances. STM, CTM and SegLST say at what time of a recording something was said. A CTM knows
no speakers, so its channels take their place.
"""

import re
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.text.ctm import is_number, nist_lines, read_ctm
from espnet_ext.text.turns import Turn, check_span, read_turns

KALDI, TRN, STM, CTM, SEGLST = FORMATS = ("kaldi", "trn", "stm", "ctm", "seglst")
OF_UTTERANCES = (KALDI, TRN)
AUTO = "auto"
_SUFFIXES = {".trn": TRN, ".stm": STM, ".ctm": CTM, ".json": SEGLST, ".seglst": SEGLST}
_SUBTITLES = (".srt", ".vtt")
_TRN = re.compile(r"(.*?)\s*\(([^()\s]+)\)\s*")
_STM_LABEL = re.compile(r"<[^<>\s]*>\s*")  # such as <o,f0,male>
_IGNORED = "IGNORE_TIME_SEGMENT_IN_SCORING"
_ALTERNATIVES = re.compile(r"(^|\s)[{}/@](\s|$)")
_SAMPLE = 50  # lines that decide on a format


@dataclass(frozen=True)
class Transcripts:
    """What one file holds.

    Attributes:
        path: the file.
        format: one of ``FORMATS``.
        texts: text by utterance id, in the file's order; empty for recordings.
        turns: what was said in recordings, in the file's order; empty for utterances.
        channels: the channel of each turn; "" where the format has none.
        ignored: stretches that an STM excludes from scoring, as turns without words, and their channels.
    """

    path: Path
    format: str
    texts: dict[str, str]
    turns: tuple[Turn, ...] = ()
    channels: tuple[str, ...] = ()
    ignored: tuple[tuple[Turn, str], ...] = ()

    @property
    def of_utterances(self) -> bool:
        """Whether the file names utterances and not recordings."""
        return self.format in OF_UTTERANCES


def read_transcripts(path: str | Path, form: str = AUTO) -> Transcripts:
    """Read transcripts; ``form`` is their format, or ``auto`` to detect it.

    Raises:
        InputError: the file cannot be read, or a line is not of the format; the message says which.
    """
    path = Path(path)
    if path.suffix.lower() in _SUBTITLES:
        raise InputError(
            f"{path}: subtitles cannot be scored: give Kaldi text, STM, CTM, trn or SegLST (transcribe --formats)"
        )
    form = detect_format(path) if form == AUTO else form
    if form == KALDI:
        return Transcripts(path, form, read_table(path))
    if form == TRN:
        return Transcripts(path, form, _read_trn(path))
    if form == SEGLST:
        turns = tuple(read_turns(path, may_be_empty=True))
        return Transcripts(path, form, {}, turns, ("",) * len(turns))
    if form in (STM, CTM):
        return _read_stm(path) if form == STM else _read_ctm(path)
    raise InputError(f"unknown format {form!r}: choose one of {', '.join(FORMATS)}")


def detect_format(path: Path) -> str:
    """The format of a file: by its name (.trn .stm .ctm .json), else by its first lines; otherwise Kaldi text."""
    if path.suffix.lower() in _SUFFIXES:
        return _SUFFIXES[path.suffix.lower()]
    lines = [line for _, line in islice(nist_lines(path), _SAMPLE)]
    if lines and lines[0].lstrip()[:1] in ("[", "{") and path.read_bytes().rstrip()[-1:] in (b"]", b"}"):
        return SEGLST
    for form, fits in ((STM, _is_stm), (CTM, _is_ctm), (TRN, lambda line: _TRN.fullmatch(line) is not None)):
        if lines and all(map(fits, lines)):
            return form
    return KALDI


def _is_stm(line: str) -> bool:
    fields = line.split(maxsplit=5)
    return len(fields) >= 5 and all(map(is_number, fields[3:5]))


def _is_ctm(line: str) -> bool:
    fields = line.split()
    return len(fields) in (5, 6) and all(map(is_number, fields[2:4]))


def _read_trn(path: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    for where, line in nist_lines(path):
        found = _TRN.fullmatch(line)
        if found is None:
            raise InputError(f"{where} does not end in an id in brackets: write `words (id)`")
        text, key = found.groups()
        if key in texts:
            raise InputError(f"{where}: id {key} comes twice: keep one of its lines")
        texts[key] = _plain(text.strip(), where)
    return texts


def _read_ctm(path: Path) -> Transcripts:
    words = list(read_ctm(path))
    turns = tuple(Turn(word.recording, word.channel, (word.text,), word.start, word.end) for word in words)
    return Transcripts(path, CTM, {}, turns, tuple(word.channel for word in words))


def _read_stm(path: Path) -> Transcripts:
    turns: list[Turn] = []
    channels: list[str] = []
    ignored: list[tuple[Turn, str]] = []
    for where, line in nist_lines(path):
        turn, channel = _stm_line(line, where)
        if turn.words == (_IGNORED,):
            ignored.append((replace(turn, words=()), channel))
        else:
            turns.append(turn)
            channels.append(channel)
    return Transcripts(path, STM, {}, tuple(turns), tuple(channels), tuple(ignored))


def _stm_line(line: str, where: str) -> tuple[Turn, str]:
    """The turn of a line, and its channel. (MeetEval's parser, which the tests compare, refuses channels that are
    letters where a time is a whole number.)"""
    fields = line.split(maxsplit=5)
    if not _is_stm(line):
        raise InputError(f"{where} is not `file channel speaker start end words`: fix it, or force another format")
    name, channel, speaker, start, end = fields[:5]
    check_span(float(start), float(end), where)
    words = _plain(_STM_LABEL.sub("", "".join(fields[5:]).strip(), count=1), where)
    return Turn(name, speaker, tuple(words.split()), float(start), float(end)), channel


def _plain(text: str, where: str) -> str:
    """A text without sclite's alternatives.

    Raises:
        InputError: it has some, such as ``{ uh / um / @ }``, which are not supported.
    """
    if _ALTERNATIVES.search(text):
        raise InputError(f"{where} has alternatives ({{ a / b }}), which are not supported: write one of them")
    return text
