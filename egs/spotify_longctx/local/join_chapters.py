#!/usr/bin/env python3
"""Join the utterances of each of LibriSpeech's chapters to one recording, for long contexts of read speech.

Writes OUTPUT/audio/SPEAKER-CHAPTER.flac and OUTPUT/text, which `run.sh --audio OUTPUT/audio --text OUTPUT/text
--aligner MODEL` trains on. Utterances follow one another as in the chapter, without what LibriSpeech leaves out between
them. Chapters that are joined already are left as they are.

Example:
  local/join_chapters.py /data/LibriSpeech --parts train-clean-360 train-other-500 --output data/chapters
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import soundfile
from tqdm import tqdm

from espnet_ext.command import run_main
from espnet_ext.corpora.faults import Faults, skip_share
from espnet_ext.corpora.librispeech import SAMPLING_RATE, Utterance, check_parts, find_parts
from espnet_ext.data.audio_files import save_audio
from espnet_ext.data.kaldi.tables import write_table
from espnet_ext.errors import InputError


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    root, parts = find_parts(args.librispeech, args.parts)
    (args.output / "audio").mkdir(parents=True, exist_ok=True)
    faults = Faults(root, args.output / "faults.txt", skip_share(args.skip_faulty))
    found = check_parts(root, parts, faults, args.nj, "header")
    faults.settle({part: len(utterances) for part, (utterances, _) in found.items()})
    chapters: dict[str, list[Utterance]] = defaultdict(list)
    for utterances, _ in found.values():
        for key, utterance in sorted(utterances.items()):
            chapters[key.rpartition("-")[0]].append(utterance)
    with ThreadPoolExecutor(args.nj) as threads:
        jobs = [
            threads.submit(join, [each.audio for each in own], args.output / "audio" / f"{chapter}.flac")
            for chapter, own in chapters.items()
        ]
        seconds = sum(job.result() for job in tqdm(jobs, desc="chapters", unit="", disable=None))
    write_table(args.output / "text", {key: " ".join(each.text for each in own) for key, own in chapters.items()})
    print(f"{len(chapters)} chapters, {seconds / 3600:.1f} h -> {args.output}")


def join(files: Sequence[Path], target: Path) -> float:
    """Write the audio of files one after the other as FLAC, if it is not there; return its seconds.

    Raises:
        InputError: a file is corrupt.
    """
    if not target.exists():
        part = target.with_name(f".{target.name}")
        save_audio(part, np.concatenate(list(_read(files))), SAMPLING_RATE, format="FLAC")
        part.rename(target)
    return soundfile.info(target).duration


def _read(files: Sequence[Path]) -> Iterator[np.ndarray]:
    for path in files:
        try:
            yield soundfile.read(path, dtype="int16")[0]
        except soundfile.SoundFileError:
            raise InputError(f"{path}: corrupt audio: replace it, or remove it and its transcript") from None


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("librispeech", type=Path, help="folder of the LibriSpeech corpus")
    parser.add_argument("--parts", nargs="+", metavar="PART", help="such as train-clean-360 (default: all)")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to write")
    parser.add_argument("--skip_faulty", default="false", metavar="true|PERCENT", help="leave out faulty utterances")
    parser.add_argument("--nj", type=int, default=2, help="threads")
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
