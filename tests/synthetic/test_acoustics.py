"""Room, noise and level, measured on what comes out."""

import numpy as np
import pytest

from espnet_ext.synthetic import acoustics

DRY = np.ones(1)  # an impulse response without a room


def decibel(ratio: float) -> float:
    return 10 * np.log10(ratio)


def speech(seconds: float = 2.0) -> np.ndarray:
    """White noise at 22050 Hz, in the place of speech: its power is the same
    throughout.
    """
    return (
        np.random.default_rng(5)
        .standard_normal(int(22050 * seconds))
        .astype(np.float32)
        * 0.1
    )


@pytest.mark.parametrize("snr", [5.0, 15.0, 30.0])
@pytest.mark.parametrize("babble", [False, True])
def test_ratio_of_speech_to_noise(snr: float, babble: bool) -> None:
    condition = acoustics.Condition(
        snr=(snr, snr), direct=(99, 99), t60=(0.1, 0.1), babble=0
    )
    talk = np.random.default_rng(6).standard_normal(16000) if babble else None
    scene = acoustics.Scene(DRY, colour=1.0, level=-30, snr=snr, babble=talk)
    noise, both = [], []
    for seed in range(20):
        samples = acoustics.record(
            speech(), scene, condition, np.random.default_rng(seed)
        ).astype(float)
        noise.append(
            np.mean(samples[: int(0.1 * acoustics.SAMPLE_RATE)] ** 2)
        )  # silence lasts 0.1 s at least
        both.append(
            np.mean(
                samples[
                    int(0.5 * acoustics.SAMPLE_RATE) : int(1.5 * acoustics.SAMPLE_RATE)
                ]
                ** 2
            )
        )
    ratio = (np.mean(both) - np.mean(noise)) / np.mean(noise)
    assert decibel(ratio) == pytest.approx(snr, abs=1.0)


def test_never_clipped() -> None:
    scene = acoustics.Scene(DRY, colour=1.0, level=6, snr=20, babble=None)
    samples = acoustics.record(
        speech(), scene, acoustics.CLEAN, np.random.default_rng(0)
    )
    assert samples.dtype == np.int16
    assert np.abs(samples.astype(int)).max() == round(0.89 * 32767)


def test_silence_at_both_ends() -> None:
    scene = acoustics.Scene(DRY, colour=1.0, level=-26, snr=40, babble=None)
    padded = np.concatenate(
        [np.zeros(22050), speech(), np.zeros(22050)]
    )  # the synthesiser's own silence goes
    for seed in range(10):
        samples = acoustics.record(
            padded, scene, acoustics.CLEAN, np.random.default_rng(seed)
        ).astype(float)
        loud = np.flatnonzero(np.abs(samples) > 0.3 * np.abs(samples).max())
        assert 0.1 <= loud[0] / acoustics.SAMPLE_RATE <= 0.41
        assert 0.1 <= (len(samples) - loud[-1]) / acoustics.SAMPLE_RATE <= 0.41


@pytest.mark.parametrize("colour", [0.0, 1.0, 1.6])
def test_colour_of_the_noise(colour: float) -> None:
    noise = acoustics._draw_coloured_noise(
        10 * acoustics.SAMPLE_RATE, colour, np.random.default_rng(0)
    )
    assert np.mean(noise**2) == pytest.approx(1.0)
    power = np.abs(np.fft.rfft(noise)) ** 2
    frequency = np.fft.rfftfreq(len(noise), 1 / acoustics.SAMPLE_RATE)
    bands = [
        power[(frequency >= low) & (frequency < 2 * low)].mean()
        for low in (250, 500, 1000, 2000, 4000)
    ]
    # Power density falls by 3 dB an octave for pink noise, by none for white.
    assert np.diff(decibel(np.array(bands))) == pytest.approx(-3.01 * colour, abs=0.3)
    assert abs(noise.mean()) < 1e-6


@pytest.mark.parametrize(("t60", "direct"), [(0.3, 12.0), (0.6, 3.0)])
def test_room(t60: float, direct: float) -> None:
    response = acoustics._draw_impulse_response(t60, direct, np.random.default_rng(0))
    assert response[0] == 1
    assert decibel(1 / np.sum(response[1:] ** 2)) == pytest.approx(direct, abs=0.01)
    # Schroeder's backward integration: the remaining energy falls by 60 dB in t60.
    energy = decibel(np.cumsum(response[:0:-1] ** 2)[::-1])
    time = np.arange(len(energy)) / acoustics.SAMPLE_RATE
    early = (energy < energy[0] - 5) & (energy > energy[0] - 35)
    slope = np.polyfit(time[early], energy[early], 1)[0]
    assert -60 / slope == pytest.approx(t60, rel=0.1)
