"""Audio files: written, also to a full disk, and checked."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile
from odd_files import frames_of_xing, hole

from espnet_ext.audio.files import (
    FULL_CHECK_FILES,
    Inspected,
    inspect_audio,
    inspect_files,
    must_decode,
    save_audio,
)

SAMPLES = np.linspace(-0.5, 0.5, 16000)


def test_what_is_written_is_read(tmp_path):
    save_audio(tmp_path / "a.flac", SAMPLES, 16000, subtype="PCM_16")
    samples, rate = soundfile.read(tmp_path / "a.flac")
    assert rate == 16000 and np.abs(samples - SAMPLES).max() < 2**-15


@pytest.mark.parametrize(
    ("room", "error"), [(0, OSError), (1 << 40, soundfile.LibsndfileError)]
)
def test_a_full_disk_is_named_and_other_failures_are_not(
    tmp_path, monkeypatch, room, error
):
    """libsndfile gives up in the middle of a file."""

    def write(file, samples):
        Path(file.name).write_bytes(b"half")
        raise soundfile.LibsndfileError(2)

    class Disk:
        f_bavail, f_frsize = room, 1

    monkeypatch.setattr(soundfile.SoundFile, "write", write)
    monkeypatch.setattr(os, "statvfs", lambda path: Disk)
    with pytest.raises(error) as caught:
        save_audio(tmp_path / "a.flac", SAMPLES, 16000)
    assert not (tmp_path / "a.flac").exists()
    if room == 0:
        assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(
            tmp_path / "a.flac"
        )


# --- checks ---


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_that_are_no_numbers(tmp_path: Path, value: float) -> None:
    samples = np.zeros(20000, np.float32)
    samples[-1] = value
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    assert (
        inspect_audio(tmp_path / "a.wav").fault
        == "NaN or infinite samples in the audio of"
    )
    assert inspect_audio(tmp_path / "a.wav", decode=False).fault is None


def test_a_sample_that_no_microphone_wrote_is_named(tmp_path):
    samples = np.random.default_rng(0).normal(0, 0.1, 64000)
    samples[24100] = 1e4
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    assert "1.51 s" in inspect_audio(tmp_path / "a.wav").fault
    soundfile.write(tmp_path / "loud.wav", 4 * samples[:9999], 16000, subtype="FLOAT")
    assert inspect_audio(tmp_path / "loud.wav").fault is None


def test_what_is_known_of_good_audio(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.flac", np.zeros(800), 16000)
    soundfile.write(tmp_path / "b.wav", np.zeros((441, 2)), 44100)
    for decode in (True, False):
        assert inspect_audio(
            tmp_path / "a.flac", decode=decode, rate=16000
        ) == Inspected(16000, 800, 1)
        assert inspect_audio(
            tmp_path / "b.wav", decode=decode, mono=False
        ) == Inspected(44100, 441, 2)
    assert inspect_audio(tmp_path / "b.wav", mono=False).seconds == 0.01
    assert (
        inspect_audio(tmp_path / "b.wav").fault
        == "2 channels instead of one in the audio of"
    )
    assert (
        inspect_audio(tmp_path / "b.wav", rate=16000, mono=False).fault
        == "sampling rate 44100 Hz, not 16000 Hz, of"
    )


@pytest.mark.parametrize("suffix", ["wav", "sph"])
@pytest.mark.parametrize("decode", [True, False])
def test_what_a_header_promises_is_there(
    tmp_path: Path, suffix: str, decode: bool
) -> None:
    """libsndfile takes what is left of both; nothing needs decoding to know better."""
    path = tmp_path / f"a.{suffix}"
    soundfile.write(
        path,
        SAMPLES,
        16000,
        format="NIST" if suffix == "sph" else None,
        subtype="PCM_16",
    )
    assert inspect_audio(path, decode=decode).fault is None
    path.write_bytes(path.read_bytes()[:-10])
    assert (
        inspect_audio(path, decode=decode).fault
        == "the audio breaks off before its end, of"
    )


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
@pytest.mark.parametrize("decode", [True, False])
def test_an_ogg_file_that_ends_within_a_page_is_cut(
    tmp_path: Path, subtype: str, decode: bool
) -> None:
    path = tmp_path / "a.ogg"
    soundfile.write(
        path,
        np.random.default_rng(0).normal(size=80000).clip(-9, 9) / 10,
        16000,
        subtype=subtype,
    )
    whole = path.read_bytes()
    last_page = whole.rindex(b"OggS")
    assert inspect_audio(path, decode=decode).fault is None
    for end in (
        len(whole) - 1,
        last_page + 30,
        last_page + 10,
        last_page + 2,
        len(whole) // 2,
    ):
        path.write_bytes(whole[:end])
        assert (
            inspect_audio(path, decode=decode).fault
            == "the audio breaks off before its end, of"
        ), end
    for more in (
        b"\0" * 100,
        b"\0" * 70000,
    ):  # other bytes after the last page are no page
        path.write_bytes(whole + more)
        assert inspect_audio(path, decode=decode).fault is None
    path.write_bytes(
        whole[:last_page]
    )  # of whole pages: as a stream ends that is recorded
    assert inspect_audio(path, decode=decode).fault is None


@pytest.mark.parametrize(
    "change, fault",
    [
        (lambda mp3: mp3, None),
        (frames_of_xing(lambda count: count // 2), "more audio"),
        (frames_of_xing(lambda count: 0), "more audio"),
        (frames_of_xing(lambda count: 2 * count), "wrong length"),
        (lambda mp3: mp3 + mp3, "more audio"),
        (hole(1400), "decoded"),
        (lambda mp3: mp3[: len(mp3) // 2], "breaks off"),
    ],
)
def test_frames_of_an_mp3_file_are_counted(tmp_path, change, fault, capfd):
    """Whatever its header says; no warning of a library reaches the user."""
    path = tmp_path / "a.mp3"
    soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, 64000), 16000)
    path.write_bytes(change(path.read_bytes()))
    found = inspect_audio(path)
    assert found.fault is None if fault is None else fault in found.fault
    assert found.rate == 16000 and not capfd.readouterr().err


@pytest.mark.parametrize("decode", [True, False])
def test_files_of_pipes_are_told_from_corrupt_ones(
    tmp_path: Path, decode: bool
) -> None:
    """soundfile opens them, but reads nothing of a WAV file whose sizes are not filled
    in, and fails at such FLAC.
    """
    for name, place in (("a.wav", 40), ("a.flac", 22)):
        soundfile.write(tmp_path / name, SAMPLES, 16000)
        content = bytearray((tmp_path / name).read_bytes())
        content[place : place + 4] = bytes(4)
        (tmp_path / name).write_bytes(content)
        assert inspect_audio(tmp_path / name, decode=decode).fault.startswith(
            "no length in the header"
        )
    soundfile.write(tmp_path / "empty.wav", SAMPLES[:0], 16000)
    assert (
        inspect_audio(tmp_path / "empty.wav", decode=decode).fault
        == "no samples in the audio of"
    )


@pytest.mark.parametrize("decode", [True, False])
def test_each_file_is_opened_once_and_keeps_its_name(
    tmp_path: Path, monkeypatch, decode: bool
) -> None:
    files = [(f"u{number}", tmp_path / f"{number}.flac") for number in range(600)]
    for number, (_, path) in enumerate(files):
        if number % 2:
            soundfile.write(path, np.zeros(10 + number), 16000)
    opened = []
    plain = soundfile.SoundFile.__init__
    monkeypatch.setattr(
        soundfile.SoundFile,
        "__init__",
        lambda file, path, *more: opened.append(path) or plain(file, path, *more),
    )
    found = inspect_files(files, 16000, decode=decode, num_jobs=4)
    assert sorted(opened) == sorted(path for _, path in files)
    for number, (key, _) in enumerate(files):
        wanted = (
            Inspected(16000, 10 + number, 1)
            if number % 2
            else Inspected(fault="no audio file for")
        )
        assert found[key] == wanted


def test_large_corpora_are_not_decoded_unless_asked() -> None:
    assert must_decode("auto", FULL_CHECK_FILES - 1) and not must_decode(
        "auto", FULL_CHECK_FILES
    )
    assert must_decode("full", 10**6) and not must_decode("header", 1)
