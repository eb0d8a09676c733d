"""What decides the bytes of a synthetic corpus: its size and its seed.

Everything that is drawn has its own random generator, so nothing depends on what was
drawn before.
"""

import hashlib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.synthetic.acoustics import CLEAN, OTHER, Condition
from espnet_ext.work.yaml_files import read_yaml

WHAT = "synthetic corpus"  # in messages
RESOURCES = Path(__file__).parent / "resources"


def make_generator(seed: int, *names: str | int) -> np.random.Generator:
    """Make a generator for ``names``, such as an utterance's id.

    It draws the same on every call with the same arguments.
    """
    return np.random.default_rng(derive_seed(seed, *names))


def read_resource(name: str) -> str:
    """Read a text that is part of a corpus."""
    return (RESOURCES / name).read_text(encoding="utf-8")


def derive_seed(seed: int, *names: str | int) -> int:
    """Draw a 63-bit number from ``seed`` and ``names`` by a hash."""
    # A separator that occurs in no name, so that ("a", "bc") differs from ("ab", "c").
    text = "\x1f".join(str(value) for value in (seed, *names))
    digest = hashlib.sha256(text.encode()).digest()
    # Python's hash() differs from process to process. The top bit is left out, as a
    # seed in int64 must not be negative.
    return int.from_bytes(digest[:8], "little") >> 1


@dataclass(frozen=True)
class PartSize:
    """One part, such as ``train-clean-100``: its speakers and what each one reads."""

    speakers: int
    chapters: int  # of one speaker
    utterances: int  # of one chapter


@dataclass(frozen=True)
class Size:
    """A corpus: its parts by name, and how it sounds.

    ``lm_sentences`` are those of the language-model text, which is of another grammar
    than the speech with ``other_text``; ``other`` and ``clean`` say how noisy parts and
    the others sound. ``voices`` and ``variants`` are those of
    :func:`espnet_ext.synthetic.voices.draw_speakers`. With ``phrases``, all is phrases
    of a few words.
    """

    parts: dict[str, PartSize]
    lm_sentences: int
    other: Condition = OTHER
    voices: dict[str, int] | None = None
    other_text: bool = False
    clean: Condition = CLEAN
    variants: tuple[str, ...] = ()
    phrases: bool = False


@dataclass(frozen=True)
class BilingualSize:
    """The ASRU 2019 corpus: its speakers, and how many utterances each of them reads.

    ``speakers`` are those of training, ``dev`` and ``test``.
    Every training speaker reads in ``train-cs``, in ``train-zh`` and in one of
    LibriSpeech's two parts, so that a part adds a language to training, not voices.
    ``later`` is how many more utterances each speaker of ``dev`` and ``test`` reads,
    drawn after all others, so that with other numbers here nothing else changes.
    """

    speakers: dict[str, int]
    # Of each speaker, in train-cs, train-zh, LibriSpeech, dev and test.
    utterances: dict[str, int]
    # Variants, which all speakers share; each has a pitch, a rate and an accent of its
    # own.
    voices: int
    later: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class LibriCssSize:
    """LibriCSS and the LibriSpeech that it is made from.

    The speakers of the sessions are those of ``test-clean``.
    """

    librispeech: Size
    sessions: int  # of each condition
    utterances: int  # of each of a session's eight speakers
    group: int  # utterances between two silences where speech overlaps


@dataclass(frozen=True)
class LongformSize:
    """Recordings of minutes: how many each corpus has, and how long they are.

    Lengths are drawn between two limits, in seconds.
    ``train``, ``dev`` and ``control`` are Spotify podcasts; ``control`` and the others
    (of Rev16 at most 16) are for tests.
    """

    recordings: dict[str, int]
    seconds: tuple[float, float]
    voices: int  # shared by all parts; each recording has its own pitch and rate
    test_seconds: tuple[float, float] | None = None  # of the test sets, if they differ

    def find_length_limits(self, part: str) -> tuple[float, float]:
        """Return the shortest and the longest of a part's recordings, in seconds."""
        if part in ("train", "dev") or self.test_seconds is None:
            return self.seconds
        return self.test_seconds


def make_librispeech_size(parts: Mapping[str, Sequence[int]], **settings: Any) -> Size:
    """Make a size of LibriSpeech's layout as sizes.yaml has it."""
    for name in ("clean", "other"):
        if name in settings:
            settings[name] = Condition(**_make_tuples(settings[name]))
    settings["variants"] = tuple(settings.get("variants", ()))
    sizes = {part: PartSize(*numbers) for part, numbers in parts.items()}
    return Size(sizes, **settings)


def _make_tuples(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Replace lists by tuples, as fields of frozen dataclasses are."""
    made = {}
    for name, value in settings.items():
        made[name] = tuple(value) if isinstance(value, list) else value
    return made


_SIZES = read_yaml(RESOURCES / "sizes.yaml")
LIBRISPEECH_SIZES = {
    name: make_librispeech_size(**size) for name, size in _SIZES["librispeech"].items()
}
ASRU2019_SIZES = {
    name: BilingualSize(**size) for name, size in _SIZES["asru2019"].items()
}
# A copy, as pop() takes LibriSpeech's size out of LibriCSS's.
LIBRICSS_SIZES = {
    name: LibriCssSize(make_librispeech_size(**size.pop("librispeech")), **size)
    for name, size in deepcopy(_SIZES["libricss"]).items()
}
LONGFORM_SIZES = {
    name: LongformSize(**_make_tuples(size)) for name, size in _SIZES["spotify"].items()
}


def find_size[AnySize](name: str, sizes: Mapping[str, AnySize]) -> AnySize:
    """Return the size of that name; InputError if there is none."""
    if name not in sizes:
        raise InputError(
            f"the synthetic corpus has no size {name!r}; known: {', '.join(sizes)}"
        )
    return sizes[name]
