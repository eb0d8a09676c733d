"""The results page of a recipe: tables, verdicts of claims, errors to listen to.

A *run* is what ``run.sh`` calls ``--expdir``, with ``results`` and the decodings of
each system and seed.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.kaldi.utterance_audio import read_spans
from espnet_ext.pages.aligned import make_aligned_data
from espnet_ext.pages.clips import write_clips
from espnet_ext.pages.page import write_page
from espnet_ext.scoring.alignment_file import read_alignment
from espnet_ext.scoring.alignments import Aligned, Key, Row
from espnet_ext.tables.publish import TABLES, list_kept_folders, read_results
from espnet_ext.tables.render import (
    EFFECT,
    Grid,
    describe_counts,
    describe_run,
    explain_signs,
    lay_out_claims,
    lay_out_figure,
    lay_out_table,
)
from espnet_ext.tables.result import TableResult
from espnet_ext.tables.schema import DEFAULT_DECODING
from espnet_ext.tables.score_table import META
from espnet_ext.work.files import open_scratch_folder

ROWS = 200  # of each test set that the page shows, those with most errors
CLIPS = 50  # of each test set, those with most errors
_MARK = '<meta name="generator" content="espnet-ext">'
_ADVICE = (
    "give a recipe's folder, its exp, or a run in that, such as "
    "egs/librispeech_sem/exp/mini"
)


@dataclass(frozen=True)
class Section:
    """The results of one corpus and scale."""

    source: str  # their folder in the recipe's
    results: Sequence[TableResult]

    @property
    def title(self) -> str:
        """The corpus and the scale."""
        return f"{self.results[0].meta.corpus}, scale {self.results[0].meta.scale}"

    @property
    def verdicts(self) -> str:
        """How many claims have which verdict."""
        claims = chain.from_iterable(result.claims for result in self.results)
        return describe_counts(list(claims))


def write_report(folders: Sequence[Path], output: Path) -> list[str]:
    """Write a page for each recipe and an index, completely or not at all.

    They go to the folder ``output``. ``folders`` are recipes, their ``exp``, or runs in
    that. Returned are notes on audio that is missing, a line each. Raises InputError:
    ``output`` holds something other than a report, a folder belongs to no recipe, there
    is nothing to show, or a file of a run cannot be read.
    """
    _check_output(output)
    recipes = find_runs(folders)
    with open_scratch_folder(output) as scratch:
        site = scratch / "site"
        site.mkdir()
        names = [home.name for home in recipes]
        notes: list[str] = []
        index: dict[str, list[Section]] = {}
        for home, runs in recipes.items():
            index[home.name] = _list_sections(home, runs)
            notes += _write_recipe(site, home, runs, index[home.name], names)
        write_page(site / "index.html", "index.html.j2", title="Results", recipes=index)
        # renamed, not copied: a reader of the pages never meets half of them
        if output.exists():
            output.rename(scratch / "old")
        site.rename(output)
    return notes


def _check_output(output: Path) -> None:
    """Refuse to replace anything but a report."""
    index = output / "index.html"
    if not output.exists():
        return
    text = ""
    if index.is_file():
        text = index.read_text(encoding="utf-8", errors="replace")
    is_empty = output.is_dir() and not any(output.iterdir())
    if _MARK not in text and not is_empty:
        raise InputError(
            f"{output}: exists and is not a report: give another --output, or remove it"
        )


def find_runs(folders: Sequence[Path]) -> dict[Path, list[Path]]:
    """Find the runs of each recipe that folders belong to.

    A recipe without runs may have results that it keeps.
    """
    recipes: dict[Path, list[Path]] = {}
    for given in folders:
        folder = given.absolute()  # not resolved: a run may be a link to another disk
        above = (folder, *folder.parents[:2])
        homes = [path for path in above if (path / TABLES).is_file()]
        if not homes or not folder.is_dir():
            raise InputError(
                f"{folder}: no folder of a recipe: {_ADVICE} (which may be links)"
            )
        home = homes[0]
        # the pages are called after their recipes
        if any(home.name == other.name and home != other for other in recipes):
            raise InputError(
                f"{home}: another recipe is called {home.name} too: write its "
                "report elsewhere"
            )
        exp = folder / "exp" if folder == home else folder
        runs = [exp] if _is_run(exp) else sorted(filter(_is_run, exp.glob("*")))
        recipes[home] = list(dict.fromkeys([*recipes.get(home, []), *runs]))
    if not any(runs or list_kept_folders(home) for home, runs in recipes.items()):
        raise InputError(
            f"{folders[0]}: nothing has run here: run the recipe first (./run.sh)"
        )
    return recipes


def _is_run(folder: Path) -> bool:
    return (folder / "results" / META).is_file() or any(folder.glob("*/seed*"))


def _list_sections(home: Path, runs: Sequence[Path]) -> list[Section]:
    """Return the results of the runs, then those that the recipe keeps.

    Of one corpus and scale the first are taken.
    """
    own = [run / "results" for run in runs]
    sources = [folder for folder in own if (folder / META).is_file()]
    sources += list_kept_folders(home)
    sections: dict[tuple[str, str], Section] = {}
    for source in sources:
        results = read_results(source, home)
        if results:
            meta = results[0].meta
            key = (meta.corpus, meta.scale)
            sections.setdefault(key, Section(str(source.relative_to(home)), results))
    return list(sections.values())


def _write_recipe(
    site: Path,
    home: Path,
    runs: Sequence[Path],
    sections: Sequence[Section],
    names: Sequence[str],
) -> list[str]:
    """Write the page of a recipe, with audio and pictures; return what is missing."""
    notes: list[str] = []
    data = []
    for run in runs:
        data += _collect_errors(run, home, site, len(runs) > 1, notes)
    write_page(
        site / f"{home.name}.html",
        "recipe.html.j2",
        title=home.name,
        names=names,
        paper=sections[0].results[0].paper.citation if sections else "",
        sections=sections,
        data=data,
        notes=notes,
        picture_of=partial(_copy_picture, home, site),
        effect=EFFECT,
        lay_out_claims=lay_out_claims,
        grids=_list_grids,
        explain_signs=explain_signs,
        describe_run=describe_run,
    )
    return notes


def _copy_picture(
    home: Path, site: Path, section: Section, result: TableResult
) -> str | None:
    """Copy the picture of a figure, if there is one, and return its address."""
    picture = home / section.source / f"{result.table.id}.png"
    if not result.table.figure or not picture.is_file():
        return None
    source = section.source.replace("/", "-")
    target = site / "pictures" / home.name / f"{source}-{picture.name}"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(picture, target)
    return str(target.relative_to(site))


def _list_grids(result: TableResult) -> list[Grid]:
    if result.table.figure:
        return [lay_out_figure(result)]
    return [lay_out_table(result, columns) for columns in result.groups]


def _collect_errors(
    run: Path, home: Path, site: Path, several: bool, notes: list[str]
) -> list[dict[str, Any]]:
    """Return the aligned errors of each test set of a run, with audio.

    What is missing goes into ``notes``.
    """
    found: dict[str, list[Path]] = {}
    for path in sorted(run.glob("*/seed*/decode_*/*/alignment.txt")):
        # the last file that scoring writes: without it the alignment may be cut short
        if (path.parent / "score.json").is_file():
            found.setdefault(path.parent.name, []).append(path)
    data = []
    for name, files in sorted(found.items()):
        title = f"{run.name}: {name}" if several else name
        data_dir = _find_data_dir(home / "data" / run.name / name)
        clips = site / "audio" / home.name / run.name / name
        data.append(_read_test_set(title, files, data_dir, home, clips, notes))
    return data


def _find_data_dir(folder: Path) -> Path:
    """Return the data dir of a test set: its folder, or one below it.

    That of LibriCSS, which is prepared in steps, is below.
    """
    if (folder / "wav.scp").is_file():
        return folder
    below = sorted(folder.rglob("wav.scp"))
    return below[0].parent if below else folder


def _read_test_set(
    name: str,
    files: Sequence[Path],
    data_dir: Path,
    home: Path,
    clips: Path,
    notes: list[str],
) -> dict[str, Any]:
    """Return the aligned errors of one test set.

    The audio of the worst is written into ``clips``.
    """
    table = data_dir / "utt2spk"
    speakers = read_table(table) if table.is_file() else {}
    rows, systems = read_aligned(files, speakers)
    data = make_aligned_data(name, rows, systems, ROWS)
    wholes = [rows[row[3]].whole for row in data["rows"]]
    try:
        if not (data_dir / "wav.scp").is_file():
            raise InputError(f"{data_dir} has no wav.scp")
        spans = {}
        for key, span in read_spans(data_dir).items():
            # Relative paths are relative to the recipe's folder, where commands run.
            spans[key] = span._replace(path=str(home / span.path))
        names, failed = write_clips(list(dict.fromkeys(wholes))[:CLIPS], spans, clips)
    except InputError as error:
        notes.append(f"No audio of {name}: {error}")
        return data
    if failed:
        key, why = next(iter(failed.items()))
        notes.append(f"No audio of {len(failed)} utterances of {name}; {key}: {why}")
    for row, whole in zip(data["rows"], wholes, strict=True):
        if whole in names:
            # ``audio/RECIPE/RUN/SET/N.mp3``, below the page
            row[5] = "/".join((*clips.parts[-4:], names[whole]))
    return data


def read_aligned(
    files: Sequence[Path], speakers: dict[str, str]
) -> tuple[list[Row], dict[str, dict[str, Aligned]]]:
    """Read the rows of the reference, and the aligned tokens by system and seed.

    ``files`` are ``<system>/seed<N>/decode_<decoding>/<test set>/alignment.txt``;
    ``speakers``, by utterance, are for files that name none, and may be incomplete.
    """
    rows: dict[Key, Row] = {}
    systems: dict[str, dict[str, Aligned]] = {}
    for path in files:
        decoding = path.parents[1].name.removeprefix("decode_")
        system = path.parents[3].name
        if decoding != DEFAULT_DECODING:
            system += f", {decoding}"
        seed = path.parents[2].name.removeprefix("seed")
        aligned = systems.setdefault(system, {}).setdefault(seed, {})
        for block in read_alignment(path):
            key = block.key, block.speaker
            label = " ".join(filter(None, key))
            # the reference: all that is on the left but for insertions
            tokens = tuple(left for left, _ in block.pairs if left is not None)
            speaker = block.speaker or speakers.get(block.key, "")
            # all systems have the same reference, so the first one's will do
            rows.setdefault(key, Row(key, label, block.key, speaker, tokens))
            aligned[key] = block.pairs
    return list(rows.values()), systems
