"""Prepare the code-switching corpus of the ASRU 2019 challenge (P1, 4.1).

It is Mandarin-English (arXiv:2007.05916), with LibriSpeech. The corpus cannot be
downloaded; :mod:`espnet_ext.corpora.code_switching` says what takes its place. A part's
folder is a Kaldi data dir, or holds audio files in folders of any depth, with lists of
lines "<utterance> <text>" (``text`` or ``*trans*.txt``), or else with one
<utterance>.txt for each audio file. A file utt2spk names the speakers; without one,
they come from ids such as T0055G0013S0001 (task T0055, speaker G0013), or else from
folders. Audio is 16 kHz, mono.
"""

import dataclasses
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.audio.files import Inspected
from espnet_ext.corpora import librispeech
from espnet_ext.corpora.checks import (
    ADVICE,
    SHOWN,
    Faults,
    Options,
    check_audio_files,
    require_corpus,
    write_parts,
)
from espnet_ext.corpora.code_switching import (
    LAYOUTS,
    MANDARIN,
    VALID,
    find_part_folder,
    scan_part,
)
from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.checks import (
    find_late_segments,
    find_utterance_faults,
    raise_problems,
    validate,
)
from espnet_ext.kaldi.cut_recordings import cut_segments
from espnet_ext.kaldi.data_dir import (
    DataDir,
    format_seconds,
    parse_segment_recording,
    read_data_dir,
    refuse_commands,
)
from espnet_ext.kaldi.parts import keep_utterances
from espnet_ext.text.mixed_text import detect_language
from espnet_ext.text.rules import MANDARIN_ENGLISH
from espnet_ext.work.files import write_json

SAMPLING_RATE = 16000  # Hz
# Part -> the language of text that is in neither script (only digits).
PARTS = {"train-cs": "cs", "train-zh": "zh", "dev": "cs", "test": "cs", VALID: "cs"}
ENGLISH_PARTS = ("train-clean-100", "train-clean-360")
ALL_PARTS = (*PARTS, *ENGLISH_PARTS)
RULES = MANDARIN_ENGLISH
RULES_FILE = "text_rules.json"


def prepare_asru2019(
    corpus_dir: str | Path,
    output_dir: str | Path,
    parts: Sequence[str] | None = None,
    *,
    layout: str = "asru2019",
    folders: Mapping[str, str | Path] | None = None,
    mandarin_dir: str | Path | None = None,
    librispeech_dir: str | Path | None = None,
    **options: Any,
) -> dict[str, DataDir]:
    """Check the corpus and its English part, and write a data dir of each part.

    All text goes through :data:`RULES`, and its scripts decide its language. Utterances
    whose text holds only noise marks and punctuation are left out, and named on the
    terminal. Recordings with ``segments`` are cut to a file for each utterance, in
    ``asru2019_audio/`` of the output.

    Args:
        parts: Those wanted; None: all that exist.
        layout: Whose layout ``corpus_dir`` has, one of
            :data:`espnet_ext.corpora.code_switching.LAYOUTS`.
        folders: Part -> its folder, for those of ``PARTS`` that do not lie where the
            layout has them.
        mandarin_dir: The Mandarin part: AISHELL-1, aidatatang_200zh or another folder,
            in place of ``train-zh``.
        librispeech_dir: LibriSpeech, if it does not lie at
            ``<corpus_dir>/LibriSpeech``.
        options: :class:`~espnet_ext.corpora.checks.Options`.
    """
    # A folder that is named for the part itself comes before ``mandarin_dir``.
    named: dict[str, str | Path] = {}
    if mandarin_dir:
        named[MANDARIN] = mandarin_dir
    named |= folders or {}
    found = find_folders(corpus_dir, parts, named, librispeech_dir, layout)
    output = Path(output_dir)
    cuts = output / "asru2019_audio"
    faults = Faults(corpus_dir, output / "asru2019_faults.txt", Options(**options))
    mixed = {part: folder for part, folder in found.items() if part in PARTS}
    scanned = scan_asru2019(mixed, faults, cuts)
    files = {}
    for part, data in scanned.items():
        files[part] = {key: Path(path) for key, path in sorted(data.wav_scp.items())}
    audio = check_audio_files(faults, files, SAMPLING_RATE) if files else {}
    for part, data in scanned.items():
        _check_segments(data, part, found[part], audio[part], faults)
    english = [part for part in found if part in ENGLISH_PARTS]
    checked = {}
    if english:
        root = found[english[0]].parent
        checked = librispeech.check_parts(root, english, faults)
    # All faults of all parts are known before the first file is written.
    counts = {}
    for part, data in scanned.items():
        counts[part] = len(faults.select_faultless(part, data.utt2spk))
    for part, (utterances, _) in checked.items():
        counts[part] = len(utterances)
    faults.settle(counts)
    made = {}
    for part, data in scanned.items():
        made[part] = _keep_faultless(data, part, audio[part], faults, cuts)
    for part, (utterances, sounds) in checked.items():
        data = librispeech.make_data_dir(utterances, sounds)
        made[part] = _apply_rules(data, part, found[part], "en")
    write_parts(made, output, faults.options)
    write_json(output / RULES_FILE, RULES.record)
    say(f"text rules: {', '.join(RULES.record['rules'])} ({RULES.name})")
    return made


