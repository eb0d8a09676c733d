"""Add room, noise and level, which make a recording of a synthesiser's output.

That output has digital silence and no room: a model that is trained on it has never
seen a real spectrum.
"""

from dataclasses import dataclass

import numpy as np
import soxr
from scipy.fft import irfft, next_fast_len, rfft, rfftfreq
from scipy.signal import fftconvolve

SAMPLE_RATE = 16000  # Hz, of recordings
VOICE_RATE = 22050  # Hz, of the synthesiser
_PEAK = 0.89  # 1 dB below full scale
_PAUSE = (0.1, 0.4)  # seconds of silence before and after the speech
_LOWEST = 20  # Hz; a microphone has no direct current
_FLAT = 50.0  # Hz, below which coloured noise gets no louder
_EARLIEST = 0.002  # seconds from the direct sound to the first reflection
_AUDIBLE = -50  # dB below the peak
_HUM_IN_BABBLE = 0.3  # amplitude of the hum, where the babble has 1


@dataclass(frozen=True)
class Condition:
    """Ranges in dB and seconds from which conditions are drawn uniformly.

    ``snr`` is the ratio of speech power (between the first and the last sound) to noise
    power, ``direct`` that of direct sound to reverberation, ``t60`` the time in which
    the reverberation falls by 60 dB.
    """

    snr: tuple[float, float]
    direct: tuple[float, float]
    t60: tuple[float, float]
    # Probability that the noise is other people's speech rather than a coloured hum.
    babble: float


CLEAN = Condition(snr=(20, 50), direct=(8, 18), t60=(0.15, 0.4), babble=0.0)
OTHER = Condition(snr=(8, 20), direct=(2, 8), t60=(0.3, 0.7), babble=0.5)


@dataclass(frozen=True)
class Scene:
    """What is constant through a chapter: room, noise, level and babble (if any)."""

    impulse_response: np.ndarray  # (samples,)
    colour: float  # the noise's power falls as 1 / frequency ** colour
    level: float  # speech, dB relative to full scale
    snr: float  # dB, the chapter's; each utterance varies about it
    babble: np.ndarray | None  # (samples,), or None for coloured noise alone


def draw_scene(
    condition: Condition,
    talkers: list[np.ndarray],
    rng: np.random.Generator,
) -> Scene:
    """Draw a chapter's scene.

    ``talkers`` are the speech of the babble at 22050 Hz, an array (samples,) for each
    talker; without any there is no babble.
    """
    # The order of the draws decides the bytes of every synthetic corpus.
    t60 = rng.uniform(*condition.t60)
    direct = rng.uniform(*condition.direct)
    return Scene(
        impulse_response=draw_impulse_response(t60, direct, rng),
        colour=rng.uniform(0.8, 1.6),
        level=rng.uniform(-32, -20),
        snr=rng.uniform(*condition.snr),
        babble=_mix_babble(talkers, rng) if talkers else None,
    )


def record(
    speech: np.ndarray,
    scene: Scene,
    condition: Condition,
    rng: np.random.Generator,
) -> np.ndarray:
    """Record speech (22050 Hz, [-1, 1], (samples,)) in a scene: int16, 16 kHz.

    0.1 to 0.4 s of silence stand before and after it.
    """
    return record_shifted(speech, scene, condition, rng)[0]


def record_shifted(
    speech: np.ndarray,
    scene: Scene,
    condition: Condition,
    rng: np.random.Generator,
) -> tuple[np.ndarray, float]:
    """Record as :func:`record`, and tell by how much times move.

    Returns the samples, and the seconds from a time in ``speech`` to the same sound in
    the recording.
    """
    dry, trimmed = _trim_silence(soxr.resample(speech, VOICE_RATE, SAMPLE_RATE))
    before = _draw_pause(rng)
    after = _draw_pause(rng)
    # In float64, as the zeros are.
    padded = np.concatenate([np.zeros(before), dry, np.zeros(after)])
    wet = fftconvolve(padded, scene.impulse_response)[: len(padded)]
    # Level and noise are measured against the speech alone, not the silence around it.
    spoken = slice(before, before + len(dry))
    level = scene.level + rng.uniform(-2, 2)
    wet *= _convert_to_amplitude(level) / measure_rms(wet[spoken])
    snr = np.clip(scene.snr + rng.uniform(-3, 3), *condition.snr)
    noise = _draw_noise(len(wet), scene, rng)
    wanted = measure_rms(wet[spoken]) * _convert_to_amplitude(-snr)
    noise *= wanted / measure_rms(noise)
    mixture = wet + noise
    peak = np.abs(mixture).max()
    # Only turned down, never up: the drawn level is that of the chapter.
    mixture *= min(1.0, _PEAK / peak)
    samples = np.round(mixture * 32767).astype(np.int16)
    return samples, (before - trimmed) / SAMPLE_RATE


