"""Count the frames of an MP3 file one by one, without a decoder.

Headers of Xing and VBRI say how many there are, and are wrong in files that were cut,
joined or streamed; libsndfile believes them.
"""

import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

# By version 1 or not, and layer: ISO/IEC 11172-3 and 13818-3, 2.4.2.3.
_KILOBITS = {
    (True, 1): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
# Hz, of version 1; halved in 2 and 2.5, and again in 2.5.
_RATES = (44100, 48000, 32000)
# As the bits of a frame have them.
_VERSION_1 = 3
_VERSION_2 = 2
_MONO = 3
# Bytes of tags: a header, whose size follows in it, or all of an old tag.
_ID3_HEADER = 10
_ID3_AFTER = 128
_APE_HEADER = 32
# Flags of what Xing's header has.
_XING_FRAMES = 1
_XING_BYTES = 2
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

    rate: int  # Hz, of the first frame
    channels: int  # of the first frame
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
            return _count_frames(content)


def _count_frames(content: mmap.mmap) -> Mp3 | None:
    start = _skip_zeros(content, _skip_tags(content, 0))
    if not _begins_frame(content, start):
        return None
    first = _read_frame(content, start)
    assert first is not None
    found = Mp3(first.rate, first.channels)
    size = 0  # bytes that the first header promises
    for place, frame in _find_frames(content, start, found):
        header = _read_header(content, place, frame)
        if header is None:
            found.samples += frame.samples
            same_rate = frame.rate == first.rate
            same_channels = frame.channels == first.channels
            found.uniform &= same_rate and same_channels
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


def _find_frames(
    content: mmap.mmap, start: int, found: Mp3
) -> Iterator[tuple[int, Frame]]:
    """Yield each frame and its first byte, and note where there is a hole."""
    place = start
    end = len(content)
    while place < end:
        frame = _read_frame(content, place)
        if frame is not None:
            after = place + frame.size
            # The bytes of a hole may look like a header, but no other one follows then.
            if _goes_on(content, after):
                if after <= end:  # else it breaks off within its last frame
                    yield place, frame
                place = after
                continue
        after = _skip_tags(content, place)
        if after > place:
            place = after
            continue
        after = _find_next_frame(content, place)
        if after < end and found.hole is None:
            found.hole = found.seconds
        place = after


def _goes_on(content: mmap.mmap, place: int) -> bool:
    """Tell whether whole frames, tags or the file's end follow a frame."""
    if place >= len(content) or _begins_frame(content, place):
        return True
    return _skip_tags(content, place) > place


def _read_frame(content: mmap.mmap, place: int) -> Frame | None:
    """Return the header that begins at a byte; None: none does."""
    if place + 4 > len(content) or content[place] != 0xFF:
        return None
    # 11 bits of sync, 2 of the version, 2 of the layer; then 4 of the bit rate, 2 of
    # the sampling rate, 1 of padding (ISO/IEC 11172-3, 2.4.1.3).
    second = content[place + 1]
    third = content[place + 2]
    version = second >> 3 & 3
    layer = 4 - (second >> 1 & 3)
    bitrate = third >> 4
    rate = third >> 2 & 3
    padding = third >> 1 & 1
    # No sync; values that the standard reserves.
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
        size = (12 * bits // hertz + padding) * 4
        return Frame(size, 384, hertz, channels)
    samples = 576 if layer == 3 and not is_first else 1152
    size = samples // 8 * bits // hertz + padding
    return Frame(size, samples, hertz, channels)


def _begins_frame(content: mmap.mmap, place: int) -> bool:
    """Tell whether a frame begins at a byte, and another one or the end follows it."""
    frame = _read_frame(content, place)
    if frame is None:
        return False
    after = place + frame.size
    if after >= len(content) or _read_frame(content, after) is not None:
        return True
    return _skip_tags(content, after) > after


def _find_next_frame(content: mmap.mmap, place: int) -> int:
    """Return where the next frame begins; the file's end: there is none."""
    while True:
        place = content.find(b"\xff", place + 1)
        if place < 0:
            return len(content)
        if _begins_frame(content, place):
            return place


def _skip_tags(content: mmap.mmap, place: int) -> int:
    """Return the first byte after the tags that begin at a byte: ID3 and APE."""
    while True:
        if content[place : place + 3] == b"ID3":
            size = 0
            # Seven bits a byte, so that no size looks like the sync of a frame.
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
    content: mmap.mmap,
    place: int,
    frame: Frame,
) -> tuple[int, int] | None:
    """Return how many frames and bytes a frame of Xing or VBRI promises.

    0: it does not say; None: the frame holds samples.
    """
    body = content[place : place + min(frame.size, 64)]
    if body[36:40] == b"VBRI":
        frames = int.from_bytes(body[50:54], "big")
        return frames, int.from_bytes(body[46:50], "big")
    # Xing's stands after side information of 9 to 32 bytes, which is zeros.
    found = re.match(rb"\xff[\x00-\xff]{3}\x00{9,34}(?:Xing|Info)", body)
    if found is None:
        return None
    begin = place + found.end()
    fields = content[begin : begin + 12]
    flags = int.from_bytes(fields[:4], "big")
    after = 4
    frames = 0
    size = 0
    if flags & _XING_FRAMES:
        frames = int.from_bytes(fields[after : after + 4], "big")
        after += 4
    if flags & _XING_BYTES:
        size = int.from_bytes(fields[after : after + 4], "big")
    return frames, size
