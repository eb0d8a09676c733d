"""A folder of audio files with their transcripts, as many corpora are distributed: its contents and its faults."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from espnet_ext.corpora.checks import audio_files
from espnet_ext.corpora.faults import Faults, own_files
from espnet_ext.kaldi.data_dir import DataDir
from espnet_ext.kaldi.tables import read_table

_LIST = re.compile(r"text|.*trans.*\.txt")


def scan_audio_folder(folder: Path, part: str, faults: Faults) -> DataDir:
    """Read the transcripts and list the audio files, without opening audio.

    Audio files ``<utterance>.wav`` (or ``flac``, ``mp3``, ``ogg``, ``opus``, ``sph``) are in folders of any depth. The
    transcripts are lines ``<utterance> <text>`` of files that are called ``text``, or whose name contains ``trans`` and
    ends in ``.txt``. If there is no such file, each transcript is in a file ``<utterance>.txt``. ``README*.txt`` is
    ignored.

    The table ``utt2spk`` in ``folder``, if it exists, names the speakers. Otherwise the speaker is the name of the
    folder that the audio is in if the utterance's id begins with it; if the id contains it further on, the id up to
    its end (``T0055G0013`` for ``G0013/T0055G0013S0001.wav``); if not, each utterance has a speaker of its own.

    Faults are no utterances, an empty transcript, an id that comes twice, a transcript without audio or the reverse, an
    utterance without a line in ``utt2spk``. What is returned has none of them. Files ``._*``, which macOS leaves beside
    others, are ignored.
    """
    files = list(own_files(folder, faults))
    audio = audio_files(files, part, faults)
    texts = _texts(files, part, faults)
    for key, (_, path) in texts.items():
        if key not in audio:
            faults.add(part, key, f"no audio file for utterance {key} ({path})")
    for key, path in audio.items():
        if key not in texts:
            faults.add(part, key, f"no transcript of utterance {key} ({path})")
    if not audio:
        faults.add(part, str(folder), f"no utterances in {folder}")
    speakers = _speakers(folder, audio)
    for key in audio:
        if key not in speakers:
            faults.add(part, key, f"no speaker of utterance {key} in {folder / 'utt2spk'}")
    audio = faults.sound(part, audio)
    return DataDir(
        wav_scp={key: str(path) for key, path in audio.items()},
        utt2spk={key: speakers[key] for key in audio},
        text={key: texts[key][0] for key in audio},
    )


def _texts(files: Sequence[Path], part: str, faults: Faults) -> dict[str, tuple[str, Path]]:
    """Utterance -> its transcript and the file that holds it."""
    lists = [path for path in files if _LIST.fullmatch(path.name)]
    if lists:
        entries = (entry for path in lists for entry in _list_entries(path, part, faults))
    else:
        singles = (path for path in files if path.suffix == ".txt" and not path.name.upper().startswith("README"))
        entries = ((path.stem, " ".join(_lines(path, part, faults)), path) for path in singles)
    texts: dict[str, tuple[str, Path]] = {}
    for key, text, path in entries:
        if key in texts:
            faults.add(part, key, f"utterance {key} comes twice ({texts[key][1]} and {path})")
        elif not text:
            faults.add(part, key, f"empty transcript of {key} ({path})")
        texts.setdefault(key, (text, path))
    return texts


def _list_entries(path: Path, part: str, faults: Faults) -> Iterator[tuple[str, str, Path]]:
    for line in _lines(path, part, faults):
        key, _, text = line.replace("\t", " ").partition(" ")
        yield key, text.strip(), path


def _lines(path: Path, part: str, faults: Faults) -> list[str]:
    """The lines that are not empty, without spaces at their ends."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        advice = "(iconv -f GB18030 -t UTF-8 converts most Chinese files)"
        faults.add(part, str(path), f"{path} is not UTF-8 text {advice}")
        return []
    return [line.strip() for line in text.split("\n") if line.strip()]


def _speakers(folder: Path, audio: Mapping[str, Path]) -> Mapping[str, str]:
    table = folder / "utt2spk"
    if table.is_file():
        return read_table(table)
    return {key: key if path.parent == folder else _speaker(key, path.parent.name) for key, path in audio.items()}


def _speaker(utterance: str, folder: str) -> str:
    before, name, _ = utterance.partition(folder)
    return before + name if name else utterance
