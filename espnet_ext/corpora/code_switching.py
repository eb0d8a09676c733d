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
from collections.abc import Callable, Mapping
from pathlib import Path

from espnet_ext.corpora.audio_folder import scan_audio_folder
from espnet_ext.corpora.checks import audio_files
from espnet_ext.corpora.faults import Faults, own_files
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir

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
_SPEAKER = re.compile(r"T\d+G\d+")  # task and speaker, at the beginning of ids of the challenge's donor


def part_folder(corpus: str, root: Path, part: str) -> Path:
    """Where a part lies in a corpus folder: the first place that exists, otherwise the first of all."""
    places = [root / place for place in LAYOUTS[corpus].get(part, (part,))]
    return next((place for place in places if place.exists()), places[0])


def scan_part(place: Path, part: str, faults: Faults) -> DataDir:
    """Read the transcripts of a part that is not a Kaldi data dir, and list its audio files, in the form that it has.

    Faults are those of :func:`espnet_ext.corpora.audio_folder.scan_audio_folder`; for lists of several parts, a
    transcript without audio is none.
    """
    if place.is_file():
        return _scan_metadata(place, part, faults)
    for root in (place, *(place / name for name in INSIDE)):
        for transcript, audio in ONE_TRANSCRIPT.items():
            if (root / transcript).is_file():
                return _scan_listed(root / audio, root / transcript, part, faults, lambda path: path.parent.name)
    if (place / "label.txt").is_file():
        return _scan_listed(place / "wav", place / "label.txt", part, faults, lambda path: path.stem, complete=True)
    return _with_speakers(scan_audio_folder(place, part, faults), place)


def _with_speakers(data: DataDir, folder: Path) -> DataDir:
    """Speakers from ids such as ``T0055G0013S0001``, unless a table names them."""
    if (folder / "utt2spk").is_file() or not all(map(_SPEAKER.match, data.utt2spk)):
        return data
    speakers = {key: _SPEAKER.match(key)[0] for key in data.utt2spk}  # type: ignore[index]
    return DataDir(wav_scp=data.wav_scp, utt2spk=speakers, text=data.text)


def _scan_listed(
    audio: Path, transcript: Path, part: str, faults: Faults, speaker: Callable[[Path], str], complete: bool = False
) -> DataDir:
    """Audio below a folder, and one file with lines ``<utterance> <text>``.

    Args:
        complete: whether each transcript must have audio, and the reverse. AISHELL-1 has a few hundred files more.
    """
    files = audio_files(list(own_files(audio, faults)), part, faults) if audio.is_dir() else {}
    texts: dict[str, str] = {}
    for number, line in enumerate(_lines(transcript), start=1):
        key, _, text = line.replace("\t", " ").strip().partition(" ")
        if not key:
            faults.ignore("blank lines", f"{transcript}:{number}")
        elif key in texts:
            faults.add(part, key, f"utterance {key} comes twice ({transcript}, line {number})")
        elif key in files or complete:
            texts[key] = text.strip()
    if not complete:
        for key in files.keys() - texts.keys():
            faults.ignore("audio without a transcript", files.pop(key))
    return _joined(files, texts, {key: speaker(path) for key, path in files.items()}, part, faults, transcript)


def _scan_metadata(table: Path, part: str, faults: Faults) -> DataDir:
    """ASCEND: rows with ``path`` (or ``file_name``), ``transcription`` and ``original_speaker_id``."""
    with io.StringIO("\n".join(_lines(table)), newline="") as file:
        rows = csv.DictReader(file)
        columns = set(rows.fieldnames or ())
        name = next((column for column in ("path", "file_name") if column in columns), None)
        missing = {"transcription", "original_speaker_id"} - columns
        if name is None or missing:
            lacking = ", ".join(sorted(missing)) or "path"
            raise InputError(f"{table}: no column {lacking}: this is not ASCEND's metadata")
        files: dict[str, Path] = {}
        texts: dict[str, str] = {}
        speakers: dict[str, str] = {}
        for row in rows:
            path = table.parent / row[name]
            path = path if path.exists() else table.parent / "waves" / path.name
            key = path.stem
            if key in texts:
                faults.add(part, key, f"utterance {key} comes twice ({table}, line {rows.line_num})")
            texts.setdefault(key, (row["transcription"] or "").strip())
            speakers[key] = f"spk{row['original_speaker_id']}"
            if path.is_file():
                files[key] = path
    return _joined(files, texts, speakers, part, faults, table)


def _joined(
    files: Mapping[str, Path],
    texts: Mapping[str, str],
    speakers: Mapping[str, str],
    part: str,
    faults: Faults,
    transcript: Path,
) -> DataDir:
    for key in texts.keys() - files.keys():
        faults.add(part, key, f"no audio file for utterance {key} ({transcript})")
    for key in files.keys() - texts.keys():
        faults.add(part, key, f"no transcript of utterance {key} ({files[key]})")
    for key, text in texts.items():
        if not text:
            faults.add(part, key, f"empty transcript of {key} ({transcript})")
    if not files:
        faults.add(part, str(transcript), f"no utterances of {part} beside {transcript}")
    good = faults.sound(part, {key: path for key, path in sorted(files.items()) if key in texts})
    return DataDir(
        wav_scp={key: str(path) for key, path in good.items()},
        utt2spk={key: speakers[key] for key in good},
        text={key: texts[key] for key in good},
    )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text (iconv -f GB18030 -t UTF-8 converts most Chinese files)") from None