def _draw_pause(rng: np.random.Generator) -> int:
    """Draw the samples of silence on one side of the speech."""
    return int(SAMPLE_RATE * rng.uniform(*_PAUSE))


def _draw_noise(
    length: int,
    scene: Scene,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw what is heard beside the speech: the room's hum, and babble if any."""
    hum = draw_coloured_noise(length, scene.colour, rng)
    if scene.babble is None:
        return hum
    start = int(rng.integers(len(scene.babble)))
    places = np.arange(start, start + length)
    babble = np.take(scene.babble, places, mode="wrap")
    # The room's own noise fills the pauses of the babble.
    return babble / measure_rms(babble) + _HUM_IN_BABBLE * hum


def draw_coloured_noise(
    length: int,
    colour: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw noise of unit power whose density falls as 1 / frequency ** colour.

    Pink noise has the colour 1. Below 50 Hz the density is constant.
    """
    fast = next_fast_len(length, real=True)
    spectrum = rfft(rng.standard_normal(fast))
    frequency = rfftfreq(fast, 1 / SAMPLE_RATE)
    # The exponent is halved, since power is the square of the spectrum.
    spectrum *= np.maximum(frequency, _FLAT) ** (-colour / 2)
    spectrum[frequency < _LOWEST] = 0
    noise = irfft(spectrum, fast)[:length]
    return noise / measure_rms(noise)


def draw_impulse_response(
    t60: float,
    direct: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw a room: the direct sound, and noise that decays by 60 dB in ``t60`` seconds.

    The energy of the direct sound is ``direct`` dB above that of the noise.
    """
    time = np.arange(int(SAMPLE_RATE * t60)) / SAMPLE_RATE
    # 60 dB are three powers of ten of the amplitude.
    decay = 10 ** (-3 * time / t60)
    tail = rng.standard_normal(len(time)) * decay
    tail[: int(_EARLIEST * SAMPLE_RATE)] = 0
    energy = np.sum(tail**2)
    tail *= _convert_to_amplitude(-direct) / np.sqrt(energy)
    tail[0] = 1
    return tail


def _mix_babble(talkers: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Mix all talkers, each from a random place on; as long as the longest of them.

    Shorter ones are repeated.
    """
    speech = [soxr.resample(talker, VOICE_RATE, SAMPLE_RATE) for talker in talkers]
    length = max(len(samples) for samples in speech)
    shifted = []
    for samples in speech:
        repeated = np.resize(samples / measure_rms(samples), length)
        shifted.append(np.roll(repeated, int(rng.integers(length))))
    return np.sum(shifted, axis=0)


def _trim_silence(samples: np.ndarray) -> tuple[np.ndarray, int]:
    """Cut silence off at both ends; also return how many samples the first cut took."""
    size = np.abs(samples)
    threshold = size.max() * _convert_to_amplitude(_AUDIBLE)
    loud = np.flatnonzero(size > threshold)
    first = int(loud[0])
    return samples[first : loud[-1] + 1], first


def _convert_to_amplitude(decibels: float) -> float:
    return 10 ** (decibels / 20)


def measure_rms(samples: np.ndarray) -> float:
    # Squares of float32 samples lose what is quiet in a long sum.
    squares = np.square(samples, dtype=np.float64)
    return float(np.sqrt(np.mean(squares)))
