"""The Mandarin-English code-switching corpus of the ASRU 2019 challenge (arXiv:2007.05916), with LibriSpeech (P1, 4.1).

The challenge's corpus was given to its participants and cannot be downloaded. Its folder is read as delivered, or with
one folder for each part:

    train-cs, or ZH+EN-200h      code-switching training speech (P1: 200 h)
    train-zh, or ZH-500h         Mandarin training speech (P1: 500 h)
    dev, test, or ASRU-DEV, ASRU-TEST    code-switching speech (P1: 20 h each)
    LibriSpeech/train-clean-100, LibriSpeech/train-clean-360    English (P1: 460 h)

Other corpora that people can get take its place: --layout talcs (TAL-CSASR), seame or ascend, in their own folders,
with AISHELL-1 or aidatatang_200zh as the Mandarin part (--mandarin). SEAME has two test sets: dev is its dev_man, and
test its dev_sge.

Folders with other names or places can be given one by one, and so can LibriSpeech. A part's folder is either

- a Kaldi data dir: wav.scp, text, utt2spk, and segments if necessary. Recordings with segments are cut to a file for
  each utterance, in the folder of the manifests. Commands in wav.scp (sph2pipe) run with --allow-pipes only; or
- audio files <utterance>.wav (or .flac, .mp3 ...) in folders of any depth, with lists of lines "<utterance> <text>"
  in files called "text" or "*trans*.txt", or otherwise with one <utterance>.txt for each audio file. A file utt2spk in
  the part's folder names the speakers; without one, they come from ids such as T0055G0013S0001 (task T0055, speaker
  G0013), or else from the folder that the audio is in, if the utterance's id holds its name.

Audio is 16 kHz with one channel. All text goes through the same named rules: half-width forms, no noise marks, upper
case, no punctuation except the apostrophe inside a word, no space beside a Han character. The scripts in an
utterance's text decide its language: zh, en or cs.
"""

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from espnet_ext.audio.files import Inspected
from espnet_ext.codeswitch.mixed_text import language_of
from espnet_ext.codeswitch.text_rules import MANDARIN_ENGLISH
from espnet_ext.corpora import librispeech
from espnet_ext.corpora.checks import check_audio_files
from espnet_ext.corpora.code_switching import LAYOUTS, MANDARIN, part_folder, scan_part
from espnet_ext.corpora.faults import ADVICE, SHOWN, Faults, faults_file
from espnet_ext.corpora.manifests import Manifests, checked_manifests, from_data_dir, write_parts
from espnet_ext.errors import InputError
from espnet_ext.kaldi.checks import raise_problems, validate
from espnet_ext.kaldi.cut_recordings import cut_segments, run_commands, segment_faults
from espnet_ext.kaldi.data_dir import DataDir, read_data_dir, segment_recording
from espnet_ext.kaldi.parts import restrict
from espnet_ext.work.files import write_json

SAMPLING_RATE = 16000
# Part -> the language of text that is in neither script (only digits).
PARTS = {"train-cs": "cs", "train-zh": "zh", "dev": "cs", "test": "cs"}
ENGLISH_PARTS = ("train-clean-100", "train-clean-360")
ALL_PARTS = (*PARTS, *ENGLISH_PARTS)
RULES = MANDARIN_ENGLISH
RULES_FILE = "text_rules.json"


