"""``conf/tables.yaml`` as it is written: its keys, and what each may hold."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    Tag,
    ValidationError,
    model_validator,
)

from espnet_ext.errors import InputError
from espnet_ext.work.settings import StrictMapping, Text, fault, one_line
from espnet_ext.work.yaml_files import read_yaml

DEFAULT_DECODING = "default"
AVERAGE = "average"
REDUCTION, RATE = "reduction", "rate"
TRAIN, MERGE, MEASURE = "train", "merge", "measure"
SWEPT_KEYS = ("data", "method", "size", "windows")  # of a system; other settings of a sweep are overrides of its config
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")  # systems, decodings, test sets and tables name files
_ROW_NAME = re.compile(r"[^,/\s](?:[^,/\n\t]*[^,/\s])?")  # "a,b" lists rows and "1/a" is row a of table 1


def read_tables_file(path: str | Path) -> "TablesFile":
    """Read a ``tables.yaml`` and check its keys and their values, but not yet what refers to what.

    Raises:
        InputError: not YAML, or anything missing, unknown or of the wrong kind; one line with the file and the place.
    """
    content = read_yaml(path)
    try:
        return TablesFile.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{path}: {fault(content, error)}") from error


def _name(value: Any) -> str:
    if not isinstance(value, str) or not _FILE_NAME.fullmatch(value):
        raise ValueError(f"{value!r} must be a name of letters, digits and . _ + - (a number in quotes)")
    return value


def _row_name(value: Any) -> str:
    name = one_line(value)
    if not _ROW_NAME.fullmatch(name):
        raise ValueError(f"{name!r} must hold no comma, slash or outer space")
    return name


def _rate(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"the paper's value must be a number of at least 0, or null, is {value!r}")
    return float(value)


def _unique(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError(f"a name stands twice in {', '.join(names)}")
    return names


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _overrides(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"must be a mapping (key: value), is {value!r}")
    return value


@dataclass(frozen=True)
class Choice:
    """A system or a decoding that a row names, and the values of its sweep: ``sem``, or ``{sem: [-80, 0]}``."""

    name: str
    values: tuple[Any, ...] = ()


def _choice(value: Any) -> Choice:
    if isinstance(value, str):
        return Choice(value)
    if not isinstance(value, dict) or len(value) != 1 or not isinstance(next(iter(value)), str):
        raise ValueError(f"must be a name, or {{name: value}} of one with a sweep, is {value!r}")
    ((name, values),) = value.items()
    return Choice(name, tuple(values) if isinstance(values, list) else (values,))


def _sweep(value: Any) -> Any:
    """Settings without labels may be written as one name or a list of them."""
    if isinstance(value, str):
        return {value: None}
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return dict.fromkeys(value)
    return value


Name = Annotated[str, BeforeValidator(_name)]
RowName = Annotated[str, BeforeValidator(_row_name)]
Rate = Annotated[float | None, BeforeValidator(_rate)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Names = Annotated[tuple[Name, ...], Field(min_length=1), AfterValidator(_unique)]
Columns = Annotated[tuple[Text, ...], BeforeValidator(_one_or_more), Field(min_length=1), AfterValidator(_unique)]
Overrides = Annotated[dict[str, Any], BeforeValidator(_overrides)]
Chosen = Annotated[Choice, BeforeValidator(_choice)]
Sweep = Annotated[dict[Text, dict[Name, Any] | None], BeforeValidator(_sweep)]


class Paper(StrictMapping):
    """The paper whose tables these are; ``metric`` with its unit."""

    id: Text
    title: Text
    authors: Text
    year: StrictInt
    metric: Text


class SystemEntry(StrictMapping):
    """A system, or with a ``sweep`` one for each value that a row names.

    Attributes:
        kind: ``train``: a training; ``merge``: made from the outputs of others without training; ``measure``: only
            measured, without decodings.
        config: the section of ``conf/<scale>.yaml`` that holds its training config.
        overrides: merged into that last.
        data: parts of the corpus that it is trained on, or that are measured.
        method: by which method it is made.
        size: the name in the section ``sizes`` that is merged into its config before ``overrides``.
        windows: how recordings are cut.
        sweep: settings whose values rows choose: each a key of the config, such as ``normalize_conf.eta_min``, or one
            of :data:`SWEPT_KEYS`. A setting may have labels, ``{data: {cs: [train-cs]}}``; the row then names a label.
    """

    kind: Literal["train", "merge", "measure"]
    config: Name | None = None
    overrides: Overrides = {}
    data: Annotated[Names | None, BeforeValidator(_one_or_more)] = None
    method: Name | None = None
    size: Name | None = None
    windows: Literal["whole", "windows0", "windows25", "windows50"] | None = None
    sweep: Sweep = {}

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        needed = {TRAIN: ("config", "data"), MERGE: ("method",), MEASURE: ()}[self.kind]
        for key in needed:
            if getattr(self, key) is None and key not in self.sweep:
                raise ValueError(f"the key {key!r} is missing: a system of kind {self.kind} needs it")
        if self.config is None and (self.overrides or self.size):
            raise ValueError("overrides and size change a config, so they need the key 'config'")
        return self


class DecodingEntry(StrictMapping):
    """A decoding: what it changes in the section ``decode``, with a sweep as that of a system."""

    overrides: Overrides = {}
    sweep: Sweep = {}


class RowEntry(StrictMapping):
    """A row: a system, a decoding of it, and the paper's numbers, one for each column (null: the paper has none)."""

    name: RowName
    system: Chosen
    decoding: Chosen = Choice(DEFAULT_DECODING)
    paper: Annotated[tuple[Rate, ...], Field(min_length=1)]


