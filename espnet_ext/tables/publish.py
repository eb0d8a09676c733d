"""Write the tables of a run, and those that a recipe keeps.

The first go into ``<expdir>/results``, the others into ``RESULTS.md``.
"""

import os
import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from espnet_ext.errors import InputError, say
from espnet_ext.tables import render
from espnet_ext.tables.collect import collect
from espnet_ext.tables.design import DESIGN, Making
from espnet_ext.tables.overview import list_result_folders
from espnet_ext.tables.reading import Row, Table, Tables, load_tables
from espnet_ext.tables.result import ClaimResult, TableResult
from espnet_ext.tables.run_scores import gather_scores
from espnet_ext.tables.score_table import (
    META,
    SCORES,
    Meta,
    OwnRow,
    RunRecord,
    read_meta,
    read_scores,
    write_scores,
)
from espnet_ext.tables.test_sets import replace_test_sets
from espnet_ext.work.files import atomic_write
from espnet_ext.work.provenance import collect_meta

TABLES = Path("conf") / "tables.yaml"
NOTES = Path("conf") / "notes.md"
REPORT = "RESULTS.md"
PAGE = "tables.md"
MAIN = "mini-synthetic"  # whose tables RESULTS.md shows
LINES = 120  # of RESULTS.md
NOTHING_MORE = Making()
NOTES_BEGIN = "## Notes"  # what is above it in the notes begins RESULTS.md
OF_PAPER = (
    "Small corpora and models say whether an effect can be seen there, not whether "
    "the paper is right at its own size."
)


def write_tables(
    tables: Tables,
    selected: Sequence[Table],
    rows: Sequence[str] | None,
    expdir: str | Path,
    *,
    scale: str,
    corpus: str,
    tags: tuple[str, str] = ("", ""),
    command: str = "",
    paper: bool = True,
    synthetic_sets: Sequence[str] | None = None,
    lm_perplexity: str | Path | None = None,
    own_systems: Collection[str] = (),
) -> Path:
    """Write a run's scores and tables into ``<expdir>/results``, and print the tables.

    The files hold every row that any run has filled in, and all tables that an earlier
    run has written, since claims are corrected for their number over all of them.
    ``rows`` are those to print (None: all), ``tags`` end the names of folders,
    ``lm_perplexity`` is a file with that of a token; with ``paper`` its numbers stand
    beside ours. ``synthetic_sets`` are the synthetic test sets, if others are not. Rows
    of ``own_systems`` are kept with the scores, as ``tables.yaml`` does not have them.
    """
    if not Path(expdir).is_dir():
        raise InputError(
            f"{expdir}: no such folder, so nothing has run there; give the run's "
            "--expdir"
        )
    folder = Path(expdir) / "results"
    # before anything is computed: what cannot be read must not be replaced
    earlier = read_meta(folder) if (folder / META).is_file() else None
    names = [table.id for table in selected]
    asked = {*names, *(earlier.tables if earlier else ())}
    names = [name for name in tables.tables if name in asked]
    scores = gather_scores(tables, names, expdir, tags)
    perplexity = None
    if lm_perplexity and Path(lm_perplexity).is_file():
        perplexity = float(Path(lm_perplexity).read_text(encoding="utf-8"))
    run = RunRecord.model_validate(collect_meta(command, tables.recipe_dir))
    runs = [run]
    for each in earlier.runs if earlier else ():
        # a command that is given again, as after a kill, is one run
        if (each.command, each.git) != (run.command, run.git):
            runs.append(each)
    meta = Meta(
        recipe=tables.file.recipe,
        corpus=corpus,
        paper=paper,
        synthetic_sets=None if synthetic_sets is None else tuple(synthetic_sets),
        scale=scale,
        tables=tuple(names),
        units=dict(scores.units),
        normaliser=scores.normaliser,
        quantities={system: dict(own) for system, own in scores.quantities.items()},
        dev_losses={system: dict(own) for system, own in scores.dev_losses.items()},
        unfinished=None if scores.unfinished is None else dict(scores.unfinished),
        lm_perplexity=perplexity,
        own_rows=_list_own_rows(tables, names, own_systems),
        runs=tuple(runs),
    )
    write_scores(folder, scores, meta)
    # all of them, for their files and their claims; those of this run are printed
    results = collect(tables, names, scores, meta)
    wanted = {table.id for table in selected}
    for result in results:
        if result.table.id in wanted:
            say(render.write_plain_table(result, rows))
    written = [
        _write(folder / PAGE, render_folder_page(results)),
        *_draw_figures(results, folder),
    ]
    say("written: " + " ".join(map(str, [folder / SCORES, *written])))
    if len(list_result_folders(tables.recipe_dir)) > 1:
        say("all runs of this recipe: espnet-ext table runs --recipe .")
    return folder


