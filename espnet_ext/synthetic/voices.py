"""Speakers of the synthetic corpora, who are voice variants of espeak-ng.

Each has its own pitch, rate and accent. espeak-ng comes from the wheel
``espeakng-loader``, which has the library and the voices inside.
"""

import ctypes
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.synthetic.acoustics import VOICE_RATE
from espnet_ext.synthetic.parameters import RESOURCES, make_generator
from espnet_ext.work.yaml_files import read_yaml

# Constants from espeak-ng's speak_lib.h.
_AUDIO_OUTPUT_SYNCHRONOUS = 2
_INITIALIZE_DONT_EXIT = 0x8000
_CHARS_UTF8 = 1
_RATE = 1
_PITCH = 3
_RANGE = 4
_LIST_TERMINATED = 0  # types of events
_WORD = 1


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_int),
        ("text_position", ctypes.c_int),  # counts characters from 1
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    ]


_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


@dataclass(frozen=True)
class Speech:
    """Synthesised speech, and where its words begin.

    ``samples`` are at 22050 Hz in [-1, 1], (samples,).
    ``begins`` holds pairs (character of the text, sample), in order. Short words that
    the synthesiser speaks together with the word before ("of the") have none.
    """

    samples: np.ndarray
    begins: tuple[tuple[int, int], ...]


def speak(
    text: str,
    voice: str,
    rate: int,
    pitch: int,
    pitch_range: int,
    seed: int,
) -> Speech:
    """Speak ``text``, in ordinary spelling, with a voice such as ``en-us+f2``.

    That is a language with a voice variant.
    ``rate`` is in words per minute (80 to 450); ``pitch`` and ``pitch_range`` are 0 to
    100, 50 the voice's own; ``seed``, below 2**31, is that of the noise in breathy
    voices. The same arguments always give the same samples. Raises InputError: there is
    no such voice, or it says nothing.
    """
    library_path, data_path = _find_espeak()
    # espeak-ng keeps the state of its oscillators and filters from one utterance to the
    # next, even when initialised again. Only loading the library again (about 10 ms)
    # makes an utterance independent of the one before.
    library = ctypes.CDLL(library_path)
    try:
        chunks: list[np.ndarray] = []
        begins: list[tuple[int, int]] = []

        @_CALLBACK
        def collect(samples: Any, count: int, events: Any) -> int:
            if samples and count > 0:
                chunks.append(np.ctypeslib.as_array(samples, (count,)).copy())
            index = 0
            while events[index].type != _LIST_TERMINATED:
                event = events[index]
                if event.type == _WORD:
                    begins.append((event.text_position - 1, event.sample))
                index += 1
            return 0

        rate_or_error = library.espeak_Initialize(
            _AUDIO_OUTPUT_SYNCHRONOUS, 0, data_path, _INITIALIZE_DONT_EXIT
        )
        if rate_or_error != VOICE_RATE:
            raise InputError(
                f"espeak-ng could not be started with its data in {data_path.decode()}"
            )
        library.espeak_SetSynthCallback(collect)
        if library.espeak_SetVoiceByName(voice.encode()):
            raise InputError(f"espeak-ng has no voice {voice!r}")
        for parameter, value in ((_RATE, rate), (_PITCH, pitch), (_RANGE, pitch_range)):
            library.espeak_SetParameter(parameter, value, 0)
        # Without a seed it takes the time of day.
        library.espeak_ng_SetRandSeed(ctypes.c_long(seed))
        data = text.encode() + b"\0"
        size = ctypes.c_size_t(len(data))
        library.espeak_Synth(data, size, 0, 1, 0, _CHARS_UTF8, None, None)
        library.espeak_Synchronize()
        library.espeak_Terminate()
    finally:
        ctypes.CDLL(None).dlclose(ctypes.c_void_p(library._handle))
    if not chunks:
        raise InputError(f"espeak-ng produced no speech for {text!r}")
    samples = np.concatenate(chunks).astype(np.float32) / 32768
    return Speech(samples, tuple(begins))


@functools.cache
def _find_espeak() -> tuple[str, bytes]:
    try:
        import espeakng_loader
    except ImportError as error:
        raise InputError(
            "synthetic corpora need espeak-ng: pip install espeakng-loader"
        ) from error
    return espeakng_loader.get_library_path(), espeakng_loader.get_data_path().encode()


# --- speakers ---

