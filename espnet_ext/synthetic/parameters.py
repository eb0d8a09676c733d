"""What decides the bytes of a synthetic corpus: its size and its seed.

Everything that is drawn has its own random generator, so nothing depends on what was drawn before.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.synthetic.acoustics import CLEAN, OTHER, Condition

WHAT = "synthetic corpus"  # in messages


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """A generator for ``names`` (such as an utterance id): the same on every call with the same arguments."""
    return np.random.default_rng(seed_of(seed, *names))


def seed_of(seed: int, *names: str | int) -> int:
    """A 63-bit number drawn from ``seed`` and ``names`` by a hash.

    >>> seed_of(0, "a", 1) == seed_of(0, "a", 1) != seed_of(1, "a", 1)
    True
    """
    text = "\x1f".join(str(value) for value in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


@dataclass(frozen=True)
class PartSize:
    """One part, such as ``train-clean-100``: its speakers, and the chapters and utterances that each of them reads."""

    speakers: int
    chapters: int
    utterances: int  # of one chapter


@dataclass(frozen=True)
class Size:
    """A corpus.

    Attributes:
        parts: its parts by name.
        lm_sentences: sentences of the language-model text.
        other, clean: how noisy parts and the others sound.
        voices: voice variants of all training parts, all ``dev`` and all ``test`` parts, where there are more speakers
            than variants; see :func:`espnet_ext.synthetic.voices.draw_speakers`.
        other_text: whether the language-model text is of another grammar than the speech.
        variants: the voice variants to draw from; all if there are none.
        phrases: whether speech and text are phrases of three or four words in place of sentences.
    """

    parts: dict[str, PartSize]
    lm_sentences: int
    other: Condition = OTHER
    voices: dict[str, int] | None = None
    other_text: bool = False
    clean: Condition = CLEAN
    variants: tuple[str, ...] = ()
    phrases: bool = False


def librispeech_size(
    train: PartSize,
    evaluation: PartSize,
    lm_sentences: int,
    train_parts: Sequence[str] = ("train-clean-100",),
    other: Condition = OTHER,
    test: PartSize | None = None,
) -> Size:
    """A size of LibriSpeech's layout: training parts of one size, and four evaluation parts of one size.

    ``test`` is the size of the test sets, where it is not that of the development sets.
    """
    parts = dict.fromkeys(train_parts, train)
    parts |= dict.fromkeys(("dev-clean", "dev-other"), evaluation)
    parts |= dict.fromkeys(("test-clean", "test-other"), test or evaluation)
    return Size(parts, lm_sentences, other)


# These voices are hard for Whisper tiny.en: with little noise (CLEAN) it gets a quarter of the words wrong, and half of
# them with OTHER, which leaves a language model little to choose from. So the noise level is between the two.
_OTHER_FOR_WHISPER = Condition(snr=(18, 30), direct=(6, 12), t60=(0.2, 0.5), babble=0.25)
_BOTH_TRAIN_PARTS = ("train-clean-100", "train-other-500")
_SMOKE_WHISPER = librispeech_size(
    PartSize(2, 1, 8), PartSize(2, 1, 4), 400, train_parts=_BOTH_TRAIN_PARTS, other=_OTHER_FOR_WHISPER
)
# A language model that knew the speech's grammar would leave MWER nothing to learn. The test sets have all voices that
# are left: by docs/statistics.md differences of a third of a point show.
_MINI_WHISPER = Size(
    parts=dict.fromkeys(_BOTH_TRAIN_PARTS, PartSize(8, 2, 95))
    | dict.fromkeys(("dev-clean", "dev-other"), PartSize(4, 2, 63))
    | dict.fromkeys(("test-clean", "test-other"), PartSize(12, 2, 125)),
    lm_sentences=8000,
    other=_OTHER_FOR_WHISPER,
    other_text=True,
)


def _espnet_size(asr: PartSize, lists: Size) -> Size:
    """For N-best lists of an ESPnet model, which is trained on the first part. The others are as for Whisper."""
    return replace(lists, parts=lists.parts | {"train-clean-100": asr})


# For mixtures in turns that Whisper hears in windows (P4): errors must come from the windows' edges. So there is hardly
# any room or noise, and the voices are those of which Whisper tiny.en gets less than 15 % of the words wrong when it
# hears 20 s at once.
_STUDIO = Condition(snr=(35, 50), direct=(18, 25), t60=(0.1, 0.2), babble=0.0)
_CLEAR_VOICES = (
    *("f2", "f3", "f4", "f5", "steph", "aunty", "anika", "m2", "m3", "m5", "m7", "m8", "boris", "Denis", "edward"),
    *("Michael", "pablo", "quincy", "robert"),
)


def _turns_size(train: PartSize, dev: PartSize, test: PartSize, voices: tuple[int, int, int]) -> Size:
    return Size(
        parts={"train-clean-100": train, "dev-clean": dev, "test-clean": test},
        lm_sentences=400,
        clean=_STUDIO,
        voices=dict(zip(("train", "dev", "test"), voices, strict=True)),
        variants=_CLEAR_VOICES,
    )


LIBRISPEECH_SIZES = {
    "smoke": librispeech_size(PartSize(4, 1, 15), PartSize(2, 1, 4), lm_sentences=400),
    # The test sets are large, since they cost nothing beside the trainings: 40 speakers in four scenes each.
    "mini": replace(
        librispeech_size(
            PartSize(28, 2, 28), PartSize(5, 2, 15), 8000, train_parts=_BOTH_TRAIN_PARTS, test=PartSize(40, 4, 5)
        ),
        voices={"train": 24, "dev": 5, "test": 19},
        phrases=True,
    ),
    # Like mini, with half of the training set and smaller test sets.
    "demo": replace(
        librispeech_size(
            PartSize(28, 1, 28), PartSize(5, 2, 5), 400, train_parts=_BOTH_TRAIN_PARTS, test=PartSize(20, 2, 5)
        ),
        voices={"train": 24, "dev": 5, "test": 19},
        phrases=True,
    ),
    # For N-best lists of Whisper: training lists must resemble those of the test sets, so half of them are noisy too.
    "smoke-turns": _turns_size(PartSize(4, 1, 8), PartSize(3, 1, 4), PartSize(3, 1, 4), (4, 3, 3)),
    "mini-turns": _turns_size(PartSize(16, 4, 25), PartSize(8, 3, 20), PartSize(14, 4, 20), (8, 4, 7)),
    "smoke-whisper": _SMOKE_WHISPER,
    "mini-whisper": _MINI_WHISPER,
    "smoke-espnet": _espnet_size(PartSize(4, 1, 15), _SMOKE_WHISPER),
    "mini-espnet": _espnet_size(PartSize(8, 2, 98), _MINI_WHISPER),
}


@dataclass(frozen=True)
class BilingualSize:
    """The ASRU 2019 corpus: the speakers of training, ``dev`` and ``test``, and how many utterances each of them reads.

    Every training speaker reads in ``train-cs``, in ``train-zh`` and in one of LibriSpeech's two parts, so that a part
    adds a language to training, not voices.

    Attributes:
        later: how many more utterances each speaker of ``dev`` and ``test`` reads. They are drawn after all others, so
            that with other numbers here nothing else changes.
    """

    speakers: dict[str, int]
    utterances: dict[str, int]  # of each speaker: in train-cs, train-zh, LibriSpeech, dev, test
    voices: int  # variants, which all speakers share; each has a pitch, a rate and an accent of its own
    later: dict[str, int] = field(default_factory=dict)


ASRU2019_SIZES = {
    "smoke": BilingualSize(
        {"train": 4, "dev": 2, "test": 2},
        {"train-cs": 8, "train-zh": 8, "LibriSpeech": 6, "dev": 4, "test": 4},
        voices=4,
        later={"dev": 2},
    ),
    "mini": BilingualSize(
        {"train": 22, "dev": 12, "test": 14},
        {"train-cs": 36, "train-zh": 48, "LibriSpeech": 48, "dev": 9, "test": 20},
        voices=4,
        later={"dev": 21, "test": 40},
    ),
}


@dataclass(frozen=True)
class LibriCssSize:
    """LibriCSS and the LibriSpeech that it is made from, whose ``test-clean`` has the speakers of the sessions."""

    librispeech: Size
    sessions: int  # of each condition
    utterances: int  # of each of a session's eight speakers
    group: int  # utterances between two silences where speech overlaps


def _libricss_size(train: PartSize, dev: PartSize, test: PartSize) -> Size:
    return Size({"train-clean-100": train, "dev-clean": dev, "test-clean": test}, lm_sentences=400)


_SMOKE = _libricss_size(PartSize(4, 1, 12), PartSize(3, 1, 6), PartSize(8, 1, 5))
_MINI = _libricss_size(PartSize(28, 2, 28), PartSize(8, 2, 15), PartSize(12, 2, 12))
LIBRICSS_SIZES = {
    "smoke": LibriCssSize(_SMOKE, sessions=1, utterances=1, group=4),
    "mini": LibriCssSize(_MINI, sessions=2, utterances=4, group=4),
    "mini-long": LibriCssSize(_MINI, sessions=4, utterances=6, group=12),  # segments longer than a window
}


@dataclass(frozen=True)
class LongformSize:
    """Recordings of minutes: how many each corpus has, and their length in seconds, drawn between two limits.

    ``train``, ``dev`` and ``control`` are Spotify podcasts; ``control`` and the others are the test sets. Rev16 has at
    most 16.
    """

    recordings: dict[str, int]
    seconds: tuple[float, float]
    voices: int  # shared by all parts; each recording has its own pitch and rate
    test_seconds: tuple[float, float] | None = None  # of the test sets, if they differ

    def seconds_of(self, part: str) -> tuple[float, float]:
        """The limits of the length of a part's recordings."""
        return self.seconds if part in ("train", "dev") or self.test_seconds is None else self.test_seconds


_LONGFORM_TRAINING = {"train": 80, "dev": 4}
LONGFORM_SIZES = {
    "smoke": LongformSize(
        {"train": 6, "dev": 1, "control": 1, "tedlium-dev": 1, "tedlium-test": 1, "earnings22": 1, "rev16": 1},
        (20, 30),
        voices=6,
    ),
    "mini": LongformSize(
        _LONGFORM_TRAINING | {"control": 16, "tedlium-dev": 1, "tedlium-test": 12, "earnings22": 40, "rev16": 12},
        (80, 90),
        voices=8,
    ),
    # The same recordings to train on. Test sets of two minutes: a window of 40 s is a third of a recording.
    "mini-2min": LongformSize(
        _LONGFORM_TRAINING | {"control": 40, "tedlium-dev": 1, "tedlium-test": 40, "earnings22": 40, "rev16": 16},
        (80, 90),
        voices=8,
        test_seconds=(115, 125),
    ),
}


def size_called[AnySize](name: str, sizes: Mapping[str, AnySize]) -> AnySize:
    """The size of that name; InputError if there is none."""
    if name not in sizes:
        raise InputError(f"the synthetic corpus has no size {name!r}; known: {', '.join(sizes)}")
    return sizes[name]
