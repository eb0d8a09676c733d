"""Read what recognisers write of windows, grouped by recording and speaker.

With a Kaldi ``segments`` file, utterances are windows (a session of SegLST, the name of
a JSON file), and times count from their starts; without it, an utterance is a
recording: of one window, or, in SegLST, of one for each turn.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

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


class _Spoken(NamedTuple):
    """What one speaker says in a window, and the file that has it."""

    path: Path
    segments: list[Segment]


def is_timed(windows: Iterable[Segment]) -> bool:
    """Return whether the recogniser has given the times of all words."""
    return all(window.times is not None or not window.words for window in windows)


def group_by_speaker(windows: Iterable[Segment]) -> Grouped:
    """Group windows by recording and speaker, from window 0 to the last (P4, 3.1).

    There is an empty window wherever a speaker is silent, and one that is missing
    between others is filled in at their distance. A recording in which nobody speaks
    has no speakers. Raises InputError: segments disagree about a window's times, or
    windows are not in the order of their times.
    """
    spoken: dict[str, dict[str, dict[int, Segment]]] = {}
    spans: dict[str, dict[int, Span]] = {}
    for item in windows:
        speakers = spoken.setdefault(item.recording, {})
        if item.speaker != NOBODY:
            speakers.setdefault(item.speaker, {})[item.window] = item
        # The first segment of a window says its time, and all others must agree.
        known = spans.setdefault(item.recording, {})
        _require_same_span(item, known.setdefault(item.window, item.span))
    grouped: Grouped = {}
    for recording in sorted(spoken):
        all_spans = _fill_in_windows(recording, spans[recording])
        grouped[recording] = {
            speaker: _fill_in_silence(recording, speaker, items, all_spans)
            for speaker, items in sorted(spoken[recording].items())
        }
    return grouped


def _require_same_span(item: Segment, span: Span) -> None:
    """Raise InputError if a segment has other times than its window."""
    start, end = span
    # Files have times in milliseconds or in single precision.
    if max(abs(start - item.start), abs(end - item.end)) > 1e-3:
        raise InputError(
            f"{item.recording}: window {item.window} goes from {start} to "
            f"{end} s, but from {item.start} to "
            f"{item.end} s for speaker {item.speaker or 'nobody'}: cut and "
            "decode the recording again"
        )


def _fill_in_silence(
    recording: str,
    speaker: str,
    items: Mapping[int, Segment],
    all_spans: Sequence[Span],
) -> tuple[Segment, ...]:
    """Return a speaker's windows, an empty one for each that is not among ``items``."""
    filled = []
    for index, (start, end) in enumerate(all_spans):
        item = items.get(index)
        if item is None:
            item = Segment(recording, speaker, (), start, end, window=index)
        filled.append(item)
    return tuple(filled)


def _fill_in_windows(recording: str, spans: Mapping[int, Span]) -> list[Span]:
    """Return the span of each window from 0 to the last; those missing are filled in.

    Raises InputError: starts do not rise with the numbers, or numbers begin above 0.
    """
    order = sorted(spans)
    first = order[0]
    last = order[-1]
    for before, after in pairwise(order):
        if spans[after][0] <= spans[before][0]:
            raise InputError(
                f"{recording}: window {after} starts at {spans[after][0]} s, but "
                f"window {before} at {spans[before][0]} s: "
                "number windows in the order of their starts"
            )
    # All windows have one length, except the last, which ends with its recording.
    length = max(end - start for start, end in spans.values())
    # Starts lie on a line through those of the first and the last window there are.
    # If there is only one, window 0 is taken to start with the recording.
    anchor = first
    anchor_start = spans[first][0]
    if first == last:
        anchor = 0
        anchor_start = 0.0
    shift = (spans[last][0] - anchor_start) / max(last - anchor, 1)
    _require_count_from_zero(recording, first, spans[first][0], shift)
    all_spans = []
    for index in range(last + 1):
        start = anchor_start + shift * (index - anchor)
        # Rounded like the windows that are there (windows.Windowing).
        start = max(0.0, round(start, 8))
        all_spans.append(spans.get(index, (start, start + length)))
    return all_spans


