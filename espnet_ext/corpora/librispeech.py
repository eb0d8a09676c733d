"""Prepare LibriSpeech (https://www.openslr.org/12) and corpora of its layout."""

from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from espnet_ext.audio.files import Inspected
from espnet_ext.corpora import checks
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir

SAMPLING_RATE = 16000  # Hz
FOLDER = "LibriSpeech"  # the archives' top folder
LM_TEXT = "librispeech-lm-norm.txt.gz"

PARTS = (
    "train-clean-100",
    "train-clean-360",
    "train-other-500",
    "dev-clean",
    "dev-other",
    "test-clean",
    "test-other",
)


class Utterance(NamedTuple):
    """An utterance on disk."""

    audio: Path
    text: str


def prepare_librispeech(
    corpus_dir: str | Path,
    output_dir: str | Path,
    parts: Sequence[str] | None = None,
    **options: Any,
) -> dict[str, DataDir]:
    """Check a corpus in LibriSpeech's layout, and write a data dir of each part.

    ``parts`` are those wanted; None: all that exist. The corpus is the folder that
    holds ``train-clean-100`` and so on, or the one above it. All faults in transcripts
    and audio go to ``librispeech_faults.txt``; no data dir is written if there are more
    than ``options`` allow.
    """
    root, parts = find_parts(corpus_dir, parts)
    faults = checks.Faults(
        root, Path(output_dir) / "librispeech_faults.txt", checks.Options(**options)
    )
    found = check_parts(root, parts, faults)
    faults.settle({part: len(utterances) for part, (utterances, _) in found.items()})
    data = {}
    for part, (utterances, audio) in found.items():
        data[part] = make_data_dir(utterances, audio)
    checks.write_parts(data, output_dir, faults.options)
    return data


def check_parts(
    root: Path,
    parts: Sequence[str],
    faults: checks.Faults,
) -> dict[str, tuple[dict[str, Utterance], dict[str, Inspected]]]:
    """Read the transcripts of parts and open their audio.

    Returns part -> its utterances without a fault, and their audio.
    """
    scanned = scan_librispeech(root, parts, faults)
    files = {}
    for part in parts:
        files[part] = {key: item.audio for key, item in scanned[part].items()}
    audio = checks.check_audio_files(faults, files, SAMPLING_RATE)
    checked = {}
    for part in parts:
        checked[part] = (faults.select_faultless(part, scanned[part]), audio[part])
    return checked


def find_parts(
    corpus_dir: str | Path,
    parts: Sequence[str] | None = None,
) -> tuple[Path, list[str]]:
    """Find the folder that holds the parts, and which parts to use.

    The parts to use are the given ones, or all that exist.
    """
    corpus = checks.require_corpus(corpus_dir, ", ".join(PARTS))
    if not any(corpus.iterdir()):
        raise InputError(
            f"{corpus}: the corpus folder is empty: give the folder that holds "
            f"{', '.join(PARTS)}"
        )
    root = corpus
    is_here = any((corpus / part).is_dir() for part in PARTS)
    if not is_here and (corpus / FOLDER).is_dir():
        root = corpus / FOLDER
    present = [part for part in PARTS if (root / part).is_dir()]
    if not present:
        raise InputError(
            f"{root}: none of LibriSpeech's parts is in this folder: it should "
            f"hold {', '.join(PARTS)}"
        )
    if parts is None:
        return root, present
    require_known(parts, PARTS)
    missing = [part for part in parts if part not in present]
    if missing:
        raise InputError(
            f"{root}: it has no {', '.join(missing)}: download them, or leave "
            "them out (--parts; in a recipe, "
            "--clean_only true for those called other)"
        )
    return root, list(dict.fromkeys(parts))


def require_known(parts: Iterable[str], known: Iterable[str]) -> None:
    """Refuse parts that a corpus does not have."""
    unknown = [part for part in parts if part not in known]
    if unknown:
        raise InputError(
            f"there is no part {', '.join(map(repr, unknown))}: the parts are "
            f"{', '.join(known)}"
        )


