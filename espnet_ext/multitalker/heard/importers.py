"""What other recognisers write, read as hypotheses of windows.

- ``.json``: Whisper's and WhisperX's (``segments``, with ``words`` or without, with ``speaker`` or without), that of
  the pipelines of transformers (``chunks``), or a list of such objects, one per window; or SegLST. A window says
  ``start`` and ``end`` in seconds of the recording, or ``offset`` and ``duration`` if the times in it begin with it.
- ``.ctm``: of Kaldi, NeMo and NIST, see :mod:`espnet_ext.text.ctm`.
- ``.rttm``: LEXEME lines, ``LEXEME utterance channel start duration word type speaker confidence``.
- ``.jsonl``: ours, see :mod:`espnet_ext.multitalker.heard.hypotheses`.

Windows are told by their times. With a Kaldi ``segments`` file the utterances of the other files (a session of SegLST,
the name of a JSON file without its ending) are windows, and times in them count from the window's start, as Kaldi's and
NeMo's tools write them. Without it, an utterance is a recording: of one window, or, in SegLST, of one for each turn;
JSON may name the recording of its window by the key ``recording``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import Segment, parse_segment
from espnet_ext.kaldi.tables import read_table
from espnet_ext.multitalker.heard.checks import suspicions, warn
from espnet_ext.multitalker.heard.files import HeardWindow, HeardWord, Span, is_seglst, read_heard
from espnet_ext.multitalker.heard.hypotheses import NOBODY, Grouped, WindowHypothesis, group_by_speaker, read_jsonl
from espnet_ext.text.transcript import SPEAKER


@dataclass(frozen=True)
class PlacedWindow:
    """The words of a window, with times of the recording in seconds, and the file that they are from."""

    path: Path
    recording: str
    span: Span
    words: tuple[HeardWord, ...]


def read_grouped(paths: Path | Sequence[Path], segments: Path | None = None, *, speaker: str = SPEAKER) -> Grouped:
    """Read hypotheses of windows, grouped by recording and speaker.

    Args:
        paths: files of one or several of the formats above.
        segments: Kaldi's, of the windows.
        speaker: the speaker of words that name none.

    Windows that are missing, and times that can hardly be right, are warned of on stderr.

    Raises:
        InputError: a file that is missing or does not fit; a window that is given twice; windows that do not, see
            :func:`group_by_speaker`.
    """
    every = [paths] if isinstance(paths, Path) else list(paths)
    known = _segments(segments) if segments else None
    ours = _ours([path for path in every if path.suffix == ".jsonl"])
    heard = list(_heard([path for path in every if path.suffix != ".jsonl"], speaker, known))
    if segments and known is not None:
        heard += _silent(segments, known, heard)
    placed = [_placed(path, window, known) for path, window in heard]
    if known is None and any(is_seglst(path) for path in every if path.suffix == ".json"):
        return _own_windows(placed)
    grouped = group_by_speaker([*ours, *_hypotheses(placed)])
    if known is None and len(grouped) == len(heard) > 1 and all(window.span is None for _, window in heard):
        warn(
            f"{len(heard)} utterances are taken as {len(heard)} recordings: if they are windows of one, give "
            "--segments, or in JSON `recording`, `offset` and `duration` of each"
        )
    for text in suspicions(grouped):
        warn(text)
    return grouped


def _ours(paths: Sequence[Path]) -> list[WindowHypothesis]:
    """The windows of all JSONL files; one that two of them have is refused, one that none has warned of."""
    found: dict[tuple[str, int, str], tuple[Path, WindowHypothesis]] = {}
    for path in paths:
        for item in read_jsonl(path):
            other, _ = found.setdefault((item.recording, item.window, item.speaker), (path, item))
            if other != path:
                raise InputError(
                    f"{path}: {item.recording}: window {item.window} of speaker {item.speaker or 'nobody'} is also in "
                    f"{other}: give each window once"
                )
    windows: dict[str, set[int]] = {}
    for recording, window, _ in found:
        windows.setdefault(recording, set()).add(window)
    for recording, present in windows.items():
        if missing := sorted(set(range(max(present))) - present):
            warn(f"{recording}: {_some('window', list(map(str, missing)))} missing: taken as silent")
    return [item for _, item in found.values()]


def _heard(
    paths: Sequence[Path], speaker: str, segments: Mapping[str, Segment] | None
) -> Iterator[tuple[Path, HeardWindow]]:
    """What the files hold. In one without words nobody was heard, if another has some."""
    read = [(path, read_heard(path, speaker)) for path in paths]
    if read and not any(found for _, found in read):
        raise InputError(f"{paths[0]}: it holds no word: decode again")
    for path, found in read:
        for window in found:
            if window.back:
                start, end = window.back
                warn(
                    f"{path}: {window.utterance}: times go back from {start:.2f} to {end:.2f} s, and words are put in "
                    "the order of time: windows that overlap need an utterance each, and --segments"
                )
            yield path, window
        if not found and segments is not None and path.stem in segments:
            yield path, HeardWindow(path.stem, ())
        elif not found:
            warn(f"{path}: no word in it")


def _silent(
    path: Path, segments: Mapping[str, Segment], heard: Sequence[tuple[Path, HeardWindow]]
) -> list[tuple[Path, HeardWindow]]:
    """The other windows of the recordings that were heard: in them nobody speaks, or they were not decoded."""
    names = {window.utterance for _, window in heard}
    recordings = {segments[name].recording for name in names if name in segments}
    missing = [name for name, segment in segments.items() if segment.recording in recordings and name not in names]
    if missing:
        warn(f"{path}: {_some('window', missing)} without hypotheses: taken as silent")
    return [(path, HeardWindow(name, ())) for name in missing]


def _some(what: str, names: Sequence[str]) -> str:
    """The first few of some names.

    >>> _some("window", ["a", "b", "c", "d", "e"])
    '5 windows (a, b, c ...)'
    """
    if len(names) == 1:
        return f"{what} {names[0]}"
    return f"{len(names)} {what}s ({', '.join(names[:3])}{' ...' if len(names) > 3 else ''})"


def _segments(path: Path) -> dict[str, Segment]:
    found = {}
    for key, row in read_table(path).items():
        try:
            found[key] = parse_segment(row)
        except ValueError:
            raise InputError(f"{path}: {key}: `{row}` is not `recording start end`: fix it") from None
        if not 0 <= found[key].start < found[key].end:
            raise InputError(f"{path}: {key}: from {found[key].start} to {found[key].end} s is no window: fix it")
    return found


def _placed(path: Path, window: HeardWindow, segments: Mapping[str, Segment] | None) -> PlacedWindow:
    """A window in its recording."""
    if segments is not None:
        segment = segments.get(window.utterance)
        if segment is None:
            raise InputError(f"{path}: {window.utterance} is not in --segments: give the segments of its windows")
        moved = tuple(word.later(segment.start) for word in window.words)
        return PlacedWindow(path, segment.recording, (segment.start, segment.end), moved)
    if window.span is None:
        ends = [word.end for word in window.words if word.end is not None]
        if not ends or max(ends) <= 0:
            raise InputError(f"{path}: {window.utterance}: no times: give --segments, or times of words or segments")
        return PlacedWindow(path, window.utterance, (0.0, max(ends)), window.words)
    return PlacedWindow(path, window.utterance, window.span, window.words)


def _hypotheses(placed: Iterable[PlacedWindow]) -> Iterator[WindowHypothesis]:
    """Windows of all recordings, numbered in the order of their times.

    Several files may hold one window, each with its own speakers.
    """
    recordings: dict[str, dict[Span, dict[str, PlacedWindow]]] = {}
    for window in placed:
        speakers = recordings.setdefault(window.recording, {}).setdefault(window.span, {})
        for name in dict.fromkeys(word.speaker for word in window.words):
            other = speakers.setdefault(name, window)
            if other is not window:
                raise InputError(
                    f"{window.path}: {window.recording}: the window from {window.span[0]:g} to {window.span[1]:g} s of "
                    f"{name} is given twice, also in {other.path}: give each window once"
                )
    for recording, windows in recordings.items():
        for index, span in enumerate(sorted(windows)):
            for name, window in windows[span].items():
                own = [word for word in window.words if word.speaker == name]
                yield _hypothesis(recording, index, name, span, own)
            if not windows[span]:
                yield _hypothesis(recording, index, NOBODY, span, [])


def _own_windows(placed: Iterable[PlacedWindow]) -> Grouped:
    """Each speaker's turns as windows of that speaker alone: of the others a turn says nothing."""
    grouped: dict[str, dict[str, list[WindowHypothesis]]] = {}
    for turn in sorted(placed, key=lambda turn: (turn.recording, turn.span)):
        own = grouped.setdefault(turn.recording, {})
        if turn.words:
            name = turn.words[0].speaker
            windows = own.setdefault(name, [])
            windows.append(_hypothesis(turn.recording, len(windows), name, turn.span, turn.words))
    return {name: {who: tuple(windows) for who, windows in sorted(own.items())} for name, own in grouped.items()}


