"""How large a mini corpus is, in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from espnet_ext.errors import InputError
from espnet_ext.synthetic.acoustics import OTHER, Condition


@dataclass(frozen=True)
class PartSize:
    """One part, such as ``train-clean-100``: its speakers, and the chapters and utterances that each of them reads."""

    speakers: int
    chapters: int
    utterances: int  # of one chapter


@dataclass(frozen=True)
class Size:
    """A corpus: its parts by name, the sentences of the language-model text, and how noisy the noisy parts are."""

    parts: dict[str, PartSize]
    lm_sentences: int
    other: Condition = OTHER


def librispeech_size(
    train: PartSize,
    evaluation: PartSize,
    lm_sentences: int,
    train_parts: Sequence[str] = ("train-clean-100",),
    other: Condition = OTHER,
) -> Size:
    """A size of LibriSpeech's layout: training parts of one size, and four evaluation parts of one size."""
    parts = dict.fromkeys(train_parts, train)
    parts |= dict.fromkeys(("dev-clean", "dev-other", "test-clean", "test-other"), evaluation)
    return Size(parts, lm_sentences, other)


# Whisper tiny.en finds these voices hard: with little noise (CLEAN) it gets a quarter of the words wrong, and half of
# them with OTHER, which leaves a language model little to choose from. Hence a noise between the two.
_OTHER_FOR_WHISPER = Condition(snr=(18, 30), direct=(6, 12), t60=(0.2, 0.5), babble=0.25)
_BOTH_TRAIN_PARTS = ("train-clean-100", "train-other-500")
_SMOKE_WHISPER = librispeech_size(
    PartSize(2, 1, 8), PartSize(2, 1, 4), 400, train_parts=_BOTH_TRAIN_PARTS, other=_OTHER_FOR_WHISPER
)
_MINI_WHISPER = librispeech_size(
    PartSize(12, 2, 14), PartSize(6, 2, 14), 8000, train_parts=_BOTH_TRAIN_PARTS, other=_OTHER_FOR_WHISPER
)


def _espnet_size(asr: PartSize, lists: Size) -> Size:
    """For N-best lists by an ESPnet model, which is trained on the first part; the others are as for Whisper."""
    return replace(lists, parts=lists.parts | {"train-clean-100": asr})


LIBRISPEECH_SIZES = {
    "smoke": librispeech_size(PartSize(4, 1, 15), PartSize(2, 1, 4), lm_sentences=400),
    "mini": librispeech_size(PartSize(28, 2, 28), PartSize(5, 2, 15), lm_sentences=8000),
    # For N-best lists by Whisper: training lists must look like those of the test sets, so half of them are noisy too.
    "smoke-whisper": _SMOKE_WHISPER,
    "mini-whisper": _MINI_WHISPER,
    "smoke-espnet": _espnet_size(PartSize(4, 1, 15), _SMOKE_WHISPER),
    "mini-espnet": _espnet_size(PartSize(28, 2, 28), _MINI_WHISPER),
}


@dataclass(frozen=True)
class BilingualSize:
    """The ASRU 2019 corpus: how many speakers there are for training, ``dev`` and ``test``, and what each reads.

    Every training speaker reads in ``train-cs``, in ``train-zh`` and in one of LibriSpeech's two parts. So what a part
    adds to training is a language, not voices.
    """

    speakers: dict[str, int]
    utterances: dict[str, int]  # of one speaker: in train-cs, train-zh, LibriSpeech, dev, test


ASRU2019_SIZES = {
    "smoke": BilingualSize(
        {"train": 4, "dev": 2, "test": 2},
        {"train-cs": 8, "train-zh": 8, "LibriSpeech": 6, "dev": 4, "test": 4},
    ),
    "mini": BilingualSize(
        {"train": 34, "dev": 5, "test": 9},
        {"train-cs": 24, "train-zh": 24, "LibriSpeech": 20, "dev": 24, "test": 28},
    ),
}


@dataclass(frozen=True)
class LibriCssSize:
    """LibriCSS and the LibriSpeech that it is made of, whose ``test-clean`` has the sessions' speakers."""

    librispeech: Size
    sessions: int  # of a condition
    utterances: int  # of a session's eight speakers each


def _libricss_size(train: PartSize, dev: PartSize, test: PartSize, sessions: int, utterances: int) -> LibriCssSize:
    parts = {"train-clean-100": train, "dev-clean": dev, "test-clean": test}
    return LibriCssSize(Size(parts, lm_sentences=400), sessions, utterances)


LIBRICSS_SIZES = {
    "smoke": _libricss_size(PartSize(4, 1, 12), PartSize(3, 1, 6), PartSize(8, 1, 5), sessions=1, utterances=1),
    "mini": _libricss_size(PartSize(28, 2, 28), PartSize(8, 2, 15), PartSize(12, 2, 12), sessions=2, utterances=4),
}


@dataclass(frozen=True)
class LongformSize:
    """Recordings of minutes: how many each corpus has, and their length in seconds, drawn between two limits.

    ``train`` and ``dev`` are Spotify podcasts, the others the test sets; a voice is heard in one part alone.
    """

    recordings: dict[str, int]
    seconds: tuple[float, float]
    voices: int  # of training, shared among its recordings; each recording has a pitch and rate of its own


LONGFORM_SIZES = {
    "smoke": LongformSize(
        {"train": 6, "dev": 1, "tedlium-dev": 1, "tedlium-test": 1, "earnings22": 1, "rev16": 1}, (20, 30), voices=6
    ),
    "mini": LongformSize(
        {"train": 60, "dev": 3, "tedlium-dev": 2, "tedlium-test": 4, "earnings22": 5, "rev16": 5}, (60, 240), voices=24
    ),
}


def size_called[AnySize](name: str, sizes: Mapping[str, AnySize]) -> AnySize:
    """The size of that name.

    Raises:
        InputError: there is none; the message names those that there are.
    """
    if name not in sizes:
        raise InputError(f"the mini corpus has no size {name!r}; known: {', '.join(sizes)}")
    return sizes[name]
