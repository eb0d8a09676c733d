"""What the corpora of long recordings share: recordings with one transcript each, the regions of them that training
leaves out, and Rev's nlp files."""

import csv
import filecmp
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from espnet_ext.audio.files import Inspected
from espnet_ext.corpora.checks import SHARE, SHOWN, Faults, check_audio_files, own_files, read_lines, whole_files
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir
from espnet_ext.text.word_times import DROPPED, SHORTEST, drop_overlaps, word_faults, write_regions
from espnet_ext.text.words import Word

_LATE = 0.5  # seconds by which a transcript may exceed its audio: times are rounded, and ends of files are trimmed
_MARK = re.compile(r"<[A-Z_]+>")
_NOTHING = 1e-6  # seconds, of sums


@dataclass(frozen=True)
class Transcribed:
    """A recording on disk: its id, its audio file, everything that is said in it, and when that ends.

    Attributes:
        end: The end of the last words, in seconds; 0 if the transcript has no times.
    """

    id: str
    audio: Path
    text: str
    end: float = 0.0


def checked_parts(
    parts: Mapping[str, Sequence[Transcribed]], faults: Faults, check_audio: str, num_jobs: int
) -> dict[str, DataDir]:
    """Check recordings of any rate and number of channels, and make the tables of each part.

    Args:
        parts: Part -> its recordings; those that have a fault already are left out.
        faults: Gets a transcript without a word or longer than the audio, faulty audio, and parts without recordings.
            Then it is settled.
        check_audio: ``full`` decodes all audio, ``header`` reads headers only, ``auto`` chooses by the number of files.
        num_jobs: Threads.
    """
    items = {part: {item.id: item for item in recordings} for part, recordings in parts.items()}
    for part, recordings in items.items():
        for item in recordings.values():
            if not item.text.strip():
                faults.add(part, item.id, f"{item.id}: the transcript holds no word")
        items[part] = faults.sound(part, recordings)
        if not recordings:
            faults.add(part, part, f"there are no recordings in {part}")
    files = {part: {id: item.audio for id, item in recordings.items()} for part, recordings in items.items()}
    audio = check_audio_files(faults, files, None, check_audio, num_jobs)
    for part, sounds in audio.items():
        audio[part] = long_as_transcribed(faults, part, sounds, {id: items[part][id].end for id in sounds})
    faults.settle({part: len(good) for part, good in audio.items()})
    return {part: data_of([items[part][id] for id in good], good) for part, good in audio.items()}


def long_enough(
    faults: Faults, part: str, sounds: Mapping[str, Inspected], files: Mapping[str, Path]
) -> dict[str, Inspected]:
    """Keep the recordings that training can take a sequence from; shorter ones become faults."""
    for key, sound in sounds.items():
        if sound.seconds < SHORTEST:
            faults.add(part, key, f"{key} lasts {sound.seconds:g} s, less than {SHORTEST:g} s ({files[key]})")
    return faults.sound(part, sounds)


def long_as_transcribed(
    faults: Faults, part: str, sounds: Mapping[str, Inspected], ends: Mapping[str, float]
) -> dict[str, Inspected]:
    """Keep the recordings that last until their words end, which may be half a second late; others become faults."""
    for key, sound in sounds.items():
        if ends.get(key, 0.0) > sound.seconds + _LATE:
            faults.add(
                part,
                key,
                f"{key}: its transcript ends at {ends[key]:g} s, its audio at {sound.seconds:.2f} s: is one of them "
                "another recording's, or cut?",
            )
    return faults.sound(part, sounds)


def data_of(recordings: Iterable[Transcribed], audio: Mapping[str, Inspected]) -> DataDir:
    """Make a data dir of good recordings, each a speaker of its own, as is the custom in Kaldi where none is known."""
    items = {item.id: item for item in recordings}
    paths, texts = ({key: getattr(item, name) for key, item in items.items()} for name in ("audio", "text"))
    return whole_files(paths, audio, texts, {key: key for key in items}, dict.fromkeys(items, "en"))


class DroppedRegions:
    """Drops the regions of a corpus in which word times overlap or go back, and those of unknown words.

    Args:
        where: The corpus, for the messages.
        file: Gets all regions, ``recording start end`` in a line, in seconds.
        share: The share of the spoken seconds that may be dropped; 2 % if it is less. A recording is spoken until the
            end of its last word.
    """

    def __init__(self, where: Path, file: Path, share: float = 0.0):
        self.where, self.file, self.share = where, file, max(share, SHARE)
        self.regions: dict[str, list[tuple[float, float]]] = {}
        self._spoken: dict[str, float] = {}
        self._unknown: dict[str, float] = {}

    def drop(self, recording: str, words: Sequence[Word], seconds: float) -> list[Word] | str:
        """Return a recording's words, with one called ``<dropped>`` for each such region; or their fault.

        Words of that name are those that are not known.
        """
        kept = drop_overlaps(words)
        fault = word_faults(kept, seconds)
        if fault or not spoken_text(kept):
            return fault or word_faults(words, seconds) or "no word in it, or all words are unknown"
        self._spoken[recording] = kept[-1].end
        unknown = {(word.start, word.end) for word in words if word.text == DROPPED}
        regions = [(word.start, word.end) for word in kept if word.text == DROPPED]
        self.regions[recording] = regions
        self._unknown[recording] = sum(end - start for start, end in regions if (start, end) in unknown)
        return kept

    def settle(self) -> None:
        """Write the regions to the file; refuse them if they are more than the share, and name the worst recordings."""
        totals = {key: sum(end - start for start, end in regions) for key, regions in self.regions.items()}
        seconds = {key: total for key, total in totals.items() if total}
        self.file.unlink(missing_ok=True)
        if not seconds:
            return
        write_regions(self.file, self.regions)
        lost, unknown, spoken = (sum(table.values()) for table in (seconds, self._unknown, self._spoken))
        worst = sorted(seconds, key=lambda key: -seconds[key])
        named = ", ".join(f"{key} ({seconds[key]:,.1f} s)" for key in worst[:SHOWN])
        more = f" and {len(worst) - SHOWN:,} more" if len(worst) > SHOWN else ""
        listed = f" (all regions: {self.file})"
        found = {"word times overlap": lost - unknown, "words are unknown (such as <unk>)": unknown}
        each = " and ".join(f"{what} in {total:,.1f}" for what, total in found.items() if total > _NOTHING)
        what = f"{each} of {spoken:,.1f} s ({100 * lost / spoken:.1f} %), most in {named}{more}"
        if lost > self.share * spoken:
            raise InputError(
                f"{self.where}: {what}; at most {100 * self.share:g} % may be left out: fix or remove these "
                f"transcripts, or give --skip-faulty a higher percentage{listed}"
            )
        print(f"warning: {self.where}: {what}: left out of training{listed}", flush=True)


