"""Speech synthesis with espeak-ng, from the wheel ``espeakng-loader`` (library and voices inside)."""

import ctypes
import functools
from dataclasses import dataclass

import numpy as np

from espnet_ext.errors import InputError

SAMPLE_RATE = 22050

# Constants of espeak-ng's speak_lib.h.
_AUDIO_OUTPUT_SYNCHRONOUS = 2
_INITIALIZE_DONT_EXIT = 0x8000
_CHARS_UTF8 = 1
_RATE, _PITCH, _RANGE = 1, 3, 4
_LIST_TERMINATED, _WORD = 0, 1  # types of events


class _Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),  # from 1
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    ]


_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


@dataclass(frozen=True)
class Speech:
    """What was said: samples at 22050 Hz in [-1, 1], (samples,), and where words begin.

    ``begins`` holds pairs (character of the text, sample), in order. Short words that the synthesiser speaks as one
    with the word before ("of the") have none.
    """

    samples: np.ndarray
    begins: tuple[tuple[int, int], ...]


def synthesise(text: str, voice: str, rate: int, pitch: int, pitch_range: int, seed: int) -> np.ndarray:
    """The samples alone of what :func:`speak` gives, in [-1, 1], (samples,)."""
    return speak(text, voice, rate, pitch, pitch_range, seed).samples


def speak(text: str, voice: str, rate: int, pitch: int, pitch_range: int, seed: int) -> Speech:
    """Speak ``text``.

    Args:
        text: What to say, in ordinary spelling.
        voice: A language with a voice variant, such as ``en-us+f2``.
        rate: Words a minute (80 to 450).
        pitch, pitch_range: 0 to 100; 50 is the voice's own.
        seed: Of the noise in breathy voices, below 2**31.

    Returns:
        The speech. The same arguments give the same samples, whatever was said before.

    Raises:
        InputError: espeakng-loader is not installed, or it has no such voice, or it said nothing.
    """
    library_path, data_path = _paths()
    # espeak-ng keeps its oscillators and filters running from one utterance to the next, and even over a new
    # initialisation. Loading the library afresh (about 10 ms) is what makes an utterance independent of the one before.
    library = ctypes.CDLL(library_path)
    try:
        chunks: list[np.ndarray] = []
        begins: list[tuple[int, int]] = []

        @_CALLBACK
        def collect(samples, count: int, events) -> int:
            if samples and count > 0:
                chunks.append(np.ctypeslib.as_array(samples, (count,)).copy())
            index = 0
            while events[index].type != _LIST_TERMINATED:
                if events[index].type == _WORD:
                    begins.append((events[index].text_position - 1, events[index].sample))
                index += 1
            return 0

        if library.espeak_Initialize(_AUDIO_OUTPUT_SYNCHRONOUS, 0, data_path, _INITIALIZE_DONT_EXIT) != SAMPLE_RATE:
            raise InputError(f"espeak-ng could not be started with its data in {data_path.decode()}")
        library.espeak_SetSynthCallback(collect)
        if library.espeak_SetVoiceByName(voice.encode()):
            raise InputError(f"espeak-ng has no voice {voice!r}")
        for parameter, value in ((_RATE, rate), (_PITCH, pitch), (_RANGE, pitch_range)):
            library.espeak_SetParameter(parameter, value, 0)
        library.espeak_ng_SetRandSeed(ctypes.c_long(seed))  # or it takes the time of day
        data = text.encode() + b"\0"
        size = ctypes.c_size_t(len(data))
        library.espeak_Synth(data, size, 0, 1, 0, _CHARS_UTF8, None, None)
        library.espeak_Synchronize()
        library.espeak_Terminate()
    finally:
        _dlclose()(library._handle)
    if not chunks:
        raise InputError(f"espeak-ng said nothing for {text!r}")
    return Speech(np.concatenate(chunks).astype(np.float32) / 32768, tuple(begins))


@functools.cache
def _paths() -> tuple[str, bytes]:
    try:
        import espeakng_loader
    except ImportError as error:
        raise InputError("the mini corpus needs espeak-ng: pip install espeakng-loader") from error
    return espeakng_loader.get_library_path(), espeakng_loader.get_data_path().encode()


@functools.cache
def _dlclose():
    function = ctypes.CDLL(None).dlclose
    function.argtypes = [ctypes.c_void_p]
    return function
