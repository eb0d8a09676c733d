"""Collect the faults of a corpus, open its audio once, and write what is good as data
dirs.

All faults go to a file; then the corpus is refused, or goes on without them, up to the
share that the user allows.
"""

import filecmp
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from espnet_ext.audio.files import (
    CONVERTED_SUFFIXES,
    SUFFIXES,
    Inspected,
    inspect_files,
    must_decode,
)
from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.checks import raise_problems, validate
from espnet_ext.kaldi.data_dir import DataDir, format_seconds, write_data_dir
from espnet_ext.work.files import atomic_write, files_below

SHARE = 0.02  # of a part's utterances, what --skip-faulty alone leaves out at most
SHOWN = 3
ADVICE = "fix or remove them"


def skip_share(value: str) -> float:
    """Read the value of ``--skip-faulty``: ``false``, ``true``, or a percentage of a
    part's utterances.
    """
    if value in ("", "false", "true"):
        return SHARE if value == "true" else 0.0
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) or float(value) > 50:
        raise InputError(
            "--skip-faulty takes true, false, or a percentage of at most 50, not "
            f"'{value}'"
        )
    return float(value) / 100


@dataclass(frozen=True)
class Options:
    """How a corpus is prepared; the same for each."""

    names: Mapping[str, str] = field(
        default_factory=dict
    )  # part -> its data dir's name, where they differ
    num_jobs: int = 1  # threads
    # ``full`` decodes all audio, ``header`` reads headers only, ``auto`` by their
    # number
    check_audio: str = "auto"
    skip_faulty: float = (
        0.0  # the share of each part's items that may be faulty, and is then left out
    )


class Faults:
    """Collects the faults of a corpus (``where``), by part and item: an utterance, or a
    whole recording.

    All go to ``file``, one in a line: part, item, fault, with tabs between.
    """

    def __init__(self, where: str | Path, file: Path, options: Options = Options()):  # noqa: B008 (it is frozen)
        self.where, self.file, self.options = where, file, options
        self.found: dict[tuple[str, str], str] = {}
        self.harmless: dict[str, list[str]] = {}

    def add(self, part: str, item: str, fault: str) -> None:
        """Note a fault; of several faults of one item, the first is kept."""
        self.found.setdefault((part, item), fault)

    def pass_on(self, part: str, item: str, to: Iterable[str]) -> None:
        """Make a fault of an item, such as a recording, one of each of its parts, if
        there is one.
        """
        fault = self.found.pop((part, item), None)
        if fault is not None:
            for each in to:
                self.add(part, each, fault)

    def ignore(self, what: str, place: str | Path) -> None:
        """Note something harmless that is ignored, such as a blank line. It is only
        counted and named.
        """
        self.harmless.setdefault(what, []).append(str(place))

    def sound[Item](self, part: str, items: Mapping[str, Item]) -> dict[str, Item]:
        """Return the items of a part that have no fault so far."""
        return {
            key: item for key, item in items.items() if (part, key) not in self.found
        }

    def settle(self, sound: Mapping[str, int]) -> None:
        """Write all faults to the file; refuse the corpus if a part has too many for
        its number of sound items.
        """
        for what, places in self.harmless.items():
            say(
                f"warning: {self.where}: {what} ignored, {len(places):,} times, "
                f"first in {places[0]}",
                error=True,
            )
        if not self.found:
            self.file.unlink(missing_ok=True)
            return
        skip = self.options.skip_faulty
        totals = {
            part: (number, number + sound.get(part, 0))
            for part, number in Counter(p for p, _ in self.found).items()
        }
        counts = ", ".join(
            f"{number:,} of {total:,} in {part}"
            for part, (number, total) in totals.items()
        )
        with atomic_write(self.file) as file:
            file.write(f"# {'left out' if skip else 'faulty'}: {counts}\n")
            for (part, item), fault in self.found.items():
                file.write(
                    "\t".join(" ".join(text.split()) for text in (part, item, fault))
                    + "\n"
                )
        texts = list(self.found.values())
        first = "; ".join(texts[:SHOWN]) + (
            f"; and {len(texts) - SHOWN:,} more" if len(texts) > SHOWN else ""
        )
        listed = f"(all {len(texts):,} faults: {self.file})"
        if not skip:
            raise InputError(
                f"{self.where}: {first}: {ADVICE}, or leave them out with "
                f"--skip-faulty {listed}"
            )
        for part, (number, total) in totals.items():
            if number / total > skip:
                limit = f"{skip:.2%}".replace(".00", "")
                why = (
                    f"{number / total:.1%} of {part} is faulty, and --skip-faulty "
                    f"allows {limit}"
                )
                raise InputError(f"{self.where}: {why}: {first}: {ADVICE} {listed}")
        say(
            f"warning: {self.where}: left out: {counts}: {first} {listed}",
            error=True,
        )


# --- the files of a corpus ---


def require_corpus(corpus_dir: str | Path, needs: str) -> Path:
    """Return the corpus folder as an absolute path; InputError says what it ``needs``
    to hold if there is none.
    """
    corpus = Path(corpus_dir).absolute()
    if not corpus.is_dir():
        raise InputError(
            f"{corpus}: no such corpus folder: give the folder that holds {needs}"
        )
    return corpus


