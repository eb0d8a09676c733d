"""Recordings of minutes with word times, in which half of the words are names that only
context can tell apart.

Names come in pairs ("Senton", "Denton"), of which a recording has one. Bursts of noise
cover the onset of most mentions. Who hears only the mention must guess; who has heard
the name elsewhere in the recording knows it: context helps in proportion to how much of
the recording it holds (P5, section 4.1).
"""

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from espnet_ext.synthetic.acoustics import (
    SAMPLE_RATE,
    VOICE_RATE,
    Condition,
    draw_scene,
    record_shifted,
)
from espnet_ext.synthetic.parameters import RESOURCES, generator, seed_of
from espnet_ext.synthetic.voices import Speaker, Speech
from espnet_ext.text.words import Word
from espnet_ext.work.yaml_files import read_yaml

LANGUAGE = "en"
_TEXT = read_yaml(RESOURCES / "long_recordings.yaml")
NAMES = [pair.split() for pair in _TEXT["names"]]
WORDS = {kind: words.split() for kind, words in _TEXT["words"].items()}
PATTERNS = _TEXT["patterns"].split()
DROWNED, CLEAR, OTHER = (
    "drowned",
    "clear",
    "other",
)  # kinds of words: two of names, and the rest

QUIET = Condition(snr=(25, 25), direct=(14, 18), t60=(0.15, 0.2), babble=0.0)
# A burst begins and ends at a random time, in seconds after the name begins.
BURST_BEGINS, BURST_ENDS = (-0.04, -0.01), (0.08, 0.12)
BURST_LEVEL = 12.0  # dB above the recording
_RAMP_SECONDS = 0.005
_PAUSE = (0.1, 0.4)  # seconds between sentences
_PEAK = 0.89


@dataclass(frozen=True, slots=True)
class SentenceWord(Word):
    """A word as it is written, when it is spoken, and its kind."""

    ends_sentence: bool = False
    kind: str = OTHER


class DrawnWord(NamedTuple):
    """A word of a sentence: as it is written, as it is spoken (which differs only under
    a burst), and its kind.
    """

    text: str
    spoken: str
    kind: str


@dataclass(frozen=True)
class LongRecording:
    """The work of one shard: ``seconds`` or slightly more of a speaker's talk, with
    ``names``, one of each pair.

    ``drowned`` is the share of the mentions of names whose onset is covered by a burst
    of noise. If not ``recurring``, each mention draws one of its pair.
    """

    id: str
    speaker: Speaker
    names: tuple[str, ...]
    seconds: float
    seed: int
    drowned: float
    recurring: bool = True


def draw_recording(
    part: str,
    index: int,
    speaker: Speaker,
    seconds: tuple[float, float],
    seed: int,
    drowned: float,
    recurring: bool,
) -> LongRecording:
    """Draw what differs between recordings: length, names, and the speaker's pitch and
    rate.
    """
    key = f"{part}-{index:03d}"
    rng = generator(seed, "recording", key)
    own = dataclasses.replace(
        speaker,
        rate=int(np.clip(speaker.rate + rng.integers(-15, 16), 140, 200)),
        pitch=int(np.clip(speaker.pitch + rng.integers(-8, 9), 30, 70)),
    )
    names = tuple(str(rng.choice(pair)) for pair in NAMES)
    return LongRecording(
        key, own, names, float(rng.uniform(*seconds)), seed, drowned, recurring
    )


