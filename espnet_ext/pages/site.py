"""The results as web pages: one page per recipe, its error browser, and an index."""

import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import markupsafe
from PIL import Image, UnidentifiedImageError

from espnet_ext import __version__
from espnet_ext.errors import InputError
from espnet_ext.pages.error_browser import ErrorPages, Limits, write_errors
from espnet_ext.pages.runs import ShownRecipe, ShownRun, figures, trainings
from espnet_ext.pages.table_view import TableView, table_view
from espnet_ext.pages.training_curves import NAMES, Curve, draw_curves, read_curves, shared_range
from espnet_ext.scoring.formatting import count_of
from espnet_ext.tables.publish import read_results
from espnet_ext.tables.render import counts_text, run_text
from espnet_ext.tables.result import ClaimResult, TableResult
from espnet_ext.tables.score_table import META

GENERATOR = "espnet-ext report"
ASSETS = ("report.css", "theme.js", "aligned.js", "errors.js")
_MARK = f'<meta name="generator" content="{GENERATOR}">'


@dataclass(frozen=True)
class ShownTable:
    """A table or figure on the page; ``name`` is ``Table 1``."""

    name: str
    view: TableView
    picture: "Picture | None"


@dataclass(frozen=True)
class Section:
    """The tables of one corpus and scale.

    Attributes:
        corpus, scale: of the results.
        run: folder of the run, or None for results that the recipe keeps.
        source: where the files lie, in the recipe's folder.
        tables: those with results.
        not_run: tables without any result.
        made: how the results were made, by each run.
    """

    corpus: str
    scale: str
    run: Path | None
    source: str
    tables: tuple[ShownTable, ...]
    not_run: tuple[str, ...]
    made: tuple[str, ...]

    @property
    def kept(self) -> bool:
        """Whether the recipe keeps these results; otherwise they are a run's."""
        return self.run is None

    def claims(self, own: bool) -> list[ClaimResult]:
        """Return the claims of the paper, or our own."""
        return [claim.claim for table in self.tables for claim in table.view.claims if claim.own == own]


@dataclass(frozen=True)
class Plots:
    """The curves of one measure of one run: one SVG per system."""

    run: str
    measure: str
    plots: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """A figure: its file on the site, its caption, where it comes from, and its size in pixels."""

    file: str
    caption: str
    name: str
    size: tuple[int, int]


@dataclass(frozen=True)
class RecipePage:
    """One recipe's page."""

    name: str
    slug: str
    paper: str
    sections: tuple[Section, ...]
    plots: tuple[Plots, ...]
    figures: tuple[Picture, ...]
    errors: ErrorPages
    notes: tuple[str, ...] = ()


