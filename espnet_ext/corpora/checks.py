"""What all corpora go through: their faults are collected, their audio is opened once, what is good becomes data dirs.

All faults are written to a file; then the corpus is refused, or the faulty items are left out up to a share that the
user allows.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from espnet_ext.audio.files import CONVERTED_SUFFIXES, SUFFIXES, Inspected, decodes, inspect_files
from espnet_ext.errors import InputError
from espnet_ext.kaldi.checks import raise_problems, validate
from espnet_ext.kaldi.data_dir import DataDir, format_seconds, write_data_dir
from espnet_ext.work.files import atomic_write, files_below

SHARE = 0.02  # of a part's utterances, what --skip-faulty alone leaves out at most
SHOWN = 3
ADVICE = "fix or remove them"


def skip_share(value: str) -> float:
    """Read the value of ``--skip-faulty``: ``false``, ``true``, or a percentage of a part's utterances.

    >>> skip_share("false"), skip_share("true"), skip_share("5")
    (0.0, 0.02, 0.05)
    """
    if value in ("", "false", "true"):
        return SHARE if value == "true" else 0.0
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) or float(value) > 50:
        raise InputError(f"--skip-faulty takes true, false, or a percentage of at most 50, not '{value}'")
    return float(value) / 100


class Faults:
    """Collects the faults of a corpus, by part and item: an utterance, or a whole recording where those are prepared.

    Args:
        where: The corpus, for the messages.
        file: Gets all faults, one in a line: part, item, fault, with tabs between.
        skip: The share of each part's items that may be faulty, and is then left out. 0: every fault is refused.
    """

    def __init__(self, where: str | Path, file: Path, skip: float = 0.0):
        self.where, self.file, self.skip = where, file, skip
        self.found: dict[tuple[str, str], str] = {}
        self.harmless: dict[str, list[str]] = {}

    def add(self, part: str, item: str, fault: str) -> None:
        """Note a fault; of several faults of one item, the first is kept."""
        self.found.setdefault((part, item), fault)

    def pass_on(self, part: str, item: str, to: Iterable[str]) -> None:
        """Make a fault of an item, such as a recording, one of each of its parts, if there is one."""
        fault = self.found.pop((part, item), None)
        if fault is not None:
            for each in to:
                self.add(part, each, fault)

    def ignore(self, what: str, place: str | Path) -> None:
        """Note something harmless that is ignored, such as a blank line. It is only counted and named."""
        self.harmless.setdefault(what, []).append(str(place))

    def sound[Item](self, part: str, items: Mapping[str, Item]) -> dict[str, Item]:
        """Return the items of a part that have no fault so far."""
        return {key: item for key, item in items.items() if (part, key) not in self.found}

    def settle(self, sound: Mapping[str, int]) -> None:
        """Write all faults to the file; go on without the faulty items if they are few enough.

        Args:
            sound: Part -> how many of its items have no fault.
        """
        for what, places in self.harmless.items():
            print(
                f"warning: {self.where}: {what} ignored, {len(places):,} times, first in {places[0]}", file=sys.stderr
            )
        if not self.found:
            self.file.unlink(missing_ok=True)
            return
        faulty = Counter(part for part, _ in self.found)
        counts = ", ".join(
            f"{number:,} of {number + sound.get(part, 0):,} in {part}" for part, number in faulty.items()
        )
        with atomic_write(self.file) as file:
            file.write(f"# {'left out' if self.skip else 'faulty'}: {counts}\n")
            for (part, item), fault in self.found.items():
                file.write("\t".join(" ".join(text.split()) for text in (part, item, fault)) + "\n")
        if not self.skip:
            self._refuse("", f"{ADVICE}, or leave them out with --skip-faulty")
        for part, number in faulty.items():
            share = number / (number + sound.get(part, 0))
            if share > self.skip:
                limit = f"{self.skip:.2%}".replace(".00", "")
                self._refuse(f"{share:.1%} of {part} is faulty, and --skip-faulty allows {limit}: ", ADVICE)
        left_out = f"left out: {counts}: {self._first()}; all of them are in {self.file}"
        print(f"warning: {self.where}: {left_out}", file=sys.stderr, flush=True)

    def _first(self) -> str:
        texts = list(self.found.values())
        return "; ".join(texts[:SHOWN]) + (f"; and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else "")

    def _refuse(self, why: str, advice: str) -> None:
        all_of_them = f"(all {len(self.found):,} faults: {self.file})"
        raise InputError(f"{self.where}: {why}{self._first()}: {advice} {all_of_them}")


# --- the files of a corpus ---


def require_corpus(corpus_dir: str | Path, needs: str) -> Path:
    """Return the corpus folder as an absolute path; InputError says what it ``needs`` to hold if there is none."""
    corpus = Path(corpus_dir).absolute()
    if not corpus.is_dir():
        raise InputError(f"{corpus}: no such corpus folder: give the folder that holds {needs}")
    return corpus


def own_files(folder: Path, faults: Faults) -> Iterator[Path]:
    """Yield all files below a folder, but those named ``._*``, which macOS leaves beside others.

    Raises:
        InputError: a folder cannot be read, or a link to one, or to a transcript, is broken: how much is missing then
            is unknown, and is no share that could be left out.
    """
    for path in files_below(folder):
        if path.is_symlink() and not path.exists() and path.suffix.lower() not in SUFFIXES:
            raise InputError(f"{path}: a broken link, and how much is missing is unknown: mend or remove it")
        if path.name.startswith("._"):
            faults.ignore("macOS's files ._*", path)
        else:
            yield path


def read_lines(path: Path) -> list[str]:
    """Read the lines of a transcript or a list of a corpus."""
    try:  # not splitlines(), which also breaks at U+2028, which may occur in a text
        return path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except FileNotFoundError:
        raise InputError(f"{path}: no such transcript, but there is audio or an entry in the list for it") from None
    except UnicodeDecodeError:
        advice = "convert it (iconv -f GB18030 -t UTF-8 converts most Chinese files)"
        raise InputError(f"{path} is not UTF-8 text: {advice}") from None


def audio_files(files: Iterable[Path], part: str, faults: Faults) -> dict[str, Path]:
    """Find audio among files, by name without ending, sorted; a name that comes twice or holds a space is a fault."""
    found: dict[str, Path] = {}
    for path in sorted(files):
        if path.suffix.lower() not in SUFFIXES:
            continue
        if path.stem in found:
            faults.add(part, path.stem, f"{path.stem} comes twice ({found[path.stem]} and {path})")
        elif any(space in path.stem for space in " \t"):
            faults.add(part, path.stem, f"a name with a space in it ({path}): rename it")
        found.setdefault(path.stem, path)
    return found


def unread_files(files: Iterable[Path]) -> dict[str, str]:
    """Find the files of audio formats that corpora may not have: name without ending -> what is wrong with it.

    Transcription decodes them. A training reads each file many times, in parts.
    """
    return {
        path.stem: f"{path}: {path.suffix} files must be converted first: ffmpeg -i {path.name} {path.stem}.flac"
        for path in files
        if path.suffix.lower() in CONVERTED_SUFFIXES
    }


def check_audio_files(
    faults: Faults, parts: Mapping[str, Mapping[str, Path]], rate: int | None, check_audio: str, num_jobs: int
) -> dict[str, dict[str, Inspected]]:
    """Open the audio files of a corpus, each once.

    Args:
        faults: Gets those of the audio.
        parts: Part -> id -> audio file.
        rate: In Hz; every file must have it, and one channel. None: any rate and number of channels will do.
        check_audio: ``full`` decodes all audio, ``header`` reads headers only, ``auto`` chooses by the number of files.
        num_jobs: Threads.

    Returns:
        Part -> id -> what was found, of the files without a fault.
    """
    number = sum(map(len, parts.values()))
    decode = decodes(check_audio, number)
    how = "decoding each file" if decode else "headers only; --check-audio full decodes each file"
    print(f"{faults.where}: checking {number:,} audio files in {', '.join(parts)} ({how})", flush=True)
    files = [(part, key, path) for part, items in parts.items() for key, path in items.items()]
    inspected = inspect_files(
        [(f"{part}/{key}", path) for part, key, path in files], rate, decode=decode, num_jobs=num_jobs
    )
    good: dict[str, dict[str, Inspected]] = {part: {} for part in parts}
    for part, key, path in files:
        found = inspected[f"{part}/{key}"]
        if found.fault:
            faults.add(part, key, f"{found.fault} {key} ({path})")
        else:
            good[part][key] = found
    return good


# --- what becomes of it ---


def whole_files(
    paths: Mapping[str, str | Path],
    audio: Mapping[str, Inspected],
    texts: Mapping[str, str],
    speakers: Mapping[str, str],
    languages: Mapping[str, str],
) -> DataDir:
    """Make a data dir of utterances that are whole audio files, by their ids: those of ``texts``."""
    return DataDir(
        wav_scp={key: str(paths[key]) for key in texts},
        utt2spk={key: speakers[key] for key in texts},
        text=texts,
        utt2lang={key: languages[key] for key in texts},
        utt2dur={key: format_seconds(audio[key].seconds) for key in texts},
    )


def write_parts(parts: Mapping[str, DataDir], output_dir: str | Path, names: Mapping[str, str] | None = None) -> None:
    """Write the data dir of each part of a corpus, called as in ``names``, and print how much speech it holds."""
    for part, data in parts.items():
        folder = Path(output_dir) / (names or {}).get(part, part)
        raise_problems(folder, validate(data, require_text=False))
        write_data_dir(data, folder)
        hours = sum(map(float, (data.utt2dur or {}).values())) / 3600
        print(f"{folder}: {len(data.utt2spk):,} utterances, {len(data.spk2utt):,} speakers, {hours:.2f} hours")
