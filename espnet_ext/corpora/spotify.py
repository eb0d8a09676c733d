"""Prepare Spotify podcasts (Clifton et al. 2020), which have automatic transcripts.

There are 100,000 episodes. The layout is
``podcasts-transcripts/<c>/<c>/show_<id>/<episode>.json`` (<c>: a character of the
show's id), ``podcasts-audio/<c>/<c>/show_<id>/<episode>.ogg`` and ``metadata.tsv``, up
to three folders down, as archives unpack.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import batched, chain
from pathlib import Path
from typing import Any

from espnet_ext.corpora.checks import (
    Faults,
    Options,
    check_audio_files,
    find_files_by_id,
    require_corpus,
)
from espnet_ext.corpora.long_recordings import (
    keep_long_enough,
    read_column,
    write_timed,
)
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir
from espnet_ext.text.formats import is_number
from espnet_ext.text.words import Word, divide_span
from espnet_ext.work.files import parse_json

TRANSCRIPTS = "podcasts-transcripts"
AUDIO = "podcasts-audio"
METADATA = "metadata.tsv"
_EPISODES_AT_ONCE = 64  # their words are in memory together
_DEPTH = 3  # folders between the corpus folder and these, at most


def prepare_spotify(
    corpus_dir: str | Path,
    output_dir: str | Path,
    part: str = "train",
    **options: Any,
) -> dict[str, DataDir]:
    """Check podcasts, and write their data dir and the table of their word times.

    The output gets the data dir ``part``, ``spotify_words_<part>.words`` and ``.scp``
    and, if there are any, ``spotify_<part>_faults.txt``, and
    ``spotify_<part>_dropped.txt`` with the regions in which word times overlap, which
    training leaves out.
    """
    corpus = require_corpus(corpus_dir, f"{TRANSCRIPTS}, {AUDIO} and {METADATA}")
    output = Path(output_dir)
    faults = Faults(corpus, output / f"spotify_{part}_faults.txt", Options(**options))
    transcripts = find_files_by_id(
        _find_places(corpus, TRANSCRIPTS), "*/*/show_*/*.json", part, faults
    )
    audio = find_files_by_id(
        _find_places(corpus, AUDIO), "*/*/show_*/*.ogg", part, faults
    )
    known: set[str] = set()
    for path in _find_places(corpus, METADATA):
        known |= read_metadata(path)
    for id in sorted(known - transcripts.keys()):
        faults.add(part, id, f"episode {id} of {METADATA} has no transcript")
    for id, path in transcripts.items():
        if id not in audio:
            faults.add(part, id, f"episode {id} has no audio ({path})")
        elif id not in known:
            faults.add(part, id, f"episode {id} is not in {METADATA} ({path})")
    whole = {id: audio[id] for id in faults.select_faultless(part, transcripts)}
    sounds = check_audio_files(faults, {part: whole})[part]
    sounds = keep_long_enough(faults, part, sounds, audio)
    kept = {id: transcripts[id] for id in sounds}
    words = _read_words(kept, faults.options.num_jobs)
    return write_timed("spotify", part, words, sounds, audio, faults, output)


def _read_words(
    transcripts: Mapping[str, Path],
    num_jobs: int,
) -> Iterator[tuple[str, list[Word] | str]]:
    """Yield episodes with their words, or with the fault of the transcript."""
    # By groups: map() alone would read all transcripts at once, and they are 100,000.
    with ThreadPoolExecutor(num_jobs) as pool:
        for group in batched(transcripts.items(), _EPISODES_AT_ONCE):
            ids = [id for id, _ in group]
            paths = [path for _, path in group]
            found = pool.map(_read_or_explain, paths)
            yield from zip(ids, found, strict=True)


def _find_places(corpus: Path, name: str) -> list[Path]:
    """Find all files or folders of a name, up to three folders below the corpus's."""
    found: list[Path] = []
    for depth in range(_DEPTH + 1):
        found += sorted(corpus.glob("*/" * depth + name))
    if not found:
        raise InputError(
            f"{corpus}: no {name} in it: give the folder that holds "
            f"{TRANSCRIPTS}, {AUDIO}, {METADATA}"
        )
    return found


def read_metadata(path: Path) -> set[str]:
    """Read the episodes that metadata.tsv lists, by the names of their files."""
    return set(
        read_column(path, "episode_filename_prefix", "the podcasts' metadata", "\t")
    )


def _read_or_explain(transcript: Path) -> list[Word] | str:
    """Read the words of an episode; or return its fault."""
    try:
        return read_transcript(transcript)
    except InputError as error:
        return str(error)


def read_transcript(path: Path) -> list[Word]:
    """Read the words of Google's transcript with their times."""
    try:
        results = parse_json(path.read_text(encoding="utf-8-sig"))["results"]
        entries = _list_entries(results)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise InputError(
            f"{path}: not a transcript with results and alternatives: download it again"
        ) from None
    if not entries:
        raise InputError(f"{path}: the transcript holds no word")
    words: list[Word] = []
    for entry in entries:
        try:
            words.extend(_split_entry(entry))
        except (KeyError, ValueError, AttributeError):
            times = ", ".join(
                f"{name} {entry.get(name)!r:.40}" for name in ("startTime", "endTime")
            )
            raise InputError(
                f"{path}: a transcript whose words have no times, or none like "
                f"'12.300s': word {len(words) + 1}, "
                f"{entry['word']!r}, has {times}: download it again"
            ) from None
    return words


def _list_entries(results: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the entries of all words, of which each has one in a result."""
    spoken = [result["alternatives"][0].get("words", []) for result in results]
    # The last result repeats all words, with their speakers.
    if spoken and spoken[-1] and "speakerTag" in spoken[-1][0]:
        spoken.pop()
    return [entry for entry in chain(*spoken) if entry["word"].strip()]


def _split_entry(entry: Mapping[str, str]) -> Iterator[Word]:
    """Yield the word of an entry.

    Where it holds blanks, it is several words, which share its time by their letters.
    """
    words = tuple(entry["word"].split())
    span = (_parse_seconds(entry["startTime"]), _parse_seconds(entry["endTime"]))
    # A single word keeps its times to the last bit, which a division might change.
    spans = [span]
    if len(words) > 1:
        spans = divide_span(words, span)
    for word, (start, end) in zip(words, spans, strict=True):
        yield Word(word, start, end)


def _parse_seconds(value: str) -> float:
    seconds = value.removesuffix("s")
    # float() would take "nan", which no later check could place.
    if seconds == value or not is_number(seconds):
        raise ValueError(value)
    return float(seconds)