def _list_own_rows(
    tables: Tables, names: Iterable[str], systems: Collection[str]
) -> tuple[OwnRow, ...]:
    """Return the rows of some systems in some tables, as they are kept."""
    rows = []
    for name in names:
        for row in tables.tables[name].rows:
            if row.system not in systems:
                continue
            kept = OwnRow(
                table=name,
                name=row.name,
                system=row.system,
                decoding=row.decoding,
                columns=tuple(row.paper),
                curve=row.curve,
                x=row.x,
            )
            rows.append(kept)
    return tuple(rows)


def _add_own_rows(tables: Tables, rows: Iterable[OwnRow], place: Path) -> Tables:
    """Return tables with the rows that results keep of the user's own systems."""
    made = dict(tables.tables)
    for kept in rows:
        table = made.get(kept.table)
        if table is None or not set(kept.columns) <= set(tables.columns):
            raise InputError(
                f"{place}: own row {kept.name}: its table {kept.table} or a column of "
                f"it is not in {tables.path}; write the tables again"
            )
        row = Row(
            name=kept.name,
            system=kept.system,
            decoding=kept.decoding,
            paper=dict.fromkeys(kept.columns),
            curve=kept.curve,
            x=kept.x,
        )
        made[kept.table] = replace(table, rows=(*table.rows, row))
    return replace(tables, tables=made)


def read_results(folder: str | Path, recipe_dir: str | Path) -> list[TableResult]:
    """Compute the results in a folder with ``scores.csv.gz``, of a run or kept."""
    scores, meta = read_scores(folder)
    tables = load_tables(Path(recipe_dir) / TABLES, meta.scale)
    if set(meta.units) - set(tables.file.test_sets):  # of the user's own data dirs
        tables = replace_test_sets(tables, tuple(meta.units))
    for name in meta.tables:
        if name not in tables.tables:
            raise InputError(
                f"{Path(folder) / META}: table {name} is not in {tables.path}; "
                "write the tables again"
            )
    if meta.recipe != tables.file.recipe:
        raise InputError(
            f"{Path(folder) / META}: of the recipe {meta.recipe}, but "
            f"{tables.path} is of another"
        )
    tables = _add_own_rows(tables, meta.own_rows, Path(folder) / META)
    return collect(tables, meta.tables, scores, meta)


def list_kept_folders(recipe_dir: str | Path) -> list[Path]:
    """Return the folders of results that a recipe keeps, the main one first.

    There is a folder for each scale and corpus.
    """
    found = Path(recipe_dir).glob(f"results/*/{META}")
    folders = sorted(path.parent for path in found)
    # RESULTS.md shows the tables of the first; sorting keeps the order of the others
    return sorted(folders, key=lambda folder: folder.name != MAIN)


def keep_results(folder: str | Path, recipe_dir: str | Path) -> Path:
    """Keep a run's scores in its recipe, in place of earlier ones, and draw figures.

    They go into ``results/<scale>-<corpus>``.
    """
    # before anything is removed: scores that cannot be read are refused here
    results = read_results(folder, recipe_dir)
    meta = results[0].meta
    target = Path(recipe_dir) / "results" / f"{meta.scale}-{meta.corpus}"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in (SCORES, META):
        shutil.copyfile(Path(folder) / name, target / name)
    _draw_figures(results, target)
    return target