def _require_count_from_zero(
    recording: str, first: int, start: float, shift: float
) -> None:
    """Raise InputError if the first window starts too early for its number.

    Times are in seconds. Window k starts at k shifts; if it starts at less than half of
    that, numbers began with 1, or the windows are of another recording.
    """
    if first > 0 and (not start or start < first * shift / 2):
        raise InputError(
            f"{recording}: window {first} starts at {start} s: count windows from 0"
        )


def read_grouped(
    paths: Path | Sequence[Path], segments: Path | None = None, form: str = AUTO
) -> Grouped:
    """Read windows of our format, Whisper's JSON, SegLST, CTM or RTTM, and group them.

    ``segments`` is Kaldi's, of the windows; ``form`` the format of all files. Windows
    that are missing, and times that can hardly be right, are warned of on stderr.
    Raises InputError: as :func:`group_by_speaker`; a file that does not fit; a window
    that is given twice.
    """
    files = [paths] if isinstance(paths, Path) else paths
    ours: list[Path] = []
    others: dict[Path, str] = {}  # with their formats
    for path in files:
        found = detect_format(path) if form == AUTO else form
        if found not in (WINDOWS, WHISPER, SEGLST, CTM, RTTM):
            raise InputError(
                f"{path}: {found} has no windows: give ours, Whisper's JSON, "
                "SegLST, CTM or RTTM"
            )
        if found == WINDOWS:
            ours.append(path)
        else:
            others[path] = found
    known = _read_spans(segments) if segments else None
    complete = _read_ours(ours)
    read = list(_read_all(others, known))
    if segments and known is not None:
        read += _list_silent_windows(segments, known, read)
    placed = [(path, _place_in_recording(path, window, known)) for path, window in read]
    # SegLST has turns and no windows.
    if known is None and SEGLST in others.values():
        return _make_windows_of_turns(window for _, window in placed)
    grouped = group_by_speaker([*complete, *_number_windows(placed)])
    # A name for each window and no times of it: most likely one recording, cut.
    without_times = known is None and all(window.span is None for _, window in read)
    if without_times and len(grouped) == len(read) > 1:
        warn(
            f"{len(read)} utterances are taken as {len(read)} recordings: if they "
            "are windows of one, give "
            "--segments, or in JSON `recording`, `offset` and `duration` of each"
        )
    for recording, speakers in grouped.items():
        _warn_of_doubtful_times(recording, speakers)
    return grouped


def _read_ours(paths: Sequence[Path]) -> list[Segment]:
    """Read the windows of all files of ours; warn of those that none has.

    Raises InputError: two files have the same window of a speaker.
    """
    found: dict[tuple[str, int, str], tuple[Path, Segment]] = {}
    for path in paths:
        for item in read_hypotheses(path):
            key = (item.recording, item.window, item.speaker)
            other, _ = found.setdefault(key, (path, item))
            if other != path:
                raise InputError(
                    f"{path}: {item.recording}: window {item.window} of speaker "
                    f"{item.speaker or 'nobody'} is also in "
                    f"{other}: give each window once"
                )
    windows = [item for _, item in found.values()]
    for recording, own in group_by_recording(windows).items():
        present = {item.window for item in own}
        missing = sorted(set(range(max(present))) - present)
        if missing:
            names = [str(index) for index in missing]
            warn(f"{recording}: {_name_some('window', names)} missing: taken as silent")
    return windows


def _read_all(
    files: Mapping[Path, str], segments: Mapping[str, KaldiSegment] | None
) -> Iterator[tuple[Path, Window]]:
    """Yield what files hold; in one without words nobody speaks, if others have some.

    Raises InputError: no file has a word.
    """
    read = [(path, _read_windows(path, form)) for path, form in files.items()]
    every = [window for _, windows in read for window in windows]
    # Silence everywhere is more likely a decoding that has failed.
    if read and not any(_has_words(window) for window in every):
        raise InputError(f"{read[0][0]}: it holds no word: decode again")
    for path, windows in read:
        for window in windows:
            yield path, window
        # An empty file that has the name of a window is that window, in silence.
        if not windows and segments is not None and path.stem in segments:
            yield path, Window(path.stem, ())
        elif not windows:
            warn(f"{path}: no word in it")


