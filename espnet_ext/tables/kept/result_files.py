"""Kept results, ``table<T>.json`` and ``figure<F>.json``: their version, their schema, and what reads them."""

import json
import math
import re
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictBool, StrictInt, StrictStr, ValidationError, model_validator

from espnet_ext.errors import InputError
from espnet_ext.work.files import write_json
from espnet_ext.work.settings import StrictMapping, fault, known

VERSION = 2
REPRODUCTIONS = "reproductions"  # the folder of other people's results
SCORES_FILE = "scores.json.gz"  # lies beside the tables
_ROUNDING = 1e-3  # rates are kept to four decimals

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Interval = Annotated[list[Number], Field(min_length=2, max_length=2)]
Rate = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]


class ResultValue(StrictMapping):
    """A result. ``spread`` and ``values`` are there with several seeds; counts are null for means of test sets."""

    value: Rate
    spread: Rate | None = None
    values: dict[StrictStr, Rate] | None = None
    ci95: Interval | None
    errors: StrictInt | None
    words: StrictInt | None

    @model_validator(mode="after")
    def _check_sums(self) -> Self:
        if (self.spread is None) != (self.values is None):
            raise ValueError("spread and values are there with several seeds, both or neither")
        if self.values is not None and self.spread is not None:
            seeds = list(self.values.values())
            if len(seeds) < 2 or not math.isclose(self.value, statistics.fmean(seeds), abs_tol=_ROUNDING):
                raise ValueError(f"the value {self.value} is not the mean of its seeds' values")
            if not math.isclose(self.spread, statistics.stdev(seeds), abs_tol=_ROUNDING):
                raise ValueError(f"the spread {self.spread} is not the standard deviation of its seeds' values")
        if self.words and not math.isclose(self.value, 100 * (self.errors or 0) / self.words, abs_tol=_ROUNDING):
            raise ValueError(f"{self.errors} errors in {self.words} words do not give {self.value}%")
        return self


class ResultCell(StrictMapping):
    """The paper's number and the result."""

    paper: Rate | None
    here: ResultValue | None


class ResultRow(StrictMapping):
    """A row of a table."""

    name: StrictStr
    system: StrictStr
    decoding: StrictStr
    seeds: list[StrictInt]
    cells: dict[StrictStr, ResultCell]


class ResultReference(StrictMapping):
    """The row from which reductions are computed."""

    name: StrictStr
    system: StrictStr
    cells: dict[StrictStr, ResultCell]


class ResultTest(StrictMapping):
    """A claim on one column.

    Attributes:
        lower_by: by how much the error rate is lower, as the claim says, in percent absolute.
        ci95, p_value: null where there are too few seeds, or no scores by unit.
        seeds: that all systems have.
        different_seeds: how many of them gave different output.
        units, unit: how many speakers or recordings; null where the scores by unit are not kept.
    """

    lower_by: Number
    ci95: Interval | None
    p_value: Share | None
    seeds: list[StrictInt]
    different_seeds: StrictInt
    units: StrictInt | None
    unit: Literal["speaker", "recording"] | None


class ResultClaim(StrictMapping):
    """A claim; ``reason`` says why it could not be decided.

    With a ``margin``, in points, the claim is that ``better`` is not worse by more than that. ``own`` is there if it is
    not the paper's; ``extended``, a number of seeds, if more were added after a look at them, which had not decided it.
    """

    text: StrictStr
    compares: Literal["rates", "changes"]
    better: StrictStr
    worse: StrictStr
    margin: Rate
    verdict: Literal["holds", "contradicted", "undecided", "not run"]
    reason: StrictStr | None
    p_value: Share | None
    p_corrected: Share | None
    tests: dict[StrictStr, ResultTest | None]
    own: Literal[True] | None = None
    extended: Annotated[int, Field(strict=True, ge=1)] | None = None


class ResultGit(StrictMapping):
    """The commit of the checkout, and whether files had been changed."""

    commit: StrictStr
    dirty: StrictBool


class ResultHardware(StrictMapping):
    """The machine."""

    cpu: StrictStr
    cores: StrictInt | None
    memory_gib: Rate
    gpu: list[StrictStr]


class ResultRun(StrictMapping):
    """An earlier run, to whose results a later one was added."""

    command: StrictStr
    git: ResultGit | None
    date: StrictStr
    hardware: ResultHardware


class ResultMeta(StrictMapping):
    """How the results were made; ``lm_perplexity`` is there if a language model was used.

    ``earlier`` is there if the results were added to others: how those were made, the latest run first.
    """

    command: StrictStr
    git: ResultGit | None
    versions: dict[StrictStr, StrictStr | None]
    date: StrictStr
    hardware: ResultHardware
    normaliser: StrictStr | None
    corpus: StrictStr
    scale: StrictStr
    lm_perplexity: Rate | None = None
    earlier: list[ResultRun] | None = None