def render_pages(recipe_dir: str | Path) -> dict[Path, str]:
    """Return the pages that show what a recipe keeps.

    Pages are ``RESULTS.md``, and ``tables.md`` of each folder of results.
    """
    recipe_dir = Path(recipe_dir)
    kept = _read_kept(recipe_dir)
    tables = load_tables(recipe_dir / TABLES)
    check_registered(tables)
    notes = recipe_dir / NOTES
    text = notes.read_text(encoding="utf-8") if notes.is_file() else ""
    pages = {recipe_dir / REPORT: render_report(kept, tables, text)}
    for folder, results in kept.items():
        making = tables.made.get(folder.name, NOTHING_MORE)
        pages[folder / PAGE] = render_folder_page(results, making)
    return pages


def _read_kept(recipe_dir: Path) -> dict[Path, list[TableResult]]:
    folders = list_kept_folders(recipe_dir)
    if not folders:
        raise InputError(
            f"{recipe_dir / 'results'}: nothing is kept there yet: give a run's "
            "folder with --results"
        )
    return {folder: read_results(folder, recipe_dir) for folder in folders}


def read_claims(recipe_dir: str | Path) -> list[ClaimResult]:
    """Return the claims of a recipe on all results that it keeps.

    Claims are in the order of ``design.yaml``, each with all of its designs.
    """
    recipe_dir = Path(recipe_dir)
    tables = load_tables(recipe_dir / TABLES)
    return sort_claims(_read_kept(recipe_dir).values(), tables)


def sort_claims(
    kept: Iterable[Sequence[TableResult]], tables: Tables
) -> list[ClaimResult]:
    """Bring claims into the order of ``design.yaml``: claims first, then designs."""
    claims: list[ClaimResult] = []
    for results in kept:
        for result in results:
            claims += result.claims
    names = list(tables.claims)

    def rank(claim: ClaimResult) -> tuple[int, int]:
        return names.index(claim.name), tables.designs.index(claim.design)

    return sorted(claims, key=rank)


def check_registered(tables: Tables) -> None:
    """Refuse designs that do not name the commit which has them."""
    for design in tables.designs:
        if not design.commit and not design.seen:
            raise InputError(
                f"{tables.path.with_name(DESIGN)}: the design of {design.scale} names "
                "no commit: commit it before test sets are decoded, and name that; or "
                "say seen: true"
            )


def write_pages(recipe_dir: str | Path) -> list[Path]:
    """Write the pages of a recipe; return those whose text has changed."""
    changed = []
    for path, text in render_pages(recipe_dir).items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            changed.append(_write(path, text))
    return changed


def verify_pages(recipe_dir: str | Path) -> list[Path]:
    """Render the pages of a recipe again from its scores, and return them.

    The InputError names a line that differs, or a picture that is missing.
    """
    pages = render_pages(recipe_dir)
    for path, text in pages.items():
        there = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        lines = zip_longest(there, text.splitlines())
        for number, (old, new) in enumerate(lines, start=1):
            if old != new:
                raise InputError(
                    f"{path}: line {number}: not what the scores give: run "
                    "espnet-ext table results"
                )
        # pictures themselves are not compared: another matplotlib draws other bytes
        for picture in re.findall(r"\]\(([^)]+\.png)\)", text):
            if not (path.parent / picture).is_file():
                raise InputError(
                    f"{path.parent / picture}: no such picture: run espnet-ext "
                    "table results"
                )
    return list(pages)


def render_folder_page(
    results: Sequence[TableResult], making: Making = NOTHING_MORE
) -> str:
    """Return the page of a folder of results: tables and figures with their claims."""
    meta = results[0].meta
    lines = [
        f"# {meta.recipe}: {meta.corpus}, scale {meta.scale}",
        "",
        f"{render.OURS}. {render.EFFECT}",
        "",
    ]
    missing = []
    for result in results:
        if not result.has_run:
            missing.append(result.table.title)
            continue
        lines += render.write_markdown_table(result, "##")
        if result.claims:
            grid = render.lay_out_claims(result.claims)
            lines += [*grid.text("pipe").splitlines(), ""]
    if missing:
        lines += [f"Not run: {', '.join(missing)}.", ""]
    lines += render.write_markdown_meta(meta, making)
    return "\n".join(lines).rstrip("\n") + "\n"


