"""Speech synthesis with espeak-ng, from the wheel ``espeakng-loader`` (library and voices inside)."""

import ctypes
import functools

import numpy as np

from espnet_ext.errors import InputError

SAMPLE_RATE = 22050

# Constants of espeak-ng's speak_lib.h.
_AUDIO_OUTPUT_SYNCHRONOUS = 2
_INITIALIZE_DONT_EXIT = 0x8000
_CHARS_UTF8 = 1
_RATE, _PITCH, _RANGE = 1, 3, 4
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


def synthesise(text: str, voice: str, rate: int, pitch: int, pitch_range: int, seed: int) -> np.ndarray:
    """Speak ``text``.

    Args:
        text: What to say, in ordinary spelling.
        voice: A language with a voice variant, such as ``en-us+f2``.
        rate: Words a minute (80 to 450).
        pitch, pitch_range: 0 to 100; 50 is the voice's own.
        seed: Of the noise in breathy voices, below 2**31.

    Returns:
        Samples at 22050 Hz in [-1, 1], shape (samples,). The same arguments give the same samples, whatever was said
        before.

    Raises:
        InputError: espeakng-loader is not installed, or it has no such voice, or it said nothing.
    """
    library_path, data_path = _paths()
    # espeak-ng keeps its oscillators and filters running from one utterance to the next, and even over a new
    # initialisation. Loading the library afresh (about 10 ms) is what makes an utterance independent of the one before.
    library = ctypes.CDLL(library_path)
    try:
        chunks: list[np.ndarray] = []

        @_CALLBACK
        def collect(samples, count: int, _events) -> int:
            if samples and count > 0:
                chunks.append(np.ctypeslib.as_array(samples, (count,)).copy())
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
    return np.concatenate(chunks).astype(np.float32) / 32768


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