def scan_librispeech(
    root: Path,
    parts: Sequence[str],
    faults: checks.Faults,
) -> dict[str, dict[str, Utterance]]:
    """Read the transcripts of parts and list their audio files.

    Returns part -> the utterances without a fault, sorted by id.
    """
    return {part: _scan_part(root / part, faults) for part in parts}


def _scan_part(folder: Path, faults: checks.Faults) -> dict[str, Utterance]:
    """Read the transcripts of a part; each must have audio, and each audio file one."""
    utterances: dict[str, Utterance] = {}
    files = list(checks.find_own_files(folder, faults))
    audio = {str(path) for path in files if path.suffix == ".flac"}
    listed: set[str] = set()
    for path in files:
        if path.name.endswith(".trans.txt"):
            listed |= _read_chapter(path, folder, audio, utterances, faults)
    for name in sorted(audio - listed):
        key = Path(name).stem
        faults.add(folder.name, key, f"no transcript of utterance {key} ({name})")
    if not utterances:
        faults.add(folder.name, str(folder), f"no utterances in {folder}")
    return faults.select_faultless(folder.name, dict(sorted(utterances.items())))


def _read_chapter(
    transcripts: Path,
    folder: Path,
    audio: Container[str],
    utterances: dict[str, Utterance],
    faults: checks.Faults,
) -> set[str]:
    """Add the utterances of a chapter's transcripts.

    Returns the paths of audio that the lines name.
    """
    listed: set[str] = set()
    part = folder.name
    chapter = transcripts.name.removesuffix(".trans.txt")
    # <speaker>/<chapter>/<speaker>-<chapter>.trans.txt: elsewhere, folder and id would
    # name two speakers.
    in_place = transcripts.parent == folder / chapter.replace("-", "/")
    try:
        lines = checks.read_lines(transcripts)
    except InputError as error:
        faults.add(part, str(transcripts), str(error))
        return listed
    for number, line in enumerate(lines, 1):
        if not line.strip():
            faults.ignore("blank lines", transcripts)
            continue
        key, _, text = line.partition(" ")
        text = text.strip()
        path = f"{transcripts.parent}/{key}.flac"
        # A fault of the line itself takes nothing from another utterance.
        place = f"{transcripts}:{number}"
        where = f"(line {number} of {transcripts})"
        listed.add(path)
        if not _is_of_chapter(key, chapter):
            fault = (
                f"malformed line {line.strip()[:60]!r}, not '{chapter}-<number> <text>'"
            )
            faults.add(part, place, f"{fault} {where}")
        elif key in utterances:
            faults.add(part, place, f"utterance {key} comes twice {where}")
        elif not text:
            faults.add(part, key, f"empty transcript of {key} {where}")
        else:
            utterances[key] = Utterance(Path(path), text)
            if path not in audio:
                faults.add(part, key, f"no audio file {path} for utterance {key}")
            elif not in_place:
                fault = f"utterance {key} is in the wrong folder ({path})"
                faults.add(part, key, fault)
    return listed


def _is_of_chapter(key: str, chapter: str) -> bool:
    """Return whether an id is ``<speaker>-<chapter>-<number>``."""
    beginning = f"{chapter}-"
    return key.startswith(beginning) and key.removeprefix(beginning).isalnum()


def make_data_dir(
    utterances: Mapping[str, Utterance],
    audio: Mapping[str, Inspected],
) -> DataDir:
    """Make a data dir of a part."""
    # Lhotse's own recipe, with which it agrees, opens each file again without checks.
    paths = {key: item.audio for key, item in utterances.items()}
    texts = {key: item.text for key, item in utterances.items()}
    speakers = {key: key.partition("-")[0] for key in utterances}
    return checks.make_data_dir_of_files(paths, audio, texts, speakers, "English")
