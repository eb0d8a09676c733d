"""The error browser's data: the scored test sets of a recipe, their worst utterances, and audio of the worst."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from pathlib import Path
from typing import Any

from espnet_ext.data.kaldi_tables import read_table
from espnet_ext.errors import InputError
from espnet_ext.report.audio import SUFFIX, choose, spans_of, write_clips
from espnet_ext.report.runs import Decoding, Recipe, Run, decodings
from espnet_ext.report.utterances import FIELDS, record, worst, write_chunks
from espnet_ext.results.schema import DEFAULT_DECODING
from espnet_ext.results.scores import read_score, read_utterances
from espnet_ext.scoring.aligned_text import read_alignment

RATES = {"word": ("WER", "words"), "char": ("CER", "characters"), "mixed": ("MER", "tokens")}  # and what is counted


@dataclass(frozen=True)
class Limits:
    """How much of a test set goes onto the page.

    Attributes:
        utterances: of each decoding, the worst.
        audio: clips of each test set.
    """

    utterances: int = 10_000
    audio: int = 50


@dataclass(frozen=True)
class ErrorPages:
    """What the error browser of one recipe shows.

    Attributes:
        decodings: entries of the catalogue.
        links: (folder of the run, system, decoding) -> number of the entry that a table's row leads to.
        clips: how many audio files were written.
        notes: what is not there, and why; a line each.
        catalogue: what the page reads.
    """

    decodings: tuple[Mapping[str, Any], ...]
    links: Mapping[tuple[Path, str, str], int]
    clips: int
    notes: tuple[str, ...]
    catalogue: Mapping[str, Any]


def write_errors(recipe: Recipe, site: Path, slug: str, limits: Limits) -> ErrorPages:
    """Write the utterances and audio of a recipe below ``site/data/<slug>`` and ``site/audio/<slug>``.

    Raises:
        InputError: a score, alignment or table that cannot be read.
    """
    data, audio = site / "data" / slug, site / "audio" / slug
    entries: list[dict[str, Any]] = []
    links: dict[tuple[Path, str, str], int] = {}
    notes: list[str] = []
    clips = 0
    for run in recipe.runs:
        for test_set, group in groupby(decodings(run), lambda each: each.test_set):
            # A score without its alignment has nothing to browse.
            here = [each for each in group if (each.folder / "alignment.txt").is_file()]
            if not here:
                notes.append(f"{run.folder}: {test_set} was scored without alignment")
                continue
            data.mkdir(parents=True, exist_ok=True)
            source = _data_dir(run, test_set)
            speakers = _speakers(source)
            numbers = _write_audio(recipe, run, here, source, audio, clips, limits.audio, notes)
            clips += len(numbers)
            for decoding, number in zip(here, count(len(entries))):
                links.setdefault((run.folder, decoding.system, decoding.decoding), number)
                entries.append(_entry(decoding, number, run, len(recipe.runs) > 1, data, speakers, numbers, limits))
    catalogue = {
        "fields": FIELDS, "decodings": entries, "data": f"data/{slug}/", "audio": f"audio/{slug}/", "suffix": SUFFIX
    }  # fmt: skip
    return ErrorPages(tuple(entries), links, clips, tuple(notes), catalogue)


def _entry(
    decoding: Decoding,
    number: int,
    run: Run,
    several_runs: bool,
    data: Path,
    speakers: Mapping[str, str],
    audio: Mapping[str, int],
    limits: Limits,
) -> dict[str, Any]:
    score = read_score(decoding.folder / "score.json")
    blocks = list(read_alignment(decoding.folder / "alignment.txt"))
    kept = worst(blocks, limits.utterances)
    mixed = score.unit == "mixed"
    names = write_chunks(data, number, (record(block, speakers, mixed, audio) for block in kept))
    by = "" if decoding.decoding == DEFAULT_DECODING else f", {decoding.decoding}"
    rate, counted = RATES.get(score.unit, ("Error rate", f"{score.unit}s"))
    return {
        "number": number,
        "set": f"{run.name}: {decoding.test_set}" if several_runs else decoding.test_set,
        "system": f"{decoding.system} {decoding.seed} {decoding.decoding}",
        "label": f"{decoding.system}, seed {decoding.seed}{by}: {score.value:.2f} %",
        "summary": f"{rate} {score.value:.2f} %, {score.errors:,} errors in {score.words:,} {counted}.",
        "mixed": mixed,
        "total": len(blocks),
        "kept": len(kept),
        "chunks": names,
    }


def _data_dir(run: Run, test_set: str) -> Path:
    """The data dir of a test set: its folder, or one below, where a corpus is prepared in steps as LibriCSS is."""
    folder = run.data / test_set
    if (folder / "wav.scp").is_file():
        return folder
    return next((path.parent for path in sorted(folder.rglob("wav.scp"))), folder)


def _speakers(folder: Path) -> Mapping[str, str]:
    """Who says which utterance, where the data dir knows."""
    path = folder / "utt2spk"
    return read_table(path) if path.is_file() else {}


def _write_audio(
    recipe: Recipe,
    run: Run,
    here: Sequence[Decoding],
    source: Path,
    folder: Path,
    first: int,
    most: int,
    notes: list[str],
) -> Mapping[str, int]:
    """Write the audio of a test set's worst utterances from its data dir ``source``; say in ``notes`` what fails."""
    if not most:
        return {}
    try:
        spans = spans_of(source, recipe.folder)
    except InputError as error:
        notes.append(f"No audio of {run.name}, {here[0].test_set}: {error}")
        return {}
    if not spans:
        notes.append(f"No audio of {run.name}, {here[0].test_set}: {source} has no wav.scp")
        return {}
    ranked = [_worst_first(each.folder / "per_utterance.tsv") for each in here]
    folder.mkdir(parents=True, exist_ok=True)
    clips = write_clips(choose(ranked, most), spans, folder, first)
    if clips.failed:
        key, why = next(iter(clips.failed.items()))
        notes.append(f"No audio of {len(clips.failed)} utterances of {run.name}, {here[0].test_set}; {key}: {why}")
    return clips.numbers


def _worst_first(path: Path) -> list[str]:
    if not path.is_file():
        return []
    counts = read_utterances(path)
    return sorted(counts, key=lambda key: (-counts[key][0], counts[key][1], key))
