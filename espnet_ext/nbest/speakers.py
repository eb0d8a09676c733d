"""Find the speakers of utterances: the units of a comparison where they are known."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table

UTT2SPK = "utt2spk"
_OF_LIBRISPEECH = re.compile(r"(([0-9]+)-[0-9]+)-[0-9]+")  # speaker, chapter, utterance


def find_speakers(
    utterances: Sequence[str], *places: Path | None, utt2spk: Path | None = None
) -> dict[str, str]:
    """Return the speaker of each utterance, or nothing where they are not known.

    Speakers are those of ``utt2spk``; else those of a file of this name in or beside
    one of ``places``; else those in ids as LibriSpeech has them. Raises InputError: an
    utterance is not in the table that was given.
    """
    if utt2spk is not None:
        table = read_table(utt2spk)
        for utterance in utterances:
            if utterance not in table:
                raise InputError(f"{utt2spk}: {utterance} has no speaker: add it")
        return {utterance: table[utterance] for utterance in utterances}
    readers: dict[str, str] = {}
    chapters: dict[str, str] = {}
    for utterance in utterances:
        if match := _OF_LIBRISPEECH.fullmatch(utterance):
            chapters[utterance], readers[utterance] = match.groups()
    are_librispeech = len(readers) == len(utterances)
    for path in _list_tables(places):
        table = read_table(path)
        if all(utterance in table for utterance in utterances):
            found = {utterance: table[utterance] for utterance in utterances}
            # Kaldi's and ESPnet's recipes take each chapter for another speaker, and
            # several of them are one voice.
            return readers if are_librispeech and found == chapters else found
    return readers if are_librispeech else {}


def _list_tables(places: Iterable[Path | None]) -> list[Path]:
    """List the tables in folders, beside files and beside folders."""
    folders = []
    for place in places:
        if place is not None:
            folders += [place, place.parent]
    tables = [folder / UTT2SPK for folder in folders]
    return [table for table in tables if table.is_file()]
