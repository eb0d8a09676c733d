"""The error browser's data: the scored test sets of a recipe, their worst utterances, and audio of the worst.

Utterances come in chunks of JavaScript: a page that is opened from a disk may not fetch files, but it may load scripts,
so a chunk is a script that hands its records to the page. A record is a list whose places ``FIELDS`` names.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby, pairwise
from pathlib import Path
from typing import Any

from espnet_ext.codeswitch.mixed_text import has_han
from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.pages.clips import SUFFIX, choose, spans_of, write_clips
from espnet_ext.pages.runs import ScoredDecoding, ShownRecipe, ShownRun, decodings
from espnet_ext.scoring.alignment_file import Aligned, read_alignment
from espnet_ext.scoring.error_rate import ErrorRate, Pair, count_pairs, mark
from espnet_ext.scoring.mixed import split_at_switches
from espnet_ext.tables.run_scores import read_score, read_utterances
from espnet_ext.tables.schema import DEFAULT_DECODING

# reference, hypothesis: tokens separated by blanks; of the hypothesis only those that differ from the reference.
# marks: one letter per column of the alignment: C (correct), S, D or I. switches: columns where the language changes.
# near: errors next to a switch point. audio: the number of a file, or null.
FIELDS = (
    "id", "speaker", "words", "sub", "del", "ins", "reference", "hypothesis", "marks", "switches", "near", "audio",
)  # fmt: skip
CHUNK = 1000  # utterances, or fewer where they are long
CHUNK_CHARACTERS = 1_000_000


def worst(blocks: Iterable[Aligned], most: int) -> list[Aligned]:
    """The ``most`` blocks with the most errors, in falling order; of two with as many, the shorter reference first.

    >>> from espnet_ext.scoring.error_rate import count_errors
    >>> blocks = [Aligned(name, None, count_errors(name.split("-"), ["x"]), ()) for name in ("x", "a-b-c", "d", "e-x")]
    >>> [block.key for block in worst(blocks, 3)]
    ['a-b-c', 'd', 'e-x']
    """
    return sorted(blocks, key=lambda block: (-_errors(block), _words(block), block.key, block.speaker or ""))[:most]


def _errors(block: Aligned) -> float:
    return block.counts.errors if block.counts else float("inf")  # too long to align, so certainly not without errors


def _words(block: Aligned) -> int:
    return block.counts.reference_length if block.counts else 0


def record(block: Aligned, speakers: Mapping[str, str], mixed: bool, audio: Mapping[str, int]) -> list[Any]:
    """One utterance as a list of ``FIELDS``.

    Args:
        speakers: utterance -> speaker, for blocks that do not name one; may be incomplete.
        mixed: whether the text is Mandarin-English, so that it has switch points.
        audio: utterance -> number of its audio file; may be incomplete.

    >>> block = Aligned("u", None, ErrorRate(1, 1, 1, 1), (("我", "我"), ("go", "够"), ("x", None), (None, "y")))
    >>> record(block, {"u": "ann"}, True, {"u": 3})
    ['u', 'ann', 3, 1, 1, 1, '我 go x', '够 y', 'CSDI', [1], 1, 3]
    """
    counts = block.counts or ErrorRate(0, 0, 0, 0)
    reference = " ".join(left for left, _ in block.pairs if left is not None)
    hypothesis = " ".join(right for left, right in block.pairs if right is not None and right != left)
    switches, near = _switches(block.pairs) if mixed else ([], 0)
    return [
        block.key, block.speaker or speakers.get(block.key, ""), counts.reference_length, counts.substitutions,
        counts.deletions, counts.insertions, reference, hypothesis, "".join(map(mark, block.pairs)), switches, near,
        audio.get(block.key),
    ]  # fmt: skip


def _switches(pairs: Sequence[Pair]) -> tuple[list[int], int]:
    """The columns whose reference token is of another language than the one before, and the errors next to them."""
    tokens = [(column, has_han(left)) for column, (left, _) in enumerate(pairs) if left is not None]
    near, _ = split_at_switches(pairs, has_han)
    return [column for (_, before), (column, after) in pairwise(tokens) if before != after], count_pairs(near).errors


def chunks(records: Iterable[Sequence[Any]]) -> Iterator[list[str]]:
    """Records as JSON, in chunks of at most ``CHUNK`` records and about ``CHUNK_CHARACTERS`` characters."""
    chunk: list[str] = []
    size = 0
    for each in records:
        text = json.dumps(each, ensure_ascii=False, separators=(",", ":"))
        if chunk and (len(chunk) == CHUNK or size + len(text) > CHUNK_CHARACTERS):
            yield chunk
            chunk, size = [], 0
        chunk.append(text)
        size += len(text)
    if chunk:
        yield chunk


def write_chunks(folder: Path, number: int, records: Iterable[Sequence[Any]]) -> list[str]:
    """Write the scripts ``<number>-<chunk>.js`` of one decoding into a folder; return their names."""
    names = []
    for index, chunk in enumerate(chunks(records)):
        names.append(f"{number}-{index}.js")
        # A script ends at U+2028 for old browsers, though JSON may hold it.
        body = ",\n".join(chunk).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
        (folder / names[-1]).write_text(f"takeUtterances({number},{index},[\n{body}\n]);\n", encoding="utf-8")
    return names


RATES = {"word": ("WER", "words"), "char": ("CER", "characters"), "mixed": ("MER", "tokens")}  # and what is counted


@dataclass(frozen=True)
class Limits:
    """How much of a test set the page shows.

    Attributes:
        utterances: of each decoding, those with the most errors first.
        audio: clips of each test set.
    """

    utterances: int = 10_000
    audio: int = 50


@dataclass(frozen=True)
class ErrorPages:
    """What the error browser of one recipe shows.

    Attributes:
        decodings: entries of the catalogue.
        links: (folder of the run, system, decoding) -> number of the entry that a table's row links to.
        clips: how many audio files were written.
        notes: what is missing and why, one line each.
        catalogue: what the page reads.
    """

    decodings: tuple[Mapping[str, Any], ...]
    links: Mapping[tuple[Path, str, str], int]
    clips: int
    notes: tuple[str, ...]
    catalogue: Mapping[str, Any]


def write_errors(recipe: ShownRecipe, site: Path, slug: str, limits: Limits) -> ErrorPages:
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
    decoding: ScoredDecoding,
    number: int,
    run: ShownRun,
    several_runs: bool,
    data: Path,
    speakers: Mapping[str, str],
    audio: Mapping[str, int],
    limits: Limits,
) -> dict[str, Any]:
    score = read_score(decoding.folder / "score.json")
    assert score is not None  # only a measure may have no tokens
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


def _data_dir(run: ShownRun, test_set: str) -> Path:
    """The data dir of a test set: its folder, or one below it if the corpus is prepared in steps, as LibriCSS is."""
    folder = run.data / test_set
    if (folder / "wav.scp").is_file():
        return folder
    return next((path.parent for path in sorted(folder.rglob("wav.scp"))), folder)


def _speakers(folder: Path) -> Mapping[str, str]:
    """utterance -> speaker, if the data dir says so."""
    path = folder / "utt2spk"
    return read_table(path) if path.is_file() else {}


def _write_audio(
    recipe: ShownRecipe,
    run: ShownRun,
    here: Sequence[ScoredDecoding],
    source: Path,
    folder: Path,
    first: int,
    most: int,
    notes: list[str],
) -> Mapping[str, int]:
    """Write clips of a test set's worst utterances from its data dir ``source``; failures go into ``notes``."""
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
    return sorted(counts, key=lambda key: (-counts[key].errors, counts[key].words, key))
