"""Noise behind recordings: the ratio is met, and parts are parts of the whole."""

import numpy as np
import pytest
import soundfile

from espnet_ext.audio.recordings import RecordingAudio
from espnet_ext.errors import InputError
from espnet_ext.longform.noise import GeneratedMusic, NoiseFiles, add_noise, find_noise


@pytest.fixture
def recording(tmp_path):
    samples = np.random.default_rng(0).normal(scale=0.05, size=80_000)
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    with RecordingAudio("a", tmp_path / "a.wav") as audio:
        yield audio


@pytest.fixture
def musan(tmp_path):
    for number, seconds in enumerate((1.0, 2.5)):
        path = tmp_path / "musan" / "noise" / "free" / f"n{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(
            path,
            np.random.default_rng(number).normal(scale=0.1, size=int(16000 * seconds)),
            16000,
        )
    return tmp_path / "musan"


@pytest.mark.parametrize("snr", [-5.0, 0.0, 20.0])
@pytest.mark.parametrize("kind", ["music", "noise"])
def test_ratio_of_powers(recording, musan, kind, snr):
    noisy = add_noise(
        recording, find_noise(kind, musan if kind == "noise" else None), snr, seed=3
    )
    clean = recording.read(0, recording.length)
    noise = noisy.read(0, recording.length) - clean
    assert 10 * np.log10(np.mean(clean**2) / np.mean(noise**2)) == pytest.approx(
        snr, abs=0.01
    )


def test_parts_are_parts_of_the_whole(musan):
    for noise in (
        GeneratedMusic(1, 16000, 90_000),
        NoiseFiles(find_noise("noise", musan), 1, 16000, 90_000),
    ):
        whole = noise.read(0, 90_000)
        assert np.abs(whole).max() > 0.05
        for start, count in ((0, 1), (12_345, 30_000), (63_999, 20_000)):
            assert np.array_equal(
                noise.read(start, count), whole[start : start + count]
            )


def test_music_has_the_pitches_of_its_scale():
    """The loudest frequency of each octave of a beat is a note on 110 Hz."""
    beat = GeneratedMusic(5, 16000, 0).read(6400, 6400)
    assert beat[0] == 0 and beat[-1] == 0
    power = np.abs(np.fft.rfft(beat * np.hanning(6400), 1 << 17))
    frequencies = np.fft.rfftfreq(1 << 17, 1 / 16000)
    lowest = frequencies[np.argmax(np.where(frequencies < 207, power, 0))]
    semitones = 12 * np.log2(lowest / 110)
    assert min(abs(semitones - note) for note in (0, 2, 4, 7, 9)) < 0.2


def test_folders_that_are_links(musan, tmp_path):
    (musan / "noise" / "free").rename(tmp_path / "elsewhere")
    (musan / "noise" / "free").symlink_to(tmp_path / "elsewhere")
    assert [path.name for path in find_noise("noise", musan)] == ["n0.wav", "n1.wav"]


def test_seeds_differ():
    assert not np.array_equal(
        GeneratedMusic(1, 16000, 0).read(0, 9000),
        GeneratedMusic(2, 16000, 0).read(0, 9000),
    )


def test_bad_choices(tmp_path):
    with pytest.raises(InputError, match="no noise 'rain'"):
        find_noise("rain", None)
    with pytest.raises(InputError, match="needs MUSAN"):
        find_noise("speech", None)
    with pytest.raises(InputError, match="no .wav"):
        find_noise("music", tmp_path)
    soundfile.write(tmp_path / "silent.wav", np.zeros(16000), 16000)
    with (
        RecordingAudio("silent", tmp_path / "silent.wav") as audio,
        pytest.raises(InputError, match="silent"),
    ):
        add_noise(audio, [], 5.0, seed=0)
