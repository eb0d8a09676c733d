"""Where an audio file ends: before or where its headers say, or with a second file.

Readers take what they find: libsndfile and FFmpeg read half a file, or the first of
two, and say nothing.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import soundfile

from espnet_ext.audio.mp3 import scan_mp3

MOST_FRAMES = 1 << 60  # a file of more is one of unknown length
# samples, two frames, by which an MP3 file without Xing's header may be shorter than
# its frames
MP3_SLACK = 2 * 1152
_SMALL = 1024  # bytes; tags and line ends after the audio are no more than this
_UNKNOWN = 0x7FFF0000  # bytes; a header that was written to a pipe promises 2 or 4 GiB
_UNFINISHED = 36  # bytes; as much as a header of WAV alone, which was never finished
_OGG_MARK = b"OggS\0"  # each page begins with it
# bytes, the last of which says how many sizes follow; their sum is what the page holds
_OGG_HEADER = 27
_OGG_PAGE = _OGG_HEADER + 255 + 255 * 255  # bytes of the largest page
_SPHERE_HEADER = 1024  # bytes, the usual length
_HEAD = 1 << 16  # bytes in which containers say their size
_BLOCK = 1 << 24  # bytes that are searched at once
_LONGEST_START = 128  # bytes, more than any of _FORMATS
# WMA's object of the file's properties: 24 bytes after this, the size of the file.
_ASF_FILE = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
# In libsndfile's log: what a header promises, and what there is.
_PROMISED = re.compile(
    r"^ *(?:data|SSND|Data Size|Riff size|riff)\s*: (\d+) \(should be (\d+)\)",
    re.MULTILINE,
)
_MORE = re.compile(
    r"^\*\*\* Unknown chunk marker \(\w+\) at position (\d+)", re.MULTILINE
)


# How a file of a format begins.
_FORMATS = (
    rb"fLaC[\x00\x80]\x00\x00\x22",
    rb"OggS\x00\x02",
    rb"\x1aE\xdf\xa3[\x00-\xff]{1,60}?(?:matroska|webm)",
    rb"RIFF[\x00-\xff]{4}WAVE[ -~]{4}",
    rb"RIFF[\x00-\xff]{4}AVI LIST",
    rb"RF64\xff\xff\xff\xffWAVEds64",
    rb"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00",  # Sony's W64
    rb"FORM[\x00-\xff]{4}AIF[FC]",
    rb"\.snd\x00\x00[\x00-\xff]{6}\x00\x00\x00[\x01-\x1b]",
    rb"caff\x00\x01\x00\x00desc",
    rb"NIST_1A\n",
    rb"\x00\x00\x00[\x10-\x40]ftyp[ -~]{4}",  # MP4, M4A, MOV, 3GP
    rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\x00\xaa\x00\x62\xce\x6c",  # WMA
    rb"FLV\x01[\x01\x04\x05]\x00\x00\x00\x09\x00\x00\x00\x00",
)
# Of these PyAV reads on into a second file.
_JOINED = re.compile(rb"fLaC|OggS|\x1aE|RIFF[\x00-\xff]{4}AVI")


def find_second_file(path: str | Path) -> tuple[int, bool] | None:
    """Return the byte at which a second file begins, and whether PyAV reads it too.

    Files of one format stand one after the other where ``cat`` has joined them. None:
    there is no second file. Memory does not depend on the file's size.
    """
    with Path(path).open("rb") as file:
        start = _find_start(file.read(_HEAD))
        if start is None or scan_mp3(path) is not None:
            return None
        begins, first = start
        is_read_on = _JOINED.match(first[0]) is not None
        content = b""
        end = file.seek(first.end())
        while True:
            block = file.read(_BLOCK)
            if not block:
                return None
            # The start of a file may lie across two blocks.
            content = content[-_LONGEST_START:] + block
            end += len(block)
            found = re.search(begins, content)
            if found:
                return end - len(content) + found.start(), is_read_on


def _find_start(head: bytes) -> tuple[bytes, re.Match[bytes]] | None:
    """Return how files of a format begin, and where this one does."""
    for form in _FORMATS:
        # Not at the first byte alone: tags may stand before it.
        found = re.search(form, head)
        if found:
            return form, found
    return None


def find_fault(path: str | Path) -> str:
    """Return why a file must not be read by anything, or nothing if it may be.

    It is one line without the path.
    """
    second = find_second_file(path)
    if second is not None:
        place, is_read_on = second
        if not is_read_on:
            return (
                f"a second file follows at byte {place:,}, which would not be read: "
                "split the file there"
            )
    mp3 = scan_mp3(path)
    if mp3 is not None and mp3.cut:
        return (
            f"the audio breaks off after {mp3.seconds:.1f} s, before the end that its "
            "header promises: replace the file"
        )
    size = Path(path).stat().st_size
    promised = _read_promised_size(path)
    if promised > size:
        return (
            f"the audio breaks off: its headers promise {promised:,} bytes, and there "
            f"are {size:,}: replace the file"
        )
    return ""


def can_soundfile_read(path: str | Path) -> bool:
    """Tell whether soundfile reads a file to its end, seeks in it and knows its length.

    Otherwise another reader is needed.
    """
    mp3 = scan_mp3(path)
    if mp3 is not None:
        return mp3.is_plain
    try:
        with soundfile.SoundFile(path) as file:
            if not 0 < file.frames < MOST_FRAMES:
                return False
            if file.format == "WAV" and file.subtype.startswith("MPEG"):
                return False
            if file.frames > 1:
                file.seek(file.frames - 1)
            if file.format == "MP3":  # one that begins with what is no frame
                return False
            if find_second_file(path):
                return False
            return not (file.format == "FLAC" and describe_rest(file))
    except (soundfile.SoundFileError, OSError):
        return False


def is_cut(file: soundfile.SoundFile) -> bool:
    """Tell whether an open file ends before what its header promises.

    Of Ogg, that is the header of the last page. libsndfile quietly takes what is left.
    """
    if file.format == "OGG":
        return _ends_within_page(file.name)
    if file.format == "NIST":
        with Path(file.name).open("rb") as content:
            head = content.read(_SPHERE_HEADER)
        count = re.search(rb"^sample_count -i (\d+)\s*$", head, re.MULTILINE)
        return count is not None and file.frames < int(count[1])
    # Only its log tells the length that the header promised.
    lengths = _PROMISED.search(file.extra_info)
    if lengths is None:
        return False
    promised = int(lengths[1])
    if _UNKNOWN <= promised < 1 << 32:
        return False
    return int(lengths[2]) < promised


def describe_rest(file: soundfile.SoundFile) -> str:
    """Say what follows the end that soundfile finds in an open file, or nothing.

    Such are the files of a killed recorder.
    """
    if file.format in ("WAV", "WAVEX"):
        more = _MORE.search(file.extra_info)
        if more:
            place = int(more[1])
            size = Path(file.name).stat().st_size - place
            if size <= _SMALL:
                return ""
            return f"{size:,} bytes from byte {place:,} on"
    if file.format == "FLAC":
        seconds = _find_end(file.name) - file.frames / file.samplerate
        # Half a sample is rounding.
        return f"{seconds:.1f} s" if seconds * file.samplerate > 0.5 else ""
    return ""


def _find_end(path: str) -> float:
    """Return where the last packet of a file ends, in seconds.

    Return 0 if PyAV is not installed or cannot read the file.
    """
    try:
        import av
    except ModuleNotFoundError:
        return 0.0
    try:
        with av.open(path) as container:
            packets = container.demux(container.streams.audio[0])
            ends = (
                (each.pts + (each.duration or 0)) * each.time_base
                for each in packets
                if each.pts is not None
            )
            return float(max(ends, default=0.0))
    except (av.error.FFmpegError, IndexError):
        return 0.0


def _read_promised_size(path: str | Path) -> int:
    """Return the bytes of a file as its container says, 0 if it does not.

    AVI, WMA and Apple's CAF do.
    """
    with Path(path).open("rb") as file:
        head = file.read(_HEAD)
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        size = int.from_bytes(head[4:8], "little") + 8
        return size if _UNFINISHED < size < _UNKNOWN else 0
    place = head.find(_ASF_FILE)
    if place >= 0:
        return int.from_bytes(head[place + 40 : place + 48], "little")
    if head[:4] == b"caff":
        ends = (end for kind, end in _read_caf_chunks(path) if kind == b"data")
        return max(ends, default=0)
    return 0


def _read_caf_chunks(path: str | Path) -> Iterator[tuple[bytes, int]]:
    """Yield the kind of each chunk, and the byte at which it ends."""
    with Path(path).open("rb") as file:
        place = 8
        while True:
            file.seek(place)
            head = file.read(12)
            if len(head) < 12:
                return
            size = int.from_bytes(head[4:], "big", signed=True)
            if size < 0:  # the last one, of unknown length
                return
            place += 12 + size
            yield head[:4], place


def _ends_within_page(path: str | Path) -> bool:
    """Tell whether an Ogg file ends within a page (RFC 3533, section 6)."""
    with Path(path).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _OGG_PAGE))
        tail = file.read()
    start = tail.rfind(_OGG_MARK)
    if start < 0:  # other bytes follow the last page
        return False
    page = tail[start:]
    if len(page) < _OGG_HEADER:
        return True
    head = _OGG_HEADER + page[_OGG_HEADER - 1]
    end = head + sum(page[_OGG_HEADER:head])
    if len(page) < end:
        return True
    # What follows the page may be the first bytes of another one.
    return len(page) > end and _OGG_MARK.startswith(page[end:])
