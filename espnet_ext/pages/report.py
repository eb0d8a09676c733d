"""The results page of a recipe: its tables with intervals, the verdicts of its claims,
and errors to listen to.

A *run* is what ``run.sh`` calls ``--expdir``, with ``results`` and the decodings of
each system and seed.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.kaldi.utterance_audio import read_spans
from espnet_ext.pages.aligned import aligned_data
from espnet_ext.pages.clips import write_clips
from espnet_ext.pages.page import write_page
from espnet_ext.scoring.alignment_file import read_alignment
from espnet_ext.scoring.alignments import Aligned, Key, Row
from espnet_ext.tables.publish import TABLES, kept_folders, read_results
from espnet_ext.tables.render import (
    EFFECT,
    Grid,
    claims_grid,
    counts_text,
    curve_grid,
    grid_of,
    legend,
    run_text,
)
from espnet_ext.tables.result import TableResult
from espnet_ext.tables.schema import DEFAULT_DECODING
from espnet_ext.tables.score_table import META
from espnet_ext.work.files import scratch_beside

ROWS = 200  # of each test set that the page shows, those with most errors
CLIPS = 50  # of each test set, those with most errors
_MARK = '<meta name="generator" content="espnet-ext">'
_ADVICE = (
    "give a recipe's folder, its exp, or a run in that, such as "
    "egs/librispeech_sem/exp/mini"
)


@dataclass(frozen=True)
class Section:
    """The results of one corpus and scale; ``source`` is their folder in the recipe's."""

    source: str
    results: Sequence[TableResult]

    @property
    def title(self) -> str:
        """The corpus and the scale."""
        return f"{self.results[0].meta.corpus}, scale {self.results[0].meta.scale}"

    @property
    def verdicts(self) -> str:
        """How many claims have which verdict."""
        return counts_text(
            [claim for result in self.results for claim in result.claims]
        )


def write_report(folders: Sequence[Path], output: Path) -> list[str]:
    """Write a page for each recipe and an index into the folder ``output``, completely
    or not at all.

    ``folders`` are recipes, their ``exp``, or runs in that. Returned are notes on audio
    that is missing, a line each. Raises InputError: ``output`` holds something other
    than a report, a folder belongs to no recipe, there is nothing to show, or a file of
    a run cannot be read.
    """
    _check_output(output)
    recipes = find_runs(folders)
    with scratch_beside(output) as scratch:
        site = scratch / "site"
        site.mkdir()
        names, notes = [home.name for home in recipes], []
        index: dict[str, list[Section]] = {}
        for home, runs in recipes.items():
            index[home.name] = _sections(home, runs)
            notes += _write_recipe(site, home, runs, index[home.name], names)
        write_page(site / "index.html", "index.html.j2", title="Results", recipes=index)
        if output.exists():
            output.rename(scratch / "old")
        site.rename(output)
    return notes


def _check_output(output: Path) -> None:
    """Refuse to replace anything but a report."""
    index = output / "index.html"
    own = index.is_file() and _MARK in index.read_text(
        encoding="utf-8", errors="replace"
    )
    if (
        output.exists()
        and not own
        and not (output.is_dir() and not any(output.iterdir()))
    ):
        raise InputError(
            f"{output}: exists and is not a report: give another --output, or remove it"
        )


def find_runs(folders: Sequence[Path]) -> dict[Path, list[Path]]:
    """Find the runs of each recipe that folders belong to; a recipe without runs may
    have results that it keeps.
    """
    recipes: dict[Path, list[Path]] = {}
    for folder in (each.absolute() for each in folders):
        home = next(
            (
                path
                for path in (folder, *folder.parents[:2])
                if (path / TABLES).is_file()
            ),
            None,
        )
        if home is None or not folder.is_dir():
            raise InputError(
                f"{folder}: no folder of a recipe: {_ADVICE} (which may be links)"
            )
        if any(home.name == other.name and home != other for other in recipes):
            raise InputError(
                f"{home}: another recipe is called {home.name} too: write its "
                "report elsewhere"
            )
        exp = folder / "exp" if folder == home else folder
        runs = [exp] if _is_run(exp) else sorted(filter(_is_run, exp.glob("*")))
        recipes[home] = list(dict.fromkeys([*recipes.get(home, []), *runs]))
    if not any(runs or kept_folders(home) for home, runs in recipes.items()):
        raise InputError(
            f"{folders[0]}: nothing has run here: run the recipe first (./run.sh)"
        )
    return recipes


def _is_run(folder: Path) -> bool:
    return (folder / "results" / META).is_file() or any(folder.glob("*/seed*"))


def _sections(home: Path, runs: Sequence[Path]) -> list[Section]:
    """Return the results of the runs, then those that the recipe keeps of other corpora
    and scales.
    """
    sources = [
        run / "results" for run in runs if (run / "results" / META).is_file()
    ] + kept_folders(home)
    sections: dict[tuple[str, str], Section] = {}
    for source in sources:
        if results := read_results(source, home):
            key = results[0].meta.corpus, results[0].meta.scale
            sections.setdefault(key, Section(str(source.relative_to(home)), results))
    return list(sections.values())