def _check_segments(
    data: DataDir,
    part: str,
    folder: Path,
    audio: Mapping[str, Inspected],
    faults: Faults,
) -> None:
    """Pass faults of recordings and segments on to their utterances."""
    spoken = defaultdict(list)
    for key, segment in (data.segments or {}).items():
        spoken[parse_segment_recording(segment)].append(key)
    for recording, keys in spoken.items():
        faults.pass_on(part, recording, keys)
    # Segments are checked against the audio, not against a table of lengths.
    lengths = {key: format_seconds(each.seconds) for key, each in audio.items()}
    true = dataclasses.replace(data, reco2dur=lengths)
    for file, what, key in find_utterance_faults(true):
        if file == "segments":
            faults.add(part, key, f"{what} {key} ({folder})")
    # A segment that ends a little after its audio is cut there, as Kaldi does.
    for problem in find_late_segments(true):
        say(f"warning: {folder}/{problem}")


def _keep_faultless(
    data: DataDir,
    part: str,
    audio: Mapping[str, Inspected],
    faults: Faults,
    cuts: Path,
) -> DataDir:
    """Keep the utterances without a fault, each with an audio file of its own."""
    kept = set()
    for key in faults.select_faultless(part, data.utt2spk):
        recording = key
        if data.segments:
            recording = parse_segment_recording(data.segments[key])
        if recording in audio:
            kept.add(key)
    good = keep_utterances(data, kept)
    if good.segments:
        return cut_segments(good, cuts / part, faults.options.num_jobs)
    durations = {key: format_seconds(audio[key].seconds) for key in good.utt2spk}
    return dataclasses.replace(good, utt2dur=durations)


def find_folders(
    corpus_dir: str | Path,
    parts: Sequence[str] | None = None,
    folders: Mapping[str, str | Path] | None = None,
    librispeech_dir: str | Path | None = None,
    layout: str = "asru2019",
) -> dict[str, Path]:
    """Find the folder of each part: of the given ones, or of all that are there.

    Those named in ``folders`` must be there.
    """
    if layout not in LAYOUTS:
        raise InputError(
            f"there is no layout '{layout}': the layouts are {', '.join(LAYOUTS)}"
        )
    folders = folders or {}
    librispeech.require_known(parts or (), ALL_PARTS)
    librispeech.require_known(folders, tuple(PARTS))
    places = LAYOUTS[layout]
    holds = ", ".join(own[0] for part, own in places.items() if part != VALID)
    corpus = require_corpus(corpus_dir, holds)
    # What a layout lacks is not looked for, such as ``valid``, which only SEAME has.
    known = {*places, MANDARIN, *folders, *(parts or ())}
    paths = {}
    for part in PARTS:
        if part in known:
            folder = folders.get(part, find_part_folder(layout, corpus, part))
            paths[part] = Path(os.path.abspath(folder))
    # LibriSpeech's archives unpack into a folder LibriSpeech; either that or the one
    # above it may be given.
    english = Path(os.path.abspath(librispeech_dir or corpus))
    if not any((english / part).is_dir() for part in ENGLISH_PARTS):
        english /= librispeech.FOLDER
    for part in ENGLISH_PARTS:
        paths[part] = english / part
    present = [part for part, path in paths.items() if path.exists()]
    # What is there is used without being asked for; what is named must be there.
    named = {*folders, *(ENGLISH_PARTS if librispeech_dir else ())}
    usual = [part for part in paths if part in present or part in named]
    wanted = list(dict.fromkeys(parts or usual))
    missing = [f"{part} ({paths[part]})" for part in wanted if part not in present]
    there = "none of the corpus's parts was found"
    if present:
        there = f"found {', '.join(present)}"
    if missing:
        raise InputError(
            f"{corpus}: no folder for {', '.join(missing)}; {there}: name it, or "
            "leave it out"
        )
    if not wanted:
        raise InputError(
            f"{corpus}: {there}: it should hold {holds} and {librispeech.FOLDER}"
        )
    return {part: paths[part] for part in wanted}


def scan_asru2019(
    folders: Mapping[str, Path],
    faults: Faults,
    cuts: Path,
) -> dict[str, DataDir]:
    """Read the transcripts and list the audio files of parts, those without a fault.

    The rules are applied to the text.
    """
    scanned = {}
    for part, folder in folders.items():
        if (folder / "wav.scp").is_file():
            given = read_data_dir(folder)
            raise_problems(folder, validate(given))
            # A pipe of a stranger's data dir would run whatever it says.
            refuse_commands(folder / "wav.scp", given.wav_scp)
            paths = {
                key: os.path.abspath(value) for key, value in given.wav_scp.items()
            }
            # Without the other tables, which are made anew.
            data = DataDir(
                wav_scp=paths,
                utt2spk=given.utt2spk,
                text=given.text,
                segments=given.segments,
            )
        else:
            data = scan_part(folder, part, faults, cuts / part / "recordings")
        scanned[part] = _apply_rules(data, part, folder, PARTS[part])
    return scanned


def _apply_rules(data: DataDir, part: str, folder: Path, default: str) -> DataDir:
    """Apply the rules to the texts.

    Utterances whose text becomes empty are left out, and named.
    """
    texts = {key: RULES(text) for key, text in (data.text or {}).items()}
    empty = [key for key, text in texts.items() if not text]
    if empty:
        more = f" and {len(empty) - SHOWN:,} more" if len(empty) > SHOWN else ""
        say(
            f"{part}: left out {', '.join(empty[:SHOWN])}{more}: no word in the "
            "transcript",
        )
    texts = {key: text for key, text in texts.items() if text}
    if data.utt2spk and not texts:
        raise InputError(f"{folder}: no transcript contains a word: {ADVICE}")
    languages = {key: detect_language(text, default) for key, text in texts.items()}
    return dataclasses.replace(
        keep_utterances(data, set(texts)), text=texts, utt2lang=languages
    )