class ChangeEntry(StrictMapping):
    """What becomes of the error rate from one row to another."""

    before: Text = Field(alias="from")
    after: Text = Field(alias="to")


def _kind_of_side(value: Any) -> str:
    return "change" if isinstance(value, dict) else "row"


Side = Annotated[
    Annotated[Text, Tag("row")] | Annotated[ChangeEntry, Tag("change")], Discriminator(_kind_of_side)
]  # a row, or a change from one to another


class ClaimEntry(StrictMapping):
    """A statement: ``better`` has a lower error rate (or change of it) than ``worse``.

    Attributes:
        margin: in points; the statement is that ``better`` is not worse by more than that.
        own: it is ours; the paper does not make it.
        extended: by scale, with how many seeds its verdict had been seen to be undecided before more were added.
    """

    text: Text
    better: Side
    worse: Side
    margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    columns: Columns | None = None
    own: StrictBool = False
    extended: dict[Name, Annotated[int, Field(ge=1)]] = {}


class TableEntry(StrictMapping):
    """A table; ``reduction`` names the columns in which reductions from ``baseline`` are shown."""

    caption: Text
    columns: Columns
    baseline: Text | None = None
    reduction: Columns | None = None
    rows: Annotated[tuple[RowEntry, ...], Field(min_length=1)]
    claims: tuple[ClaimEntry, ...] = ()


class AxisEntry(StrictMapping):
    """The axis of x of all figures: what it shows, its unit, and its values at each scale."""

    label: Text
    unit: Text
    values: dict[Name, Annotated[tuple[Number, ...], Field(min_length=1)]]


class CurveEntry(StrictMapping):
    """A curve: one system at each value of the axis, on one test set.

    ``paper`` holds the paper's error rates by value, ``largest`` the largest reduction that it names, in percent.
    """

    name: RowName
    system: Chosen
    decoding: Chosen = Choice(DEFAULT_DECODING)
    column: Text
    paper: dict[Number, Rate] = {}
    largest: Number | None = None


class FigureEntry(StrictMapping):
    """A figure: error rates over the axis, or their reductions from the rate at ``baseline``."""

    caption: Text
    y: Literal["reduction", "rate"]
    baseline: Number
    curves: Annotated[tuple[CurveEntry, ...], Field(min_length=1)]
    claims: tuple[ClaimEntry, ...] = ()


class AlikeEntry(StrictMapping):
    """Rows, as ``table/row``, whose trainings differ by chance alone, and why, in a sentence without its full stop."""

    text: Text
    rows: Annotated[list[Text], Field(min_length=2)]


class TablesFile(StrictMapping):
    """All of ``tables.yaml``.

    ``measures`` are those of ``score.json`` that columns name; ``quantities`` are columns that hold what a system's own
    ``<quantity>.json`` holds, with their units; ``seeds`` says with how many seeds a run without ``--seed`` trains each
    system, by scale and system (``default``: the others; one seed where nothing is said); ``pictures`` are captions of
    the recipe's pictures by file name without ``.png``; trainings of ``alike`` rows show how far chance goes.
    """

    recipe: Name
    paper: Paper
    test_sets: Names
    measures: Names | None = None
    quantities: dict[Name, Text] = {}
    pictures: dict[Name, Text] = {}
    alike: AlikeEntry | None = None
    seeds: dict[Literal["smoke", "mini", "full"], dict[Name, Annotated[int, Field(ge=1)]]] = {}
    systems: dict[Name, SystemEntry]
    decodings: dict[Name, DecodingEntry] = {}
    axis: AxisEntry | None = None
    figures: dict[Name, FigureEntry] = {}
    tables: dict[Name, TableEntry]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if AVERAGE in self.test_sets:
            raise ValueError(f"test_sets: {AVERAGE!r} is the mean of the test sets and cannot be one of them")
        if DEFAULT_DECODING in self.decodings:
            raise ValueError(f"decodings: {DEFAULT_DECODING!r} is the section decode as it is; give yours another name")
        if self.figures and self.axis is None:
            raise ValueError("the key 'axis' is missing: figures need it")
        return self