def _write_recipe(
    site: Path,
    home: Path,
    runs: Sequence[Path],
    sections: Sequence[Section],
    names: Sequence[str],
) -> list[str]:
    """Write the page of a recipe, with its audio and pictures; return what is missing."""
    notes: list[str] = []
    data = [
        each for run in runs for each in _errors(run, home, site, len(runs) > 1, notes)
    ]
    write_page(
        site / f"{home.name}.html",
        "recipe.html.j2",
        title=home.name,
        names=names,
        paper=sections[0].results[0].paper.citation if sections else "",
        sections=sections,
        data=data,
        notes=notes,
        picture_of=partial(_picture, home, site),
        effect=EFFECT,
        claims_grid=claims_grid,
        grids=_grids,
        legend=legend,
        run_text=run_text,
    )
    return notes


def _picture(
    home: Path, site: Path, section: Section, result: TableResult
) -> str | None:
    """Copy the picture of a figure, if there is one, and return its address."""
    picture = home / section.source / f"{result.table.id}.png"
    if not result.table.figure or not picture.is_file():
        return None
    target = (
        site
        / "pictures"
        / home.name
        / f"{section.source.replace('/', '-')}-{picture.name}"
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(picture, target)
    return str(target.relative_to(site))


def _grids(result: TableResult) -> list[Grid]:
    return (
        [curve_grid(result)]
        if result.table.figure
        else [grid_of(result, columns) for columns in result.groups]
    )


def _errors(
    run: Path, home: Path, site: Path, several: bool, notes: list[str]
) -> list[dict[str, Any]]:
    """Return the aligned errors of each test set of a run, with audio; what is missing
    goes into ``notes``.
    """
    found: dict[str, list[Path]] = {}
    for path in sorted(run.glob("*/seed*/decode_*/*/alignment.txt")):
        if (path.parent / "score.json").is_file():
            found.setdefault(path.parent.name, []).append(path)
    return [
        _test_set(f"{run.name}: {name}" if several else name, files, _data_dir(home / "data" / run.name / name),
                  home, site / "audio" / home.name / run.name / name, notes)
        for name, files in sorted(found.items())
    ]  # fmt: skip


def _data_dir(folder: Path) -> Path:
    """Return the data dir of a test set: its folder, or one below it, as of LibriCSS,
    which is prepared in steps.
    """
    if (folder / "wav.scp").is_file():
        return folder
    return next((path.parent for path in sorted(folder.rglob("wav.scp"))), folder)


def _test_set(
    name: str,
    files: Sequence[Path],
    data_dir: Path,
    home: Path,
    clips: Path,
    notes: list[str],
) -> dict[str, Any]:
    """Return the aligned errors of one test set. The audio of the worst is written into
    ``clips``.
    """
    table = data_dir / "utt2spk"
    rows, systems = read_aligned(files, read_table(table) if table.is_file() else {})
    data = aligned_data(name, rows, systems, ROWS)
    wholes = [rows[row[3]].whole for row in data["rows"]]
    try:
        if not (data_dir / "wav.scp").is_file():
            raise InputError(f"{data_dir} has no wav.scp")
        # relative paths are relative to the recipe's folder, where commands run
        spans = {
            key: span._replace(path=str(home / span.path))
            for key, span in read_spans(data_dir).items()
        }
        names, failed = write_clips(list(dict.fromkeys(wholes))[:CLIPS], spans, clips)
    except InputError as error:
        notes.append(f"No audio of {name}: {error}")
        return data
    if failed:
        key, why = next(iter(failed.items()))
        notes.append(f"No audio of {len(failed)} utterances of {name}; {key}: {why}")
    for row, whole in zip(data["rows"], wholes, strict=True):
        if whole in names:
            row[5] = "/".join((*clips.parts[-4:], names[whole]))
    return data


def read_aligned(
    files: Sequence[Path], speakers: dict[str, str]
) -> tuple[list[Row], dict[str, dict[str, Aligned]]]:
    """Read the rows of the reference, and the aligned tokens by system and seed, of all
    decodings of a test set.

    ``files`` are ``<system>/seed<N>/decode_<decoding>/<test set>/alignment.txt``;
    ``speakers``, by utterance, are for files that name none, and may be incomplete.
    """
    rows: dict[Key, Row] = {}
    systems: dict[str, dict[str, Aligned]] = {}
    for path in files:
        decoding = path.parents[1].name.removeprefix("decode_")
        system = path.parents[3].name + (
            "" if decoding == DEFAULT_DECODING else f", {decoding}"
        )
        aligned = systems.setdefault(system, {}).setdefault(
            path.parents[2].name.removeprefix("seed"), {}
        )
        for block in read_alignment(path):
            key = block.key, block.speaker
            label = " ".join(filter(None, key))
            tokens = tuple(left for left, _ in block.pairs if left is not None)
            rows.setdefault(
                key,
                Row(
                    key,
                    label,
                    block.key,
                    block.speaker or speakers.get(block.key, ""),
                    tokens,
                ),
            )
            aligned[key] = block.pairs
    return list(rows.values()), systems