def render_report(
    kept: Mapping[Path, Sequence[TableResult]], tables: Tables, notes: str
) -> str:
    """Return ``RESULTS.md``, the page that can be quoted.

    The page has the beginning of the notes, all claims, those tables of the first
    folder that fit, how all were made, and the rest of the notes.
    """
    main, first = next(iter(kept.items()))  # folders come with the main one first
    meta = first[0].meta
    quoted, heading, text = notes.strip().partition(NOTES_BEGIN)
    head = [
        f"# Results of {meta.recipe}",
        "",
        f"Paper: {first[0].paper.citation}",
        "",
        *quoted.strip().splitlines(),
        "",
        OF_PAPER,
        "",
        *_render_claims(sort_claims(kept.values(), tables), tables),
    ]
    foot = [
        "## How they were made",
        "",
        *_list_made(kept, tables),
        "",
        "Where no hours are given, none were noted.",
        "",
        f"Written by `espnet-ext table results` from `results/`, `conf/{DESIGN}` "
        f"and `{NOTES}`; `table verify` renders it again. "
        "[docs/statistics.md](../../docs/statistics.md): how claims are tested; "
        "[docs/reproducibility.md](../../docs/reproducibility.md): how far another "
        "machine gives the same numbers.",
        "",
        *f"{heading}{text}".splitlines(),
    ]
    shown = [f"## Tables: {meta.corpus}, scale {meta.scale}", ""]
    for result in first:
        if not result.has_run:
            continue
        table = render.write_markdown_table(result, "###", f"results/{main.name}/")
        # a smaller one after it may still fit; all are in tables.md
        if len(head) + len(shown) + len(table) + len(foot) <= LINES:
            shown += table
    return "\n".join([*head, *shown, *foot]).rstrip("\n") + "\n"


def _render_claims(claims: Sequence[ClaimResult], tables: Tables) -> list[str]:
    """Return all claims, a line for each design of each, and then the designs."""
    if not claims:
        return []
    lines = [
        f"## Claims, with every design: {render.describe_counts(claims)}",
        "",
        *render.lay_out_claims(claims).text("pipe").splitlines(),
        "",
    ]
    # not those of claims that have gone, nor of results that are not kept
    decided = [claim.design for claim in claims]
    for design in tables.designs:
        if design in decided:
            text = render.describe_design(design, tables.tried)
            lines.append(f"- {design.corpus}, {design.scale}. {text}")
    return [*lines, ""]


def _list_made(kept: Mapping[Path, Sequence[TableResult]], tables: Tables) -> list[str]:
    """Return a line for each folder of results: commands, commit, machine, time."""
    lines = []
    for folder, results in kept.items():
        making = tables.made.get(folder.name, NOTHING_MORE)
        page = f"[{folder.name}](results/{folder.name}/{PAGE})"
        runs = " ".join(
            f"{render.describe_run(run, versions=False)}."
            for run in results[0].meta.runs
        )
        lines.append(f"- {page}: {render.describe_making(making)}{runs}")
    return lines


def find_recipes_with_results() -> list[Path]:
    """Return the recipes with kept results in the nearest ``egs``, here or above."""
    here = Path.cwd()
    for root in (here, *here.parents):
        kept = root.glob(f"egs/*/results/*/{META}")
        found = sorted({path.parents[2] for path in kept})
        if found:
            return [Path(os.path.relpath(path, here)) for path in found]
    raise InputError(
        f"{here}: no egs/*/results here or above: name a recipe with --recipe"
    )


def _draw_figures(results: Sequence[TableResult], folder: Path) -> list[Path]:
    drawn = [result for result in results if result.table.figure and result.has_run]
    if not drawn:
        return []
    # matplotlib takes a second to import
    from espnet_ext.tables.figures import write_picture

    return [write_picture(result, folder) for result in drawn]


def _write(path: Path, text: str) -> Path:
    with atomic_write(path) as file:
        file.write(text)
    return path
