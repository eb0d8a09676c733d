"""Read trn, STM, CTM, RTTM, SegLST, NeMo's manifests and our windows.

Captions have :mod:`espnet_ext.text.captions`. A reader returns text by utterance (trn,
NeMo's), or segments of recordings, with times in seconds.
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
NOT_KNOWN = ("NA", "<NA>")  # what stands for a speaker or a confidence
_LEAST_FIELDS = 5  # of a CTM: up to the word
_MOST_FIELDS = 8
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
TRN_LINE = re.compile(r"(.*?)\s*\(([^()\s]+)\)\s*")
# A category of NIST's, such as <o,f0,male>, at the beginning of the text.
_STM_LABEL = re.compile(r"\A<[^<>]*>(\s+|$)")
_ALTERNATIVES = re.compile(r"(^|\s)[{}](\s|$)")


def is_number(text: str) -> bool:
    """Return whether a field is a finite number that is not negative."""
    return _NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def read_nist_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each line of a file in a NIST format.

    Comments (``;;``) and empty lines are left out. Raises InputError: the file is
    missing, empty or not UTF-8.
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
        text = text.strip()
        _refuse_alternatives(text, where)
        texts[key] = text
    return texts


def is_stm(line: str) -> bool:
    """Return whether a line looks like STM."""
    fields = line.split(maxsplit=5)
    # A line without words is a stretch in which nobody speaks.
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
        # No more than five cuts, so that what follows the times keeps its blanks. It
        # may be absent.
        name, channel, speaker, start, end, *rest = line.split(maxsplit=5)
        span = _check_span(float(start), float(end), where)
        text = rest[0] if rest else ""
        words = _STM_LABEL.sub("", text).strip()
        if not alternatives:
            _refuse_alternatives(words, where)
        # TED-LIUM has it in lower case.
        if words.upper() == IGNORED:
            words = IGNORED
        yield Segment(name, speaker, tuple(words.split()), *span, channel=channel)


def _refuse_alternatives(text: str, where: str) -> None:
    """Refuse a text with sclite's alternatives, such as ``{ uh / um / @ }``."""
    if _ALTERNATIVES.search(text):
        raise InputError(
            f"{where} has alternatives ({{ a / b }}), which are not supported: "
            "write one of them"
        )


def is_ctm(line: str) -> bool:
    """Return whether a line looks like CTM."""
    fields = line.split()
    if not _LEAST_FIELDS <= len(fields) <= _MOST_FIELDS:
        return False
    return all(map(is_number, fields[2:4]))


def read_ctm(path: Path) -> Iterator[Segment]:
    """Read CTM: a segment for each word.

    Where a line has ``NA`` for the speaker or none, the segment's is "".
    """
    for where, line in read_nist_lines(path):
        fields = line.split()
        # <ALT_BEGIN>, <ALT> and <ALT_END> have asterisks for their times.
        untimed = fields[2:4] == ["*", "*"]
        if untimed and len(fields) > 4 and fields[4].startswith("<ALT"):
            raise InputError(
                f"{where} has alternatives ({fields[4]}), which are not supported: "
                "write one of them"
            )
        yield _parse_ctm_word(fields, where)


def _parse_ctm_word(
    fields: Sequence[str], where: str, layout: str = CTM_LAYOUT
) -> Segment:
    """Return the word in the fields of a line; the message names ``layout``."""
    if not _LEAST_FIELDS <= len(fields) <= _MOST_FIELDS:
        raise InputError(f"{where} is not `{layout}`: fix it")
    absent = ["NA"] * (_MOST_FIELDS - len(fields))
    recording, channel, start, seconds, text, score, _, speaker = [*fields, *absent]
    has_score = score not in NOT_KNOWN
    to_check = [start, seconds]
    if has_score:
        # A confidence may be negative, such as a log-probability.
        to_check.append(score.removeprefix("-"))
    if not all(map(is_number, to_check)):
        raise InputError(f"{where} is not `{layout}`: fix it")
    return Segment(
        recording,
        "" if speaker in NOT_KNOWN else speaker,
        (text,),
        float(start),
        float(start) + float(seconds),
        confidences=(float(score),) if has_score else None,
        channel=channel,
    )


def read_rttm(path: Path) -> Iterator[Segment]:
    """Read the words of RTTM, its lines ``LEXEME``, each as a segment."""
    for where, line in read_nist_lines(path):
        first, *fields = line.split()
        # Lines of other types, such as SPEAKER, have times but no words.
        if first != "LEXEME":
            continue
        up_to_word = fields[:_LEAST_FIELDS]
        # In the order of a CTM, which has the confidence before type and speaker. A
        # line without a word is left short, so that it is refused.
        if len(up_to_word) == _LEAST_FIELDS:
            kind, speaker, score = [*fields[_LEAST_FIELDS:], "NA", "NA", "NA"][:3]
            up_to_word += [score, kind, speaker]
        yield _parse_ctm_word(up_to_word, where, RTTM_LAYOUT)


def load_json(path: Path) -> Any:
    """Read a file of JSON, or of JSON objects, one per line, as a list."""
    text = read_text(path)
    try:
        return parse_json(text)
    except ValueError as error:
        # Not splitlines(): JSON allows U+2028 and the like inside of its strings.
        lines = [
            (number, line)
            for number, line in enumerate(text.split("\n"), start=1)
            if line.strip()
        ]
        # More lines may each be JSON; one line cannot be, as the whole text is not.
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
    # Here, not above: pydantic takes long to import, and other formats do without it.
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
        span = (0.0, math.inf)
        if turn.start_time is not None or turn.end_time is not None:
            span = _check_span(turn.start_time, turn.end_time, where)
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
    """Read a manifest of NeMo: references or hypotheses, by the audio files' names."""
    from espnet_ext.text.json_records import ManifestEntry, check_record

    texts: dict[str, str] = {}
    entries = load_json(path)
    # A manifest of one line is one value of JSON.
    if not isinstance(entries, list):
        entries = [entries]
    advice = "write a manifest of NeMo"
    for number, record in enumerate(entries, start=1):
        where = f"{path}: line {number}"
        entry = check_record(ManifestEntry, record, where, advice)
        name = Path(entry.audio_filepath).stem
        text = entry.text
        # NeMo adds what it recognised to the line of the reference, as ``pred_text``. A
        # line without that key may be of hypotheses alone, so its ``text`` is read; but
        # if the key is there and null, a hypothesis is missing.
        if recognised and "pred_text" in entry.model_fields_set:
            text = entry.pred_text
        if text is None:
            key = "pred_text" if recognised else "text"
            raise InputError(f"{where}: no {key} of {name}: {advice}")
        if name in texts:
            raise InputError(f"{where}: {name} comes twice: keep one of its lines")
        texts[name] = text
    return texts


def read_hypotheses(path: str | Path) -> list[Segment]:
    """Read what was recognised in windows.

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
    keys = Counter((item.recording, item.window, item.speaker) for item in windows)
    # The first of most_common() is there more than once if any is.
    key, times = keys.most_common(1)[0]
    recording, index, speaker = key
    if times > 1:
        raise InputError(
            f"{path}: {recording}: speaker {speaker} appears twice in window "
            f"{index}: join the lines"
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
