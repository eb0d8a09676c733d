"""Checks that the corpora share: faults in one line, the corpus folder, audio files of utterances."""

from collections.abc import Sequence
from pathlib import Path

from espnet_ext.data.audio_files import audio_faults, decodes
from espnet_ext.errors import InputError

SHOWN = 3
ADVICE = "fix or remove them; nothing was written"


def raise_faults(where: str | Path, faults: Sequence[str], advice: str = ADVICE) -> None:
    """Raise an :class:`InputError` of one line if there are faults: the first few, and the number of the others.

    >>> raise_faults("corpus", ["a is empty", "b is empty", "c is cut", "d is cut", "e is cut"], "fix them")
    Traceback (most recent call last):
    espnet_ext.errors.InputError: corpus: a is empty; b is empty; c is cut; and 2 more: fix them
    """
    if faults:
        more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise InputError(f"{where}: {'; '.join(faults[:SHOWN])}{more}: {advice}")


def require_corpus(corpus_dir: str | Path, needs: str) -> Path:
    """The corpus folder as an absolute path.

    Raises:
        InputError: There is none; the message says what it ``needs`` to hold.
    """
    corpus = Path(corpus_dir).absolute()
    if not corpus.is_dir():
        raise InputError(f"{corpus}: no such corpus folder: give the folder that holds {needs}")
    return corpus


def how_checked(check_audio: str, files: int) -> tuple[bool, str]:
    """Does ``check_audio`` (``auto``, ``header`` or ``full``) decode this many files? And the same in words."""
    decode = decodes(check_audio, files)
    return decode, "decoding each file" if decode else "headers only; --check-audio full decodes each file"


def check_utterances(
    where: str | Path, files: Sequence[tuple[str, Path]], rate: int, check_audio: str, num_jobs: int, what: str
) -> None:
    """Check the audio files of utterances: one channel, ``rate`` Hz.

    Args:
        where: the corpus, for the messages.
        files: id -> audio file, as pairs.
        rate: in Hz.
        check_audio: ``full`` decodes all audio, ``header`` reads headers only, ``auto`` chooses by the number of files.
        num_jobs: Threads.
        what: How much there is to check, for the message.

    Raises:
        InputError: Faulty files; the first few are named.
    """
    decode, how = how_checked(check_audio, len(files))
    print(f"{where}: {what}; checking their audio ({how})", flush=True)
    raise_faults(where, audio_faults(files, rate, decode=decode, num_jobs=num_jobs))
