"""Collect the faults of a corpus, and write what is good as data dirs.

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
from espnet_ext.work.files import atomic_write, list_files_below

SHARE = 0.02  # of a part's utterances, what --skip-faulty alone leaves out at most
SHOWN = 3
ADVICE = "fix or remove them"


def read_skip_share(value: str) -> float:
    """Read the value of ``--skip-faulty`` as a share.

    The value is ``false``, ``true``, or a percentage of a part's utterances.
    """
    if value == "true":
        return SHARE
    if value in ("", "false"):
        return 0.0
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) or float(value) > 50:
        raise InputError(
            "--skip-faulty takes true, false, or a percentage of at most 50, not "
            f"'{value}'"
        )
    return float(value) / 100


@dataclass(frozen=True)
class Options:
    """How a corpus is prepared; the same for each."""

    # Part -> its data dir's name, where they differ.
    names: Mapping[str, str] = field(default_factory=dict)
    num_jobs: int = 1  # threads
    # ``full`` decodes all audio, ``header`` reads headers only, ``auto`` decides by the
    # number of files.
    check_audio: str = "auto"
    # The share of each part's items that may be faulty, and is then left out.
    skip_faulty: float = 0.0


class Faults:
    """Collects the faults of a corpus (``where``), by part and item.

    An item is an utterance, or a whole recording. All go to ``file``, one in a line:
    part, item, fault, with tabs between.
    """

    def __init__(self, where: str | Path, file: Path, options: Options = Options()):  # noqa: B008 (it is frozen)
        self.where = where
        self.file = file
        self.options = options
        self.found: dict[tuple[str, str], str] = {}
        self.harmless: dict[str, list[str]] = {}

    def add(self, part: str, item: str, fault: str) -> None:
        """Note a fault; of several faults of one item, the first is kept."""
        # The first is the cause: of an unreadable file, nothing else can be said. And
        # an item counts once in the share of what is faulty.
        self.found.setdefault((part, item), fault)

    def pass_on(self, part: str, item: str, to: Iterable[str]) -> None:
        """Make the fault of an item, if it has one, that of each of its parts.

        Such are the utterances of a recording.
        """
        fault = self.found.pop((part, item), None)
        if fault is not None:
            for each in to:
                self.add(part, each, fault)

    def ignore(self, what: str, place: str | Path) -> None:
        """Note something harmless, such as a blank line, which is only counted."""
        self.harmless.setdefault(what, []).append(str(place))

    def select_faultless[Item](
        self, part: str, items: Mapping[str, Item]
    ) -> dict[str, Item]:
        """Return the items of a part that have no fault so far."""
        faultless = {}
        for key, item in items.items():
            if (part, key) not in self.found:
                faultless[key] = item
        return faultless

    def settle(self, faultless: Mapping[str, int]) -> None:
        """Write all faults to the file, and refuse the corpus if they are too many.

        ``faultless`` has the number of items without a fault of each part.
        """
        for what, places in self.harmless.items():
            say(
                f"warning: {self.where}: {what} ignored, {len(places):,} times, "
                f"first in {places[0]}",
                error=True,
            )
        # One of an earlier run would say that there are faults.
        if not self.found:
            self.file.unlink(missing_ok=True)
            return
        skip = self.options.skip_faulty
        # The share is each part's: a small test set must not hide in a large training
        # set.
        totals: dict[str, tuple[int, int]] = {}
        for part, number in Counter(part for part, _ in self.found).items():
            totals[part] = (number, number + faultless.get(part, 0))
        counts = ", ".join(
            f"{number:,} of {total:,} in {part}"
            for part, (number, total) in totals.items()
        )
        self._write(f"# {'left out' if skip else 'faulty'}: {counts}\n")
        texts = list(self.found.values())
        first = "; ".join(texts[:SHOWN])
        if len(texts) > SHOWN:
            first += f"; and {len(texts) - SHOWN:,} more"
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

    def _write(self, header: str) -> None:
        with atomic_write(self.file) as file:
            file.write(header)
            for (part, item), fault in self.found.items():
                # Tabs and line ends within a text would make two columns or lines of
                # it.
                columns = [" ".join(text.split()) for text in (part, item, fault)]
                file.write("\t".join(columns) + "\n")


# --- the files of a corpus ---


def require_corpus(corpus_dir: str | Path, needs: str) -> Path:
    """Return the corpus folder as an absolute path.

    Raises InputError, which says what it ``needs`` to hold: there is none.
    """
    corpus = Path(corpus_dir).absolute()
    if not corpus.is_dir():
        raise InputError(
            f"{corpus}: no such corpus folder: give the folder that holds {needs}"
        )
    return corpus


def find_own_files(folder: Path, faults: Faults) -> Iterator[Path]:
    """Yield all files below a folder, without those that macOS leaves (``._*``).

    A folder that cannot be read, or a broken link to one or to a transcript, is
    refused: how much is missing then is unknown, and is no share that could be left
    out.
    """
    for path in list_files_below(folder):
        is_broken = path.is_symlink() and not path.exists()
        # A broken link to audio is a fault of its utterance, which is found later.
        if is_broken and path.suffix.lower() not in SUFFIXES:
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
    try:
        # splitlines() also breaks at U+2028, which may occur in a text.
        return path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such transcript, but there is audio or an entry in the "
            "list for it"
        ) from None
    except UnicodeDecodeError:
        advice = "convert it (iconv -f GB18030 -t UTF-8 converts most Chinese files)"
        raise InputError(f"{path} is not UTF-8 text: {advice}") from None


def find_audio_files(
    files: Iterable[Path], part: str, faults: Faults
) -> dict[str, Path]:
    """Find audio among files as :func:`map_by_id`, sorted.

    A name that holds a space is a fault.
    """
    audio = sorted(path for path in files if path.suffix.lower() in SUFFIXES)
    found = map_by_id(audio, part, faults)
    for name, path in found.items():
        if any(space in name for space in " \t"):
            faults.add(part, name, f"a name with a space in it ({path}): rename it")
    return found


def map_by_id(files: Iterable[Path], part: str, faults: Faults) -> dict[str, Path]:
    """Map files by the names before their endings.

    Two of one name are a fault, unless one is a copy of the other.
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