def _has_words(window: Window) -> bool:
    return any(segment.words for segment in window.segments)


def _read_windows(path: Path, form: str) -> list[Window]:
    """Read the windows of a file; of several channels each is a speaker."""
    if form == WHISPER:
        windows = read_whisper(path)
        return [window for window in windows if window.segments or window.span]
    if form == SEGLST:
        turns = read_segments(path, form=SEGLST)
        return [
            Window(turn.recording, (turn,), turn.span if turn.has_span else None)
            for turn in turns
        ]
    if path.is_file() and not path.read_bytes().strip():
        return []
    words = read_ctm(path) if form == CTM else read_rttm(path)
    windows_of_words = []
    for name, own in group_by_recording(words).items():
        _warn_if_times_go_back(path, name, own)
        ordered = sorted(own, key=lambda word: word.start)
        windows_of_words.append(Window(name, tuple(ordered)))
    return windows_of_words


def _warn_if_times_go_back(path: Path, name: str, words: Sequence[Segment]) -> None:
    """Warn if a speaker's words go back by over a second: windows written as one."""
    latest: dict[str, float] = {}
    for word in words:
        # Of overlapping windows it is seconds; a second may be a recogniser's slip.
        if word.start < latest.get(word.speaker, 0.0) - 1.0:
            warn(
                f"{path}: {name}: times go back from "
                f"{latest[word.speaker]:.2f} to {word.start:.2f} s, and words "
                "are put in the order of time: windows that overlap need an "
                "utterance each, and --segments"
            )
            return
        latest[word.speaker] = word.start


def _list_silent_windows(
    path: Path,
    segments: Mapping[str, KaldiSegment],
    read: Sequence[tuple[Path, Window]],
) -> list[tuple[Path, Window]]:
    """List the other windows of the recordings that were read, and warn of them.

    In them nobody speaks, or they were not decoded.
    """
    names = {window.utterance for _, window in read}
    recordings = {segments[name].recording for name in names if name in segments}
    missing = [
        name
        for name, segment in segments.items()
        if segment.recording in recordings and name not in names
    ]
    if missing:
        named = _name_some("window", missing)
        warn(f"{path}: {named} without hypotheses: taken as silent")
    return [(path, Window(name, ())) for name in missing]


def _name_some(what: str, names: Sequence[str]) -> str:
    """Write one name, or a number of things and the first three names."""
    if len(names) == 1:
        return f"{what} {names[0]}"
    more = " ..." if len(names) > 3 else ""
    return f"{len(names)} {what}s ({', '.join(names[:3])}{more})"


def _read_spans(path: Path) -> dict[str, KaldiSegment]:
    """Read a ``segments`` file; InputError if one is not a span of time."""
    found = {}
    for key, row in read_table(path).items():
        try:
            segment = parse_segment(row)
        except ValueError:
            raise InputError(
                f"{path}: {key}: `{row}` is not `recording start end`: fix it"
            ) from None
        if not 0 <= segment.start < segment.end:
            raise InputError(
                f"{path}: {key}: from {segment.start} to {segment.end} s is "
                "no window: fix it"
            )
        found[key] = segment
    return found