def prepare_asru2019(
    corpus_dir: str | Path,
    output_dir: str | Path | None = None,
    parts: Sequence[str] | None = None,
    *,
    layout: str = "asru2019",
    folders: Mapping[str, str | Path] | None = None,
    mandarin_dir: str | Path | None = None,
    librispeech_dir: str | Path | None = None,
    allow_pipes: bool = False,
    num_jobs: int = 1,
    check_audio: str = "auto",
    skip_faulty: float = 0.0,
) -> dict[str, Manifests]:
    """Check the corpus and its English part, and make their Lhotse manifests.

    Utterances whose text holds only noise marks and punctuation are left out, and named on the terminal.

    Args:
        corpus_dir: The folder that holds ``train-cs`` and so on (see the module's description).
        output_dir: Where ``asru2019_recordings_<part>.jsonl.gz``, ``asru2019_supervisions_<part>.jsonl.gz`` and
            ``text_rules.json`` go (None: nowhere), and ``asru2019_faults.txt`` with all faults, if there are any.
        parts: The parts to prepare, some of ``ALL_PARTS`` (None: those that exist).
        layout: Whose layout ``corpus_dir`` has, one of :data:`espnet_ext.corpora.code_switching.LAYOUTS`.
        folders: Part -> its folder, for those of ``PARTS`` that do not lie where the layout has them.
        mandarin_dir: The Mandarin part: AISHELL-1, aidatatang_200zh or another folder, in place of ``train-zh``.
        librispeech_dir: LibriSpeech, if it does not lie at ``<corpus_dir>/LibriSpeech``.
        allow_pipes: Run the commands in the ``wav.scp`` of a Kaldi data dir, which may do anything.
        num_jobs, check_audio, skip_faulty: See :func:`espnet_ext.corpora.librispeech.prepare_librispeech`.

    Returns:
        Part -> ``recordings`` and ``supervisions``, sorted by id.

    Raises:
        InputError: A folder is missing, or there are more faults in transcripts or audio than ``skip_faulty`` allows.
            No manifest has been written.
    """
    folders = {**({MANDARIN: mandarin_dir} if mandarin_dir else {}), **(folders or {})}
    found = find_folders(corpus_dir, parts, folders, librispeech_dir, layout)
    faults = Faults(corpus_dir, faults_file(output_dir, "asru2019"), skip_faulty)
    cuts = Path(output_dir) / "audio" if output_dir is not None else None
    mixed = {part: folder for part, folder in found.items() if part in PARTS}
    scanned = scan_asru2019(mixed, faults, cuts, allow_pipes, num_jobs)
    files = {part: [(key, Path(path)) for key, path in sorted(data.wav_scp.items())] for part, data in scanned.items()}
    audio = check_audio_files(faults, files, SAMPLING_RATE, check_audio, num_jobs) if files else {}
    for part, data in scanned.items():
        for recording, keys in _utterances(data).items():
            faults.pass_on(part, recording, keys)
        for key, fault in segment_faults(data, audio[part]).items():
            faults.add(part, key, f"{fault} ({found[part]})")
    english = [part for part in found if part in ENGLISH_PARTS]
    root = found[english[0]].parent if english else Path()
    prepared = librispeech.check_parts(root, english, faults, num_jobs, check_audio) if english else {}
    faults.settle(
        {part: len(faults.sound(part, data.utt2spk)) for part, data in scanned.items()}
        | {part: len(kept) for part, (kept, _) in prepared.items()}
    )
    manifests = {}
    for part, data in scanned.items():
        heard = _heard(data, audio[part], faults.sound(part, data.utt2spk))
        if heard.segments and cuts:
            heard = cut_segments(heard, cuts / part, num_jobs)
        manifests[part] = checked_manifests(*from_data_dir(heard, audio[part]), found[part])
    for part, (utterances, english_audio) in prepared.items():
        sets = librispeech.make_manifests(found[part], utterances, english_audio)
        manifests[part] = _english_manifests(sets, found[part])
    if output_dir is not None:
        write_parts("asru2019", manifests, Path(output_dir))
        write_json(Path(output_dir) / RULES_FILE, RULES.record)
        print(f"text rules: {', '.join(RULES.record['rules'])} ({RULES.name})")
    return manifests


def find_folders(
    corpus_dir: str | Path,
    parts: Sequence[str] | None = None,
    folders: Mapping[str, str | Path] | None = None,
    librispeech_dir: str | Path | None = None,
    layout: str = "asru2019",
) -> dict[str, Path]:
    """Find the folder of each part: of the given ones, or of all that exist or are named.

    Raises:
        InputError: An unknown layout or part; a folder is missing. The message names it, and the parts that exist.
    """
    if layout not in LAYOUTS:
        raise InputError(f"there is no layout '{layout}': the layouts are {', '.join(LAYOUTS)}")
    corpus = Path(os.path.abspath(corpus_dir))
    folders = folders or {}
    _require_known(parts or (), ALL_PARTS)
    _require_known(folders, tuple(PARTS))
    holds = ", ".join(places[0] for places in LAYOUTS[layout].values())
    if not corpus.is_dir():
        raise InputError(f"{corpus}: no such corpus folder: give the folder that holds {holds}")
    paths = {part: Path(os.path.abspath(folders.get(part, part_folder(layout, corpus, part)))) for part in PARTS}
    # LibriSpeech's archives unpack into a folder LibriSpeech; either that or the one above it may be given.
    english = Path(os.path.abspath(librispeech_dir or corpus))
    if not any((english / part).is_dir() for part in ENGLISH_PARTS):
        english /= librispeech.FOLDER
    paths |= {part: english / part for part in ENGLISH_PARTS}
    present = [part for part, path in paths.items() if path.exists()]
    named = {*folders, *(ENGLISH_PARTS if librispeech_dir else ())}
    wanted = list(dict.fromkeys(parts or (part for part in paths if part in present or part in named)))
    missing = [f"{part} ({paths[part]})" for part in wanted if part not in present]
    there = f"found {', '.join(present)}" if present else "none of the corpus's parts was found"
    if missing:
        raise InputError(f"{corpus}: no folder for {', '.join(missing)}; {there}: name it, or leave it out")
    if not wanted:
        raise InputError(f"{corpus}: {there}: it should hold {holds} and {librispeech.FOLDER}")
    return {part: paths[part] for part in wanted}


