"""LibriSpeech (https://www.openslr.org/12) and what has its layout: download, checks, Lhotse manifests."""

import os
import shutil
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from espnet_ext.corpora.checks import check_utterances, raise_faults
from espnet_ext.corpora.download import download, unpack
from espnet_ext.data.manifests import Manifests, checked_manifests, write_parts
from espnet_ext.errors import InputError
from espnet_ext.work.files import files_below

SAMPLING_RATE = 16000
FOLDER = "LibriSpeech"  # the archives' top folder
LM_TEXT = "librispeech-lm-norm.txt.gz"
BASE_URL = "https://www.openslr.org/resources"

# Part -> MD5 of its archive, from https://www.openslr.org/resources/12/md5sum.txt
PARTS = {
    "train-clean-100": "2a93770f6d5c6c964bc36631d331a522",
    "train-clean-360": "c0e676e450a7ff2f54aeade5171606fa",
    "train-other-500": "d1a0fd59409feb2c614ce4d30c387708",
    "dev-clean": "42e2234ba48799c1f50f24a7926300a1",
    "dev-other": "c8d0bcc9cca99d4f8b62fcc847357931",
    "test-clean": "32fa31d27d2e1cad72775fee3f4849a9",
    "test-other": "fb5a50374b501bb3bac4815ee91d3135",
}
# openslr.org/11 publishes no sum; several projects list this one.
LM_TEXT_MD5 = "c83c64c726a1aedfe65f80aa311de402"


@dataclass(frozen=True)
class Utterance:
    """An utterance on disk."""

    audio: Path
    text: str


def download_librispeech(
    target: str | Path, parts: Sequence[str] = tuple(PARTS), *, lm_text: bool = True, base_url: str = BASE_URL
) -> Path:
    """Download parts of LibriSpeech and unpack them to ``<target>/LibriSpeech``. An interrupted download resumes.

    A part whose folder exists is left as it is. The archives stay in ``target``. Lhotse's ``download_librispeech`` is
    not used, because it checks no sums and unpacks straight into the corpus.

    Args:
        target: Folder for the archives and the corpus.
        parts: Keys of ``PARTS``.
        lm_text: Also get the language-model text, 1.5 GB, into the corpus folder.
        base_url: A mirror of https://www.openslr.org/resources.

    Returns:
        The corpus folder, ``<target>/LibriSpeech``.

    Raises:
        InputError: Unknown part, no connection, a wrong sum, or an archive that reaches outside its folder. Nothing of
            such an archive is unpacked.
    """
    _require_known(parts)
    target = Path(target)
    corpus = target / FOLDER
    for part in parts:
        if not (corpus / part).is_dir():
            name = f"{part}.tar.gz"
            _unpack_part(download(f"{base_url}/12/{name}", target / name, PARTS[part]), part, corpus)
    if lm_text:
        download(f"{base_url}/11/{LM_TEXT}", corpus / LM_TEXT, LM_TEXT_MD5)
    return corpus


def _unpack_part(archive: Path, part: str, corpus: Path) -> None:
    """Unpack beside the corpus, then move what the archive holds into it, the part's folder last."""
    unpacked = corpus.with_name(f".{FOLDER}.{part}")
    shutil.rmtree(unpacked, ignore_errors=True)
    unpack(archive, unpacked)
    try:
        if not (unpacked / FOLDER / part).is_dir():
            raise InputError(f"{archive}: there is no {FOLDER}/{part} in it: remove it to download it again")
        corpus.mkdir(parents=True, exist_ok=True)
        for path in sorted((unpacked / FOLDER).iterdir()):
            if path.is_file():
                os.replace(path, corpus / path.name)
        os.rename(unpacked / FOLDER / part, corpus / part)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def prepare_librispeech(
    corpus_dir: str | Path,
    output_dir: str | Path | None = None,
    parts: Sequence[str] | None = None,
    num_jobs: int = 1,
    check_audio: str = "auto",
) -> dict[str, Manifests]:
    """Check a corpus in LibriSpeech's layout, and make its Lhotse manifests.

    Args:
        corpus_dir: The folder that holds ``train-clean-100`` and so on, or the one above it.
        output_dir: Where ``librispeech_recordings_<part>.jsonl.gz`` and ``librispeech_supervisions_<part>.jsonl.gz`` go
            (None: nowhere). They are written when no part has a fault.
        parts: The parts to prepare (None: those that exist).
        num_jobs: Threads.
        check_audio: ``full`` decodes all audio, ``header`` reads headers only, ``auto`` chooses by the number of files.

    Returns:
        Part -> ``recordings`` and ``supervisions``, sorted by utterance id.

    Raises:
        InputError: The folder or a part is missing, or there is a fault in a transcript or in audio (see
            :func:`scan_librispeech` and :func:`espnet_ext.data.audio_files.audio_faults`). Nothing has been written.
    """
    root, parts = find_parts(corpus_dir, parts)
    scanned = scan_librispeech(root, parts)
    files = [(key, utterance.audio) for part in parts for key, utterance in scanned[part].items()]
    what = f"{len(files):,} utterances in {', '.join(parts)}"
    check_utterances(root, files, SAMPLING_RATE, check_audio, num_jobs, what)
    manifests = {part: _manifests(root / part, scanned[part], num_jobs) for part in parts}
    if output_dir is not None:
        write_parts("librispeech", manifests, Path(output_dir))
    return manifests


