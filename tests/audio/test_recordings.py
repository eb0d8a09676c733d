"""Parts of recordings are those of the whole, whatever the file's rate and channels."""

import tracemalloc

import numpy as np
import pytest
import soundfile
import soxr

from espnet_ext.audio.recordings import RecordingAudio, open_recording, read_blocks


def speechlike(rate: int, seconds: float, channels: int = 1) -> np.ndarray:
    time = np.arange(int(rate * seconds)) / rate
    # As loud and as quiet as syllables.
    envelope = 0.3 * np.sin(2 * np.pi * 1.7 * time)
    sounds = []
    for pitch in (210, 333):
        sounds.append(envelope * np.sin(2 * np.pi * pitch * time))
    return np.stack(sounds[:channels], axis=1)


def measure_difference(samples: np.ndarray, others: np.ndarray) -> float:
    return float(np.abs(samples - others).max())


@pytest.mark.parametrize(
    "rate, channels", [(16000, 1), (44100, 2), (24000, 1), (11025, 1), (8000, 2)]
)
def test_parts_are_parts_of_the_whole(tmp_path, rate, channels):
    samples = speechlike(rate, 4.0, channels)
    soundfile.write(tmp_path / "a.wav", samples, rate, subtype="FLOAT")
    mono = samples.mean(axis=1).astype(np.float32)
    whole = soxr.resample(mono, rate, 16000)
    # The lengths may differ by a sample.
    padded = np.pad(whole, (0, 1))
    tolerance = 1e-7 if rate == 16000 else 2e-4
    with RecordingAudio("a", tmp_path / "a.wav") as audio:
        assert abs(audio.length - len(whole)) <= 1
        for start, count in ((0, 1000), (12345, 8000), (31999, 1), (60000, 4000)):
            part = audio.read(start, count)
            expected = padded[start : start + count]
            assert part.dtype == np.float32
            assert len(part) == count
            assert measure_difference(part, expected) < tolerance
        assert sum(map(len, read_blocks(audio))) == audio.length


def test_beyond_the_end_there_are_zeros(tmp_path):
    soundfile.write(tmp_path / "a.flac", speechlike(16000, 1.0)[:, 0], 16000)
    with RecordingAudio("a", tmp_path / "a.flac") as audio:
        part = audio.read(15000, 3000)
        assert np.any(part[:1000])
        assert not np.any(part[1000:])
        assert not np.any(audio.read(99000, 10))


@pytest.mark.parametrize(
    "name, subtype", [("a.ogg", "VORBIS"), ("a.mp3", "MPEG_LAYER_III")]
)
def test_compressed_audio_is_read_from_anywhere(tmp_path, name, subtype):
    samples = speechlike(16000, 30.0)[:, 0]
    soundfile.write(tmp_path / name, samples, 16000, subtype=subtype)
    whole, _ = soundfile.read(tmp_path / name, dtype="float32")
    with RecordingAudio("a", tmp_path / name) as audio:
        for start in (350_001, 7, 160_000):
            part = audio.read(start, 5000)
            assert measure_difference(part, whole[start : start + 5000]) < 1e-4


def test_a_long_part_is_read_in_little_memory(tmp_path):
    """Ten minutes of stereo at 48 kHz, 230 MB as numbers, are read in one part."""
    with soundfile.SoundFile(tmp_path / "a.flac", "w", 48000, 2) as file:
        piece = speechlike(48000, 10.0, 2)
        for _ in range(60):
            file.write(piece)
    with open_recording(tmp_path / "a.flac", 16000) as audio:
        tracemalloc.start()
        samples = audio.read(0, audio.length)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        part = audio.read(3_000_000, 10_000)
        assert measure_difference(samples[3_000_000:3_010_000], part) < 2e-4
    assert len(samples) == 9_600_000
    assert peak < 150e6
