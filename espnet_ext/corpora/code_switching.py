"""Where the parts of Mandarin-English corpora lie, as they are delivered, and how their transcripts are read.

========== ============================================ =================================================
corpus     folder                                       what it holds
========== ============================================ =================================================
asru2019   the challenge's, as its participants got it  ``ZH+EN-200h``, ``ZH-500h``, ``ASRU-DEV``, ``ASRU-TEST``
talcs      TAL-CSASR, as it unpacks                     ``TALCS_corpus/{train,dev,test}_set/{label.txt,wav/*.wav}``
seame      Kaldi data dirs (LDC2015S04)                 ``train``, ``dev_man``, ``dev_sge``; pipes allowed on request
ascend     ASCEND, as it unpacks                        ``{train,validation,test}_metadata.csv``, ``waves/*.wav``
========== ============================================ =================================================

The Mandarin part may be AISHELL-1 (``wav/train`` and one file of transcripts), aidatatang_200zh (``corpus/train``
and one file of transcripts), or like the others.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from espnet_ext.corpora.checks import Faults, audio_files, own_files, read_lines
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir
from espnet_ext.kaldi.tables import read_table

# corpus -> part -> where it may lie in the corpus folder, the first that exists. A file names what lies beside it.
LAYOUTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "asru2019": {
        "train-cs": ("train-cs", "ZH+EN-200h"),
        "train-zh": ("train-zh", "ZH-500h"),
        "dev": ("dev", "ASRU-DEV"),
        "test": ("test", "ASRU-TEST"),
    },
    "talcs": {
        "train-cs": ("TALCS_corpus/train_set", "train_set"),
        "dev": ("TALCS_corpus/dev_set", "dev_set"),
        "test": ("TALCS_corpus/test_set", "test_set"),
    },
    "seame": {"train-cs": ("train",), "dev": ("dev_man", "man"), "test": ("dev_sge", "sge")},
    "ascend": {
        "train-cs": ("train_metadata.csv",),
        "dev": ("validation_metadata.csv",),
        "test": ("test_metadata.csv",),
    },
}
# Where the test sets have other names: part -> name. SEAME has no dev set: both of its sets are for testing.
SET_NAMES: Mapping[str, Mapping[str, str]] = {
    "seame": {"dev": "dev_man", "test": "dev_sge"},
    "ascend": {"dev": "validation"},
}
WITHOUT_DEV = ("seame",)
MANDARIN = "train-zh"
# What AISHELL-1 and aidatatang_200zh have in their folder: the file of transcripts, and the folder of training audio.
ONE_TRANSCRIPT = {
    "transcript/aishell_transcript_v0.8.txt": "wav/train",
    "transcript/aidatatang_200_zh_transcript.txt": "corpus/train",
}
INSIDE = ("data_aishell", "aidatatang_200zh")  # the folders into which they unpack
_LIST = re.compile(r"text|.*trans.*\.txt")
_SPEAKER = re.compile(r"T\d+G\d+")  # task and speaker, at the beginning of ids of the challenge's donor


def part_folder(corpus: str, root: Path, part: str) -> Path:
    """Return where a part lies in a corpus folder: the first place that exists, otherwise the first of all."""
    places = [root / place for place in LAYOUTS[corpus].get(part, (part,))]
    return next((place for place in places if place.exists()), places[0])


def scan_part(place: Path, part: str, faults: Faults) -> DataDir:
    """Read the transcripts of a part that is not a Kaldi data dir, and list its audio files, whatever its form."""
    if place.is_file():
        return _scan_metadata(place, part, faults)
    for root in (place, *(place / name for name in INSIDE)):
        for transcript, audio in ONE_TRANSCRIPT.items():
            if (root / transcript).is_file():
                return _scan_listed(root / audio, root / transcript, part, faults, lambda path: path.parent.name)
    if (place / "label.txt").is_file():
        return _scan_listed(place / "wav", place / "label.txt", part, faults, lambda path: path.stem, complete=True)
    return scan_audio_folder(place, part, faults)


def scan_audio_folder(folder: Path, part: str, faults: Faults) -> DataDir:
    """Read the transcripts of a folder of audio files, in the form that :mod:`espnet_ext.corpora.asru2019` describes.

    ``README*.txt`` is ignored. Without ``utt2spk``, the speaker is the name of the folder that the audio is in if the
    utterance's id begins with it; if the id contains it further on, the id up to its end (``T0055G0013`` for
    ``G0013/T0055G0013S0001.wav``); if not, each utterance has a speaker of its own. What is returned has no fault.
    """
    files = list(own_files(folder, faults))
    audio = audio_files(files, part, faults)
    texts: dict[str, tuple[str, Path]] = {}
    for key, text, path in _transcripts(files, part, faults):
        if key in texts:
            faults.add(part, key, f"utterance {key} comes twice ({texts[key][1]} and {path})")
        texts.setdefault(key, (text, path))
    speakers = _speakers(folder, audio)
    for key in audio.keys() - speakers.keys():
        faults.add(part, key, f"no speaker of utterance {key} in {folder / 'utt2spk'}")
    return _joined(audio, texts, speakers, part, faults, folder)


def _transcripts(files: Sequence[Path], part: str, faults: Faults) -> Iterator[tuple[str, str, Path]]:
    """Yield utterances, their texts, and the files that hold them: of lists, or of one file for each utterance."""
    lists = [path for path in files if _LIST.fullmatch(path.name)]
    singles = [path for path in files if path.suffix == ".txt" and not path.name.upper().startswith("README")]
    for path in lists or singles:
        try:
            lines = [line.strip() for line in read_lines(path) if line.strip()]
        except InputError as error:
            faults.add(part, str(path), str(error))
            continue
        for line in lines if lists else ():
            key, _, text = line.replace("\t", " ").partition(" ")
            yield key, text.strip(), path
        if not lists:
            yield path.stem, " ".join(lines), path


def _speakers(folder: Path, audio: Mapping[str, Path]) -> Mapping[str, str]:
    if (folder / "utt2spk").is_file():
        return read_table(folder / "utt2spk")
    if all(map(_SPEAKER.match, audio)):
        return {key: _SPEAKER.match(key)[0] for key in audio}  # type: ignore[index]
    return {key: key if path.parent == folder else _speaker(key, path.parent.name) for key, path in audio.items()}


def _speaker(utterance: str, folder: str) -> str:
    before, name, _ = utterance.partition(folder)
    return before + name if name else utterance


def _scan_listed(
    audio: Path, transcript: Path, part: str, faults: Faults, speaker: Callable[[Path], str], complete: bool = False
) -> DataDir:
    """Read one file of lines ``<utterance> <text>``. ``complete``: all have audio, and the reverse."""
    files = audio_files(list(own_files(audio, faults)), part, faults) if audio.is_dir() else {}
    texts: dict[str, tuple[str, Path]] = {}
    for number, line in enumerate(read_lines(transcript), start=1):
        key, _, text = line.replace("\t", " ").strip().partition(" ")
        if not key:
            faults.ignore("blank lines", f"{transcript}:{number}")
        elif key in texts:
            faults.add(part, key, f"utterance {key} comes twice ({transcript}, line {number})")
        elif key in files or complete:
            texts[key] = (text.strip(), transcript)
    if not complete:
        for key in files.keys() - texts.keys():
            faults.ignore("audio without a transcript", files.pop(key))
    return _joined(files, texts, {key: speaker(path) for key, path in files.items()}, part, faults, transcript)


def _scan_metadata(table: Path, part: str, faults: Faults) -> DataDir:
    """Read ASCEND's rows with ``path`` (or ``file_name``), ``transcription`` and ``original_speaker_id``."""
    rows = csv.DictReader(io.StringIO("\n".join(read_lines(table)), newline=""))
    columns = set(rows.fieldnames or ())
    name = next((column for column in ("path", "file_name") if column in columns), None)
    missing = {"transcription", "original_speaker_id"} - columns
    if name is None or missing:
        raise InputError(f"{table}: no column {', '.join(sorted(missing)) or 'path'}: this is not ASCEND's metadata")
    files: dict[str, Path] = {}
    texts: dict[str, tuple[str, Path]] = {}
    speakers: dict[str, str] = {}
    for row in rows:
        path = table.parent / row[name]
        path = path if path.exists() else table.parent / "waves" / path.name
        key = path.stem
        if key in texts:
            faults.add(part, key, f"utterance {key} comes twice ({table}, line {rows.line_num})")
        texts.setdefault(key, ((row["transcription"] or "").strip(), table))
        speakers[key] = f"spk{row['original_speaker_id']}"
        if path.is_file():
            files[key] = path
    return _joined(files, texts, speakers, part, faults, table)


def _joined(
    files: Mapping[str, Path],
    texts: Mapping[str, tuple[str, Path]],
    speakers: Mapping[str, str],
    part: str,
    faults: Faults,
    where: Path,
) -> DataDir:
    """Make a data dir of audio files and transcripts, which both must have."""
    for key, (text, path) in texts.items():
        if key not in files:
            faults.add(part, key, f"no audio file for utterance {key} ({path})")
        elif not text:
            faults.add(part, key, f"empty transcript of {key} ({path})")
    for key in files.keys() - texts.keys():
        faults.add(part, key, f"no transcript of utterance {key} ({files[key]})")
    if not files:
        faults.add(part, str(where), f"no utterances of {part} in or beside {where}")
    good = faults.sound(part, dict(sorted(files.items())))
    return DataDir(
        wav_scp={key: str(path) for key, path in good.items()},
        utt2spk={key: speakers[key] for key in good},
        text={key: texts[key][0] for key in good},
    )