def find_parts(corpus_dir: str | Path, parts: Sequence[str] | None = None) -> tuple[Path, list[str]]:
    """Find the folder that holds the parts, and which parts to use: the given ones, or all that exist.

    Raises:
        InputError: The folder is missing or empty, holds no part, or lacks a given one.
    """
    corpus = Path(os.path.abspath(corpus_dir))
    if not corpus.is_dir():
        raise InputError(f"{corpus}: no such corpus folder: give the folder that holds {', '.join(PARTS)}")
    if not any(corpus.iterdir()):
        raise InputError(f"{corpus}: the corpus folder is empty: give the folder that holds {', '.join(PARTS)}")
    root = corpus / FOLDER if (corpus / FOLDER).is_dir() and not _present(corpus) else corpus
    present = _present(root)
    if not present:
        raise InputError(f"{root}: none of LibriSpeech's parts is in this folder: it should hold {', '.join(PARTS)}")
    if parts is None:
        return root, present
    _require_known(parts)
    missing = [part for part in parts if part not in present]
    if missing:
        raise InputError(
            f"{root}: it has no {', '.join(missing)}: download them, or leave them out (--parts; in a recipe, "
            "train_parts in conf/<scale>.yaml)"
        )
    return root, list(dict.fromkeys(parts))


def _present(folder: Path) -> list[str]:
    return [part for part in PARTS if (folder / part).is_dir()]


def _require_known(parts: Iterable[str]) -> None:
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise InputError(f"LibriSpeech has no part {', '.join(map(repr, unknown))}: its parts are {', '.join(PARTS)}")


def scan_librispeech(root: Path, parts: Sequence[str]) -> dict[str, dict[str, Utterance]]:
    """Read the transcripts and list the audio files of parts, without opening audio.

    Returns:
        Part -> utterance id -> utterance, sorted by id.

    Raises:
        InputError: A part without utterances, a malformed line, an empty transcript, an id that comes twice in a part,
            a transcript without audio or the reverse. The first few are named, with their files.
    """
    faults: list[str] = []
    scanned = {part: _scan_part(root / part, faults) for part in parts}
    raise_faults(root, faults)
    return scanned


def _scan_part(folder: Path, faults: list[str]) -> dict[str, Utterance]:
    utterances: dict[str, Utterance] = {}
    files = list(files_below(folder))
    audio = {path for path in files if path.suffix == ".flac"}
    listed: set[Path] = set()
    # only folders have names without a suffix: a speaker's or a chapter's
    faults += [f"{path} links to nothing" for path in files if not path.suffix and not path.exists()]
    for transcripts in (path for path in files if path.name.endswith(".trans.txt")):
        for number, line in enumerate(_lines(transcripts, faults), 1):
            key, _, text = line.partition(" ")
            path = transcripts.parent / f"{key}.flac"
            listed.add(path)
            fault = _line_fault(key, text.strip(), transcripts, utterances)
            if fault:
                faults.append(f"{fault} (line {number} of {transcripts})")
                continue
            utterances[key] = Utterance(path, text.strip())
            if path not in audio:
                faults.append(f"no audio file {path} for utterance {key}")
    faults += [f"no transcript of utterance {path.stem} ({path})" for path in sorted(audio - listed)]
    if not utterances and not faults:
        faults.append(f"no utterances in {folder}")
    return dict(sorted(utterances.items()))


def _lines(path: Path, faults: list[str]) -> Iterator[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        faults.append(f"{path} is not UTF-8 text")
        return
    yield from text.removesuffix("\n").split("\n")


def _line_fault(key: str, text: str, transcripts: Path, seen: Container[str]) -> str | None:
    """The fault of a line ``<speaker>-<chapter>-<number> <text>`` of a chapter's transcript file, if it has one."""
    chapter = transcripts.name.removesuffix(".trans.txt")
    if not key.startswith(f"{chapter}-") or not key.removeprefix(f"{chapter}-").isalnum():
        return f"malformed line {f'{key} {text}'.strip()[:60]!r}, not '{chapter}-<number> <text>'"
    if key in seen:
        return f"utterance {key} comes twice"
    if not text:
        return f"empty transcript of {key}"
    return None


def _manifests(folder: Path, utterances: Mapping[str, Utterance], num_jobs: int) -> Manifests:
    """A part's manifests. Lhotse reads each utterance, but does not search for them: its search follows no links."""
    from lhotse.recipes.librispeech import parse_utterance

    with ThreadPoolExecutor(num_jobs) as threads:
        lines = (f"{key} {utterance.text}" for key, utterance in utterances.items())
        parsed = list(threads.map(lambda line: parse_utterance(folder, line, {}), lines))
    # Lhotse skips what does not lie at <speaker>/<chapter>/<speaker>-<chapter>-<number>.flac.
    lost = [key for key, found in zip(utterances, parsed, strict=True) if found is None]
    raise_faults(folder, [f"utterance {key} is in the wrong folder" for key in lost])
    recordings, supervisions = zip(*parsed, strict=True)
    return checked_manifests(recordings, supervisions, folder)