def _hypothesis(recording: str, index: int, speaker: str, span: Span, words: Sequence[HeardWord]) -> WindowHypothesis:
    confidences = [word.confidence for word in words if word.confidence is not None]
    try:
        return WindowHypothesis(
            recording,
            index,
            speaker,
            tuple(word.text for word in words),
            *span,
            times=_filled(words, span),
            confidences=tuple(confidences) if words and len(confidences) == len(words) else None,
        )
    except ValueError as error:
        raise InputError(
            f"{recording}: {error}: fix the hypotheses; times are in seconds, and count from the window's start with "
            "--segments and `offset`, otherwise from the recording's"
        ) from None


def _filled(words: Sequence[HeardWord], span: Span) -> tuple[Span, ...] | None:
    """The times of words; those without share the time between their neighbours. None: no word has a time."""
    if all(word.start is None for word in words):
        return None
    times: list[Span] = []
    for place, word in enumerate(words):
        if word.start is not None and word.end is not None:
            times.append((word.start, word.end))
            continue
        after = next((n for n in range(place, len(words)) if words[n].start is not None), len(words))
        begin = times[-1][1] if times else span[0]
        until = words[after].start if after < len(words) else span[1]
        end = begin + max(0.0, (until or 0.0) - begin) / (after - place)
        times.append((begin, end))
    return tuple(times)
