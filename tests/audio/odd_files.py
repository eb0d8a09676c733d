"""Audio files as people have them: containers, damages, headers, time stamps, levels;
and what is right for each.

A file has a tone of its own in every second, so that what is read, and where, can be
told.
"""

import contextlib
import io
import os
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
import soundfile
from av.stream import Disposition

from espnet_ext.audio.recordings import open_recording
from espnet_ext.errors import InputError

RATE = 16000
SECONDS = (0, 1, 2, 3)  # the tones of a whole file
SILENCE = -1
HALF, TWICE = (0, 1), SECONDS * 2


class Case(NamedTuple):
    """A file: its kind, how it is written, and what is right: tones by the second, or a
    part of the refusal.

    A part of a warning may be expected besides.
    """

    kind: str
    name: str
    write: Callable[[Path], object]
    right: tuple[int, ...] | str
    warning: str = ""


def tones(seconds: tuple[int, ...] = SECONDS, rate: int = RATE) -> np.ndarray:
    """Return (T,): for each second its tone, none for :data:`SILENCE`."""
    time = np.arange(rate) / rate
    return np.concatenate(
        [
            0.3 * np.sin(2 * np.pi * (300 + 200 * tone) * time) * (tone >= 0)
            for tone in seconds
        ]
    )


def by_soundfile(
    samples: np.ndarray | None = None, rate: int = RATE, **how: str
) -> Callable[[Path], object]:
    return lambda path: soundfile.write(
        path, tones(rate=rate) if samples is None else samples, rate, **how
    )


