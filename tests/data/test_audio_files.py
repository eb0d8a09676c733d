"""Audio files: written, also to a full disk, and checked."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_ext.data.audio_files import FULL_CHECK_FILES, audio_fault, audio_faults, decodes, save_audio

SAMPLES = np.linspace(-0.5, 0.5, 16000)


def test_what_is_written_is_read(tmp_path):
    save_audio(tmp_path / "a.flac", SAMPLES, 16000, subtype="PCM_16")
    samples, rate = soundfile.read(tmp_path / "a.flac")
    assert rate == 16000 and np.abs(samples - SAMPLES).max() < 2**-15


@pytest.mark.parametrize(("room", "error"), [(0, OSError), (1 << 40, soundfile.LibsndfileError)])
def test_a_full_disk_is_named_and_other_failures_are_not(tmp_path, monkeypatch, room, error):
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
        assert caught.value.errno == errno.ENOSPC and caught.value.filename == str(tmp_path / "a.flac")


# --- checks ---


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_that_are_no_numbers(tmp_path: Path, value: float) -> None:
    samples = np.zeros(20000, np.float32)
    samples[-1] = value
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    assert audio_faults([("a", tmp_path / "a.wav")], 16000, decode=True) == [
        f"NaN or infinite samples in the audio of a ({tmp_path}/a.wav)"
    ]


def test_good_audio_has_no_fault(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.flac", np.zeros(10), 16000)
    assert audio_fault(tmp_path / "a.flac", 16000, decode=True) is None
    assert audio_fault(tmp_path / "a.flac", 16000, decode=False) is None


def test_missing_file(tmp_path: Path) -> None:
    assert audio_fault(tmp_path / "a.flac", 16000, decode=False) == "no audio file for"


def test_faults_keep_their_order_over_threads(tmp_path: Path) -> None:
    files = [(f"u{number}", tmp_path / f"{number}.flac") for number in range(40)]
    for _, path in files[::2]:
        soundfile.write(path, np.zeros(10), 16000)
    faults = audio_faults(files, 16000, decode=True, num_jobs=4)
    assert [fault.split()[-2] for fault in faults] == [key for key, _ in files[1::2]]


def test_large_corpora_are_not_decoded_unless_asked() -> None:
    assert decodes("auto", FULL_CHECK_FILES - 1) and not decodes("auto", FULL_CHECK_FILES)
    assert decodes("full", 10**6) and not decodes("header", 1)
