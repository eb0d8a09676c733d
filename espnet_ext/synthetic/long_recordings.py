"""Recordings of minutes with word times: one speaker, one channel, and a handful of names that recur in each.

Names within a group sound alike ("Denton", "Fenton"), and a recording has one name of each of its groups. So where
noise drowns a name, it helps to have heard it elsewhere in the same recording: that is what context is for.
"""

import dataclasses
import random
from dataclasses import dataclass
from itertools import count

import numpy as np

from espnet_ext.synthetic import english
from espnet_ext.synthetic.acoustics import VOICE_RATE, Condition, draw_scene, record_shifted
from espnet_ext.synthetic.parameters import generator, seed_of
from espnet_ext.synthetic.voices import Speaker, Speech

LANGUAGE = "en"
NAMES = (
    ("denton", "fenton", "kenton", "benton"),
    ("marlow", "harlow", "barlow", "farlow"),
    ("tilda", "gilda", "hilda", "wilda"),
    ("corin", "dorin", "lorin", "torin"),
    ("melba", "selba", "velba", "delba"),
    ("nadine", "radine", "ladine", "sadine"),
    ("pavel", "tavel", "cavel", "gavel"),
    ("jasper", "casper", "tasper", "rasper"),
)
NAMES_OF_A_RECORDING = 4
NOISY = Condition(snr=(3, 18), direct=(2, 14), t60=(0.2, 0.6), babble=0.0)
_PAUSE = (0.15, 0.8)  # seconds between sentences


@dataclass(frozen=True)
class Word:
    """A word as it is written, and when it is spoken, in seconds from the recording's start."""

    text: str
    start: float
    end: float
    ends_sentence: bool = False


@dataclass(frozen=True)
class LongRecording:
    """The work of one shard: ``seconds`` or slightly more of a speaker's talk."""

    id: str
    speaker: Speaker
    names: tuple[str, ...]
    seconds: float
    condition: Condition
    seed: int


def grammar_with(names: tuple[str, ...]) -> english.Grammar:
    """The English grammar with these names, as subjects and objects like other persons."""
    rules = dict(english.rules())
    rules["name"] = tuple((1.0, name) for name in names)
    rules["subject.sg"] = ((12.0, "<name>"), *rules["subject.sg"])
    rules["someone"] = ((6.0, "<name>"), *rules["someone"])
    return english.Grammar(rules)


def draw_recording(part: str, index: int, speaker: Speaker, seconds: tuple[float, float], seed: int) -> LongRecording:
    """Draw what differs between recordings: length, names, channel condition, and the speaker's pitch and rate."""
    key = f"{part}-{index:03d}"
    rng = generator(seed, "recording", key)
    groups = rng.choice(len(NAMES), NAMES_OF_A_RECORDING, replace=False)
    own = dataclasses.replace(
        speaker,
        rate=int(np.clip(speaker.rate + rng.integers(-15, 16), 140, 200)),
        pitch=int(np.clip(speaker.pitch + rng.integers(-8, 9), 30, 70)),
    )
    return LongRecording(
        id=key,
        speaker=own,
        names=tuple(str(rng.choice(NAMES[group])) for group in groups),
        seconds=float(rng.uniform(*seconds)),
        condition=NOISY,
        seed=seed,
    )


def render(recording: LongRecording) -> tuple[np.ndarray, tuple[Word, ...]]:
    """Speak and record: samples at 16 kHz, int16, (samples,), and the words in order, none overlapping."""
    grammar = grammar_with(recording.names)
    drawn = random.Random(seed_of(recording.seed, "sentences", recording.id))
    rng = generator(recording.seed, "speech", recording.id)
    pieces: list[np.ndarray] = []
    words: list[Word] = []
    length = 0
    for number in count():
        if length >= recording.seconds * VOICE_RATE:
            break
        sentence = grammar.sentence(drawn).lower()
        speech = recording.speaker.speak(sentence, LANGUAGE, generator(recording.seed, "say", recording.id, number))
        pause = np.zeros(int(VOICE_RATE * rng.uniform(*_PAUSE)), dtype=np.float32)
        words += word_times(sentence, speech, length)
        pieces += [speech.samples, pause]
        length += len(speech.samples) + len(pause)
    scene = draw_scene(recording.condition, [], generator(recording.seed, "scene", recording.id))
    samples, shift = record_shifted(np.concatenate(pieces), scene, recording.condition, rng)
    moved = (dataclasses.replace(word, start=word.start + shift, end=word.end + shift) for word in words)
    return samples, tuple(dataclasses.replace(word, start=max(word.start, 0.0)) for word in moved)


def word_times(sentence: str, speech: Speech, offset: int) -> list[Word]:
    """The words of a sentence with their times: a word ends where the next begins, the last with the speech.

    Words whose beginning the synthesiser does not tell share the time of the word before, by their numbers of letters.

    Args:
        sentence: Words with single spaces.
        speech: The sentence, spoken.
        offset: Samples at 22050 Hz before it.
    """
    places = [0]
    for word in sentence.split()[:-1]:
        places.append(places[-1] + len(word) + 1)
    known = {0: 0} | {places.index(at): sample for at, sample in speech.begins if at in places}
    letters = np.cumsum([0, *(len(word) for word in sentence.split())])
    indices = sorted(known)
    begins = np.interp(
        letters, [*letters[indices], letters[-1]], [*(known[index] for index in indices), len(speech.samples)]
    )
    times = (begins + offset) / VOICE_RATE
    return [
        Word(word, float(times[index]), float(times[index + 1]), index == len(places) - 1)
        for index, word in enumerate(sentence.split())
    ]
