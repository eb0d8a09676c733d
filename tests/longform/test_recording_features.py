"""Features of recordings in parts, and the statistics that they are normalised with."""

import numpy as np
import pytest
import soundfile
import torch
import torchaudio

from espnet_ext.audio.recordings import RecordingAudio
from espnet_ext.errors import InputError
from espnet_ext.longform import recording_features
from espnet_ext.longform.decoding.decode import ZeroedAudio
from espnet_ext.longform.recording_features import RecordingFeatures


@pytest.fixture
def audio(tmp_path):
    samples = np.random.default_rng(0).normal(scale=0.1, size=48_000) * np.linspace(
        0.1, 1, 48_000
    )
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    with RecordingAudio("a", tmp_path / "a.wav") as recording:
        yield recording


def test_they_are_torchaudios_mel_spectrogram(audio):
    features = RecordingFeatures()
    samples = torch.from_numpy(audio.read(0, audio.length))
    expected = torchaudio.transforms.MelSpectrogram(
        16000, n_fft=512, win_length=400, hop_length=160, n_mels=80, center=False,
        window_fn=torch.hann_window,
    )(torch.nn.functional.pad(samples, (56, 56)))  # fmt: skip
    # torchaudio centres the window of 400 in its frame of 512
    count = features.count_frames(audio.length)
    assert count == 298
    assert np.allclose(
        features.compute(audio, 0, count),
        expected.T[:count].numpy(),
        rtol=1e-3,
        atol=1e-6,
    )


@pytest.mark.parametrize("log", [False, True])
def test_parts_are_parts_of_the_whole(audio, monkeypatch, log):
    features = RecordingFeatures(n_mels=20, log=log)
    whole = features.compute(audio, 0, 298)
    monkeypatch.setattr(recording_features, "_BLOCK_FRAMES", 50)
    for start, count in ((0, 298), (17, 120), (297, 1), (5, 0)):
        assert np.allclose(
            features.compute(audio, start, count),
            whole[start : start + count],
            rtol=1e-5,
        )
    statistics = features.measure_statistics(audio)
    assert np.allclose(statistics.mean, whole.mean(axis=0), rtol=1e-4)
    assert np.allclose(statistics.deviation, whole.std(axis=0), rtol=1e-4)
    normal = features.normalise(audio, statistics, 0, 298)
    assert (
        np.abs(normal.mean(axis=0)).max() < 1e-3
        and np.abs(normal.std(axis=0) - 1).max() < 1e-3
    )


@pytest.mark.parametrize("log", [False, True])
def test_silenced_regions_do_not_count(audio, log):
    features = RecordingFeatures(n_mels=20, log=log)
    silenced = ZeroedAudio(audio, [(1.0, 2.0)])
    spoken = np.concatenate(
        [features.compute(silenced, 0, 100), features.compute(silenced, 198, 100)]
    )
    assert np.allclose(
        features.measure_statistics(silenced).mean, spoken.mean(axis=0), rtol=1e-3
    )
    normal = features.normalise(silenced, features.measure_statistics(silenced), 0, 298)
    # Silence is no outlier.
    assert (normal[100:197] == -1).all() if log else (np.abs(normal[100:197]) < 2).all()
    assert np.abs(normal[:100]).min(axis=1).max() > 0


def test_too_short_and_silent(tmp_path):
    for name, samples, fault in (
        ("short", np.ones(399), "shorter than a frame"),
        ("mute", np.zeros(16000), "silence"),
    ):
        soundfile.write(tmp_path / "a.wav", samples, 16000)
        with (
            RecordingAudio(name, tmp_path / "a.wav") as recording,
            pytest.raises(InputError, match=f"{name}.*{fault}"),
        ):
            RecordingFeatures().measure_statistics(recording)