def write_site(
    recipes: Sequence[ShownRecipe], output: str | Path, limits: Limits, say: Callable[[str], None] = print
) -> list[RecipePage]:
    """Write the site into the folder ``output``, completely or not at all.

    Raises:
        InputError: ``output`` is a file or holds something other than a report, or a file of a run cannot be read.
    """
    output = Path(output)
    _check_output(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as folder:
        site = Path(folder) / "site"
        site.mkdir()
        slugs = _slugs([recipe.name for recipe in recipes])
        pages = []
        for recipe, slug in zip(recipes, slugs, strict=True):
            pages.append(_recipe_page(recipe, slug, site, limits))
            say(_summary(pages[-1]))
        _render(pages, site)
        if output.exists():
            output.rename(Path(folder) / "old")
        site.rename(output)
    return pages


def _check_output(output: Path) -> None:
    """Refuse to replace anything but a report."""
    if output.is_dir():
        index = output / "index.html"
        own = index.is_file() and _MARK in index.read_text(encoding="utf-8", errors="replace")
        if own or not any(output.iterdir()):
            return
    elif not output.exists():
        return
    raise InputError(f"{output}: exists and is not a report: give another --output, or remove it")


def _summary(page: RecipePage) -> str:
    counts = (
        (sum(len(section.tables) for section in page.sections), "table"),
        (sum(len(group.plots) for group in page.plots), "curve"),
        (len(page.figures), "figure"),
        (len(page.errors.decodings), "scored test set"),
        (page.errors.clips, "audio clip"),
    )
    return f"{page.name}: " + ", ".join(count_of(number, what) for number, what in counts)


def _slugs(names: Sequence[str]) -> list[str]:
    """Unique file names.

    >>> _slugs(["a b", "a-b", "index"])
    ['a-b', 'a-b-2', 'index-2']
    """
    slugs = ["index"]
    for name in names:
        plain = stem = _slug(name)
        number = 1
        while stem in slugs:
            number += 1
            stem = f"{plain}-{number}"
        slugs.append(stem)
    return slugs[1:]


def _slug(text: str) -> str:
    """A text as a file name of letters, digits and hyphens."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", text).strip("-.") or "recipe"


def _recipe_page(recipe: ShownRecipe, slug: str, site: Path, limits: Limits) -> RecipePage:
    paper = recipe.tables.file.paper if recipe.tables else None
    return RecipePage(
        name=recipe.name,
        slug=slug,
        paper=paper.citation if paper else "",
        sections=tuple(_sections(recipe, site, slug)),
        plots=tuple(group for number, run in enumerate(recipe.runs) for group in _plots(run, f"{slug}-{number}")),
        figures=tuple(_pictures(recipe, site, slug)),
        errors=write_errors(recipe, site, slug, limits),
    )


def _sections(recipe: ShownRecipe, site: Path, slug: str) -> list[Section]:
    """The tables of the runs, then those that the recipe keeps; results that are in both come once."""
    if recipe.folder is None:
        return []
    sources = [(run.folder, run.folder / "results") for run in recipe.runs] + [(None, folder) for folder in recipe.kept]
    seen: list[Sequence[TableResult]] = []
    sections = []
    for run, folder in sources:
        if not (folder / META).is_file() or (results := read_results(folder, recipe.folder)) in seen:
            continue
        seen.append(results)
        meta = results[0].meta
        tables = tuple(_table(result, folder, site / "figures" / slug) for result in results if result.has_run)
        missing = tuple(result.table.title for result in results if not result.has_run)
        source = str(folder.absolute().relative_to(recipe.folder))
        sections.append(Section(meta.corpus, meta.scale, run, source, tables, missing, tuple(map(run_text, meta.runs))))
    return sections


def _table(result: TableResult, folder: Path, pictures: Path) -> ShownTable:
    """A table; a figure with its picture."""
    view, drawn = table_view(result), folder / f"{result.table.id}.png"
    picture = _picture(drawn, pictures, view.title, result.table.title) if result.figure and drawn.is_file() else None
    return ShownTable(result.table.title, view, picture)


def _plots(run: ShownRun, key: str) -> list[Plots]:
    """One group of plots per measure, with one plot per system."""
    found: dict[str, dict[str, dict[str, Curve]]] = {}
    for training in trainings(run):
        for curve in read_curves(training.path):
            seed = "" if training.seed is None else str(training.seed)
            # A language model's loss is on an axis of its own.
            measure = f"{curve.measure}, language model" if training.system.split("/")[0] == "lm" else curve.measure
            found.setdefault(measure, {}).setdefault(training.system, {})[seed] = curve
    groups = []
    for measure, systems in found.items():
        limits = shared_range([curve for curves in systems.values() for curve in curves.values()])
        name = measure.split(",")[0]
        plots = (
            draw_curves(system, curves, limits, f"{key}-{_slug(measure)}-{number}")
            for number, (system, curves) in enumerate(systems.items())
        )
        groups.append(Plots(run.name, measure.replace(name, NAMES.get(name, name), 1), tuple(plots)))
    return groups


def _pictures(recipe: ShownRecipe, site: Path, slug: str) -> list[Picture]:
    captions = recipe.tables.file.pictures if recipe.tables else {}
    folder = site / "figures" / slug
    return [_picture(path, folder, captions.get(path.stem, path.stem), name) for name, path in figures(recipe)]


def _picture(path: Path, folder: Path, caption: str, name: str) -> Picture:
    """Copy a picture into the site's ``figures/<slug>``."""
    try:
        with Image.open(path) as image:
            size = image.size
    except (UnidentifiedImageError, OSError) as error:
        raise InputError(f"{path}: not a picture ({error}): draw it again, or delete it") from error
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{len(list(folder.iterdir()))}-{_slug(path.name)}"
    shutil.copyfile(path, target)
    return Picture(f"figures/{folder.name}/{target.name}", caption, name, size)


def _render(pages: Sequence[RecipePage], site: Path) -> None:
    loader = jinja2.PackageLoader("espnet_ext.pages")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "slug": lambda text: text.replace(" ", "-"),
        "code": _code,
        "counts": counts_text,
    }
    environment.filters |= filters
    common = {
        "generator": GENERATOR,
        "version": __version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "pages": [(page.name, page.slug) for page in pages],
    }

    def write(name: str, template: str, **values: Any) -> None:
        text = environment.get_template(template).render(**common, **values)
        (site / name).write_text(text, encoding="utf-8")

    (site / "assets").mkdir()
    for name in ASSETS:
        source, _, _ = loader.get_source(environment, name)
        (site / "assets" / name).write_text(source, encoding="utf-8")
    write("index.html", "index.html.j2", page="index", recipes=pages)
    for page in pages:
        write(f"{page.slug}.html", "recipe.html.j2", page=page.slug, recipe=page)
        if page.errors.decodings:
            write(f"{page.slug}-errors.html", "errors.html.j2", page="", recipe=page)


def _code(text: str) -> markupsafe.Markup:
    """Turn text between backticks into code.

    >>> _code("run `a < b` now")
    Markup('run <code>a &lt; b</code> now')
    """
    parts = text.split("`")
    tagged = (markupsafe.Markup("<code>{}</code>").format(part) if odd % 2 else part for odd, part in enumerate(parts))
    return markupsafe.Markup("").join(tagged)
