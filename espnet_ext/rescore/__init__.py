"""Rescore N-best lists with language models: all of P3 (Shivakumar et al. 2023).

====================================  ==================================================
``models/causal.py``                  likelihood of GPT-2, eq. 2; ``prefix_trees.py``:
                                      each shared prefix once
``models/pll.py``                     pseudo-likelihood of BERT, eq. 3
``models/pooled.py``                  RescoreGPT and RescoreBERT, eq. 10 to 12
``weights.py``                        interpolation and its tuning, eq. 1
``outcome.py``                        what is printed and written of it
``training/mwer.py``                  minimum word error rate, eq. 4 to 9 (section 5)
``training/lm_training.py``           adaptation to the domain (4.2.2)
``second_pass.py``                    lists in, rescored lists out
``kept_scores.py``                    no text is scored twice
====================================  ==================================================

The recipe is ``egs/librispeech_rescore``.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from espnet_ext.errors import InputError

SCORERS = ("causal", "pll", "pooled")
POOLINGS = ("last", "cls", "attention")
GGUF = ".gguf"


class ScorerKind(NamedTuple):
    """A scorer of P3."""

    lm: str  # the language model that it is made of
    scorer: str
    pooling: str | None = None

    def __str__(self) -> str:
        return " ".join(part for part in self if part)


def is_gguf(name: str | Path) -> bool:
    """Tell whether a model is a file of llama.cpp's format."""
    return Path(name).suffix.lower() == GGUF


def check_model_path(name: str | Path) -> None:
    """Refuse a language model's path that is neither a folder nor a GGUF file.

    A hub name is ``model`` or ``user/model``.
    """
    text = str(name)
    if is_gguf(text):
        _check_gguf(Path(text))
        return
    is_path = (
        text.startswith((".", "/", "~")) or text.count("/") > 1 or Path(text).is_file()
    )
    if is_path and not Path(text).is_dir():
        raise InputError(f"{text}: no such folder of a language model: check the path")


def _check_gguf(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"{path}: no such file: check the path")
    if find_spec("gguf") is None:
        raise InputError(
            f"{path}: a GGUF file needs the package gguf: "
            "pip install 'espnet_ext[gguf]'"
        )
    stat = path.stat()
    if fault := _find_gguf_fault(path, stat.st_size, stat.st_mtime_ns):
        raise InputError(f"{path}: {fault}: download it or convert the model again")


# To read a vocabulary takes seconds, and a model is checked again when it is loaded.
@cache
def _find_gguf_fault(path: Path, size: int, changed: int) -> str | None:
    """Return what a GGUF file lacks, if anything, by its metadata and list of weights.

    ``size`` and ``changed`` (time of change in nanoseconds) tell a file from another
    one that has taken its place.
    """
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)  # maps the file: weights stay on the disk
    except Exception as error:
        # Of a file that was cut short it raises whatever comes of reading on.
        return f"is not a whole GGUF file ({error})"
    if "general.architecture" not in reader.fields:
        return "has no metadata of a model"
    if not reader.tensors:
        return "has no weights"
    return None