_VARIANTS = read_yaml(RESOURCES / "voices.yaml")
FEMALE = tuple(_VARIANTS["female"].split())
MALE = tuple(_VARIANTS["male"].split())
# Share of female voices in a part, and of speakers with the second accent, as long as
# there are enough voices.
_FEMALE_SHARE = 0.4
_SECOND_ACCENT_SHARE = 0.2
# Language -> espeak-ng's voices. "en" is British, and so are the English words that the
# Mandarin voice reads inside a sentence, without a pause ("cs", code-switching).
ACCENTS = {"en": ("en-us", "en"), "zh": ("cmn",), "cs": ("cmn",)}
BRITISH = ACCENTS["en"].index("en")


@dataclass(frozen=True)
class Speaker:
    """A speaker, and the settings of the voice in espeak-ng."""

    id: str  # digits, as in LibriSpeech
    sex: str  # M or F
    variant: str
    accent: int  # index into ACCENTS[language]
    rate: int  # words per minute
    pitch: int  # 0..100
    pitch_range: int  # 0..100

    def say(self, text: str, language: str, rng: np.random.Generator) -> np.ndarray:
        """Speak upper-case words or Han characters: (samples,) at 22050 Hz.

        Rate and pitch vary a little, drawn from ``rng``.
        """
        return self.speak(text, language, rng).samples

    def speak(self, text: str, language: str, rng: np.random.Generator) -> Speech:
        """Speak as :meth:`say`, and tell where the words begin."""
        accents = ACCENTS[language]
        accent = accents[self.accent % len(accents)]
        # The order of the draws decides the bytes of every synthetic corpus.
        return speak(
            text.lower() + ".",
            f"{accent}+{self.variant}",
            rate=round(self.rate * rng.uniform(0.94, 1.06)),
            pitch=int(np.clip(self.pitch + rng.integers(-4, 5), 0, 99)),
            pitch_range=int(np.clip(self.pitch_range + rng.integers(-8, 9), 0, 99)),
            seed=int(rng.integers(1, 2**31)),
        )


def draw_speakers(
    counts: Mapping[str, int],
    seed: int,
    voices: Mapping[str, int] | None = None,
    variants: Sequence[str] = (),
) -> dict[str, list[Speaker]]:
    """Draw ``counts[part]`` speakers for each part.

    No two speakers share a voice variant, unless ``voices`` is given.
    ``voices`` says how many voice variants each use of the corpus has: the name of a
    part up to the first ``-``, such as ``train``. Speakers of one use then share them,
    each with a pitch, a rate and an accent of its own; no variant is shared between two
    uses. ``variants`` are those to draw from; all if there are none.
    """
    wanted = voices or counts
    total = sum(wanted.values())
    allowed = {
        "F": _select_variants(FEMALE, variants),
        "M": _select_variants(MALE, variants),
    }
    available = len(allowed["F"]) + len(allowed["M"])
    if total > available:
        raise InputError(
            f"{total} speakers were asked for, but there are {available} voices"
        )
    rng = make_generator(seed, "speakers")
    pools = {sex: list(rng.permutation(names)) for sex, names in allowed.items()}
    # All variants are taken before any speaker is drawn: both use the same generator.
    uses = {use: _take_variants(pools, count) for use, count in wanted.items()}
    number = itertools.count(100)
    drawn = {}
    for part, count in counts.items():
        use = part.partition("-")[0] if voices else part
        # Where speakers outnumber variants, these come round again.
        repeated = itertools.islice(itertools.cycle(uses[use]), count)
        drawn[part] = [
            _draw_speaker(str(next(number)), sex, variant, rng)
            for sex, variant in repeated
        ]
    return drawn


def _select_variants(names: Sequence[str], variants: Sequence[str]) -> list[str]:
    return [name for name in names if not variants or name in variants]


def _take_variants(pools: dict[str, list[str]], count: int) -> list[tuple[str, str]]:
    """Take ``count`` pairs (sex, variant) from the pools, women first."""
    variants = []
    for index in range(count):
        sex = "F" if index < round(count * _FEMALE_SHARE) else "M"
        if not pools[sex]:
            sex = "M" if sex == "F" else "F"
        variants.append((sex, str(pools[sex].pop())))
    return variants


def _draw_speaker(id: str, sex: str, variant: str, rng: np.random.Generator) -> Speaker:
    return Speaker(
        id=id,
        sex=sex,
        variant=variant,
        accent=int(rng.uniform() < _SECOND_ACCENT_SHARE),
        rate=int(rng.integers(150, 196)),
        pitch=int(rng.integers(38, 63)),
        pitch_range=int(rng.integers(40, 71)),
    )