def find_files_by_id(
    folders: Iterable[Path],
    pattern: str,
    part: str,
    faults: Faults,
) -> dict[str, Path]:
    """Find the files of a pattern below folders, as of :func:`map_by_id`."""
    found: list[Path] = []
    for folder in folders:
        every = sorted(find_own_files(folder, faults))
        found += [path for path in every if path.match(pattern)]
    return map_by_id(found, part, faults)


def _are_copies(first: Path, second: Path) -> bool:
    """Return whether two files are one through a link, or have the same content."""
    try:
        if first.samefile(second):
            return True
        if first.suffix != second.suffix:
            return False
        # By content: shallow would trust equal sizes and times.
        return filecmp.cmp(first, second, shallow=False)
    # A link to nothing.
    except OSError:
        return False


def list_unsupported_files(files: Iterable[Path]) -> dict[str, str]:
    """Find the audio files of formats that corpora may not have: id -> what is wrong.

    Transcription decodes them. A training reads each file many times, in parts.
    """
    unsupported = {}
    for path in files:
        if path.suffix.lower() in CONVERTED_SUFFIXES:
            unsupported[path.stem] = (
                f"{path}: {path.suffix} files must be converted first: ffmpeg -i "
                f"{path.name} {path.stem}.flac"
            )
    return unsupported


def check_audio_files(
    faults: Faults,
    parts: Mapping[str, Mapping[str, Path]],
    rate: int | None = None,
) -> dict[str, dict[str, Inspected]]:
    """Open audio files, part -> id -> file, each once; return those without a fault.

    The faults of the others go to ``faults``. Every file must have the rate in Hz, and
    one channel. None: any rate and number of channels will do.
    """
    # All parts together, so that one pool of threads works on all; ids may be the same
    # in two parts.
    files = {}
    for part, items in parts.items():
        for key, path in items.items():
            files[f"{part}/{key}"] = (part, key, path)
    decode = must_decode(faults.options.check_audio, len(files))
    how = "headers only; --check-audio full decodes each file"
    if decode:
        how = "decoding each file"
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
        fault = inspected[name].fault
        if fault:
            faults.add(part, key, f"{fault} {key} ({path})")
        else:
            good[part][key] = inspected[name]
    return good


# --- what becomes of it ---


def make_data_dir_of_files(
    paths: Mapping[str, Path],
    audio: Mapping[str, Inspected],
    texts: Mapping[str, str],
    speakers: Mapping[str, str],
    language: str,
) -> DataDir:
    """Make a data dir of utterances that are whole audio files: those of ``texts``."""
    return DataDir(
        wav_scp={key: str(paths[key]) for key in texts},
        utt2spk={key: speakers[key] for key in texts},
        text=texts,
        utt2lang=dict.fromkeys(texts, language),
        utt2dur={key: format_seconds(audio[key].seconds) for key in texts},
    )


def write_parts(
    parts: Mapping[str, DataDir],
    output_dir: str | Path,
    options: Options,
) -> None:
    """Write the data dir of each part of a corpus, and say how much speech it holds."""
    for part, data in parts.items():
        folder = Path(output_dir) / options.names.get(part, part)
        # What is written must pass Kaldi's own checks, whatever the corpus had.
        raise_problems(folder, validate(data, require_text=False))
        write_data_dir(data, folder)
        hours = sum(map(float, (data.utt2dur or {}).values())) / 3600
        say(
            f"{folder}: {len(data.utt2spk):,} utterances, {len(data.spk2utt):,} "
            f"speakers, {hours:.2f} hours"
        )
