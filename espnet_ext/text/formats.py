"""One reader for each format of transcripts: trn, STM, CTM, RTTM, SegLST, NeMo's
manifests, our windows. Captions have :mod:`espnet_ext.text.captions`.

A reader returns text by utterance (trn, NeMo's), or segments of recordings, with times
in seconds.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_text, read_text_lines
from espnet_ext.text.words import Segment, Span
from espnet_ext.work.files import parse_json

CTM_LAYOUT = "recording channel start duration word [confidence [type [speaker]]]"
RTTM_LAYOUT = "LEXEME recording channel start duration word type speaker confidence"
IGNORED = "IGNORE_TIME_SEGMENT_IN_SCORING"
NO_SPEAKER = ("NA", "<NA>")
_LEAST, _MOST = 5, 8  # fields of a CTM
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
TRN_LINE = re.compile(r"(.*?)\s*\(([^()\s]+)\)\s*")
# such as <o,f0,male>, at the beginning of the text
_STM_LABEL = re.compile(r"\A<[^<>]*>(\s+|$)")
_ALTERNATIVES = re.compile(r"(^|\s)[{}](\s|$)")


def is_number(text: str) -> bool:
    """Return whether a field is a finite number that is not negative."""
    return _NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def read_nist_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Read the lines of NIST's formats, without comments and empty ones, and where each
    is.

    Raises InputError: the file is missing, empty or not UTF-8.
    """
    for number, line in enumerate(read_text_lines(path, marked=True), start=1):
        if line.strip() and not line.startswith(";;"):
            yield f"{path}: line {number}", line


def read_trn(path: Path) -> dict[str, str]:
    """Read sclite's trn: text by utterance."""
    texts: dict[str, str] = {}
    for where, line in read_nist_lines(path):
        found = TRN_LINE.fullmatch(line)
        if found is None:
            raise InputError(
                f"{where} does not end in an id in brackets: write `words (id)`"
            )
        text, key = found.groups()
        if key in texts:
            raise InputError(f"{where}: id {key} comes twice: keep one of its lines")
        texts[key] = _refuse_alternatives(text.strip(), where)
    return texts


def is_stm(line: str) -> bool:
    """Return whether a line looks like STM."""
    fields = line.split(maxsplit=5)
    return len(fields) >= 5 and all(map(is_number, fields[3:5]))


def read_stm(path: Path, *, alternatives: bool = False) -> Iterator[Segment]:
    """Read STM, ``recording channel speaker start end [<label>] words``.

    A stretch that scoring leaves out has the one word :data:`IGNORED`. With
    ``alternatives`` braces are words; otherwise they are refused.
    """
    for where, line in read_nist_lines(path):
        if not is_stm(line):
            raise InputError(
                f"{where} is not `file channel speaker start end words`: fix it, "
                "or force another format"
            )
        name, channel, speaker, start, end, *text = line.split(maxsplit=5)
        span = _check_span(float(start), float(end), where)
        words = _STM_LABEL.sub("", "".join(text).strip() + " ", count=1).strip()
        words = words if alternatives else _refuse_alternatives(words, where)
        if words.upper() == IGNORED:
            words = IGNORED
        yield Segment(name, speaker, tuple(words.split()), *span, channel=channel)


def _refuse_alternatives(text: str, where: str) -> str:
    """Return a text without sclite's alternatives, such as ``{ uh / um / @ }``, which
    are not supported.
    """
    if _ALTERNATIVES.search(text):
        raise InputError(
            f"{where} has alternatives ({{ a / b }}), which are not supported: "
            "write one of them"
        )
    return text


def is_ctm(line: str) -> bool:
    """Return whether a line looks like CTM."""
    fields = line.split()
    return _LEAST <= len(fields) <= _MOST and all(map(is_number, fields[2:4]))


def read_ctm(path: Path) -> Iterator[Segment]:
    """Read CTM: a segment for each word, whose speaker is "" where it is not known.

    What is not known is ``NA``.
    """
    for where, line in read_nist_lines(path):
        fields = line.split()
        if fields[2:4] == ["*", "*"] and fields[4:5] and fields[4].startswith("<ALT"):
            raise InputError(
                f"{where} has alternatives ({fields[4]}), which are not supported: "
                "write one of them"
            )
        yield _parse_ctm_word(fields, where)


def _parse_ctm_word(
    fields: Sequence[str], where: str, layout: str = CTM_LAYOUT
) -> Segment:
    """Return the word in the fields of a line; the message names ``layout``."""
    recording, channel, start, seconds, text, score, _, speaker = [
        *fields[:_MOST],
        *["NA"] * (_MOST - len(fields)),
    ]
    known = None if score in NO_SPEAKER else score
    timed = _LEAST <= len(fields) <= _MOST and is_number(start) and is_number(seconds)
    if not timed or not (known is None or is_number(known.removeprefix("-"))):
        raise InputError(f"{where} is not `{layout}`: fix it")
    return Segment(
        recording,
        "" if speaker in NO_SPEAKER else speaker,
        (text,),
        float(start),
        float(start) + float(seconds),
        confidences=None if known is None else (float(known),),
        channel=channel,
    )


