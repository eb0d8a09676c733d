"""PowerMelFrontend against P2, eq. 1, written out in numpy in double precision."""

import numpy as np
import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.sem.power_mel import PowerMelFrontend

RATE = 16000


def hertz_to_mel(frequency: float | np.ndarray) -> float | np.ndarray:
    """HTK's mel scale."""
    return 2595.0 * np.log10(1.0 + frequency / 700.0)


def mel_filters(n_fft: int, n_mels: int, rate: int) -> np.ndarray:
    """Return triangles M_c[k], (C, K / 2 + 1).

    They are 0 at one corner, 1 at the next, and 0 at the one after.
    """
    mels = np.linspace(hertz_to_mel(0.0), hertz_to_mel(rate / 2), n_mels + 2)
    corners = 700.0 * (10.0 ** (mels / 2595.0) - 1.0)
    filters = np.zeros((n_mels, n_fft // 2 + 1))
    for channel in range(n_mels):
        low, middle, high = corners[channel : channel + 3]
        for k in range(n_fft // 2 + 1):
            frequency = k * rate / n_fft
            if low <= frequency <= middle:
                filters[channel, k] = (frequency - low) / (middle - low)
            elif middle < frequency <= high:
                filters[channel, k] = (high - frequency) / (high - middle)
    return filters


def power_mel(
    waveform: np.ndarray, n_mels: int = 40, rate: int = RATE, n_fft: int = 512
) -> np.ndarray:
    """Eq. 1 and the power 1/15 on whole frames of 25 ms every 10 ms."""
    window = rate * 25 // 1000
    hop = rate * 10 // 1000
    n = np.arange(window)
    k = np.arange(n_fft // 2 + 1)
    hamming = 0.54 - 0.46 * np.cos(2 * np.pi * n / (window - 1))
    fourier = np.exp(-2j * np.pi * np.outer(k, n) / n_fft)
    filters = mel_filters(n_fft, n_mels, rate)
    frames = []
    for start in range(0, len(waveform) - window + 1, hop):
        samples = waveform[start : start + window].astype(np.float64)
        spectrum = fourier @ (samples * hamming)
        frames.append(filters @ np.abs(spectrum) ** 2)
    return np.array(frames) ** (1 / 15)


def speechlike(samples: int, seed: int = 0) -> np.ndarray:
    """Make tones whose loudness spans 80 dB over time, on a noise floor.

    They are 16-bit audio read into floats.
    """
    random = np.random.default_rng(seed)
    time = np.arange(samples) / RATE
    tones = np.zeros(samples)
    for n, frequency in enumerate((140.0, 900.0, 3200.0)):
        tones = tones + np.sin(2 * np.pi * frequency * time) / (1 + n)
    loudness = 10.0 ** (-4.0 * np.abs(np.sin(2 * np.pi * 1.5 * time)))
    wave = 0.25 * tones * loudness + 1e-4 * random.standard_normal(samples)
    return (np.round(wave * 32767) / 32768).astype(np.float32)


def extract(
    *waveforms: np.ndarray, fill: float = 0.0, extra: int = 0, **options
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute features of utterances in one batch.

    They are padded with ``fill`` to the longest and ``extra`` samples more.
    """
    lengths = [len(waveform) for waveform in waveforms]
    batch = torch.full((len(waveforms), max(lengths) + extra), fill)
    for row, waveform in zip(batch, waveforms, strict=True):
        row[: len(waveform)] = torch.from_numpy(waveform)
    return PowerMelFrontend(**options)(batch, torch.tensor(lengths))


@pytest.mark.parametrize("samples", [400, 559, 560, 16000, 23456])
def test_equals_equation_1(samples):
    wave = speechlike(samples)
    features, lengths = extract(wave)
    expected = power_mel(wave)
    assert lengths.tolist() == [len(expected)]
    np.testing.assert_allclose(features[0].numpy(), expected, rtol=0, atol=1e-4)
    assert np.ptp(expected) > 0.1


def test_other_rate_size_and_name_of_the_rate():
    wave = speechlike(8000)
    features, _ = extract(wave, fs=8000, n_mels=23)
    expected = power_mel(wave, 23, 8000, 256)
    np.testing.assert_allclose(features[0].numpy(), expected, rtol=0, atol=1e-4)
    assert PowerMelFrontend(fs=8000, n_mels=23).output_size() == 23
    assert torch.equal(extract(wave, fs="8k", n_mels=23)[0], features)


@pytest.mark.parametrize("fill", [0.0, 0.7, float("nan")])
def test_padding_changes_nothing(fill):
    waves = [
        speechlike(16000),
        speechlike(4321, seed=1),
        speechlike(399, seed=2),
        speechlike(1, seed=3),
    ]
    features, lengths = extract(*waves, fill=fill, extra=2000)
    assert lengths.tolist() == [98, 25, 1, 1]
    for row, wave, length in zip(features, waves, lengths.tolist(), strict=True):
        alone, _ = extract(wave)
        torch.testing.assert_close(row[:length], alone[0], rtol=0, atol=1e-6)
        assert not row[length:].any()


@pytest.mark.parametrize("samples", [0, 1, 399])
def test_shorter_than_a_window_is_one_frame_padded_with_zeros(samples):
    wave = speechlike(samples)
    features, lengths = extract(wave)
    assert lengths.tolist() == [1]
    expected = power_mel(np.pad(wave, (0, 400 - samples)))
    np.testing.assert_allclose(features[0].numpy(), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-6), ("float16", 1e-3), ("bfloat16", 1e-2)]
)
def test_model_cast_as_a_whole(dtype, tolerance):
    """ESPnet's Speech2Text casts the model and the audio to its option dtype.

    In half precision the window's own rounding leaks into weak bins, hence the median.
    """
    wave = speechlike(16000)
    dtype = getattr(torch, dtype)
    speech = torch.from_numpy(wave).to(dtype)
    features, _ = PowerMelFrontend().to(dtype)(speech[None], torch.tensor([16000]))
    assert features.dtype == dtype
    expected = power_mel(speech.double().numpy())
    differences = np.abs(features[0].double().numpy() / expected - 1.0)
    assert np.median(differences) < tolerance
    assert differences.max() < 30 * tolerance


def test_gradient_is_finite_with_silence_and_padding_and_matches_a_difference():
    waves = torch.zeros(3, 4000)
    waves[0] = torch.from_numpy(speechlike(4000))
    waves[1, :2000] = torch.from_numpy(speechlike(2000, seed=1))
    lengths = torch.tensor([4000, 2000, 4000])
    frontend = PowerMelFrontend()
    variable = waves.clone().requires_grad_()
    frontend(variable, lengths)[0].sum().backward()
    assert torch.isfinite(variable.grad).all()
    assert not variable.grad[1, 2000:].any() and not variable.grad[2].any()

    direction = torch.zeros_like(waves, dtype=torch.float64)
    direction[0] = waves[0].double()
    step = 1e-4
    frontend.double()
    sums = []
    for sign in (1, -1):
        moved = waves.double() + sign * step * direction
        sums.append(frontend(moved, lengths)[0].sum().item())
    slope = (sums[0] - sums[1]) / (2 * step)
    expected = (variable.grad.double() * direction).sum().item()
    assert expected == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_fft": 256}, r"n_fft \(256\) is shorter than the window \(400\)"),
        ({"n_mels": 0}, "n_mels is 0"),
        ({"hop_ms": 0.0}, "hop_ms"),
        ({"window_ms": -1.0}, "window_ms"),
        ({"fmin": 5000.0, "fmax": 4000.0}, "fmin"),
        ({"fmax": 9000.0}, "fmax"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(InputError, match=f"power_mel: .*{message}"):
        PowerMelFrontend(**options)
