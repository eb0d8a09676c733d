"""Make recordings of minutes, in which only context tells half of the words apart.

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
from espnet_ext.synthetic.parameters import RESOURCES, derive_seed, make_generator
from espnet_ext.synthetic.voices import Speaker, Speech
from espnet_ext.text.words import Word
from espnet_ext.work.yaml_files import read_yaml

LANGUAGE = "en"
_TEXT = read_yaml(RESOURCES / "long_recordings.yaml")
NAMES = [pair.split() for pair in _TEXT["names"]]
WORDS = {kind: words.split() for kind, words in _TEXT["words"].items()}
PATTERNS = _TEXT["patterns"].split()
# Kinds of words: two of names, and the rest.
DROWNED = "drowned"
CLEAR = "clear"
OTHER = "other"

QUIET = Condition(snr=(25, 25), direct=(14, 18), t60=(0.15, 0.2), babble=0.0)
# A burst begins and ends at a random time, in seconds after the name begins.
BURST_BEGINS = (-0.04, -0.01)
BURST_ENDS = (0.08, 0.12)
BURST_LEVEL = 12.0  # dB above the recording
_RAMP_SECONDS = 0.005  # in which a burst rises and falls, so that it does not click
_PAUSE = (0.1, 0.4)  # seconds between sentences
_PEAK = 0.89  # 1 dB below full scale


@dataclass(frozen=True, slots=True)
class SentenceWord(Word):
    """A word as it is written, when it is spoken, and its kind."""

    ends_sentence: bool = False
    kind: str = OTHER


class DrawnWord(NamedTuple):
    """A word of a sentence."""

    text: str  # as it is written
    spoken: str  # the same, but under a burst
    kind: str


@dataclass(frozen=True)
class LongRecording:
    """The work of one shard: ``seconds`` or slightly more of a speaker's talk.

    ``names`` has one name of each pair.
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
    """Draw what differs between recordings: length, names, pitch and rate."""
    key = f"{part}-{index:03d}"
    rng = make_generator(seed, "recording", key)
    own = dataclasses.replace(
        speaker,
        rate=int(np.clip(speaker.rate + rng.integers(-15, 16), 140, 200)),
        pitch=int(np.clip(speaker.pitch + rng.integers(-8, 9), 30, 70)),
    )
    names = tuple(str(rng.choice(pair)) for pair in NAMES)
    return LongRecording(
        key, own, names, float(rng.uniform(*seconds)), seed, drowned, recurring
    )


def speak_recording(
    recording: LongRecording,
) -> tuple[np.ndarray, tuple[SentenceWord, ...]]:
    """Speak and record.

    Returns samples at 16 kHz, int16, (samples,), and the words in order, none
    overlapping.
    """
    drawn = random.Random(derive_seed(recording.seed, "sentences", recording.id))
    rng = make_generator(recording.seed, "speech", recording.id)
    pieces: list[np.ndarray] = []
    words: list[SentenceWord] = []
    length = 0
    for number in count():
        if length >= recording.seconds * VOICE_RATE:
            break
        drawn_words = draw_sentence(recording, drawn)
        sentence = " ".join(word.spoken for word in drawn_words)
        # A generator for each sentence: what it draws does not depend on those before.
        own = make_generator(recording.seed, "say", recording.id, number)
        speech = recording.speaker.speak(sentence, LANGUAGE, own)
        pause = np.zeros(int(VOICE_RATE * rng.uniform(*_PAUSE)), dtype=np.float32)
        times = time_words(sentence, speech, length)
        for timed, word in zip(times, drawn_words, strict=True):
            words.append(dataclasses.replace(timed, text=word.text, kind=word.kind))
        pieces += [speech.samples, pause]
        length += len(speech.samples) + len(pause)
    scene_rng = make_generator(recording.seed, "scene", recording.id)
    scene = draw_scene(QUIET, [], scene_rng)
    samples, shift = record_shifted(np.concatenate(pieces), scene, QUIET, rng)
    moved = []
    for timed in words:
        start = max(timed.start + shift, 0.0)
        moved.append(dataclasses.replace(timed, start=start, end=timed.end + shift))
    starts = [timed.start for timed in moved if timed.kind == DROWNED]
    burst_rng = make_generator(recording.seed, "bursts", recording.id)
    return drown_names(samples, starts, burst_rng), tuple(moved)


def draw_sentence(recording: LongRecording, drawn: random.Random) -> list[DrawnWord]:
    """Draw a sentence. No pair is named twice in it."""
    pattern = drawn.choice(PATTERNS)
    pairs = iter(drawn.sample(range(len(NAMES)), pattern.count("N")))
    words = []
    for kind in pattern:
        if kind != "N":
            text = drawn.choice(WORDS[kind])
            words.append(DrawnWord(text, text, OTHER))
            continue
        pair = next(pairs)
        if recording.recurring:
            text = recording.names[pair]
        else:
            text = drawn.choice(NAMES[pair])
        if drawn.random() < recording.drowned:
            # What sounds after the burst must not tell which of the two is written.
            words.append(DrawnWord(text, drawn.choice(NAMES[pair]), DROWNED))
        else:
            words.append(DrawnWord(text, text, CLEAR))
    return words


def drown_names(
    samples: np.ndarray,
    starts: Sequence[float],
    rng: np.random.Generator,
) -> np.ndarray:
    """Cover the onsets of names (``starts``, in seconds) with bursts of white noise.

    They are ``BURST_LEVEL`` dB above the recording, int16 at 16 kHz, (samples,). What
    is returned is scaled if the bursts would exceed its range.
    """
    noisy = samples.astype(np.float64)
    level = np.sqrt(np.mean(np.square(noisy))) * 10 ** (BURST_LEVEL / 20)
    ramp = round(_RAMP_SECONDS * SAMPLE_RATE)
    for start in starts:
        # Both ends are drawn before they are moved into the recording.
        first = round((start + rng.uniform(*BURST_BEGINS)) * SAMPLE_RATE)
        last = round((start + rng.uniform(*BURST_ENDS)) * SAMPLE_RATE)
        first = max(0, first)
        last = min(last, len(noisy))
        rise = np.minimum(1.0, (0.5 + np.arange(last - first)) / ramp)
        noise = level * rng.standard_normal(last - first)
        noisy[first:last] += noise * rise * rise[::-1]
    noisy *= min(1.0, _PEAK * 32767 / np.abs(noisy).max())
    return np.round(noisy).astype(np.int16)


def time_words(sentence: str, speech: Speech, offset: int) -> list[SentenceWord]:
    """Time the words of a sentence.

    A word ends where the next begins, the last with the speech. ``offset`` is the
    samples at 22050 Hz before it. Words whose beginning the synthesiser does not tell
    share the time of the word before, by their numbers of letters.
    """
    words = sentence.split()
    # The character at which each word begins; one space follows a word.
    places = [0]
    for word in words[:-1]:
        places.append(places[-1] + len(word) + 1)
    known = {0: 0}
    for character, sample in speech.begins:
        if character in places:
            known[places.index(character)] = sample
    letters = np.cumsum([0, *(len(word) for word in words)])
    indices = sorted(known)
    samples = [known[index] for index in indices]
    # Time runs evenly over letters between two beginnings that are known.
    begins = np.interp(
        letters,
        [*letters[indices], letters[-1]],
        [*samples, len(speech.samples)],
    )
    times = (begins + offset) / VOICE_RATE
    timed = []
    for index, word in enumerate(words):
        start = float(times[index])
        end = float(times[index + 1])
        is_last = index == len(words) - 1
        timed.append(SentenceWord(word, start, end, ends_sentence=is_last))
    return timed
