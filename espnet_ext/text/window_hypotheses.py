"""What recognisers write of the windows of long recordings, grouped by recording and
speaker.

With a Kaldi ``segments`` file, utterances are windows (a session of SegLST, the name of
a JSON file), and times count from their starts; without it, an utterance is a
recording: of one window, or, in SegLST, of one for each turn.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from espnet_ext.errors import InputError, warn
from espnet_ext.kaldi.data_dir import KaldiSegment, parse_segment
from espnet_ext.kaldi.tables import read_table
from espnet_ext.text.formats import read_ctm, read_hypotheses, read_rttm
from espnet_ext.text.transcripts import (
    AUTO,
    CTM,
    RTTM,
    SEGLST,
    WHISPER,
    WINDOWS,
    detect_format,
    read_segments,
)
from espnet_ext.text.whisper_json import (
    Ends,
    Window,
    fill_times,
    read_whisper,
    shift_segment,
)
from espnet_ext.text.words import SPEAKER, Segment, Span, group_by_recording

NOBODY = ""  # the speaker of a window in which nobody speaks
GAP = 1.0  # seconds between windows that otherwise touch or overlap
LONGEST_WORD = 10.0  # seconds

# recording -> speaker -> what was recognised in each of the recording's windows, in
# their order
Grouped = dict[str, dict[str, tuple[Segment, ...]]]


def is_timed(windows: Iterable[Segment]) -> bool:
    """Return whether the recogniser has given the times of all words."""
    return all(item.times is not None or not item.words for item in windows)


def group_by_speaker(windows: Iterable[Segment]) -> Grouped:
    """Group windows by recording and speaker, window 0 first, with an empty one
    wherever a speaker is silent (P4, 3.1).

    A window that is missing between others is filled in at their distance. A recording
    in which nobody speaks has no speakers. Raises InputError: segments disagree about a
    window's times, or windows are not in the order of their times.
    """
    spoken: dict[str, dict[str, dict[int, Segment]]] = {}
    spans: dict[str, dict[int, Span]] = {}
    for item in windows:
        index = item.window
        speakers = spoken.setdefault(item.recording, {})
        if item.speaker != NOBODY:
            speakers.setdefault(item.speaker, {})[index] = item
        span = spans.setdefault(item.recording, {}).setdefault(index, item.span)
        if max(abs(span[0] - item.start), abs(span[1] - item.end)) > 1e-3:
            raise InputError(
                f"{item.recording}: window {index} goes from {span[0]} to "
                f"{span[1]} s, but from {item.start} to "
                f"{item.end} s for speaker {item.speaker or 'nobody'}: cut and "
                "decode the recording again"
            )
    grouped: Grouped = {}
    for recording in sorted(spoken):
        every = _every_window(recording, spans[recording])
        grouped[recording] = {
            speaker: tuple(
                items.get(index)
                or Segment(recording, speaker, (), start, end, window=index)
                for index, (start, end) in enumerate(every)
            )
            for speaker, items in sorted(spoken[recording].items())
        }
    return grouped


def _every_window(recording: str, spans: Mapping[int, Span]) -> list[Span]:
    """Return start and end of each window from 0 to the last, those in between filled
    in.
    """
    order = sorted(spans)
    first, last = order[0], order[-1]
    for one, other in pairwise(order):
        if spans[other][0] <= spans[one][0]:
            raise InputError(
                f"{recording}: window {other} starts at {spans[other][0]} s, but "
                f"window {one} at {spans[one][0]} s: "
                "number windows in the order of their starts"
            )
    length = max(end - start for start, end in spans.values())
    # Of a single window with an index above 0 nothing is known but its start.
    known = (0, 0.0) if first == last else (first, spans[first][0])
    shift = (spans[last][0] - known[1]) / max(last - known[0], 1)
    if first > 0 and (not spans[first][0] or spans[first][0] < first * shift / 2):
        raise InputError(
            f"{recording}: window {first} starts at {spans[first][0]} s: count "
            "windows from 0"
        )
    every = []
    for index in range(last + 1):
        start = max(0.0, round(known[1] + shift * (index - known[0]), 8))
        every.append(spans.get(index, (start, start + length)))
    return every


def read_grouped(
    paths: Path | Sequence[Path], segments: Path | None = None, form: str = AUTO
) -> Grouped:
    """Read windows from our format, Whisper's JSON, SegLST, CTM or RTTM, grouped by
    recording and speaker.

    ``segments`` is Kaldi's, of the windows; ``form`` the format of all files. Windows that are missing, and times that
    can hardly be right, are warned of on stderr. Raises InputError: as
    :func:`group_by_speaker`; a file that does not fit; a window that is given twice.
    """
    every = {
        path: detect_format(path) if form == AUTO else form
        for path in ([paths] if isinstance(paths, Path) else paths)
    }
    for path, form in every.items():
        if form not in (WINDOWS, WHISPER, SEGLST, CTM, RTTM):
            raise InputError(
                f"{path}: {form} has no windows: give ours, Whisper's JSON, "
                "SegLST, CTM or RTTM"
            )
    known = _segments(segments) if segments else None
    ours = _ours([path for path, form in every.items() if form == WINDOWS])
    others = {path: form for path, form in every.items() if form != WINDOWS}
    read = list(_read_all(others, known))
    if segments and known is not None:
        read += _silent(segments, known, read)
    placed = [(path, _placed(path, window, known)) for path, window in read]
    if known is None and SEGLST in others.values():
        return _own_windows(window for _, window in placed)
    grouped = group_by_speaker([*ours, *_numbered(placed)])
    if (
        known is None
        and len(grouped) == len(read) > 1
        and all(window.span is None for _, window in read)
    ):
        warn(
            f"{len(read)} utterances are taken as {len(read)} recordings: if they "
            "are windows of one, give "
            "--segments, or in JSON `recording`, `offset` and `duration` of each"
        )
    for recording, speakers in grouped.items():
        _doubt(recording, speakers)
    return grouped


def _ours(paths: Sequence[Path]) -> list[Segment]:
    """Return the windows of all files of ours; one that two of them have is refused,
    one that none has warned of.
    """
    found: dict[tuple[str, int, str], tuple[Path, Segment]] = {}
    for path, item in (
        (each, item) for each in paths for item in read_hypotheses(each)
    ):
        other, _ = found.setdefault(
            (item.recording, item.window, item.speaker), (path, item)
        )
        if other != path:
            raise InputError(
                f"{path}: {item.recording}: window {item.window} of speaker "
                f"{item.speaker or 'nobody'} is also in "
                f"{other}: give each window once"
            )
    for recording, own in group_by_recording(
        item for _, item in found.values()
    ).items():
        present = {item.window for item in own}
        if missing := sorted(set(range(max(present))) - present):
            warn(
                f"{recording}: {_some('window', list(map(str, missing)))} "
                "missing: taken as silent"
            )
    return [item for _, item in found.values()]


def _read_all(
    files: Mapping[Path, str], segments: Mapping[str, KaldiSegment] | None
) -> Iterator[tuple[Path, Window]]:
    """Return what the files hold. In one without words nobody speaks, if another has
    some.
    """
    read = [(path, _read(path, form)) for path, form in files.items()]
    if read and not any(
        segment.words
        for _, windows in read
        for window in windows
        for segment in window.segments
    ):
        raise InputError(f"{read[0][0]}: it holds no word: decode again")
    for path, windows in read:
        yield from ((path, window) for window in windows)
        if not windows and segments is not None and path.stem in segments:
            yield path, Window(path.stem, ())
        elif not windows:
            warn(f"{path}: no word in it")


def _read(path: Path, form: str) -> list[Window]:
    """Return the windows of a file; of a recording of several channels each is a
    speaker.
    """
    if form == WHISPER:
        return [
            window for window in read_whisper(path) if window.segments or window.span
        ]
    if form == SEGLST:
        turns = read_segments(path, form=SEGLST)
        return [
            Window(turn.recording, (turn,), turn.span if turn.has_span else None)
            for turn in turns
        ]
    if path.is_file() and not path.read_bytes().strip():
        return []
    words = group_by_recording(read_ctm(path) if form == CTM else read_rttm(path))
    for name, own in words.items():
        latest: dict[str, float] = {}
        for word in own:
            if word.start < latest.get(word.speaker, 0.0) - 1.0:
                warn(
                    f"{path}: {name}: times go back from "
                    f"{latest[word.speaker]:.2f} to {word.start:.2f} s, and words "
                    "are put in the order of time: windows that overlap need an "
                    "utterance each, and --segments"
                )
                break
            latest[word.speaker] = word.start
    return [
        Window(name, tuple(sorted(own, key=lambda word: word.start)))
        for name, own in words.items()
    ]


def _silent(
    path: Path,
    segments: Mapping[str, KaldiSegment],
    read: Sequence[tuple[Path, Window]],
) -> list[tuple[Path, Window]]:
    """Return the other windows of the recordings that were read: in them nobody speaks,
    or they were not decoded.
    """
    names = {window.utterance for _, window in read}
    recordings = {segments[name].recording for name in names if name in segments}
    missing = [
        name
        for name, segment in segments.items()
        if segment.recording in recordings and name not in names
    ]
    if missing:
        warn(f"{path}: {_some('window', missing)} without hypotheses: taken as silent")
    return [(path, Window(name, ())) for name in missing]


def _some(what: str, names: Sequence[str]) -> str:
    more = " ..." if len(names) > 3 else ""
    return (
        f"{what} {names[0]}"
        if len(names) == 1
        else f"{len(names)} {what}s ({', '.join(names[:3])}{more})"
    )


def _segments(path: Path) -> dict[str, KaldiSegment]:
    found = {}
    for key, row in read_table(path).items():
        try:
            found[key] = parse_segment(row)
        except ValueError:
            raise InputError(
                f"{path}: {key}: `{row}` is not `recording start end`: fix it"
            ) from None
        if not 0 <= found[key].start < found[key].end:
            raise InputError(
                f"{path}: {key}: from {found[key].start} to {found[key].end} s is "
                "no window: fix it"
            )
    return found


def _placed(
    path: Path, window: Window, segments: Mapping[str, KaldiSegment] | None
) -> Window:
    """Return a window as one of its recording, whose times its own are."""
    if segments is not None:
        place = segments.get(window.utterance)
        if place is None:
            raise InputError(
                f"{path}: {window.utterance} is not in --segments: give the "
                "segments of its windows"
            )
        moved = tuple(
            shift_segment(segment, place.start) for segment in window.segments
        )
        return Window(place.recording, moved, (place.start, place.end))
    end = max(
        (segment.end for segment in window.segments if segment.has_span), default=0.0
    )
    if window.span is None and end <= 0:
        raise InputError(
            f"{path}: {window.utterance}: no times: give --segments, or times of "
            "words or segments"
        )
    return window._replace(span=window.span or (0.0, end))


def _numbered(placed: Iterable[tuple[Path, Window]]) -> Iterator[Segment]:
    """Number the windows of recordings by time; several files may hold one window, each
    with its own speakers.
    """
    recordings: dict[str, dict[Span, dict[str, tuple[Path, list[Segment]]]]] = {}
    for path, window in placed:
        span = window.span or (0.0, 0.0)
        speakers = recordings.setdefault(window.utterance, {}).setdefault(span, {})
        for name, own in _speakers(window.segments).items():
            if name in speakers:
                raise InputError(
                    f"{path}: {window.utterance}: the window from {span[0]:g} to "
                    f"{span[1]:g} s of {name} is given "
                    f"twice, also in {speakers[name][0]}: give each window once"
                )
            speakers[name] = path, own
    for recording, windows in recordings.items():
        for index, span in enumerate(sorted(windows)):
            for name, (_, own) in (windows[span] or {NOBODY: (Path(), [])}).items():
                yield _window(recording, index, name, span, own)


def _speakers(segments: Sequence[Segment]) -> dict[str, list[Segment]]:
    """Group segments with words by speaker; where none is named, channels take the
    place if there are several.
    """
    channels = {segment.channel for segment in segments}
    speakers: dict[str, list[Segment]] = {}
    for segment in segments:
        if segment.words:
            name = segment.speaker or (
                segment.channel if len(channels) > 1 else SPEAKER
            )
            speakers.setdefault(name, []).append(segment)
    return speakers


def _own_windows(placed: Iterable[Window]) -> Grouped:
    """Return each speaker's turns as windows of that speaker alone: of the others a
    turn says nothing.
    """
    grouped: dict[str, dict[str, list[Segment]]] = {}
    for turn in sorted(placed, key=lambda turn: (turn.utterance, turn.span)):
        speakers = grouped.setdefault(turn.utterance, {})
        for name, own in _speakers(turn.segments).items():
            windows = speakers.setdefault(name, [])
            windows.append(
                _window(
                    turn.utterance, len(windows), name, turn.span or (0.0, 0.0), own
                )
            )
    return {
        name: {who: tuple(windows) for who, windows in sorted(own.items())}
        for name, own in grouped.items()
    }


def _window(
    recording: str, index: int, speaker: str, span: Span, segments: Sequence[Segment]
) -> Segment:
    """Return what one speaker says in a window; times that are missing are filled in,
    if some are known.
    """
    words = tuple(word for segment in segments for word in segment.words)
    times: list[Ends] = []
    for segment in segments:
        known = segment.times is not None or segment.has_span
        unknown: list[Ends] = [(None, None)] * len(segment.words)
        times += segment.word_spans if known else unknown
    timed = any(ends != (None, None) for ends in times)
    scores = tuple(score for segment in segments for score in segment.confidences or ())
    try:
        return Segment(
            recording,
            speaker,
            words,
            *span,
            times=tuple(fill_times(times, span) or ()) if timed else None,
            confidences=scores if words and len(scores) == len(words) else None,
            window=index,
        )
    except ValueError as error:
        raise InputError(
            f"{recording}: {error}: fix the hypotheses; times are in seconds, and "
            "count from the window's start with "
            "--segments and `offset`, otherwise from the recording's"
        ) from None


def _doubt(recording: str, speakers: Mapping[str, Sequence[Segment]]) -> None:
    """Warn of time that no window covers, unless most lie apart, cut at pauses; and of
    milliseconds for seconds.
    """
    gaps, end, apart = [], 0.0, 0
    spans = [item.span for item in next(iter(speakers.values()), ())]
    for start, stop in spans:
        if start - end > GAP:
            gaps.append((end, start))
        apart += start > end
        end = max(end, stop)
    if gaps and (2 * apart <= len(spans) or len(spans) < 3):
        more = sum(stop - start for start, stop in gaps[1:])
        elsewhere = f", and {more:.1f} s elsewhere" if more else ""
        warn(
            f"{recording}: no window covers {gaps[0][0]:.1f} to {gaps[0][1]:.1f} "
            f"s{elsewhere}"
        )
    times = [
        time
        for items in speakers.values()
        for item in items
        for time in item.times or ()
    ]
    if times and (half := median(end - start for start, end in times)) > LONGEST_WORD:
        warn(
            f"{recording}: half of the words last over {half:.0f} s: are their "
            "times in milliseconds?"
        )
