"""Where an audio file ends: before what its headers promise, where they say, or with a
second file after it.

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
_ASF_FILE = bytes.fromhex(
    "a1dcab8c47a9cf118ee400c00c205365"
)  # 24 bytes after it, the size of the file
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
_JOINED = re.compile(
    rb"fLaC|OggS|\x1aE|RIFF[\x00-\xff]{4}AVI"
)  # of these PyAV reads on into a second file


def second_file(path: str | Path) -> tuple[int, bool] | None:
    """Return the byte at which a second file of the same format begins, and whether
    PyAV reads it too; None: nowhere.

    Files that were put together by ``cat`` are such. Memory does not depend on the
    file's size.
    """
    with Path(path).open("rb") as file:
        head = file.read(_HEAD)  # tags may stand before it
        begins, first = next(
            ((form, found) for form in _FORMATS if (found := re.search(form, head))),
            (b"", None),
        )
        if first is None or scan_mp3(path) is not None:
            return None
        content, end = b"", file.seek(first.end())
        while block := file.read(_BLOCK):
            content, end = content[-_LONGEST_START:] + block, end + len(block)
            if found := re.search(begins, content):
                return end - len(content) + found.start(), _JOINED.match(
                    first[0]
                ) is not None
    return None


def fault(path: str | Path) -> str:
    """Return why a file must not be read by anything, in one line without the path;
    nothing if it may be.
    """
    second = second_file(path)
    if second and not second[1]:
        return (
            f"a second file follows at byte {second[0]:,}, which would not be read: "
            "split the file there"
        )
    mp3 = scan_mp3(path)
    if mp3 is not None and mp3.cut:
        return (
            f"the audio breaks off after {mp3.seconds:.1f} s, before the end that its "
            "header promises: replace the file"
        )
    size, promised = Path(path).stat().st_size, _promised_bytes(path)
    if promised > size:
        return (
            f"the audio breaks off: its headers promise {promised:,} bytes, and there "
            f"are {size:,}: replace the file"
        )
    return ""


def reads_all(path: str | Path) -> bool:
    """Return whether soundfile can read a file, seek in it, and knows its end; False if
    another reader is needed.
    """
    if (mp3 := scan_mp3(path)) is not None:
        return mp3.is_plain
    try:
        with soundfile.SoundFile(path) as file:
            if not 0 < file.frames < MOST_FRAMES or (
                file.format == "WAV" and file.subtype.startswith("MPEG")
            ):
                return False
            if file.frames > 1:
                file.seek(file.frames - 1)
            if file.format == "MP3":  # one that begins with what is no frame
                return False
            return not (second_file(path) or (file.format == "FLAC" and goes_on(file)))
    except (soundfile.SoundFileError, OSError):
        return False


def is_cut(file: soundfile.SoundFile) -> bool:
    """Return whether the header of an open file, or of an Ogg file's last page,
    promises more than there is.

    libsndfile quietly takes what is left.
    """
    if file.format == "OGG":
        return _ends_within_page(file.name)
    if file.format == "NIST":
        with Path(file.name).open("rb") as content:
            head = content.read(_SPHERE_HEADER)
        promised = re.search(rb"^sample_count -i (\d+)\s*$", head, re.MULTILINE)
        return promised is not None and file.frames < int(promised[1])
    # Only its log tells the length that the header promised.
    lengths = _PROMISED.search(file.extra_info)
    return (
        lengths is not None
        and int(lengths[2]) < int(lengths[1])
        and not _UNKNOWN <= int(lengths[1]) < 1 << 32
    )


def goes_on(file: soundfile.SoundFile) -> str:
    """Return what follows the end that soundfile finds in an open file, such as of a
    killed recorder, in words, or nothing.
    """
    if file.format in ("WAV", "WAVEX") and (more := _MORE.search(file.extra_info)):
        size = Path(file.name).stat().st_size - int(more[1])
        return f"{size:,} bytes from byte {int(more[1]):,} on" if size > _SMALL else ""
    if file.format == "FLAC":
        seconds = _end(file.name) - file.frames / file.samplerate
        return f"{seconds:.1f} s" if seconds * file.samplerate > 0.5 else ""
    return ""


def _end(path: str) -> float:
    """Return where the last packet of a file ends, in seconds, 0 if PyAV is not
    installed or cannot read it.
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


def _promised_bytes(path: str | Path) -> int:
    """Return the size of a file as its container says, 0 if it does not: AVI, WMA, and
    Apple's CAF.
    """
    with Path(path).open("rb") as file:
        head = file.read(_HEAD)
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        size = int.from_bytes(head[4:8], "little") + 8
        return size if _UNFINISHED < size < _UNKNOWN else 0
    if (place := head.find(_ASF_FILE)) >= 0:
        return int.from_bytes(head[place + 40 : place + 48], "little")
    if head[:4] == b"caff":
        return max(
            (end for kind, end in _chunks_of_caf(path) if kind == b"data"), default=0
        )
    return 0


def _chunks_of_caf(path: str | Path) -> Iterator[tuple[bytes, int]]:
    """Yield the kind of each chunk, and the byte at which it ends."""
    with Path(path).open("rb") as file:
        place = 8
        while len(head := file.read(12) if file.seek(place) else b"") == 12:
            size = int.from_bytes(head[4:], "big", signed=True)
            if size < 0:  # the last one, of unknown length
                return
            place += 12 + size
            yield head[:4], place


def _ends_within_page(path: str | Path) -> bool:
    """Return whether an Ogg file ends within a page (RFC 3533, section 6)."""
    with Path(path).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _OGG_PAGE))
        tail = file.read()
    start = tail.rfind(_OGG_MARK)
    if start < 0:  # other bytes follow the last page
        return False
    page = tail[start:]
    if len(page) < _OGG_HEADER:
        return True
    head = _OGG_HEADER + page[_OGG_HEADER - 1]
    end = head + sum(page[_OGG_HEADER:head])
    return len(page) < end or (len(page) > end and _OGG_MARK.startswith(page[end:]))
