"""Background noise at a given signal-to-noise ratio (P5, Fig. 2).

It is read in parts, like the recordings. The noise is of a MUSAN folder
(https://www.openslr.org/17), or generated music; the ratio is of mean powers.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from espnet_ext.audio.recordings import Audio, NoSpeech, RecordingAudio, read_blocks
from espnet_ext.errors import InputError
from espnet_ext.work.files import list_files_below

MUSAN = ("music", "noise", "speech")
_BEAT_SECONDS = 0.4
_PENTATONIC = (0, 2, 4, 7, 9)  # semitones
_HARMONICS = 6
_LOWEST = 110.0  # Hz
_OPEN_FILES = 64  # more than an hour of MUSAN's music


class GeneratedMusic:
    """Endless music of plucked notes, three in a beat, on a pentatonic scale.

    ``rate`` is in Hz, ``length`` in samples.
    """

    def __init__(self, seed: int, rate: int, length: int):
        self.name = f"music {seed}"
        self.rate = rate
        self.length = length
        self._seed = seed
        self._beat = round(_BEAT_SECONDS * rate)

    def read(self, start: int, count: int) -> np.ndarray:
        """Return samples ``start`` to ``start + count``, float32, (count,)."""
        end = start + count
        first = start // self._beat
        last = math.ceil(end / self._beat)
        music = np.concatenate([self._play(beat) for beat in range(first, last)])
        skipped = start - first * self._beat
        return music[skipped:][:count]

    def _play(self, beat: int) -> np.ndarray:
        # A generator for each beat: any part of the music is the same, however it is
        # read.
        rng = np.random.default_rng((self._seed, beat))
        notes = []
        for octave in (0, 1, 2):
            semitone = 12 * octave + int(rng.choice(_PENTATONIC))
            notes.append(_pluck(semitone, self._beat, self.rate))
        return np.sum(notes, axis=0).astype(np.float32)


@lru_cache(maxsize=64)  # more than the notes of the scale in three octaves
def _pluck(semitone: int, length: int, rate: int) -> np.ndarray:
    """Return the sound of a plucked string, (length,).

    Its harmonics decay the faster the higher they are.
    """
    time = np.arange(length) / rate
    pitch = _LOWEST * 2 ** (semitone / 12)
    sound = np.zeros(length)
    for harmonic in range(1, _HARMONICS + 1):
        phase = 2 * np.pi * harmonic * pitch * time
        tone = np.sin(phase) / harmonic
        decay = np.exp(-time * (2 + harmonic))
        sound += tone * decay
    # 10 ms of fading at both ends, so that no note begins or ends with a click
    fade_in = np.minimum(1, time / 0.01)
    fade_out = np.minimum(1, time[::-1] / 0.01)
    return 0.1 * sound * fade_in * fade_out


class NoiseFiles:
    """Audio files, at least one, in a random order, repeated without end.

    ``rate`` is in Hz, ``length`` in samples.
    """

    def __init__(self, paths: Sequence[Path], seed: int, rate: int, length: int):
        self.name = "noise"
        self.rate = rate
        self.length = length
        order = np.random.default_rng(seed).permutation(len(paths))
        chosen = [paths[index] for index in order[:_OPEN_FILES]]
        self._files = [RecordingAudio(path.stem, path, rate) for path in chosen]
        self._ends = np.cumsum([file.length for file in self._files])

    def read(self, start: int, count: int) -> np.ndarray:
        """Return samples ``start`` to ``start + count``, float32, (count,)."""
        parts = []
        while count:
            # The files follow each other; after the last one comes the first again.
            place = start % int(self._ends[-1])
            index = int(np.searchsorted(self._ends, place, side="right"))
            file = self._files[index]
            begin = int(self._ends[index]) - file.length
            within = place - begin
            number = min(count, file.length - within)
            parts.append(file.read(within, number))
            start += number
            count -= number
        return np.concatenate(parts)


class NoisyAudio:
    """A recording with noise at a signal-to-noise ratio in dB.

    Neither may be silent (NoSpeech, InputError).
    """

    def __init__(self, audio: Audio, noise: Audio, snr: float):
        self.name = audio.name
        self.rate = audio.rate
        self.length = audio.length
        self._audio = audio
        self._noise = noise
        own = _measure_power(audio)
        other = _measure_power(noise)
        if not own:
            raise NoSpeech(
                f"recording {audio.name} is silent: a signal-to-noise ratio needs "
                "a signal"
            )
        if not other:
            raise InputError(
                f"noise {noise.name} is silent: a signal-to-noise ratio needs noise"
            )
        # A gain of amplitudes, so that the ratio of powers is 10 ** (snr / 10).
        self._gain = np.float32(np.sqrt(own / other * 10 ** (-snr / 10)))

    def read(self, start: int, count: int) -> np.ndarray:
        """Return samples ``start`` to ``start + count``, float32, (count,).

        They may exceed 1.
        """
        noise = self._noise.read(start, count)
        return self._audio.read(start, count) + self._gain * noise


def _measure_power(audio: Audio) -> float:
    """Return the mean power of a recording, which is read a block at a time."""
    energy = 0.0
    for block in read_blocks(audio):
        energy += float(np.square(block, dtype=np.float64).sum())
    return energy / audio.length


def find_noise(kind: str, musan: str | Path | None) -> list[Path]:
    """Return the files of a kind of noise in MUSAN's folder.

    There are no files if music is to be generated.
    """
    if kind not in MUSAN:
        raise InputError(
            f"there is no noise {kind!r}: choose one of {', '.join(MUSAN)}"
        )
    if musan is None:
        if kind != "music":
            raise InputError(
                f"noise {kind!r} needs MUSAN: give its folder; only music can be "
                "generated"
            )
        return []
    files = list_files_below(Path(musan) / kind)
    paths = sorted(path for path in files if path.suffix == ".wav")
    if not paths:
        raise InputError(
            f"{Path(musan) / kind}: there is no .wav in it: give the folder of "
            f"MUSAN that holds {kind}"
        )
    return paths


def add_noise(audio: Audio, paths: Sequence[Path], snr: float, seed: int) -> NoisyAudio:
    """Return the recording with these files as background noise.

    Without files it is generated music; the ratio is in dB.
    """
    noise: Audio
    if paths:
        noise = NoiseFiles(paths, seed, audio.rate, audio.length)
    else:
        noise = GeneratedMusic(seed, audio.rate, audio.length)
    return NoisyAudio(audio, noise, snr)
