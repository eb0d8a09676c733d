"""The frames of an MP3 file, counted one by one, without a decoder.

Headers of Xing and VBRI say how many there are, and are wrong in files that were cut,
joined or streamed; libsndfile believes them.
"""

import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_KILOBITS = {  # by version 1 or not, and layer: ISO/IEC 11172-3 and 13818-3, 2.4.2.3
    (True, 1): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_RATES = (
    44100,
    48000,
    32000,
)  # Hz, of version 1; halved in 2 and 2.5, and again in 2.5
_VERSION_1, _VERSION_2, _MONO = 3, 2, 3  # as the bits of a frame have them
_ID3_HEADER, _ID3_AFTER, _APE_HEADER = 10, 128, 32  # bytes
_XING_FRAMES, _XING_BYTES = 1, 2  # flags of what its header has
_CUT = 0.01  # share of the bytes by which a file is shorter than its header says


class Frame(NamedTuple):
    """The header of a frame."""

    size: int  # bytes
    samples: int
    rate: int  # Hz
    channels: int


@dataclass
class Mp3:
    """What a file holds."""

    rate: int  # Hz, of the first frame, as is the next
    channels: int
    samples: int = 0  # of all frames, with what an encoder adds at both ends
    promised: int | None = None  # samples, as its header says; None: it does not
    cut: bool = False  # whether there are fewer bytes than its header says
    joined: bool = False  # whether a second header follows
    uniform: bool = True  # whether all frames have one rate and number of channels
    hole: float | None = None  # seconds, where bytes follow that are no frame

    @property
    def seconds(self) -> float:
        """The length."""
        return self.samples / self.rate

    @property
    def is_plain(self) -> bool:
        """Whether libsndfile reads all of it, and knows its length."""
        as_promised = self.promised == self.samples
        return as_promised and self.uniform and not self.joined and self.hole is None


def scan_mp3(path: str | Path) -> Mp3 | None:
    """Count the frames of an MP3 file; None: it is of another kind.

    An hour takes a quarter of a second, and memory does not depend on the length.
    """
    with Path(path).open("rb") as file:
        try:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (ValueError, OSError):  # an empty file, a pipe
            return None
        with content:
            return _scan(content)


def _scan(content: mmap.mmap) -> Mp3 | None:
    start = _skip_zeros(content, _skip_tags(content, 0))
    if not _begins_frame(content, start):
        return None
    first = _read_frame(content, start)
    assert first is not None
    found = Mp3(first.rate, first.channels)
    size = 0  # bytes that the first header promises
    for place, frame in _frames(content, start, found):
        header = _read_header(content, place, frame)
        if header is None:
            found.samples += frame.samples
            found.uniform &= frame[2:] == first[2:]
        elif place > start:
            found.joined = True
        else:
            found.promised = header[0] * frame.samples
            size = header[1]
    # Where frames are missing inside, fewer bytes than promised are no cut.
    if found.hole is None and size:
        found.cut = len(content) - start < size * (1 - _CUT)
    elif found.hole is None and found.promised:
        found.cut = found.samples < found.promised * (1 - _CUT)
    return found


def _frames(content: mmap.mmap, start: int, found: Mp3) -> Iterator[tuple[int, Frame]]:
    """Yield each frame and its first byte, and note where there is a hole."""
    place, end = start, len(content)
    while place < end:
        frame = _read_frame(content, place)
        # The bytes of a hole may look like a header, but no other one follows then.
        if frame is not None and (
            place + frame.size >= end
            or _begins_frame(content, place + frame.size)
            or _skip_tags(content, place + frame.size) > place + frame.size
        ):
            if place + frame.size <= end:  # else it breaks off within its last frame
                yield place, frame
            place += frame.size
            continue
        after = _skip_tags(content, place)
        if after > place:
            place = after
            continue
        after = _next_frame(content, place)
        if after < end and found.hole is None:
            found.hole = found.seconds
        place = after


def _read_frame(content: mmap.mmap, place: int) -> Frame | None:
    """Return the header that begins at a byte; None: none does."""
    if place + 4 > len(content) or content[place] != 0xFF:
        return None
    second = content[place + 1]
    third = content[place + 2]
    version = second >> 3 & 3
    layer = 4 - (second >> 1 & 3)
    bitrate = third >> 4
    rate = third >> 2 & 3
    padding = third >> 1 & 1
    if second < 0xE0 or version == 1 or layer == 4:
        return None
    if bitrate in (0, 15) or rate == 3:
        return None
    is_first = version == _VERSION_1
    hertz = _RATES[rate]
    if not is_first:
        hertz //= 2 if version == _VERSION_2 else 4
    bits = 1000 * _KILOBITS[is_first, layer][bitrate - 1]
    channels = 1 if content[place + 3] >> 6 == _MONO else 2
    if layer == 1:
        return Frame((12 * bits // hertz + padding) * 4, 384, hertz, channels)
    samples = 576 if layer == 3 and not is_first else 1152
    return Frame(samples // 8 * bits // hertz + padding, samples, hertz, channels)


def _begins_frame(content: mmap.mmap, place: int) -> bool:
    """Return whether a frame begins at a byte, and another one or the end follows it."""
    frame = _read_frame(content, place)
    if frame is None:
        return False
    after = place + frame.size
    return after >= len(content) or (
        _read_frame(content, after) is not None or _skip_tags(content, after) > after
    )


def _next_frame(content: mmap.mmap, place: int) -> int:
    """Return where the next frame begins; the file's end: there is none."""
    while (place := content.find(b"\xff", place + 1)) >= 0:
        if _begins_frame(content, place):
            return place
    return len(content)


def _skip_tags(content: mmap.mmap, place: int) -> int:
    """Return the first byte after the tags that begin at a byte: ID3 and APE."""
    while True:
        if content[place : place + 3] == b"ID3":
            size = 0
            for byte in content[place + 6 : place + _ID3_HEADER]:
                size = size << 7 | byte
            place += _ID3_HEADER + size
        elif content[place : place + 3] == b"TAG":
            place += _ID3_AFTER
        elif content[place : place + 8] == b"APETAGEX":
            size = int.from_bytes(content[place + 12 : place + 16], "little")
            place += _APE_HEADER + size
        else:
            return place


def _skip_zeros(content: mmap.mmap, place: int) -> int:
    found = re.compile(rb"[^\0]").search(content, place)
    return found.start() if found else len(content)


def _read_header(
    content: mmap.mmap, place: int, frame: Frame
) -> tuple[int, int] | None:
    """Return how many frames and bytes a frame of Xing or VBRI promises, 0 where it
    does not say; None: the frame holds samples.
    """
    body = content[place : place + min(frame.size, 64)]
    if body[36:40] == b"VBRI":
        return int.from_bytes(body[50:54], "big"), int.from_bytes(body[46:50], "big")
    found = re.match(rb"\xff[\x00-\xff]{3}\x00{9,34}(?:Xing|Info)", body)
    if found is None:
        return None
    fields = content[place + found.end() : place + found.end() + 12]
    flags, after = int.from_bytes(fields[:4], "big"), 4
    frames = size = 0
    if flags & _XING_FRAMES:
        frames = int.from_bytes(fields[after : after + 4], "big")
        after += 4
    if flags & _XING_BYTES:
        size = int.from_bytes(fields[after : after + 4], "big")
    return frames, size
