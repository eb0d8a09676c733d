"""Read and write what corpora of long recordings share.

It is transcripts, word times, and Rev's nlp files.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from espnet_ext.audio.files import Inspected
from espnet_ext.corpora.checks import (
    SHARE,
    SHOWN,
    Faults,
    check_audio_files,
    make_data_dir_of_files,
    read_lines,
    write_parts,
)
from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.data_dir import DataDir
from espnet_ext.text.word_times import (
    DROPPED,
    SHORTEST,
    drop_overlaps,
    find_word_fault,
    write_regions,
    write_word_times,
)
from espnet_ext.text.words import Word

_NO_WORD = "no word in it, or all words are unknown"
# Seconds by which a transcript may exceed its audio: times are rounded, and ends of
# files are trimmed. More means that one of them is cut, or another recording's.
_LATE = 0.5


class Transcript(NamedTuple):
    """What is said in a recording."""

    text: str
    ignored: Sequence[tuple[float, float]] = ()  # seconds, regions that are not scored
    end: float = 0.0  # seconds, of the last word; 0 if the transcript has no times


def write_recordings(
    audio: Mapping[str, Mapping[str, Path]],
    transcripts: Mapping[str, Mapping[str, Transcript]],
    faults: Faults,
    output_dir: str | Path,
) -> dict[str, DataDir]:
    """Check recordings, part -> id, and write the data dir of each part.

    They may have any rate and number of channels. ``faults`` gets a transcript without
    a word or longer than the audio, faulty audio, and parts without recordings.
    """
    files: dict[str, dict[str, Path]] = {}
    for part, own in transcripts.items():
        for id, transcript in own.items():
            if not transcript.text.strip():
                faults.add(part, id, f"{id}: the transcript holds no word")
        if not own:
            faults.add(part, part, f"there are no recordings in {part}")
        files[part] = {id: audio[part][id] for id in faults.select_faultless(part, own)}
    sounds = check_audio_files(faults, files)
    # They are scored, and short ones count, too: only training needs a length.
    for part, found in sounds.items():
        ends = {id: transcripts[part][id].end for id in found}
        sounds[part] = keep_long_enough(
            faults, part, found, files[part], ends, shortest=0.0
        )
    faults.settle({part: len(good) for part, good in sounds.items()})
    data = {}
    for part, good in sounds.items():
        texts = {id: transcripts[part][id].text for id in good}
        data[part] = make_data_dir(files[part], texts, good)
    write_parts(data, output_dir, faults.options)
    return data


def write_timed(
    corpus: str,
    part: str,
    recordings: Iterable[tuple[str, list[Word] | str]],
    sounds: Mapping[str, Inspected],
    files: Mapping[str, Path],
    faults: Faults,
    output: Path,
) -> dict[str, DataDir]:
    """Write the words of recordings with their times, and the data dir of the part.

    One recording is in memory at a time. The words go to
    ``<corpus>_words_<part>.words`` and ``.scp``, with one called ``<dropped>`` for each
    region in which times overlap or go back, or words are not known (which have that
    name). In place of words may come what is wrong.
    """
    texts: dict[str, str] = {}
    regions: dict[str, list[tuple[float, float]]] = {}
    # A recording is spoken until the end of its last word.
    spoken: dict[str, float] = {}

    # A generator, as write_word_times holds one recording at a time; what it learns of
    # the recordings is in the tables above when it ends.
    def keep_timed() -> Iterator[tuple[str, list[Word]]]:
        for id, found in recordings:
            fault: str | None = None
            words: list[Word] = []
            if isinstance(found, str):
                fault = found
            else:
                words = found
            # Overlaps are no fault, but left out; impossible times are one, which is
            # looked for in what is left.
            kept = drop_overlaps(words)
            seconds = sounds[id].seconds
            text = " ".join(word.text for word in kept if word.text != DROPPED)
            fault = fault or find_word_fault(kept, seconds)
            if not fault and not text:
                # Where nothing is left, the fault is that of the words as they came.
                fault = find_word_fault(words, seconds) or _NO_WORD
            if fault:
                faults.add(part, id, f"{id}: {fault} ({files[id]})")
                continue
            texts[id] = text
            spoken[id] = kept[-1].end
            dropped = [word for word in kept if word.text == DROPPED]
            regions[id] = [(word.start, word.end) for word in dropped]
            yield id, kept
        # In here, before write_word_times renames its file: nothing is written if one
        # of these refuses.
        faults.settle({part: len(texts)})
        listed = output / f"{corpus}_{part}_dropped.txt"
        _check_dropped(regions, sum(spoken.values()), faults, listed)

    output.mkdir(parents=True, exist_ok=True)
    write_word_times(output / f"{corpus}_words_{part}", keep_timed())
    data = {part: make_data_dir(files, texts, sounds)}
    write_parts(data, output, faults.options)
    return data


def _check_dropped(
    regions: Mapping[str, list[tuple[float, float]]],
    spoken: float,
    faults: Faults,
    file: Path,
) -> None:
    """Write regions that are dropped to the file, and refuse them if they are too many.

    They may be as large a share of what is spoken as may be faulty.
    """
    seconds = {}
    for key, own in regions.items():
        total = sum(end - start for start, end in own)
        if total:
            seconds[key] = total
    # It may be an earlier run's.
    file.unlink(missing_ok=True)
    if not seconds:
        return
    write_regions(file, regions)
    lost = sum(seconds.values())
    # SHARE at least: automatic transcripts of a large corpus always have some overlaps,
    # and strict preparation would refuse it for them.
    share = max(faults.options.skip_faulty, SHARE)
    worst = sorted(seconds, key=lambda key: -seconds[key])
    named = ", ".join(f"{key} ({seconds[key]:,.1f} s)" for key in worst[:SHOWN])
    more = f" and {len(worst) - SHOWN:,} more" if len(worst) > SHOWN else ""
    what = (
        f"word times overlap, or words are unknown, in {lost:,.1f} of {spoken:,.1f} s "
        f"({lost / spoken:.1%})"
    )
    what = f"{faults.where}: {what}, most in {named}{more} (all regions: {file})"
    if lost > share * spoken:
        advice = (
            "fix or remove these transcripts, or give --skip-faulty a higher percentage"
        )
        raise InputError(f"{what}: at most {100 * share:g} % may be left out: {advice}")
    say(f"warning: {what}: left out of training")


def keep_long_enough(
    faults: Faults,
    part: str,
    sounds: Mapping[str, Inspected],
    files: Mapping[str, Path],
    ends: Mapping[str, float] | None = None,
    shortest: float = SHORTEST,
) -> dict[str, Inspected]:
    """Keep the recordings that last ``shortest`` seconds, and until their words end.

    Words end at ``ends``, and may be half a second late. Other recordings become
    faults.
    """
    for key, sound in sounds.items():
        # 0 for a transcript without times.
        end = (ends or {}).get(key, 0.0)
        if sound.seconds < shortest:
            length = f"{sound.seconds:g} s, less than {shortest:g} s"
            faults.add(part, key, f"{key} lasts {length} ({files[key]})")
        elif end > sound.seconds + _LATE:
            times = (
                f"its transcript ends at {end:g} s, its audio at {sound.seconds:.2f} s"
            )
            advice = "is one of them another recording's, or cut?"
            faults.add(part, key, f"{key}: {times}: {advice}")
    return faults.select_faultless(part, sounds)


def make_data_dir(
    files: Mapping[str, Path],
    texts: Mapping[str, str],
    sounds: Mapping[str, Inspected],
) -> DataDir:
    """Make a data dir of good recordings, each a speaker of its own.

    That is the custom in Kaldi where no speaker is known.
    """
    return make_data_dir_of_files(files, sounds, texts, {id: id for id in texts}, "en")


def read_nlp(path: Path) -> Transcript:
    """Read the words of a file in Rev's nlp format, with the punctuation around them.

    Fields are found by the names in the file's first line
    (``token|speaker|ts|endTs|punctuation|case|tags``), because their number and order
    differ between Rev's corpora. Tokens such as ``<laugh>`` are left out.
    """
    lines = iter([line.rstrip("\r") for line in read_lines(path) if line.strip()])
    fields = next(lines, "").split("|")
    if "token" not in fields:
        raise InputError(
            f"{path}: its first line has no field 'token': is this an nlp file?"
        )
    # Not all of Rev's files have the punctuation before a word.
    places: dict[str, int] = {}
    for name in ("token", "punctuation", "prepunctuation"):
        if name in fields:
            places[name] = fields.index(name)
    words = []
    for number, line in enumerate(lines, 2):
        # Not csv: a quotation mark is punctuation here, and quotes nothing.
        values = line.split("|")
        # Fields after those that are used may be missing.
        if len(values) <= max(places.values()):
            raise InputError(
                f"{path}: line {number} has {len(values)} fields, its header "
                f"{len(fields)}: fix it"
            )
        token = values[places["token"]].strip()
        is_tag = token.startswith("<") and token.endswith(">")
        if token and not is_tag:
            before = _find_value(values, places, "prepunctuation")
            after = _find_value(values, places, "punctuation")
            words.append(f"{before}{token}{after}")
    return Transcript(" ".join(words))


def _find_value(values: Sequence[str], places: Mapping[str, int], name: str) -> str:
    return values[places[name]] if name in places else ""


def read_column(
    path: Path, column: str, corpus: str, delimiter: str = ","
) -> list[str]:
    """Read the values in one column of a corpus's list, in its order.

    Rows that end before it are left out.
    """
    # The limit is 128 KiB by default, and some lists have longer descriptions.
    csv.field_size_limit(1 << 24)
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file, delimiter=delimiter)
            if column not in (rows.fieldnames or ()):
                raise InputError(
                    f"{path}: it has no column {column!r}: is this {corpus}?"
                )
            values = [(row[column] or "").strip() for row in rows]
            return [value for value in values if value]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"{path}: no table in UTF-8 ({error}): download it again"
        ) from None


def pair_transcripts(
    audio: Mapping[str, Path],
    files: Mapping[str, Path],
    read: Callable[[Path], Transcript],
    part: str,
    faults: Faults,
    expected: Iterable[str] = (),
) -> dict[str, Transcript]:
    """Read the transcripts of the recordings of a part, by id, sorted.

    Each has audio, and each recording a transcript. Others become faults, and so do
    transcripts that ``read`` refuses, and ``expected`` recordings without both.
    """
    for id in sorted(set(expected) - audio.keys() - files.keys()):
        faults.add(part, id, f"{id} has neither audio nor transcript")
    for id in sorted(audio.keys() - files.keys()):
        faults.add(part, id, f"no transcript of {id} ({audio[id]})")
    transcripts = {}
    for id, path in sorted(files.items()):
        if id not in audio:
            faults.add(part, id, f"no audio of {id} ({path})")
            continue
        try:
            transcripts[id] = read(path)
        except InputError as error:
            faults.add(part, id, str(error))
    return transcripts
