"""Prepare a folder of Kaldi data dirs, in place of a corpus.

They are ``train``, ``dev``, and test sets of any name. As in Kaldi, a relative path in
``wav.scp`` is meant from the folder above that of the data dirs.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from espnet_ext.corpora import checks
from espnet_ext.errors import InputError
from espnet_ext.kaldi.checks import (
    Problem,
    find_utterance_faults,
    raise_problems,
    scan_data_dir,
    validate_scan,
)
from espnet_ext.kaldi.cut_recordings import cut_segments
from espnet_ext.kaldi.data_dir import (
    DataDir,
    format_seconds,
    parse_segment_recording,
    refuse_commands,
)
from espnet_ext.kaldi.parts import keep_utterances

TRAIN = "train"
DEV = "dev"
SAMPLING_RATE = 16000  # Hz
# What a run writes beside its data dirs.
RESERVED = re.compile(
    r"log|corpus|average|audio|english|(profiles|tokens|voices|train).*"
)


def find_test_sets(folder: str | Path, more: Sequence[str] = ()) -> list[str]:
    """Find the names of the test sets in a folder of data dirs.

    ``more`` may be there to train on. Raises InputError: there is none, or ``train`` or
    ``dev`` is missing.
    """
    folder = checks.require_corpus(folder, f"data dirs {TRAIN}, {DEV} and test sets")
    names = sorted(path.parent.name for path in folder.glob("*/wav.scp"))
    for name in (TRAIN, DEV):
        if name not in names:
            raise InputError(
                f"{folder}: there is no data dir {name} in it (a folder with wav.scp, "
                "text and utt2spk)"
            )
    tests = [name for name in names if name not in (TRAIN, DEV, *more)]
    if not tests:
        raise InputError(
            f"{folder}: there is no test set in it: add a data dir of any name "
            f"beside {TRAIN} and {DEV}"
        )
    check_test_set_names(folder, tests)
    return tests


def check_test_set_names(folder: Path, names: Iterable[str]) -> None:
    """Check the names of test sets in a folder, which become columns and file names.

    Raises InputError: a name has other characters, or a run has its own use for it.
    """
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]*", name):
            raise InputError(
                f"{folder / name}: rename it: take letters, digits and . _ + -"
            )
        if RESERVED.fullmatch(name):
            raise InputError(
                f"{folder / name}: a test set cannot have this name: rename it"
            )


def prepare_data_dirs(
    corpus_dir: str | Path,
    output_dir: str | Path,
    parts: Sequence[str],
    rate: int | None = SAMPLING_RATE,
    **options: Any,
) -> dict[str, DataDir]:
    """Check data dirs, and write them with one audio file for each utterance.

    Utterances of ``segments`` are cut. All faults go to ``data_faults.txt``; nothing is
    written if there are more than ``options`` allow.
    """
    folder = Path(os.path.abspath(corpus_dir))
    output = Path(output_dir)
    listed = output / "data_faults.txt"
    faults = checks.Faults(folder, listed, checks.Options(**options))
    found = {part: read_part(folder, part, faults) for part in parts}
    files = {}
    for part, data in found.items():
        files[part] = {name: Path(path) for name, path in data.wav_scp.items()}
    audio = checks.check_audio_files(faults, files, rate)
    for part, data in found.items():
        if data.segments is not None:
            for recording, utterances in _group_by_recording(data).items():
                faults.pass_on(part, recording, utterances)
    faultless = {}
    for part, data in found.items():
        faultless[part] = faults.select_faultless(part, data.utt2spk)
    faults.settle({part: len(kept) for part, kept in faultless.items()})
    made = {}
    for part, kept in faultless.items():
        if not kept:
            raise InputError(f"{folder / part}: no utterance is left")
        data = keep_utterances(found[part], set(kept))
        if data.segments is not None:
            cut = output / "audio" / part
            data = cut_segments(data, cut, faults.options.num_jobs)
        else:
            seconds = {key: audio[part][key].seconds for key in data.utt2spk}
            durations = {key: format_seconds(value) for key, value in seconds.items()}
            data = replace(data, utt2dur=durations)
        # These may be of the audio before it was cut.
        made[part] = replace(data, feats_scp=None, utt2num_samples=None, reco2dur=None)
    checks.write_parts(made, output, faults.options)
    return made


def read_part(folder: Path, part: str, faults: checks.Faults) -> DataDir:
    """Read a data dir.

    What is wrong with an utterance goes to the faults, everything else is refused.
    """
    path = folder / part
    data, scans = scan_data_dir(path)
    of_utterances = list(find_utterance_faults(data))
    # validate_scan finds them, too, and would refuse all for one utterance's.
    kinds = {(file, what) for file, what, _ in of_utterances}
    others = []
    for problem in validate_scan(data, scans, files=False):
        is_of_utterance = (problem.file, problem.what) in kinds
        if not is_of_utterance and not _is_rewritten(problem):
            others.append(problem)
    raise_problems(path, others)
    # A pipe of a stranger's data dir would run whatever it says.
    refuse_commands(path / "wav.scp", data.wav_scp)
    for file, what, utterance in of_utterances:
        faults.add(part, utterance, f"{path / file}: {what} {utterance}")
    # os.path.join leaves an absolute path as it is.
    absolute = {
        name: os.path.join(folder.parent, value) for name, value in data.wav_scp.items()
    }
    return replace(data, wav_scp=absolute)


def _is_rewritten(problem: Problem) -> bool:
    """Tell whether a fault is of a table that is written anew in any case."""
    return problem.file in ("spk2utt", "utt2dur", "utt2num_samples", "reco2dur")


def _group_by_recording(data: DataDir) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for utterance, segment in (data.segments or {}).items():
        found.setdefault(parse_segment_recording(segment), []).append(utterance)
    return found
