"""Audio files on a disk that is full, as libsndfile meets it."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_ext.data.audio_files import save_audio

SAMPLES = np.linspace(-0.5, 0.5, 16000)


def test_what_is_written_is_read(tmp_path):
    save_audio(tmp_path / "a.flac", SAMPLES, 16000, subtype="PCM_16")
    samples, rate = soundfile.read(tmp_path / "a.flac")
    assert rate == 16000 and np.abs(samples - SAMPLES).max() < 2**-15


@pytest.mark.parametrize(("room", "error"), [(0, OSError), (1 << 40, soundfile.LibsndfileError)])
def test_a_full_disk_is_told_from_other_failures(tmp_path, monkeypatch, room, error):
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