def render(recording: LongRecording) -> tuple[np.ndarray, tuple[SentenceWord, ...]]:
    """Speak and record: samples at 16 kHz, int16, (samples,), and the words in order,
    none overlapping.
    """
    drawn = random.Random(seed_of(recording.seed, "sentences", recording.id))
    rng = generator(recording.seed, "speech", recording.id)
    pieces: list[np.ndarray] = []
    words: list[SentenceWord] = []
    length = 0
    for number in count():
        if length >= recording.seconds * VOICE_RATE:
            break
        drawn_words = draw_sentence(recording, drawn)
        sentence = " ".join(word.spoken for word in drawn_words)
        speech = recording.speaker.speak(
            sentence, LANGUAGE, generator(recording.seed, "say", recording.id, number)
        )
        pause = np.zeros(int(VOICE_RATE * rng.uniform(*_PAUSE)), dtype=np.float32)
        words += [
            dataclasses.replace(timed, text=word.text, kind=word.kind)
            for timed, word in zip(
                word_times(sentence, speech, length), drawn_words, strict=True
            )
        ]
        pieces += [speech.samples, pause]
        length += len(speech.samples) + len(pause)
    scene = draw_scene(QUIET, [], generator(recording.seed, "scene", recording.id))
    samples, shift = record_shifted(np.concatenate(pieces), scene, QUIET, rng)
    moved = [
        dataclasses.replace(
            word, start=max(word.start + shift, 0.0), end=word.end + shift
        )
        for word in words
    ]
    starts = [word.start for word in moved if word.kind == DROWNED]
    return drown(
        samples, starts, generator(recording.seed, "bursts", recording.id)
    ), tuple(moved)


def draw_sentence(recording: LongRecording, drawn: random.Random) -> list[DrawnWord]:
    """Draw a sentence. No pair is named twice in it."""
    pattern = drawn.choice(PATTERNS)
    pairs = iter(drawn.sample(range(len(NAMES)), pattern.count("N")))
    words = []
    for place in pattern:
        if place != "N":
            text = drawn.choice(WORDS[place])
            words.append(DrawnWord(text, text, OTHER))
            continue
        pair = next(pairs)
        text = (
            recording.names[pair] if recording.recurring else drawn.choice(NAMES[pair])
        )
        if drawn.random() < recording.drowned:
            words.append(DrawnWord(text, drawn.choice(NAMES[pair]), DROWNED))
        else:
            words.append(DrawnWord(text, text, CLEAR))
    return words


def drown(
    samples: np.ndarray, starts: Sequence[float], rng: np.random.Generator
) -> np.ndarray:
    """Cover the onsets of names (``starts``, in seconds) with bursts of white noise,
    ``BURST_LEVEL`` dB above the recording: int16 at 16 kHz, (samples,), scaled if the
    bursts would exceed its range.
    """
    noisy = samples.astype(np.float64)
    level = np.sqrt(np.mean(np.square(noisy))) * 10 ** (BURST_LEVEL / 20)
    ramp = round(_RAMP_SECONDS * SAMPLE_RATE)
    for start in starts:
        first, last = (
            round((start + rng.uniform(*limits)) * SAMPLE_RATE)
            for limits in (BURST_BEGINS, BURST_ENDS)
        )
        first, last = max(0, first), min(last, len(noisy))
        edges = np.minimum(1.0, (0.5 + np.arange(last - first)) / ramp)
        noisy[first:last] += (
            level * rng.standard_normal(last - first) * edges * edges[::-1]
        )
    noisy *= min(1.0, _PEAK * 32767 / np.abs(noisy).max())
    return np.round(noisy).astype(np.int16)


def word_times(sentence: str, speech: Speech, offset: int) -> list[SentenceWord]:
    """Time the words of a sentence: a word ends where the next begins, the last with
    the speech.

    ``offset`` is in samples at 22050 Hz before it. Words whose beginning the
    synthesiser does not tell share the time of the word before, by their numbers of
    letters.
    """
    places = [0]
    for word in sentence.split()[:-1]:
        places.append(places[-1] + len(word) + 1)
    known = {0: 0} | {
        places.index(at): sample for at, sample in speech.begins if at in places
    }
    letters = np.cumsum([0, *(len(word) for word in sentence.split())])
    indices = sorted(known)
    begins = np.interp(
        letters,
        [*letters[indices], letters[-1]],
        [*(known[index] for index in indices), len(speech.samples)],
    )
    times = (begins + offset) / VOICE_RATE
    return [
        SentenceWord(
            word,
            float(times[index]),
            float(times[index + 1]),
            ends_sentence=index == len(places) - 1,
        )
        for index, word in enumerate(sentence.split())
    ]
