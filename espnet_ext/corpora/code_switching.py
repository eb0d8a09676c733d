"""Read Mandarin-English corpora as they are delivered: their parts and transcripts.

``asru2019`` is the challenge's corpus, as its participants got it; ``talcs`` TAL-CSASR
and ``ascend`` ASCEND as they unpack, or as the hub has it (Parquet); ``seame`` SEAME
(LDC2015S04) as Kaldi data dirs. The Mandarin part may be like the others, or AISHELL-1
or aidatatang_200zh, with the archive of each speaker unpacked.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.corpora.checks import (
    Faults,
    find_audio_files,
    find_own_files,
    read_lines,
)
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir
from espnet_ext.kaldi.tables import read_table

# Corpus -> part -> where it may lie in the corpus folder, the first that exists. It is
# a folder, or a table of utterances whose audio lies beside it.
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
    "seame": {
        "train-cs": ("train",),
        "dev": ("dev_man", "devman", "man"),
        "test": ("dev_sge", "devsge", "sge"),
        "valid": ("valid",),
    },
    "ascend": {
        "train-cs": (
            "train_metadata.csv",
            "main/train-*.parquet",
            "train-*.parquet",
        ),
        "dev": (
            "validation_metadata.csv",
            "main/validation-*.parquet",
            "validation-*.parquet",
        ),
        "test": (
            "test_metadata.csv",
            "main/test-*.parquet",
            "test-*.parquet",
        ),
    },
}
# Names of sets where they are not those of the parts. SEAME has no dev set: both of its
# sets are for testing.
SET_NAMES: Mapping[str, Mapping[str, str]] = {
    "seame": {"dev": "dev_man", "test": "dev_sge"},
    "ascend": {"dev": "validation"},
}
WITHOUT_DEV = ("seame",)
# The part that takes the place of a dev set in training, if such a corpus has it.
VALID = "valid"
MANDARIN = "train-zh"
# What AISHELL-1 and aidatatang_200zh have in their folder: the file of transcripts, and
# the folder of training audio.
ONE_TRANSCRIPT = {
    "transcript/aishell_transcript_v0.8.txt": "wav/train",
    "transcript/aidatatang_200_zh_transcript.txt": "corpus/train",
}
INSIDE = ("data_aishell", "aidatatang_200zh")  # the folders into which they unpack
_PARQUET = re.compile(r"(.+)-[0-9]+-of-([0-9]+)\.parquet")
_LIST_NAME = re.compile(r"text|.*trans.*\.txt")  # files with many transcripts
# Ids of Datatang, which gave the challenge's corpus, begin with task and speaker.
_SPEAKER = re.compile(r"T\d+G\d+")


def find_part_folder(corpus: str, root: Path, part: str) -> Path:
    """Return where a part lies in a corpus folder.

    Return the first place that exists, otherwise the first of all.
    """
    places = LAYOUTS[corpus].get(part, (part,))
    for place in places:
        paths = sorted(root.glob(place))
        if paths:
            return paths[0]
    return root / places[0]


def scan_part(place: Path, part: str, faults: Faults, made: Path) -> DataDir:
    """Read the transcripts and list the audio of a part that is no Kaldi data dir.

    Audio in Parquet is written to the folder ``made``.
    """
    if place.is_file():
        rows = _read_csv_rows(place)
        if place.suffix == ".parquet":
            rows = _read_parquet_rows(place, made)
        return _scan_rows(rows, place, part, faults)
    # AISHELL-1 and aidatatang_200zh have a folder of audio for each speaker.
    for root in (place, *(place / name for name in INSIDE)):
        for transcript, audio in ONE_TRANSCRIPT.items():
            if (root / transcript).is_file():
                _require_unpacked((root / audio).parent)
                return _scan_listed(
                    root / audio,
                    root / transcript,
                    part,
                    faults,
                    lambda path: path.parent.name,
                )
    # TAL-CSASR, which names no speakers: each utterance is a speaker of its own.
    if (place / "label.txt").is_file():
        return _scan_listed(
            place / "wav",
            place / "label.txt",
            part,
            faults,
            lambda path: path.stem,
            complete=True,
        )
    return scan_audio_folder(place, part, faults)


def _require_unpacked(folder: Path) -> None:
    """Refuse a corpus in which the audio of speakers is still in archives.

    A corpus unpacks into archives ``S0002.tar.gz``, and these into folders ``S0002``.
    """
    archives = sorted([*folder.glob("*.tar.gz"), *folder.glob("*/*.tar.gz")])
    packed = []
    for path in archives:
        speaker = path.name.removesuffix(".tar.gz")
        if not any(folder.glob(f"*/{speaker}")):
            packed.append(path)
    if packed:
        raise InputError(
            f"{packed[0]}: {len(packed)} speakers are still in archives: unpack "
            f"them: for f in {packed[0].parent}"
            '/*.tar.gz; do tar -xzf "$f" -C "${f%/*}"; done'
        )


def scan_audio_folder(folder: Path, part: str, faults: Faults) -> DataDir:
    """Read the transcripts of a folder of audio files.

    :mod:`espnet_ext.corpora.asru2019` describes its form. ``README*.txt`` is ignored.
    Without ``utt2spk``, a speaker is the utterance's id up to the name of its folder
    (``T0055G0013`` for ``G0013/T0055G0013S0001.wav``), or else the utterance. Only
    utterances without a fault are returned.
    """
    files = list(find_own_files(folder, faults))
    audio = find_audio_files(files, part, faults)
    texts: dict[str, tuple[str, Path]] = {}
    for key, text, path in _read_transcripts(files, part, faults):
        if key in texts:
            _, first = texts[key]
            faults.add(part, key, f"utterance {key} comes twice ({first} and {path})")
        texts.setdefault(key, (text, path))
    speakers = _find_speakers(folder, audio)
    for key in audio.keys() - speakers.keys():
        faults.add(part, key, f"no speaker of utterance {key} in {folder / 'utt2spk'}")
    return _make_data_dir(audio, texts, speakers, part, faults, folder)


def _read_transcripts(
    files: Sequence[Path],
    part: str,
    faults: Faults,
) -> Iterator[tuple[str, str, Path]]:
    """Yield utterances, their texts, and the files that hold them.

    The files are lists or, if there is no list, one for each utterance.
    """
    lists = [path for path in files if _LIST_NAME.fullmatch(path.name)]
    texts = [path for path in files if path.suffix == ".txt"]
    singles = [path for path in texts if not path.name.upper().startswith("README")]
    for path in lists or singles:
        try:
            lines = [line.strip() for line in read_lines(path) if line.strip()]
        except InputError as error:
            faults.add(part, str(path), str(error))
            continue
        if not lists:
            yield path.stem, " ".join(lines), path
            continue
        for line in lines:
            key, _, text = line.replace("\t", " ").partition(" ")
            yield key, text.strip(), path


def _find_speakers(folder: Path, audio: Mapping[str, Path]) -> Mapping[str, str]:
    """Find the speakers of utterances: in utt2spk, in ids, or by the folders."""
    if (folder / "utt2spk").is_file():
        return read_table(folder / "utt2spk")
    # All or none: in a folder with other ids, a match would be chance.
    ids = {key: _SPEAKER.match(key) for key in audio}
    if all(ids.values()):
        return {key: match[0] for key, match in ids.items() if match}
    speakers = {}
    for key, path in audio.items():
        # A speaker begins the ids of its utterances, as Kaldi wants it: both must sort
        # alike.
        before, name, _ = key.partition(path.parent.name)
        is_named = bool(name) and path.parent != folder
        speakers[key] = before + name if is_named else key
    return speakers


def _scan_listed(
    audio: Path,
    transcript: Path,
    part: str,
    faults: Faults,
    find_speaker: Callable[[Path], str],
    complete: bool = False,
) -> DataDir:
    """Read one file of lines ``<utterance> <text>``.

    ``find_speaker`` takes the path of an utterance's audio. With ``complete`` each line
    must have audio, and each audio file a line; otherwise both may have more.
    """
    files: dict[str, Path] = {}
    if audio.is_dir():
        files = find_audio_files(find_own_files(audio, faults), part, faults)
    texts: dict[str, tuple[str, Path]] = {}
    for number, line in enumerate(read_lines(transcript), start=1):
        key, _, text = line.replace("\t", " ").strip().partition(" ")
        if not key:
            faults.ignore("blank lines", f"{transcript}:{number}")
        elif key in texts:
            faults.add(
                part, key, f"utterance {key} comes twice ({transcript}, line {number})"
            )
        # The one file of AISHELL-1 has the transcripts of its dev and test sets, too,
        # and not those of all its audio.
        elif key in files or complete:
            texts[key] = (text.strip(), transcript)
    if not complete:
        for key in files.keys() - texts.keys():
            faults.ignore("audio without a transcript", files.pop(key))
    speakers = {key: find_speaker(path) for key, path in files.items()}
    return _make_data_dir(files, texts, speakers, part, faults, transcript)


def _read_csv_rows(table: Path) -> Iterator[tuple[Mapping[str, Any], Path]]:
    """Yield the rows of ASCEND's metadata, and the audio file that each names.

    The name is in the column ``path`` or ``file_name``.
    """
    rows = csv.DictReader(io.StringIO("\n".join(read_lines(table)), newline=""))
    columns = rows.fieldnames or ()
    if "path" in columns:
        name = "path"
    elif "file_name" in columns:
        name = "file_name"
    else:
        raise InputError(f"{table}: no column path: this is not ASCEND's metadata")
    for row in rows:
        path = table.parent / row[name]
        # ASCEND's audio lies in ``waves``; a table may name the files alone.
        if not path.exists():
            path = table.parent / "waves" / path.name
        yield row, path


def _read_parquet_rows(
    first: Path, made: Path
) -> Iterator[tuple[Mapping[str, Any], Path]]:
    """Yield the rows of all files of a part, and write the audio of each.

    Files are called ``train-00000-of-00003.parquet`` and so on.
    """
    from pyarrow import ArrowInvalid
    from pyarrow.parquet import ParquetFile

    match = _PARQUET.fullmatch(first.name)
    files = [first]
    if match:
        part, count = match.groups()
        files = sorted(first.parent.glob(f"{part}-*-of-{count}.parquet"))
        if len(files) != int(count):
            raise InputError(
                f"{first}: {len(files)} of its {int(count)} files are there: "
                "download the others"
            )
    made.mkdir(parents=True, exist_ok=True)
    for file in files:
        try:
            # In batches: a file holds hundreds of megabytes of audio.
            for batch in ParquetFile(file).iter_batches(batch_size=64):
                for row in batch.to_pylist():
                    audio = row["audio"]
                    path = made / Path(audio["path"] or row["path"]).name
                    path.write_bytes(audio["bytes"])
                    yield row, path
        except (ArrowInvalid, KeyError, TypeError) as error:
            raise InputError(
                f"{file}: not ASCEND's Parquet, or damaged ({error}): download it again"
            ) from None


def _scan_rows(
    rows: Iterable[tuple[Mapping[str, Any], Path]],
    table: Path,
    part: str,
    faults: Faults,
) -> DataDir:
    """Read ASCEND's rows, which have ``transcription`` and ``original_speaker_id``."""
    files: dict[str, Path] = {}
    texts: dict[str, tuple[str, Path]] = {}
    speakers: dict[str, str] = {}
    for number, (row, path) in enumerate(rows, start=1):
        missing = {"transcription", "original_speaker_id"} - row.keys()
        if missing:
            raise InputError(
                f"{table}: no column {', '.join(sorted(missing))}: this is not "
                "ASCEND's metadata"
            )
        key = path.stem
        if key in texts:
            faults.add(
                part, key, f"utterance {key} comes twice ({table}, row {number})"
            )
        text = (row["transcription"] or "").strip()
        texts.setdefault(key, (text, table))
        speakers[key] = f"spk{row['original_speaker_id']}"
        if path.is_file():
            files[key] = path
    return _make_data_dir(files, texts, speakers, part, faults, table)


def _make_data_dir(
    files: Mapping[str, Path],
    texts: Mapping[str, tuple[str, Path]],
    speakers: Mapping[str, str],
    part: str,
    faults: Faults,
    where: Path,
) -> DataDir:
    """Make a data dir of the utterances that have both audio and a transcript.

    The others are faults. ``where`` is what a part without any utterance is called.
    """
    for key, (text, path) in texts.items():
        if key not in files:
            faults.add(part, key, f"no audio file for utterance {key} ({path})")
        elif not text:
            faults.add(part, key, f"empty transcript of {key} ({path})")
    for key in files.keys() - texts.keys():
        faults.add(part, key, f"no transcript of utterance {key} ({files[key]})")
    if not files:
        faults.add(part, str(where), f"no utterances of {part} in or beside {where}")
    good = faults.select_faultless(part, dict(sorted(files.items())))
    return DataDir(
        wav_scp={key: str(path) for key, path in good.items()},
        utt2spk={key: speakers[key] for key in good},
        text={key: texts[key][0] for key in good},
    )
