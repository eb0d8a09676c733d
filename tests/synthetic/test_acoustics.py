"""Room, noise and level, measured on what comes out."""

import numpy as np
import pytest

from espnet_ext.synthetic import acoustics

DRY = np.ones(1)  # an impulse response without a room


def decibel(ratio: float) -> float:
    return 10 * np.log10(ratio)


def speech(seconds: float = 2.0) -> np.ndarray:
    """White noise at 22050 Hz for speech: its power is the same throughout."""
    rng = np.random.default_rng(5)
    noise = rng.standard_normal(int(22050 * seconds))
    return noise.astype(np.float32) * 0.1


def record(
    said: np.ndarray,
    scene: acoustics.Scene,
    condition: acoustics.Condition = acoustics.CLEAN,
    seed: int = 0,
) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return acoustics.record(said, scene, condition, rng)


def measure_power(samples: np.ndarray, start: float, end: float) -> float:
    """Mean power between two times in seconds."""
    first = int(start * acoustics.SAMPLE_RATE)
    last = int(end * acoustics.SAMPLE_RATE)
    part = samples[first:last].astype(float)
    return float(np.mean(part**2))


@pytest.mark.parametrize("snr", [5.0, 15.0, 30.0])
@pytest.mark.parametrize("babble", [False, True])
def test_ratio_of_speech_to_noise(snr: float, babble: bool) -> None:
    condition = acoustics.Condition(
        snr=(snr, snr), direct=(99, 99), t60=(0.1, 0.1), babble=0
    )
    talk = None
    if babble:
        talk = np.random.default_rng(6).standard_normal(16000)
    scene = acoustics.Scene(DRY, colour=1.0, level=-30, snr=snr, babble=talk)
    noise = []
    both = []
    for seed in range(20):
        samples = record(speech(), scene, condition, seed)
        # Silence lasts 0.1 s at least.
        noise.append(measure_power(samples, 0.0, 0.1))
        both.append(measure_power(samples, 0.5, 1.5))
    ratio = (np.mean(both) - np.mean(noise)) / np.mean(noise)
    assert decibel(ratio) == pytest.approx(snr, abs=1.0)


def test_never_clipped() -> None:
    scene = acoustics.Scene(DRY, colour=1.0, level=6, snr=20, babble=None)
    samples = record(speech(), scene)
    assert samples.dtype == np.int16
    assert np.abs(samples.astype(int)).max() == round(0.89 * 32767)


def test_silence_at_both_ends() -> None:
    scene = acoustics.Scene(DRY, colour=1.0, level=-26, snr=40, babble=None)
    # The synthesiser's own silence goes.
    silence = np.zeros(22050)
    padded = np.concatenate([silence, speech(), silence])
    for seed in range(10):
        samples = record(padded, scene, seed=seed)
        size = np.abs(samples.astype(float))
        loud = np.flatnonzero(size > 0.3 * size.max())
        before = loud[0] / acoustics.SAMPLE_RATE
        after = (len(samples) - loud[-1]) / acoustics.SAMPLE_RATE
        assert 0.1 <= before <= 0.41
        assert 0.1 <= after <= 0.41


@pytest.mark.parametrize("colour", [0.0, 1.0, 1.6])
def test_colour_of_the_noise(colour: float) -> None:
    rng = np.random.default_rng(0)
    length = 10 * acoustics.SAMPLE_RATE
    noise = acoustics.draw_coloured_noise(length, colour, rng)
    assert np.mean(noise**2) == pytest.approx(1.0)
    power = np.abs(np.fft.rfft(noise)) ** 2
    frequency = np.fft.rfftfreq(len(noise), 1 / acoustics.SAMPLE_RATE)
    bands = []
    for low in (250, 500, 1000, 2000, 4000):
        octave = (frequency >= low) & (frequency < 2 * low)
        bands.append(power[octave].mean())
    # Power density falls by 3 dB an octave for pink noise, by none for white.
    assert np.diff(decibel(np.array(bands))) == pytest.approx(-3.01 * colour, abs=0.3)
    assert abs(noise.mean()) < 1e-6


@pytest.mark.parametrize(("t60", "direct"), [(0.3, 12.0), (0.6, 3.0)])
def test_room(t60: float, direct: float) -> None:
    response = acoustics.draw_impulse_response(t60, direct, np.random.default_rng(0))
    assert response[0] == 1
    assert decibel(1 / np.sum(response[1:] ** 2)) == pytest.approx(direct, abs=0.01)
    # Schroeder's backward integration: the remaining energy falls by 60 dB in t60.
    energy = decibel(np.cumsum(response[:0:-1] ** 2)[::-1])
    time = np.arange(len(energy)) / acoustics.SAMPLE_RATE
    early = (energy < energy[0] - 5) & (energy > energy[0] - 35)
    slope = np.polyfit(time[early], energy[early], 1)[0]
    assert -60 / slope == pytest.approx(t60, rel=0.1)
