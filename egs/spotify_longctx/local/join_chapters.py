#!/usr/bin/env python3
"""Join the utterances of LibriSpeech's chapters, for long contexts of read speech.

Writes OUTPUT/audio/SPEAKER-CHAPTER.flac and OUTPUT/text, which `run.sh --audio
OUTPUT/audio --text OUTPUT/text --aligner MODEL` trains on. Utterances follow one
another as in the chapter, without what LibriSpeech leaves out between them. A rerun
joins those chapters again whose utterances have changed.

Example:
  local/join_chapters.py /data/LibriSpeech --parts train-clean-360 train-other-500
  --output data/chapters
"""

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import soundfile
from tqdm import tqdm

from espnet_ext.audio.files import save_audio
from espnet_ext.command import run_main
from espnet_ext.corpora.checks import Faults, Options, read_skip_share
from espnet_ext.corpora.librispeech import (
    SAMPLING_RATE,
    Utterance,
    check_parts,
    find_parts,
)
from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import write_table
from espnet_ext.work.files import expand_home, write_json
from espnet_ext.work.once import fingerprint, read_key


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    root, parts = find_parts(args.librispeech, args.parts)
    (args.output / "audio").mkdir(parents=True, exist_ok=True)
    options = Options(
        num_jobs=args.nj,
        check_audio="header",
        skip_faulty=read_skip_share(args.skip_faulty),
    )
    faults = Faults(root, args.output / "faults.txt", options)
    found = check_parts(root, parts, faults)
    faults.settle({part: len(utterances) for part, (utterances, _) in found.items()})
    chapters: dict[str, dict[str, Utterance]] = defaultdict(dict)
    for utterances, _ in found.values():
        for key, utterance in sorted(utterances.items()):
            chapter, _, _ = key.rpartition("-")  # SPEAKER-CHAPTER-NUMBER
            chapters[chapter][key] = utterance
    there = {path.stem for path in (args.output / "audio").glob("[!.]*.flac")}
    others = there - chapters.keys()
    # the recipe would train on all recordings of the folder
    if others:
        raise InputError(
            f"{args.output}: holds other chapters, as {min(others)}: give another "
            "--output, or all parts"
        )
    with ThreadPoolExecutor(args.nj) as threads:
        jobs = [
            threads.submit(join_utterances, chapter, own, args.output)
            for chapter, own in chapters.items()
        ]
        seconds = 0.0
        try:
            for job in tqdm(jobs, desc="chapters", unit="", disable=None):
                seconds += job.result()
        # an error, or Ctrl-C: leaving the block would wait for all chapters
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise
    texts = {}
    for chapter, own in chapters.items():
        texts[chapter] = " ".join(each.text for each in own.values())
    # last: a folder with a text is complete
    write_table(args.output / "text", texts)
    print(f"{len(chapters)} chapters, {seconds / 3600:.1f} h -> {args.output}")


def join_utterances(
    chapter: str, utterances: Mapping[str, Utterance], output: Path
) -> float:
    """Write the audio of utterances one after the other as FLAC; return its seconds.

    What is there already is not written again. Raises InputError: a file is corrupt.
    """
    target = output / "audio" / f"{chapter}.flac"
    note = output / "joined" / f"{chapter}.json"
    stamps = {}
    for key, each in utterances.items():
        state = each.audio.stat()
        stamps[key] = (state.st_size, state.st_mtime_ns)
    made_of = fingerprint(stamps)
    if not (target.exists() and read_key(note) == made_of):
        part = target.with_suffix(".part")
        samples = [_read_audio(each.audio) for each in utterances.values()]
        save_audio(part, np.concatenate(samples), SAMPLING_RATE, format="FLAC")
        part.rename(target)
        # after the audio: killed between the two, the chapter is joined again
        write_json(note, {"key": made_of})
    return soundfile.info(target).duration


def _read_audio(path: Path) -> np.ndarray:
    try:
        return soundfile.read(path, dtype="int16")[0]
    except soundfile.SoundFileError:
        raise InputError(
            f"{path}: corrupt audio: replace it, or remove it and its transcript"
        ) from None


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "librispeech", type=expand_home, help="folder of the LibriSpeech corpus"
    )
    parser.add_argument(
        "--parts",
        nargs="+",
        metavar="PART",
        help="such as train-clean-360 (default: all)",
    )
    parser.add_argument(
        "--output",
        type=expand_home,
        required=True,
        metavar="DIR",
        help="folder to write",
    )
    parser.add_argument(
        "--skip_faulty",
        default="false",
        metavar="true|PERCENT",
        help="leave out faulty utterances",
    )
    parser.add_argument("--nj", type=int, default=2, help="threads")
    args = parser.parse_args(argv)
    if args.nj < 1:
        parser.error(f"--nj must be at least 1, not {args.nj}")
    return args


if __name__ == "__main__":
    run_main(main)