def spoken_text(words: Sequence[Word]) -> str:
    """Join the words outside dropped regions by spaces."""
    return " ".join(word.text for word in words if word.text != DROPPED)


def supervision_texts(path: Path) -> dict[str, str]:
    """Read the transcript of each recording in a manifest of Lhotse's supervisions, in the order of their times.

    Marks such as GigaSpeech's ``<COMMA>`` and ``<MUSIC>`` are left out.
    """
    from lhotse import SupervisionSet  # Lhotse imports torch

    parts: dict[str, list[tuple[float, str]]] = defaultdict(list)
    try:
        for item in SupervisionSet.from_jsonl_lazy(path):
            parts[item.recording_id].append((item.start, _MARK.sub(" ", item.text)))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(f"{path}: supervision {sum(map(len, parts.values())) + 1} cannot be read ({reason})") from None
    return {key: " ".join(" ".join(text for _, text in sorted(own)).split()) for key, own in parts.items()}


def nlp_text(path: Path) -> str:
    """Read the words of a file in Rev's nlp format, with the punctuation around them.

    Fields are found by the names in the file's first line (``token|speaker|ts|endTs|punctuation|case|tags``), because
    their number and order differ between Rev's corpora. Tokens such as ``<laugh>`` are left out.
    """
    lines = iter([line.rstrip("\r") for line in read_lines(path) if line.strip()])
    fields = next(lines, "").split("|")
    if "token" not in fields:
        raise InputError(f"{path}: its first line has no field 'token': is this an nlp file?")
    places = {name: fields.index(name) for name in ("token", "punctuation", "prepunctuation") if name in fields}
    words = []
    for number, line in enumerate(lines, 2):
        values = line.split("|")
        if len(values) <= max(places.values()):
            raise InputError(f"{path}: line {number} has {len(values)} fields, its header {len(fields)}: fix it")
        token = values[places["token"]].strip()
        if token and not (token.startswith("<") and token.endswith(">")):
            marks = [values[places[name]] if name in places else "" for name in ("prepunctuation", "punctuation")]
            words.append(f"{marks[0]}{token}{marks[1]}")
    return " ".join(words)


def listed(path: Path, column: str, corpus: str, delimiter: str = ",") -> list[str]:
    """Read the values in one column of a corpus's list, in its order; rows that end before it are left out."""
    csv.field_size_limit(1 << 24)  # some lists have long descriptions
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, delimiter=delimiter)
            if column not in (rows.fieldnames or ()):
                raise InputError(f"{path}: it has no column {column!r}: is this {corpus}?")
            return [row[column].strip() for row in rows if row[column] and row[column].strip()]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: no table in UTF-8 ({error}): download it again") from None


def files_by_id(folders: Iterable[Path], pattern: str, part: str, faults: Faults) -> dict[str, Path]:
    """Find the files of a pattern below folders, as of :func:`by_id`; ``._*``, which macOS leaves, are ignored."""
    every = (path for folder in folders for path in sorted(own_files(folder, faults)))
    return by_id((path for path in every if path.match(pattern)), part, faults)


def by_id(files: Iterable[Path], part: str, faults: Faults) -> dict[str, Path]:
    """Map files by the names before their endings. Two of one name are a fault, unless one is a copy of the other."""
    found: dict[str, Path] = {}
    for path in files:
        first = found.setdefault(path.stem, path)
        if first == path:
            continue
        if _are_copies(first, path):
            faults.ignore("copies of files", path)
        else:
            faults.add(part, path.stem, f"{path.stem} comes twice, and the files differ: {first} and {path}")
    return found


def _are_copies(first: Path, second: Path) -> bool:
    try:
        if first.samefile(second):  # through a link: nothing need be read
            return True
        return first.suffix == second.suffix and filecmp.cmp(first, second, shallow=False)
    except OSError:  # a link to nothing
        return False


def paired(
    audio: Mapping[str, Path], transcripts: Mapping[str, Path], read: Callable[[Path], str], part: str, faults: Faults
) -> list[Transcribed]:
    """Pair recordings by id, sorted: each has audio and a transcript, which ``read`` can read. Others are faults."""
    for id, path in sorted(audio.items()):
        if id not in transcripts:
            faults.add(part, id, f"no transcript of {id} ({path})")
    texts = {}
    for id, path in sorted(transcripts.items()):
        if id not in audio:
            faults.add(part, id, f"no audio of {id} ({path})")
            continue
        try:
            texts[id] = read(path)
        except InputError as error:
            faults.add(part, id, str(error))
    return [Transcribed(id, audio[id], text) for id, text in texts.items()]