def own_files(folder: Path, faults: Faults) -> Iterator[Path]:
    """Yield all files below a folder, but those named ``._*``, which macOS leaves
    beside others.

    A folder that cannot be read, or a broken link to one or to a transcript, is
    refused: how much is missing then is unknown, and is no share that could be left
    out.
    """
    for path in files_below(folder):
        if (
            path.is_symlink()
            and not path.exists()
            and path.suffix.lower() not in SUFFIXES
        ):
            raise InputError(
                f"{path}: a broken link, and how much is missing is unknown: mend "
                "or remove it"
            )
        if path.name.startswith("._"):
            faults.ignore("macOS's files ._*", path)
        else:
            yield path


def read_lines(path: Path) -> list[str]:
    """Read the lines of a transcript or a list of a corpus."""
    try:  # not splitlines(), which also breaks at U+2028, which may occur in a text
        return path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such transcript, but there is audio or an entry in the "
            "list for it"
        ) from None
    except UnicodeDecodeError:
        advice = "convert it (iconv -f GB18030 -t UTF-8 converts most Chinese files)"
        raise InputError(f"{path} is not UTF-8 text: {advice}") from None


def audio_files(files: Iterable[Path], part: str, faults: Faults) -> dict[str, Path]:
    """Find audio among files as :func:`by_id`, sorted; a name that holds a space is a
    fault.
    """
    found = by_id(
        sorted(path for path in files if path.suffix.lower() in SUFFIXES), part, faults
    )
    for name, path in found.items():
        if any(space in name for space in " \t"):
            faults.add(part, name, f"a name with a space in it ({path}): rename it")
    return found


def by_id(files: Iterable[Path], part: str, faults: Faults) -> dict[str, Path]:
    """Map files by the names before their endings. Two of one name are a fault, unless
    one is a copy of the other.
    """
    found: dict[str, Path] = {}
    for path in files:
        first = found.setdefault(path.stem, path)
        if first != path and _are_copies(first, path):
            faults.ignore("copies of files", path)
        elif first != path:
            faults.add(
                part,
                path.stem,
                f"{path.stem} comes twice, and the files differ: {first} and {path}",
            )
    return found


def files_by_id(
    folders: Iterable[Path], pattern: str, part: str, faults: Faults
) -> dict[str, Path]:
    """Find the files of a pattern below folders, as of :func:`by_id`."""
    every = (path for folder in folders for path in sorted(own_files(folder, faults)))
    return by_id((path for path in every if path.match(pattern)), part, faults)


def _are_copies(first: Path, second: Path) -> bool:
    try:  # through a link, nothing need be read
        return first.samefile(second) or (
            first.suffix == second.suffix and filecmp.cmp(first, second, shallow=False)
        )
    except OSError:  # a link to nothing
        return False


def unread_files(files: Iterable[Path]) -> dict[str, str]:
    """Find the files of audio formats that corpora may not have: name without ending ->
    what is wrong with it.

    Transcription decodes them. A training reads each file many times, in parts.
    """
    return {
        path.stem: (
            f"{path}: {path.suffix} files must be converted first: ffmpeg -i "
            f"{path.name} {path.stem}.flac"
        )
        for path in files
        if path.suffix.lower() in CONVERTED_SUFFIXES
    }


def check_audio_files(
    faults: Faults, parts: Mapping[str, Mapping[str, Path]], rate: int | None = None
) -> dict[str, dict[str, Inspected]]:
    """Open audio files, part -> id -> file, each once; return those without a fault.
    The others' become ``faults``.

    Every file must have the rate in Hz, and one channel. None: any rate and number of
    channels will do.
    """
    files = {
        f"{part}/{key}": (part, key, path)
        for part, items in parts.items()
        for key, path in items.items()
    }
    decode = must_decode(faults.options.check_audio, len(files))
    how = (
        "decoding each file"
        if decode
        else "headers only; --check-audio full decodes each file"
    )
    say(
        f"{faults.where}: checking {len(files):,} audio files in "
        f"{', '.join(parts)} ({how})",
    )
    paths = [(name, path) for name, (_, _, path) in files.items()]
    inspected = inspect_files(
        paths, rate, decode=decode, num_jobs=faults.options.num_jobs
    )
    good: dict[str, dict[str, Inspected]] = {part: {} for part in parts}
    for name, (part, key, path) in files.items():
        if fault := inspected[name].fault:
            faults.add(part, key, f"{fault} {key} ({path})")
        else:
            good[part][key] = inspected[name]
    return good


# --- what becomes of it ---


def whole_files(
    paths: Mapping[str, Path],
    audio: Mapping[str, Inspected],
    texts: Mapping[str, str],
    speakers: Mapping[str, str],
    language: str,
) -> DataDir:
    """Make a data dir of utterances that are whole audio files, by their ids: those of
    ``texts``.
    """
    return DataDir(
        wav_scp={key: str(paths[key]) for key in texts},
        utt2spk={key: speakers[key] for key in texts},
        text=texts,
        utt2lang=dict.fromkeys(texts, language),
        utt2dur={key: format_seconds(audio[key].seconds) for key in texts},
    )


def write_parts(
    parts: Mapping[str, DataDir], output_dir: str | Path, options: Options
) -> None:
    """Write the data dir of each part of a corpus, and print how much speech it holds."""
    for part, data in parts.items():
        folder = Path(output_dir) / options.names.get(part, part)
        raise_problems(folder, validate(data, require_text=False))
        write_data_dir(data, folder)
        hours = sum(map(float, (data.utt2dur or {}).values())) / 3600
        say(
            f"{folder}: {len(data.utt2spk):,} utterances, {len(data.spk2utt):,} "
            f"speakers, {hours:.2f} hours"
        )
