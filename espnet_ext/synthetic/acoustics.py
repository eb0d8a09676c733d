"""Room, noise and level: they turn a synthesiser's output, with its digital silence,
into a recording.
"""

from dataclasses import dataclass

import numpy as np
import soxr
from scipy.fft import irfft, next_fast_len, rfft, rfftfreq
from scipy.signal import fftconvolve

SAMPLE_RATE = 16000  # of recordings
VOICE_RATE = 22050  # of the synthesiser
_PEAK = 0.89  # -1 dB below full scale


@dataclass(frozen=True)
class Condition:
    """Ranges from which a recording's conditions are drawn uniformly, in dB and
    seconds.

    ``snr`` is the ratio of speech power (between the first and the last sound) to noise
    power, ``direct`` that of direct sound to reverberation, ``t60`` the time in which
    the reverberation falls by 60 dB.
    """

    snr: tuple[float, float]
    direct: tuple[float, float]
    t60: tuple[float, float]
    # probability that the noise is other people's speech rather than a coloured hum
    babble: float


CLEAN = Condition(snr=(20, 50), direct=(8, 18), t60=(0.15, 0.4), babble=0.0)
OTHER = Condition(snr=(8, 20), direct=(2, 8), t60=(0.3, 0.7), babble=0.5)


@dataclass(frozen=True)
class Scene:
    """What is constant through a chapter: the room, the colour of the noise, the level,
    and the babble (if any).
    """

    impulse_response: np.ndarray  # (samples,)
    colour: float  # the noise's power falls as 1 / frequency ** colour
    level: float  # speech, dB relative to full scale
    snr: float  # dB, the chapter's; each utterance varies about it
    babble: np.ndarray | None  # (samples,), or None for coloured noise alone


def draw_scene(
    condition: Condition, talkers: list[np.ndarray], rng: np.random.Generator
) -> Scene:
    """Draw a chapter's scene. ``talkers``: speech at 22050 Hz for the babble, an array
    for each talker.
    """
    # The order of the draws decides the bytes of every synthetic corpus.
    t60 = rng.uniform(*condition.t60)
    direct = rng.uniform(*condition.direct)
    return Scene(
        impulse_response=_impulse_response(t60, direct, rng),
        colour=rng.uniform(0.8, 1.6),
        level=rng.uniform(-32, -20),
        snr=rng.uniform(*condition.snr),
        babble=_babble(talkers, rng) if talkers else None,
    )


def record(
    speech: np.ndarray, scene: Scene, condition: Condition, rng: np.random.Generator
) -> np.ndarray:
    """Record speech (22050 Hz, [-1, 1]) in a scene, with 0.1 to 0.4 s of silence
    around: int16, 16 kHz, (samples,).
    """
    return record_shifted(speech, scene, condition, rng)[0]


def record_shifted(
    speech: np.ndarray, scene: Scene, condition: Condition, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Record as :func:`record`; also return the seconds from a time in ``speech`` to
    that in the recording.
    """
    dry, trimmed = _trim(soxr.resample(speech, VOICE_RATE, SAMPLE_RATE))
    before = int(SAMPLE_RATE * rng.uniform(0.1, 0.4))
    after = int(SAMPLE_RATE * rng.uniform(0.1, 0.4))
    padded = np.concatenate([np.zeros(before), dry, np.zeros(after)])
    wet = fftconvolve(padded, scene.impulse_response)[: len(padded)]
    # Level and noise are measured against the speech alone, not the silence around it.
    spoken = slice(before, before + len(dry))
    level = scene.level + rng.uniform(-2, 2)
    wet *= _amplitude(level) / _rms(wet[spoken])
    snr = np.clip(scene.snr + rng.uniform(-3, 3), *condition.snr)
    noise = _noise(len(wet), scene, rng)
    noise *= _rms(wet[spoken]) * _amplitude(-snr) / _rms(noise)
    mixture = wet + noise
    mixture *= min(1.0, _PEAK / np.abs(mixture).max())
    samples = np.round(mixture * 32767).astype(np.int16)
    return samples, (before - trimmed) / SAMPLE_RATE


def _noise(length: int, scene: Scene, rng: np.random.Generator) -> np.ndarray:
    hum = _coloured_noise(length, scene.colour, rng)
    if scene.babble is None:
        return hum
    start = int(rng.integers(len(scene.babble)))
    babble = np.take(scene.babble, np.arange(start, start + length), mode="wrap")
    # The room's own noise fills the pauses of the babble.
    return babble / _rms(babble) + 0.3 * hum


def _coloured_noise(length: int, colour: float, rng: np.random.Generator) -> np.ndarray:
    """Make noise of unit power whose power density falls as 1 / frequency ** colour
    above 50 Hz (pink: 1).
    """
    fast = next_fast_len(length, real=True)
    spectrum = rfft(rng.standard_normal(fast))
    frequency = rfftfreq(fast, 1 / SAMPLE_RATE)
    spectrum *= np.maximum(frequency, 50.0) ** (-colour / 2)
    spectrum[frequency < 20] = 0  # no direct current: a microphone has none
    noise = irfft(spectrum, fast)[:length]
    return noise / _rms(noise)


def _impulse_response(
    t60: float, direct: float, rng: np.random.Generator
) -> np.ndarray:
    """Make the direct sound, ``direct`` dB above the noise after it, which decays by 60
    dB in ``t60`` seconds.
    """
    time = np.arange(int(SAMPLE_RATE * t60)) / SAMPLE_RATE
    # 60 dB are three powers of ten of the amplitude.
    tail = rng.standard_normal(len(time)) * 10 ** (-3 * time / t60)
    # The first reflection comes later than the direct sound.
    tail[: int(0.002 * SAMPLE_RATE)] = 0
    tail *= _amplitude(-direct) / np.sqrt(np.sum(tail**2))
    tail[0] = 1
    return tail


def _babble(talkers: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Mix all talkers, each from a random place of its speech and repeated; as long as
    the longest of them.
    """
    speech = [soxr.resample(talker, VOICE_RATE, SAMPLE_RATE) for talker in talkers]
    length = max(len(samples) for samples in speech)
    shifted = [
        np.roll(np.resize(samples / _rms(samples), length), int(rng.integers(length)))
        for samples in speech
    ]
    return np.sum(shifted, axis=0)


def _trim(samples: np.ndarray) -> tuple[np.ndarray, int]:
    """Keep the samples from the first to the last sound (above 50 dB below the peak),
    and where the first is.
    """
    size = np.abs(samples)
    loud = np.flatnonzero(size > size.max() * _amplitude(-50))
    return samples[loud[0] : loud[-1] + 1], int(loud[0])


def _amplitude(decibels: float) -> float:
    return 10 ** (decibels / 20)


def _rms(samples: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
