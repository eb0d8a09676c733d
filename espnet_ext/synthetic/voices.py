"""Speakers of the synthetic corpora: voice variants of espeak-ng, each with its own
pitch, rate and accent.

espeak-ng comes from the wheel ``espeakng-loader``, which has the library and the voices
inside.
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
from espnet_ext.synthetic.parameters import RESOURCES, generator
from espnet_ext.work.yaml_files import read_yaml

# Constants from espeak-ng's speak_lib.h.
_AUDIO_OUTPUT_SYNCHRONOUS = 2
_INITIALIZE_DONT_EXIT = 0x8000
_CHARS_UTF8 = 1
_RATE, _PITCH, _RANGE = 1, 3, 4
_LIST_TERMINATED, _WORD = 0, 1  # types of events


class _Event(ctypes.Structure):
    _fields_ = [
        # text_position counts from 1
        *(
            (name, ctypes.c_int)
            for name in ("type", "unique_identifier", "text_position", "length")
        ),
        *((name, ctypes.c_int) for name in ("audio_position", "sample")),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    ]


_CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event)
)


@dataclass(frozen=True)
class Speech:
    """Synthesised speech: samples at 22050 Hz in [-1, 1], (samples,), and where words
    begin.

    ``begins`` holds pairs (character of the text, sample), in order. Short words that
    the synthesiser speaks together with the word before ("of the") have none.
    """

    samples: np.ndarray
    begins: tuple[tuple[int, int], ...]


def speak(
    text: str, voice: str, rate: int, pitch: int, pitch_range: int, seed: int
) -> Speech:
    """Speak ``text``, in ordinary spelling, with a voice such as ``en-us+f2``: a
    language with a voice variant.

    ``rate`` is in words per minute (80 to 450); ``pitch`` and ``pitch_range`` are 0 to
    100, 50 the voice's own; ``seed``, below 2**31, is that of the noise in breathy
    voices. The same arguments always give the same samples.
    """
    library_path, data_path = _paths()
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
                if events[index].type == _WORD:
                    begins.append(
                        (events[index].text_position - 1, events[index].sample)
                    )
                index += 1
            return 0

        if (
            library.espeak_Initialize(
                _AUDIO_OUTPUT_SYNCHRONOUS, 0, data_path, _INITIALIZE_DONT_EXIT
            )
            != VOICE_RATE
        ):
            raise InputError(
                f"espeak-ng could not be started with its data in {data_path.decode()}"
            )
        library.espeak_SetSynthCallback(collect)
        if library.espeak_SetVoiceByName(voice.encode()):
            raise InputError(f"espeak-ng has no voice {voice!r}")
        for parameter, value in ((_RATE, rate), (_PITCH, pitch), (_RANGE, pitch_range)):
            library.espeak_SetParameter(parameter, value, 0)
        library.espeak_ng_SetRandSeed(
            ctypes.c_long(seed)
        )  # otherwise it uses the time of day
        data = text.encode() + b"\0"
        size = ctypes.c_size_t(len(data))
        library.espeak_Synth(data, size, 0, 1, 0, _CHARS_UTF8, None, None)
        library.espeak_Synchronize()
        library.espeak_Terminate()
    finally:
        ctypes.CDLL(None).dlclose(ctypes.c_void_p(library._handle))
    if not chunks:
        raise InputError(f"espeak-ng produced no speech for {text!r}")
    return Speech(np.concatenate(chunks).astype(np.float32) / 32768, tuple(begins))


@functools.cache
def _paths() -> tuple[str, bytes]:
    try:
        import espeakng_loader
    except ImportError as error:
        raise InputError(
            "synthetic corpora need espeak-ng: pip install espeakng-loader"
        ) from error
    return espeakng_loader.get_library_path(), espeakng_loader.get_data_path().encode()


# --- speakers ---

FEMALE, MALE = (
    tuple(names.split()) for names in read_yaml(RESOURCES / "voices.yaml").values()
)
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
    """A speaker: an id of digits, as in LibriSpeech, and the voice's settings in
    espeak-ng.
    """

    id: str
    sex: str  # M or F
    variant: str
    accent: int  # index into ACCENTS[language]
    rate: int  # words per minute
    pitch: int  # 0..100
    pitch_range: int  # 0..100

    def say(self, text: str, language: str, rng: np.random.Generator) -> np.ndarray:
        """Speak upper-case words or Han characters, at 22050 Hz. Rate and pitch vary a
        little, drawn from ``rng``.
        """
        return self.speak(text, language, rng).samples

    def speak(self, text: str, language: str, rng: np.random.Generator) -> Speech:
        """Speak as :meth:`say`; also return where words begin, in characters from the
        start of ``text``.
        """
        accents = ACCENTS[language]
        return speak(
            text.lower() + ".",
            f"{accents[self.accent % len(accents)]}+{self.variant}",
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
    """Draw ``counts[part]`` speakers for each part; no two speakers share a voice
    variant, unless ``voices`` is given.

    ``voices`` says how many voice variants each use of the corpus has: the name of a
    part up to the first ``-``, such as ``train``. Speakers of one use then share them,
    each with a pitch, a rate and an accent of its own; no variant is shared between two
    uses. ``variants`` are those to draw from; all if there are none.
    """
    total = sum((voices or counts).values())
    allowed = {
        sex: [name for name in names if not variants or name in variants]
        for sex, names in (("F", FEMALE), ("M", MALE))
    }
    if total > sum(map(len, allowed.values())):
        raise InputError(
            f"{total} speakers were asked for, but there are "
            f"{sum(map(len, allowed.values()))} voices"
        )
    rng = generator(seed, "speakers")
    pools = {sex: list(rng.permutation(names)) for sex, names in allowed.items()}
    uses = {
        use: _draw_variants(pools, count) for use, count in (voices or counts).items()
    }
    number = itertools.count(100)
    return {
        part: [
            _draw_speaker(str(next(number)), sex, variant, rng)
            for sex, variant in itertools.islice(
                itertools.cycle(uses[part.partition("-")[0] if voices else part]), count
            )
        ]
        for part, count in counts.items()
    }


def _draw_variants(pools: dict[str, list[str]], count: int) -> list[tuple[str, str]]:
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