def _require_known(parts: Iterable[str], known: Sequence[str]) -> None:
    unknown = [part for part in parts if part not in known]
    if unknown:
        raise InputError(f"there is no part {', '.join(map(repr, unknown))}: the parts are {', '.join(known)}")


def scan_asru2019(
    folders: Mapping[str, Path],
    faults: Faults,
    cuts: Path | None = None,
    allow_pipes: bool = False,
    num_jobs: int = 1,
) -> dict[str, DataDir]:
    """Read the transcripts and list the audio files of parts, without opening audio; apply the rules to the text.

    Faults are those of :func:`espnet_ext.corpora.audio_folder.scan_audio_folder`. Commands in ``wav.scp`` are run if
    they are allowed, and what they print goes to ``cuts / part / recordings`` (None: they are refused).

    Returns:
        Part -> its recordings, speakers, texts and languages; those without a fault.

    Raises:
        InputError: A data dir whose tables do not fit each other, or with commands in ``wav.scp``; no transcript of a
            part contains a word.
    """
    scanned = {}
    for part, folder in folders.items():
        if (folder / "wav.scp").is_file():
            data = _scan_data_dir(folder, cuts and cuts / part / "recordings", allow_pipes, num_jobs)
        else:
            data = scan_part(folder, part, faults)
        scanned[part] = _with_rules(data, part, folder)
    return scanned


def _scan_data_dir(folder: Path, made: Path | None, allow_pipes: bool, num_jobs: int) -> DataDir:
    data = read_data_dir(folder)
    raise_problems(folder, validate(data))
    data = run_commands(data, made or Path(), folder, allow_pipes and made is not None, num_jobs)
    paths = {key: os.path.abspath(value) for key, value in data.wav_scp.items()}
    return DataDir(wav_scp=paths, utt2spk=data.utt2spk, text=data.text, segments=data.segments)


def _with_rules(data: DataDir, part: str, folder: Path) -> DataDir:
    texts = _ruled(data.text, part)
    if data.utt2spk and not texts:
        raise InputError(f"{folder}: no transcript contains a word: {ADVICE}")
    languages = {key: language_of(text, PARTS[part]) for key, text in texts.items()}
    return dataclasses.replace(restrict(data, set(texts)), text=texts, utt2lang=languages)


def _ruled(texts: Mapping[str, str] | None, part: str) -> dict[str, str]:
    """Apply the rules. Leave out the utterances whose text becomes empty, and name them."""
    ruled = {key: RULES(text) for key, text in (texts or {}).items()}
    empty = [key for key, text in ruled.items() if not text]
    if empty:
        more = f" and {len(empty) - SHOWN:,} more" if len(empty) > SHOWN else ""
        print(f"{part}: left out {', '.join(empty[:SHOWN])}{more}: no word in the transcript", flush=True)
    return {key: text for key, text in ruled.items() if text}


def _utterances(data: DataDir) -> dict[str, list[str]]:
    """The utterances of each recording, where recordings are cut into them."""
    found: dict[str, list[str]] = {}
    for key, segment in (data.segments or {}).items():
        found.setdefault(segment_recording(segment), []).append(key)
    return found


def _heard(data: DataDir, audio: Mapping[str, Inspected], sound: Iterable[str]) -> DataDir:
    """The utterances without faults whose recordings have good audio."""
    recordings = {key: segment_recording(data.segments[key]) if data.segments else key for key in sound}
    return restrict(data, {key for key, name in recordings.items() if name in audio})


def _english_manifests(sets: Manifests, folder: Path) -> Manifests:
    texts = _ruled({item.id: item.text for item in sets["supervisions"]}, folder.name)
    supervisions = [
        dataclasses.replace(item, text=texts[item.id], language=language_of(texts[item.id], "en"))
        for item in sets["supervisions"]
        if item.id in texts
    ]
    recordings = [item for item in sets["recordings"] if item.id in texts]
    return checked_manifests(recordings, supervisions, folder)