class ResultReduction(StrictMapping):
    """A relative reduction in percent; ``spread`` and ``values`` are there with several seeds."""

    value: Number
    spread: Rate | None = None
    values: dict[StrictStr, Number] | None = None


class ResultPoint(StrictMapping):
    """A point of a curve."""

    x: Number | StrictInt
    rate: ResultValue | None
    paper: Rate | None
    reduction: ResultReduction | None


class ResultCurve(StrictMapping):
    """A curve of a figure."""

    name: StrictStr
    column: StrictStr
    paper_largest_reduction: Number | None
    points: list[ResultPoint]


class ResultFigure(StrictMapping):
    """What a picture shows."""

    axis: StrictStr
    y: Literal["reduction", "rate"]
    baseline: Number | StrictInt
    curves: list[ResultCurve]


class ResultFile(StrictMapping):
    """All of a ``table<T>.json``; a ``figure<F>.json`` has the key ``figure`` too.

    Attributes:
        scores: the file beside it that holds its scores by utterance, or null if they are not kept.
        reductions: columns of which relative reductions from ``reference`` are shown.
    """

    version: Literal[2]
    recipe: StrictStr
    table: StrictStr
    scale: StrictStr
    caption: StrictStr
    metric: StrictStr
    paper: StrictStr
    columns: list[StrictStr]
    groups: list[list[StrictStr]]
    meta: ResultMeta
    scores: Literal["scores.json.gz"] | None
    reference: ResultReference | None
    reductions: list[StrictStr]
    rows: list[ResultRow]
    claims: list[ResultClaim]
    figure: ResultFigure | None = None

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if [column for group in self.groups for column in group] != self.columns:
            raise ValueError("groups must hold each of the columns once, in their order")
        if unknown := [column for column in self.reductions if column not in self.columns]:
            raise ValueError(f"reductions: unknown column {unknown[0]!r}; {known(self.columns)}")
        wanted = set(self.columns)
        for row in self.rows:
            if not (row.cells.keys() <= wanted if self.figure else row.cells.keys() == wanted):
                raise ValueError(f"row {row.name!r} must have a cell for each column ({', '.join(self.columns)})")
        if self.reference and (lacking := set(self.reductions) - self.reference.cells.keys()):
            raise ValueError(f"the reference {self.reference.name!r} has no cell {min(lacking)!r}")
        return self


def check_result(result: Any, path: str | Path) -> None:
    """Refuse a result that is not as its version has it.

    Raises:
        InputError: a key that is missing or unknown, a value of the wrong kind, numbers that do not fit each other, or
            another version; one line with the file and the place.
    """
    advice = "write the table again (the last stage of the recipe)"
    if not isinstance(result, dict) or not {"table", "rows"} <= result.keys():
        raise InputError(f"{path}: not a table's results; {advice}")
    if result.get("version") != VERSION:
        raise InputError(f"{path}: version {result.get('version', 1)!r}, but this program reads {VERSION}; {advice}")
    try:
        ResultFile.model_validate(result)
    except ValidationError as error:
        raise InputError(f"{path}: not a table's results: {fault(result, error)}; {advice}") from error


def read_results(path: str | Path) -> dict[str, Any]:
    """Read a ``table<T>.json`` or ``figure<F>.json``.

    Raises:
        InputError: not JSON, or what :func:`check_result` refuses.
    """
    try:
        result = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not a table's results ({error}); write the table again") from error
    check_result(result, path)
    return result


def keep_result(path: str | Path, result: dict[str, Any]) -> None:
    """Write a result, after a check that it can be read again."""
    check_result(json.loads(json.dumps(result)), path)
    write_json(path, result)


def kept_name(result: Mapping[str, Any]) -> str:
    """The folder of kept results of one scale and corpus."""
    return f"{result['scale']}-{result['meta']['corpus']}"


def kept_folders(kept: Path) -> list[Path]:
    """The folders of a recipe's own results, one for each scale and corpus, without those of other people."""
    return sorted(path for path in kept.glob("*") if path.is_dir() and path.name != REPRODUCTIONS)


def result_files(folder: Path) -> list[Path]:
    """The results of tables and figures in a folder, in the order of their names; empty where there are none."""
    return sorted([*folder.glob("figure*.json"), *folder.glob("table*.json")], key=lambda path: natural(path.name))


def some_result_files(folder: Path) -> list[Path]:
    """The same, but a folder without any is refused."""
    paths = result_files(folder)
    if not paths:
        raise InputError(f"{folder}: no table*.json there; run the tables first (./run.sh --table all)")
    return paths


def natural(name: str) -> list[tuple[int, str]]:
    """A sort key by which table 10 comes after table 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|\D+", name)]