def read_rttm(path: Path) -> Iterator[Segment]:
    """Read the words of RTTM, its lines ``LEXEME``, each as a segment."""
    for where, line in read_nist_lines(path):
        if line.split()[0] == "LEXEME":
            timed, labels = line.split()[1:6], line.split()[6:]
            kind, who, score = [*labels, *["NA"] * 3][:3]
            yield _parse_ctm_word(
                [*timed, score, kind, who] if len(timed) == 5 else timed,
                where,
                RTTM_LAYOUT,
            )


def load_json(path: Path) -> Any:
    """Read a file of JSON, or of JSON objects, one per line, as a list."""
    text = read_text(path)
    try:
        return parse_json(text)
    except ValueError as error:
        lines = [
            (number, line)
            for number, line in enumerate(text.split("\n"), start=1)
            if line.strip()
        ]
        if len(lines) < 2:
            what = f"not JSON ({error})" if lines else "it is empty"
            raise InputError(
                f"{path}: {what}: write Whisper's JSON or SegLST"
            ) from None
    return [_parse_json_line(line, f"{path}: line {number}") for number, line in lines]


def _parse_json_line(line: str, where: str) -> Any:
    try:
        return parse_json(line)
    except ValueError as error:
        raise InputError(
            f"{where}: not JSON ({error}): write one value, or one object per line"
        ) from None


def read_seglst(path: Path) -> Iterator[Segment]:
    """Read SegLST, a list of objects.

    A recording in which nobody speaks has one without words.
    """
    from espnet_ext.text.json_records import Turn, check_record

    records = load_json(path)
    if not isinstance(records, list):
        raise InputError(
            f"{path}: not a list of turns: write SegLST, one object per turn"
        )
    for number, record in enumerate(records, start=1):
        where = f"{path}: turn {number}"
        turn = check_record(Turn, record, where, "write SegLST")
        if not turn.speaker and turn.words.strip():
            raise InputError(
                f"{where}: words of {turn.session_id} without a speaker: name the "
                "speaker"
            )
        times = turn.start_time, turn.end_time
        span = (0.0, math.inf) if times == (None, None) else _check_span(*times, where)
        yield Segment(turn.session_id, turn.speaker, tuple(turn.words.split()), *span)


def _check_span(start: float | None, end: float | None, where: str) -> Span:
    """Return a time span in seconds, after a check.

    Raises InputError: an end is missing or not finite, or the span runs backwards.
    """
    if start is None or end is None or not 0 <= start <= end < math.inf:
        raise InputError(
            f"{where}: from {start} to {end} s is not a time span: fix it, or "
            "leave both out"
        )
    return start, end


def read_nemo(path: Path, *, recognised: bool = False) -> dict[str, str]:
    """Read a manifest of NeMo: the references, or what was recognised, by the name of
    the audio file.
    """
    from espnet_ext.text.json_records import ManifestEntry, check_record

    texts: dict[str, str] = {}
    entries = load_json(path)
    for number, record in enumerate(
        entries if isinstance(entries, list) else [entries], start=1
    ):
        where, advice = f"{path}: line {number}", "write a manifest of NeMo"
        entry = check_record(ManifestEntry, record, where, advice)
        name = Path(entry.audio_filepath).stem
        text = (
            entry.pred_text
            if recognised and "pred_text" in entry.model_fields_set
            else entry.text
        )
        if text is None:
            raise InputError(
                f"{where}: no {'pred_text' if recognised else 'text'} of {name}: "
                f"{advice}"
            )
        if name in texts:
            raise InputError(f"{where}: {name} comes twice: keep one of its lines")
        texts[name] = text
    return texts


def read_hypotheses(path: str | Path) -> list[Segment]:
    """Read what was recognised in windows, as
    :func:`espnet_ext.text.writing.write_hypotheses` writes it.
    """
    lines = read_text(path).split("\n")
    windows = [
        _parse_window(line, f"{path}: line {number}")
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not windows:
        raise InputError(f"{path}: it holds no hypothesis: decode again")
    (key, times), *_ = Counter(
        (item.recording, item.window, item.speaker) for item in windows
    ).most_common(1)
    if times > 1:
        raise InputError(
            f"{path}: {key[0]}: speaker {key[2]} appears twice in window "
            f"{key[1]}: join the lines"
        )
    return windows


def _parse_window(line: str, where: str) -> Segment:
    from espnet_ext.text.json_records import WindowRecord, check_record

    record = check_record(WindowRecord, _parse_json_line(line, where), where, "fix it")
    try:
        if record.words and not record.speaker:
            raise ValueError("words without a speaker")
        return Segment(**dict(record))
    except ValueError as error:
        raise InputError(f"{where}: {record.recording}: {error}: fix it") from None