def _place_in_recording(
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
    # Without --segments an utterance is a recording, from 0 to the end of its last word
    # where the file does not say its span.
    ends = [segment.end for segment in window.segments if segment.has_span]
    end = max(ends, default=0.0)
    if window.span is None and end <= 0:
        raise InputError(
            f"{path}: {window.utterance}: no times: give --segments, or times of "
            "words or segments"
        )
    return window._replace(span=window.span or (0.0, end))


def _number_windows(placed: Iterable[tuple[Path, Window]]) -> Iterator[Segment]:
    """Number the windows of recordings by time.

    Several files may hold one window, each with its own speakers. Raises InputError: a
    speaker is given twice.
    """
    recordings: dict[str, dict[Span, dict[str, _Spoken]]] = {}
    for path, window in placed:
        # All that are placed have a span (_place_in_recording).
        span = window.span or (0.0, 0.0)
        windows = recordings.setdefault(window.utterance, {})
        speakers = windows.setdefault(span, {})
        for name, own in _split_by_speaker(window.segments).items():
            if name in speakers:
                raise InputError(
                    f"{path}: {window.utterance}: the window from {span[0]:g} to "
                    f"{span[1]:g} s of {name} is given "
                    f"twice, also in {speakers[name].path}: give each window once"
                )
            speakers[name] = _Spoken(path, own)
    for recording, windows in recordings.items():
        for index, span in enumerate(sorted(windows)):
            speakers = windows[span]
            if not speakers:
                yield _make_window(recording, index, NOBODY, span, [])
            for name, spoken in speakers.items():
                yield _make_window(recording, index, name, span, spoken.segments)


def _split_by_speaker(segments: Sequence[Segment]) -> dict[str, list[Segment]]:
    """Group segments with words by speaker, or by channel where none is named."""
    channels = {segment.channel for segment in segments}
    speakers: dict[str, list[Segment]] = {}
    for segment in segments:
        if not segment.words:
            continue
        name = segment.speaker
        if not name:
            name = segment.channel if len(channels) > 1 else SPEAKER
        speakers.setdefault(name, []).append(segment)
    return speakers


def _make_windows_of_turns(placed: Iterable[Window]) -> Grouped:
    """Return each speaker's turns as windows of that speaker alone.

    Of the others a turn says nothing.
    """
    grouped: dict[str, dict[str, list[Segment]]] = {}
    for turn in sorted(placed, key=lambda turn: (turn.utterance, turn.span)):
        speakers = grouped.setdefault(turn.utterance, {})
        for name, own in _split_by_speaker(turn.segments).items():
            windows = speakers.setdefault(name, [])
            span = turn.span or (0.0, 0.0)
            index = len(windows)
            windows.append(_make_window(turn.utterance, index, name, span, own))
    return {
        name: {who: tuple(windows) for who, windows in sorted(own.items())}
        for name, own in grouped.items()
    }


def _make_window(
    recording: str, index: int, speaker: str, span: Span, segments: Sequence[Segment]
) -> Segment:
    """Return what one speaker says in a window.

    Times that are missing are filled in, if some are known.
    """
    words = tuple(word for segment in segments for word in segment.words)
    times: list[Ends] = []
    for segment in segments:
        known = segment.times is not None or segment.has_span
        unknown: list[Ends] = [(None, None)] * len(segment.words)
        times += segment.word_spans if known else unknown
    # Where no time is known, words have none: filled in, they would be spread over the
    # window as if a recogniser had said so.
    timed = any(ends != (None, None) for ends in times)
    # Of all words or of none, as the types have it.
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


def _warn_of_doubtful_times(
    recording: str, speakers: Mapping[str, Sequence[Segment]]
) -> None:
    """Warn of time that no window covers, and of milliseconds for seconds.

    Not if most windows lie apart: then the recording was cut at pauses.
    """
    gaps: list[Span] = []
    end = 0.0
    apart = 0
    spans = [item.span for item in next(iter(speakers.values()), ())]
    for start, stop in spans:
        if start - end > GAP:
            gaps.append((end, start))
        apart += start > end
        end = max(end, stop)
    # Two windows or one are too few to tell.
    cut_at_pauses = 2 * apart > len(spans) >= 3
    if gaps and not cut_at_pauses:
        more = sum(stop - start for start, stop in gaps[1:])
        elsewhere = f", and {more:.1f} s elsewhere" if more else ""
        warn(
            f"{recording}: no window covers {gaps[0][0]:.1f} to {gaps[0][1]:.1f} "
            f"s{elsewhere}"
        )
    lengths = []
    for items in speakers.values():
        for item in items:
            lengths += [end - start for start, end in item.times or ()]
    half = median(lengths) if lengths else 0.0
    if half > LONGEST_WORD:
        warn(
            f"{recording}: half of the words last over {half:.0f} s: are their "
            "times in milliseconds?"
        )
