"""Cut long recordings into windows of fixed length (P4, 3.1 and 4.1.1).

They become a data dir that a recogniser decodes.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.data_dir import (
    DataDir,
    format_seconds,
    read_data_dir,
    write_data_dir,
)
from espnet_ext.text.words import Segment, Span

WINDOW_SECONDS = 16.0  # P4, 4.1.1
# Above it a window also overlaps with the next but one. Overlapping inference joins odd
# windows to one sequence and even ones to another (P4, 2.2): words would come twice.
MOST_OVERLAP = 0.5
_WINDOW_ID = re.compile(r"(.+)-w(\d{5,})")


@dataclass(frozen=True)
class Windowing:
    """How recordings are cut into windows.

    ``length`` is the windows' in seconds, ``overlap`` the share of it that two
    neighbours have in common. Raises InputError: no length, or an overlap below 0 or
    above one half.

    >>> [(window.start, window.end) for window in Windowing(16.0, 0.5).cut("r", 30.0)]
    [(0.0, 16.0), (8.0, 24.0), (16.0, 30.0)]
    """

    length: float = WINDOW_SECONDS
    overlap: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.length < float("inf"):
            raise InputError(f"windows of {self.length} s: give a length above 0")
        if not 0 <= self.overlap <= MOST_OVERLAP:
            raise InputError(
                f"windows cannot overlap by {100 * self.overlap:g} %: choose a "
                f"share from 0 to {MOST_OVERLAP}, "
                "such as 0, 0.25 or 0.5"
            )

    @property
    def shift(self) -> float:
        """Seconds from the start of a window to that of the next."""
        return self.length * (1 - self.overlap)

    def place_window(self, index: int) -> Span:
        """Return start and end, in seconds, of a window of an endless recording."""
        # Without rounding, the end of one window and the start of the next might differ
        # in their last bits.
        start = round(index * self.shift, 8)
        return start, round(start + self.length, 8)

    def cut(self, recording: str, seconds: float) -> list[Segment]:
        """Cut a recording of this length into windows.

        The last ends with the recording, and may be shorter. Raises InputError: the
        recording has no length.
        """
        if not 0 < seconds < float("inf"):
            raise InputError(
                f"recording {recording} of {seconds} s: there is nothing to cut "
                "into windows"
            )
        windows: list[Segment] = []
        while not windows or windows[-1].end < seconds:
            index = len(windows)
            start, end = self.place_window(index)
            end = min(end, seconds)
            windows.append(Segment(recording, "", (), start, end, window=index))
        return windows


def make_window_id(recording: str, index: int) -> str:
    """Return the utterance id of a window in a data dir.

    Ids sort as the windows follow each other.
    """
    return f"{recording}-w{index:05d}"


def parse_window_id(utterance: str) -> tuple[str, int]:
    """Return recording and index of a window by its utterance id.

    Another utterance is a recording of one window.

    >>> parse_window_id("mix-0001-w00003"), parse_window_id("mix-0001")
    (('mix-0001', 3), ('mix-0001', 0))
    """
    match = _WINDOW_ID.fullmatch(utterance)
    return (match[1], int(match[2])) if match else (utterance, 0)


def cut_into_windows(data: DataDir, windowing: Windowing) -> DataDir:
    """Cut every recording of a data dir into windows, the utterances of another one.

    The new data dir has ``segments`` and no text. The speaker of a window is its
    recording. Lengths are those of ``reco2dur``, or of ``utt2dur`` where recordings are
    the utterances. Raises InputError: a recording of unknown duration.
    """
    durations = data.reco2dur or {}
    # With segments, utt2dur has the durations of parts of recordings.
    if not durations and data.segments is None:
        durations = data.utt2dur or {}
    for recording in data.wav_scp:
        if recording not in durations:
            raise InputError(
                f"recording {recording} has no duration: write reco2dur (or utt2dur)"
            )
    # The recogniser does not know who speaks; Kaldi demands a speaker of each
    # utterance.
    utt2spk: dict[str, str] = {}
    segments: dict[str, str] = {}
    utt2dur: dict[str, str] = {}
    for recording in sorted(data.wav_scp):
        for window in windowing.cut(recording, float(durations[recording])):
            key = make_window_id(recording, window.window)
            start = format_seconds(window.start)
            end = format_seconds(window.end)
            utt2spk[key] = recording
            segments[key] = f"{recording} {start} {end}"
            utt2dur[key] = format_seconds(window.end - window.start)
    return DataDir(
        wav_scp=data.wav_scp,
        utt2spk=utt2spk,
        segments=segments,
        utt2dur=utt2dur,
        reco2dur={recording: durations[recording] for recording in data.wav_scp},
    )


def write_windows(data: Path, output: Path, windowing: Windowing) -> None:
    """Cut the recordings of a data dir into windows, and write theirs to ``output``."""
    cut = cut_into_windows(read_data_dir(data), windowing)
    write_data_dir(cut, output)
    say(
        f"{len(cut.utt2spk)} windows of {len(cut.wav_scp)} recordings, written to "
        f"{output}"
    )