def by_av(
    form: str,
    codec: str,
    *,
    samples: np.ndarray | None = None,
    video: bool = False,
    audio: bool = True,
    at: Callable[[int], float] = lambda second: 0.0,
    rate: int = 48000,
    **options: str,
) -> Callable[[Path], object]:
    """Write a track, and perhaps a video; ``at`` moves the time stamps of a second."""

    def write(path: Path) -> None:
        sound = tones(rate=rate) if samples is None else samples
        with av.open(str(path), "w", format=form, options=options) as container:
            picture = container.add_stream("mpeg4", rate=10) if video else None
            layout = "mono" if sound.ndim == 1 else "stereo"
            track = (
                container.add_stream(codec, rate=rate, layout=layout) if audio else None
            )
            if codec == "wmav2":
                track.bit_rate = 64000
            if picture is not None:
                picture.width = picture.height = 16
                for number in range(40):
                    frame = av.VideoFrame(16, 16, "yuv420p")
                    frame.pts, frame.time_base = number, Fraction(1, 10)
                    container.mux(picture.encode(frame))
                container.mux(picture.encode(None))
            if track is None:
                return
            size = 960 if codec == "libopus" else 1024  # a frame of the codec
            for first in range(0, len(sound), size):
                part = np.atleast_2d(sound[first : first + size].T).astype(np.float32)
                frame = av.AudioFrame.from_ndarray(
                    np.ascontiguousarray(part), format="fltp", layout=layout
                )
                frame.sample_rate, frame.time_base = rate, Fraction(1, rate)
                frame.pts = first + round(at(first // rate) * rate)
                container.mux(track.encode(frame))
            container.mux(track.encode(None))

    return write


def changed(
    write: Callable[[Path], object], change: Callable[[bytes], bytes]
) -> Callable[[Path], object]:
    def again(path: Path) -> None:
        write(path)
        path.write_bytes(change(path.read_bytes()))

    return again


def half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def put(place: int, value: bytes) -> Callable[[bytes], bytes]:
    return lambda content: content[:place] + value + content[place + len(value) :]


def size_of_data(count: int) -> Callable[[bytes], bytes]:
    return lambda content: put(content.index(b"data") + 4, count.to_bytes(4, "little"))(
        content
    )


def without_first_frame(content: bytes) -> bytes:
    return content[content.index(content[:2], 2) :]


def frames_of_xing(change: Callable[[int], int]) -> Callable[[bytes], bytes]:
    """Let an MP3 file's header count other frames than there are."""

    def again(content: bytes) -> bytes:
        place = re.search(b"Xing|Info", content).end() + 4
        count = int.from_bytes(content[place : place + 4], "big")
        return put(place, change(count).to_bytes(4, "big"))(content)

    return again


def hole(count: int) -> Callable[[bytes], bytes]:
    """Overwrite so many bytes in the middle."""
    return lambda content: put(len(content) // 2, bytes(count))(content)


def tagged(content: bytes) -> bytes:
    return b"ID3\x04\0\0\0\0\x02\0" + bytes(256) + content + b"TAG" + bytes(125)


def in_two_rates(form: str, codec: str) -> Callable[[Path], object]:
    """Write a row of packets whose second half has another rate."""

    def write(path: Path) -> None:
        by_av(form, codec, rate=48000)(path)
        first = path.read_bytes()
        by_av(form, codec, rate=24000 if codec != "ac3" else 32000)(path)
        path.write_bytes(first + path.read_bytes())

    return write


def of_two_tracks(form: str, default: int | None) -> Callable[[Path], object]:
    """Write silence as the first audio track and the tones as the second."""

    def write(path: Path) -> None:
        with av.open(str(path), "w", format=form) as container:
            streams = [container.add_stream("aac", rate=48000) for _ in range(2)]
            for number, stream in enumerate(streams):
                stream.layout = "mono"
                stream.disposition = Disposition(int(number == default))
            for number, stream in enumerate(streams):
                sound = tones(rate=48000) * number
                for first in range(0, len(sound), 1024):
                    part = sound[None, first : first + 1024].astype(np.float32)
                    frame = av.AudioFrame.from_ndarray(part, "fltp", "mono")
                    frame.sample_rate, frame.pts = 48000, first
                    frame.time_base = Fraction(1, 48000)
                    container.mux(stream.encode(frame))
                container.mux(stream.encode(None))

    return write


def frames_of_flac(count: int) -> Callable[[bytes], bytes]:
    return lambda content: (
        content[:21]
        + bytes([content[21] & 0xF0])
        + count.to_bytes(4, "big")
        + content[26:]
    )


BY_SOUNDFILE = {
    "wav16.wav": {"subtype": "PCM_16"},
    "wav24.wav": {"subtype": "PCM_24"},
    "wav32.wav": {"subtype": "PCM_32"},
    "wav8.wav": {"subtype": "PCM_U8"},
    "float.wav": {"subtype": "FLOAT"},
    "double.wav": {"subtype": "DOUBLE"},
    "ulaw.wav": {"subtype": "ULAW"},
    "alaw.wav": {"subtype": "ALAW"},
    "ima.wav": {"subtype": "IMA_ADPCM"},
    "ms.wav": {"subtype": "MS_ADPCM"},
    "gsm.wav": {"subtype": "GSM610"},
    "wavex.wav": {"format": "WAVEX"},
    "rf64.wav": {"format": "RF64"},
    "w64.w64": {"format": "W64"},
    "flac.flac": {},
    "vorbis.ogg": {},
    "opus.opus": {"format": "OGG", "subtype": "OPUS"},
    "mp3.mp3": {},
    "aiff.aiff": {},
    "au.au": {},
    "ulaw.au": {"subtype": "ULAW"},
    "caf.caf": {},
    "alac.caf": {"subtype": "ALAC_16"},
    "nist.sph": {"format": "NIST"},
}
BY_AV = {
    "aac.m4a": ("ipod", "aac"),
    "alac.m4a": ("ipod", "alac"),
    "aac.mp4": ("mp4", "aac"),
    "pcm.mov": ("mov", "pcm_s16le"),
    "aac.mkv": ("matroska", "aac"),
    "flac.mkv": ("matroska", "flac"),
    "opus.webm": ("webm", "libopus"),
    "wma.wma": ("asf", "wmav2"),
    "mp3.avi": ("avi", "libmp3lame"),
    "aac.flv": ("flv", "aac"),
    "aac.3gp": ("3gp", "aac"),
    "aac.aac": ("adts", "aac"),
    "ac3.ac3": ("ac3", "ac3"),
    "aac.ts": ("mpegts", "aac"),
}
# What is a row of packets and says nowhere how many there are: a part is as good as a
# whole.
ROWS = {"aac.aac", "ac3.ac3", "aac.ts"}
JOINABLE = {
    "flac.flac",
    "vorbis.ogg",
    "opus.opus",
    "mp3.mp3",
    "aac.mkv",
    "flac.mkv",
    "opus.webm",
    "mp3.avi",
    *ROWS,
}


def writer(name: str) -> Callable[[Path], object]:
    if name in BY_AV:
        return by_av(*BY_AV[name])
    return by_soundfile(rate=8000 if name == "gsm.wav" else RATE, **BY_SOUNDFILE[name])


def containers() -> list[Case]:
    """Return each format whole, cut in half, and twice, one after the other."""
    cases = []
    for name in (*BY_SOUNDFILE, *BY_AV):
        cases += [
            Case("whole", f"whole_{name}", writer(name), SECONDS),
            Case(
                "cut",
                f"cut_{name}",
                changed(writer(name), half),
                HALF if name in ROWS else "breaks off|or cut",
                "decoded" if name == "aac.aac" else "",
            ),
            Case(
                "joined",
                f"twice_{name}",
                changed(writer(name), lambda content: 2 * content),
                TWICE if name in JOINABLE else "second file",
            ),
        ]
    return cases


def headers() -> list[Case]:
    """Return files whose headers are wrong, unfinished or of unknown length, or that
    hold other bytes.
    """
    wav, flac, mp3, ogg = (
        writer(name) for name in ("wav16.wav", "flac.flac", "mp3.mp3", "vorbis.ogg")
    )
    stereo = by_soundfile(np.stack((tones(), tones()), axis=1))
    variable = by_soundfile(
        np.append(tones()[:-RATE], np.zeros(RATE)),
        bitrate_mode="VARIABLE",
        compression_level=0.1,
    )
    table = [
        ("riff_0.wav", changed(wav, put(4, bytes(4))), SECONDS),
        (
            "riff_36.wav",
            changed(
                wav, lambda content: size_of_data(0)(put(4, b"\x24\0\0\0")(content))
            ),
            SECONDS,
        ),
        ("data_0.wav", changed(wav, size_of_data(0)), SECONDS),
        ("data_0_stereo.wav", changed(stereo, size_of_data(0)), SECONDS),
        ("data_ffffffff.wav", changed(wav, size_of_data(0xFFFFFFFF)), SECONDS),
        ("data_7fffffff.wav", changed(wav, size_of_data(0x7FFFFFFF)), SECONDS),
        ("data_80000000.wav", changed(wav, size_of_data(0x80000000)), SECONDS),
        ("data_too_long.wav", changed(wav, size_of_data(10 * 2 * RATE)), "breaks off"),
        ("data_too_short.wav", changed(wav, size_of_data(2 * 2 * RATE)), "goes on"),
        ("float_data_0.wav", changed(writer("float.wav"), size_of_data(0)), SECONDS),
        ("unknown.flac", changed(flac, frames_of_flac(0)), SECONDS),
        ("too_long.flac", changed(flac, frames_of_flac(10 * RATE)), "breaks off"),
        ("too_short.flac", changed(flac, frames_of_flac(2 * RATE)), SECONDS),
        ("unknown.au", changed(writer("au.au"), put(8, b"\xff" * 4)), SECONDS),
        (
            "tag_after.wav",
            changed(wav, lambda content: content + b"TAG" + bytes(125)),
            SECONDS,
        ),
        (
            "line_end_after.wav",
            changed(wav, lambda content: content + b"\r\n" * 6),
            SECONDS,
        ),
        (
            "variable_no_xing.mp3",
            changed(variable, without_first_frame),
            (*SECONDS[:-1], SILENCE),
        ),
        *(
            (f"xing_{name}.mp3", changed(mp3, frames_of_xing(change)), SECONDS)
            for name, change in (
                ("half", lambda n: n // 2),
                ("zero", lambda n: 0),
                ("twice", lambda n: 2 * n),
                ("one_less", lambda n: n - 1),
            )
        ),
        (
            "xing_half_twice.mp3",
            changed(mp3, lambda c: 2 * frames_of_xing(lambda n: n // 2)(c)),
            TWICE,
        ),
        ("tagged_twice.mp3", changed(mp3, lambda content: 2 * tagged(content)), TWICE),
        (
            "no_xing_twice.mp3",
            changed(
                by_av("mp3", "libmp3lame", write_xing="0"), lambda content: 2 * content
            ),
            TWICE,
        ),
        ("no_xing.mp3", by_av("mp3", "libmp3lame", write_xing="0"), SECONDS),
        (
            "id3v1.mp3",
            changed(mp3, lambda content: content + b"TAG" + bytes(125)),
            SECONDS,
        ),
        (
            "id3v2.mp3",
            changed(
                mp3, lambda content: b"ID3\x04\0\0\0\0\x02\0" + bytes(256) + content
            ),
            SECONDS,
        ),
        (
            "id3v2.flac",
            changed(
                flac, lambda content: b"ID3\x04\0\0\0\0\x02\0" + bytes(256) + content
            ),
            SECONDS,
        ),
        (
            "zeros_after.ogg",
            changed(ogg, lambda content: content + bytes(5000)),
            SECONDS,
        ),
        (
            "zeros_after.wav",
            changed(wav, lambda content: content + bytes(5000)),
            SECONDS,
        ),
        (
            "list_after.wav",
            changed(wav, lambda content: content + b"LIST\4\0\0\0INFO"),
            SECONDS,
        ),
        ("odd_byte.wav", changed(wav, lambda content: content[:-1]), "breaks off"),
        (
            "hole.flac",
            changed(
                flac, lambda c: c[: len(c) // 2] + bytes(3000) + c[len(c) // 2 + 3000 :]
            ),
            "breaks off",
        ),
        ("live.mkv", by_av("matroska", "aac", live="1"), SECONDS),
        (
            "fragments.mp4",
            by_av("mp4", "aac", movflags="frag_keyframe+empty_moov+default_base_moof"),
            SECONDS,
        ),
        ("moov_first.mp4", by_av("mp4", "aac", movflags="faststart"), SECONDS),
        (
            "moov_first_cut.mp4",
            changed(by_av("mp4", "aac", movflags="faststart"), half),
            "breaks off",
        ),
        (
            "video_cut.mkv",
            changed(by_av("matroska", "aac", video=True), half),
            "breaks off",
        ),
        ("wav_called.mp3", by_soundfile(format="WAV"), SECONDS),
        ("m4a_called.wav", by_av("ipod", "aac"), SECONDS),
        ("mp3_in.wav", by_av("wav", "libmp3lame"), SECONDS),
        *(
            (f"{rate}.wav", by_soundfile(rate=rate), SECONDS)
            for rate in (8000, 11025, 22050, 48000, 96000, 192000)
        ),
    ]
    # What is lost of the packets of a row leaves no gap, as they have no times.
    holes = [
        Case("headers", "hole_200.mp3", changed(mp3, hole(200)), SECONDS, "decoded"),
        Case(
            "headers", "hole_1400.mp3", changed(mp3, hole(1400)), (0, 1, 3), "decoded"
        ),
        Case(
            "headers",
            "hole_200.aac",
            changed(writer("aac.aac"), hole(200)),
            SECONDS,
            "decoded",
        ),
    ]
    return [Case("headers", name, write, right) for name, write, right in table] + holes


def tracks() -> list[Case]:
    """Return several audio tracks, and packets without time stamps."""
    table: list[tuple] = [
        (
            "second_is_default.mkv",
            of_two_tracks("matroska", 1),
            SECONDS,
            "2 audio tracks: track 2",
        ),
        (
            "second_is_default.mp4",
            of_two_tracks("mp4", 1),
            SECONDS,
            "2 audio tracks: track 2",
        ),
        (
            "first_is_default.mkv",
            of_two_tracks("matroska", 0),
            (SILENCE,) * 4,
            "2 audio tracks: track 1",
        ),
        (
            "none_is_default.mkv",
            of_two_tracks("matroska", None),
            (SILENCE,) * 4,
            "2 audio tracks: track 1",
        ),
        ("two_rates.aac", in_two_rates("adts", "aac"), TWICE, ""),
        ("two_rates.ac3", in_two_rates("ac3", "ac3"), TWICE, ""),
        ("two_rates.mp3", in_two_rates("mp3", "libmp3lame"), TWICE, ""),
    ]
    return [Case("tracks", *row) for row in table]


def times() -> list[Case]:
    """Return tracks that begin late, pause, or have wrong time stamps."""
    late = lambda second: 2.0  # noqa: E731
    pause = lambda second: 3.0 if second >= 2 else 0.0  # noqa: E731
    wrong = lambda second: 360000.0 if second >= 2 else 0.0  # noqa: E731
    paused = (0, 1, SILENCE, SILENCE, SILENCE, 2, 3)
    table = [
        *(
            (
                f"late.{end}",
                by_av(form, codec, video=True, at=late),
                (SILENCE, SILENCE, *SECONDS),
            )
            for end, form, codec in (
                ("mkv", "matroska", "aac"),
                ("mp4", "mp4", "aac"),
                ("mov", "mov", "aac"),
            )
        ),
        *(
            (f"pause.{end}", by_av(form, codec, at=pause), paused)
            for end, form, codec in (
                ("mkv", "matroska", "flac"),
                ("webm", "webm", "libopus"),
            )
        ),
        ("pause_video.mkv", by_av("matroska", "aac", video=True, at=pause), paused),
        ("alone_late.mkv", by_av("matroska", "aac", at=late), SECONDS),
        ("jump.mkv", by_av("matroska", "aac", at=wrong), "jump"),
        ("with_video.mp4", by_av("mp4", "aac", video=True), SECONDS),
        ("with_video.webm", by_av("matroska", "libopus", video=True), SECONDS),
    ]
    return [Case("times", name, write, right) for name, write, right in table]


def levels() -> list[Case]:
    """Return samples that are not speech at the usual level in one channel."""
    one = tones()
    opposite = np.stack((one, -one), axis=1)
    opposite_48 = np.stack((tones(rate=48000), -tones(rate=48000)), axis=1)
    click = one / 300
    click[24000:24010] = 0.99
    spike = one.copy()
    spike[24100] = 1e4
    turned = np.stack(
        (one, np.where(np.arange(len(one)) < 2 * RATE, one, -one)), axis=1
    )
    shifted = one + 0.5 * (np.arange(len(one)) >= 2 * RATE)
    sides = np.stack((one, np.zeros_like(one)), axis=1)
    surround = np.stack([one * (channel == 2) for channel in range(6)], axis=1)
    flat = {"subtype": "FLOAT"}
    quiet = one / 300  # its peaks are at -60 dBFS
    bad = {"nan": np.nan, "inf": np.inf, "huge": 1e30}
    table: list[tuple] = [
        *(
            (
                f"int{bits}.wav",
                by_soundfile(one * 2.0 ** (bits - 1), **flat),
                SECONDS,
                "level",
            )
            for bits in (8, 16, 24, 32)
        ),
        ("int16.aiff", by_soundfile(one * 32768, **flat), SECONDS, "level"),
        ("int16.caf", by_soundfile(one * 32768, **flat), SECONDS, "level"),
        (
            "int16_double.wav",
            by_soundfile(one * 32768, subtype="DOUBLE"),
            SECONDS,
            "level",
        ),
        (
            "int16.mkv",
            by_av("matroska", "pcm_f32le", samples=tones(rate=48000) * 32768),
            SECONDS,
            "level",
        ),
        *(
            (f"opposite.{end}", by_soundfile(opposite), SECONDS, "cancel")
            for end in ("wav", "flac", "ogg", "mp3")
        ),
        *(
            (
                f"opposite.{end}",
                by_av(*BY_AV[f"aac.{end}"], samples=opposite_48),
                SECONDS,
                "cancel",
            )
            for end in ("m4a", "mkv", "mp4")
        ),
        *(
            (f"quiet.{end}", by_soundfile(quiet), SECONDS, "level")
            for end in ("wav", "flac", "ogg", "mp3", "aiff")
        ),
        (
            "quiet.m4a",
            by_av("ipod", "aac", samples=tones(rate=48000) / 300),
            SECONDS,
            "level",
        ),
        ("quiet_float.wav", by_soundfile(one / 1000, **flat), SECONDS, "level"),
        *(
            (f"offset.{end}", by_soundfile(one + 0.4), SECONDS, "offset")
            for end in ("wav", "flac", "mp3")
        ),
        ("offset_small.wav", by_soundfile(one + 0.06), SECONDS, ""),
        ("offset_quiet.wav", by_soundfile(quiet + 0.4, **flat), SECONDS, "offset"),
        ("click.wav", by_soundfile(click), SECONDS, "level"),
        *(
            (f"spike.{end}", by_soundfile(spike, **flat), SECONDS, "1.51 s")
            for end in ("wav", "aiff", "caf")
        ),
        ("spike_int16.wav", by_soundfile(spike * 32768, **flat), SECONDS, "1.51 s"),
        (
            "spike_stereo.wav",
            by_soundfile(np.stack((spike, one), axis=1), **flat),
            SECONDS,
            "1.51 s",
        ),
        (
            "spike.mkv",
            by_av("matroska", "pcm_f32le", samples=np.repeat(spike, 3)),
            SECONDS,
            "1.51 s",
        ),
        *(
            (f"turned.{end}", by_soundfile(turned), SECONDS, "50 %")
            for end in ("wav", "flac", "ogg")
        ),
        ("turned_8000.wav", by_soundfile(turned[::2], rate=8000), SECONDS, "50 %"),
        ("shifted.wav", by_soundfile(shifted), SECONDS, "offset"),
        ("shifted.flac", by_soundfile(shifted[::2], rate=8000), SECONDS, "offset"),
        ("click.flac", by_soundfile(click), SECONDS, "level"),
        ("hot.wav", by_soundfile(one * 4, **flat), SECONDS, ""),
        ("one_side.wav", by_soundfile(sides), SECONDS, ""),
        ("surround.wav", by_soundfile(surround), SECONDS, ""),
        ("silence.wav", by_soundfile(np.zeros(4 * RATE)), (SILENCE,) * 4, ""),
        (
            "silence.m4a",
            by_av("ipod", "aac", samples=np.zeros(4 * 48000)),
            (SILENCE,) * 4,
            "",
        ),
        *(
            (
                f"{name}.wav",
                by_soundfile(np.append(one, value), **flat),
                " 4.00 s .*NaN",
                "",
            )
            for name, value in bad.items()
        ),
        (
            "nan.mkv",
            by_av(
                "matroska", "pcm_f32le", samples=np.append(tones(rate=48000), np.nan)
            ),
            "NaN",
            "",
        ),
    ]
    return [Case("levels", *row) for row in table]


def others() -> list[Case]:
    """Return what is no audio file."""
    table = [
        ("empty.wav", lambda path: path.touch(), "empty"),
        ("empty.m4a", lambda path: path.touch(), "empty"),
        ("no_samples.wav", by_soundfile(np.zeros(0)), "no samples"),
        ("no_samples.flac", by_soundfile(np.zeros(0)), "empty|no samples"),
        ("text.wav", lambda path: path.write_text("no audio\n" * 99), "no audio"),
        (
            "random.mp3",
            lambda path: path.write_bytes(np.random.default_rng(0).bytes(500)),
            "no audio",
        ),
        (
            "zeros.flac",
            lambda path: path.write_bytes(bytes(9999)),
            "no audio|no samples",
        ),
        ("page.m4a", lambda path: path.write_text("<html>404</html>"), "no audio"),
        ("magic.ogg", lambda path: path.write_bytes(b"OggS"), "no audio"),
        (
            "header.wav",
            changed(writer("wav16.wav"), lambda content: content[:44]),
            "breaks off|no samples",
        ),
        ("video.mp4", by_av("mp4", "aac", video=True, audio=False), "no audio track"),
        (
            "video.mkv",
            by_av("matroska", "aac", video=True, audio=False),
            "no audio track",
        ),
        ("folder.wav", lambda path: path.mkdir(), "is a folder"),
        ("pipe.wav", os.mkfifo, "pipe"),
        ("link.wav", lambda path: path.symlink_to("nothing"), "no such file"),
        ("none.wav", lambda path: None, "no such file"),
    ]
    return [Case("no audio", name, write, right) for name, write, right in table]


CASES = [*containers(), *headers(), *tracks(), *times(), *levels(), *others()]


def fault(case: Case, folder: Path) -> str:
    """Write a file and read it: what is wrong, or nothing."""
    path = folder / case.name
    case.write(path)
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told), open_recording(path, RATE) as audio:
            samples = audio.read(0, audio.length)
    except InputError as error:
        line = str(error)
        if isinstance(case.right, tuple):
            return f"refused: {line}"
        good = (
            line.startswith(str(path))
            and "\n" not in line
            and re.search(case.right, line)
        )
        return "" if good else f"another refusal: {line}"
    warning = told.getvalue()
    if isinstance(case.right, str):
        return f"read ({len(samples) / RATE:.2f} s), not refused: {warning}"
    if bool(warning) != bool(case.warning) or case.warning not in warning:
        return f"warning: {warning!r}"
    if abs(len(samples) / RATE - len(case.right)) > 0.2:
        return f"{len(samples) / RATE:.2f} s instead of {len(case.right)} s"
    found = tuple(
        _tone(samples[second * RATE :][RATE // 4 : 3 * RATE // 4])
        for second in range(len(case.right))
    )
    return "" if found == case.right else f"tones {found}"


def _tone(samples: np.ndarray) -> int:
    if np.sqrt(np.square(samples).mean()) < 0.02:
        return SILENCE
    peak = np.abs(np.fft.rfft(samples)).argmax() * RATE / len(samples)
    return round((peak - 300) / 200)
