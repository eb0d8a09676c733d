"""The model of ``conf/tables.yaml``: systems, decodings, tables and figures."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictInt,
    ValidationError,
    model_validator,
)

from espnet_ext.work.settings import (
    Count,
    StrictMapping,
    Text,
    Weight,
    find_fault,
    list_known,
    parse_line,
)
from espnet_ext.work.yaml_files import deep_merge

AVERAGE = "average"  # of the test sets: a column
DEFAULT_DECODING = "default"
DEFAULT_SEEDS = "default"
FIGURE = "figure"  # begins the names of figures among tables
OVER = "over"  # in the file of a scale: the scale that it is merged into
# what the y axis of a figure shows
REDUCTION = "reduction"
RATE = "rate"
# kinds of systems: a model, transcripts without one, a measurement
TRAIN = "train"
MERGE = "merge"
MEASURE = "measure"
# Of a system; other settings of a sweep are overrides of its config.
SWEPT_KEYS = ("data", "method", "size", "windows")
# Systems, decodings, test sets and tables name files.
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
# "a,b" lists rows and "1/a" is row a of table 1: rows have no such names.
_ROW_NAME = re.compile(r"[^,/\s](?:[^,/\n\t]*[^,/\s])?")


def _check_name(value: Any) -> str:
    if not isinstance(value, str) or not _FILE_NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} must be a name of letters, digits and . _ + - (a number "
            "in quotes)"
        )
    return value


def _check_row_name(value: Any) -> str:
    name = parse_line(value)
    if not _ROW_NAME.fullmatch(name):
        raise ValueError(f"{name!r} must hold no comma, slash or outer space")
    return name


def _refuse_repeats(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise ValueError(f"a name stands twice in {', '.join(names)}")
    return names


def _make_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


@dataclass(frozen=True)
class Choice:
    """A system or a decoding that a row names, and the values of its sweep.

    In the file it is ``sem``, or ``{sem: [-80, 0]}``.
    """

    name: str
    values: tuple[Any, ...] = ()

    @property
    def id(self) -> str:
        """What is made at these values, by name, such as ``sem_m80_0``."""
        return "_".join([self.name, *map(_write_label, self.values)])


def _write_label(value: Any) -> str:
    """Return how a value is written in a name: -80 as ``m80``, 0.50 as ``0.5``."""
    if isinstance(value, int | float):
        return f"{value:g}".replace("-", "m")
    return str(value)


def _read_choice(value: Any) -> Choice:
    if isinstance(value, str):
        return Choice(value)
    names = list(value) if isinstance(value, dict) else []
    if len(names) != 1 or not isinstance(names[0], str):
        raise ValueError(
            f"must be a name, or {{name: value}} of one with a sweep, is {value!r}"
        )
    [name] = names
    given = value[name]
    values = tuple(given) if isinstance(given, list) else (given,)
    for each in values:
        # to Python, true is the number 1
        if isinstance(each, bool) or not isinstance(each, int | float | str):
            raise ValueError(
                f"a value of a sweep must be a number or a name, is {each!r}"
            )
    return Choice(name, values)


def _read_sweep(value: Any) -> Any:
    """Read settings without labels: one name, or a list of them."""
    if isinstance(value, str):
        return {value: None}
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return dict.fromkeys(value)
    return value  # a mapping; pydantic refuses anything else


Name = Annotated[str, BeforeValidator(_check_name)]
RowName = Annotated[str, BeforeValidator(_check_row_name)]
Names = Annotated[
    tuple[Name, ...], Field(min_length=1), AfterValidator(_refuse_repeats)
]
Columns = Annotated[
    tuple[Text, ...],
    Field(min_length=1),
    AfterValidator(_refuse_repeats),
    BeforeValidator(_make_list),
]
Chosen = Annotated[Choice, BeforeValidator(_read_choice)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
# Setting -> its values by label, or None if rows give values themselves.
Sweep = Annotated[dict[str, dict[str, Any] | None], BeforeValidator(_read_sweep)]


class Paper(StrictMapping):
    """The paper, and what its numbers are.

    ``speakers`` says how many its test sets have: sets with others are not the paper's.
    """

    id: Text
    title: Text
    authors: Text
    year: StrictInt
    metric: Text
    speakers: dict[Name, Count] = {}

    @property
    def citation(self) -> str:
        """The paper in one line."""
        return f"{self.authors}. {self.title}, {self.year}. ({self.id})"


class System(StrictMapping):
    """A system: what a row of a table shows.

    A setting of the sweep may have labels, ``{data: {cs: [train-cs]}}``, which rows
    then name.
    """

    name: Name
    # a model, transcripts without one, or a measurement
    kind: Literal["train", "merge", "measure"]
    # the section of ``conf/<scale>.yaml`` with its training config
    config: Name | None = None
    overrides: dict[str, Any] = {}  # merged last
    # parts that it is trained on, or that are measured
    data: Annotated[Names, BeforeValidator(_make_list)] = ()
    method: Name | None = None
    size: Name | None = None  # in the section ``sizes``, merged into that
    # how recordings are cut
    windows: Literal["whole", "windows0", "windows25", "windows50"] | None = None
    sweep: Sweep = {}  # settings that rows choose: keys of the config, or of SWEPT_KEYS

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        needed = {TRAIN: ("config", "data"), MERGE: ("method",), MEASURE: ()}[self.kind]
        # a key that rows choose is not there yet
        for key in needed:
            if not getattr(self, key) and key not in self.sweep:
                raise ValueError(
                    f"the key {key!r} is missing: a system of kind {self.kind} needs it"
                )
        if self.config is None and (self.overrides or self.size):
            raise ValueError(
                "overrides and size change a config, so they need the key 'config'"
            )
        return self

    def choose(self, choice: Choice) -> "System":
        """Make the system at the values of its sweep.

        Raises ValueError for values that do not fit.
        """
        settings = _read_settings("system", choice, self.sweep)
        content = self.model_dump(exclude={"sweep"}, exclude_unset=True)
        for key in SWEPT_KEYS:
            if key in settings:
                content[key] = settings.pop(key)
        content["overrides"] = _merge_settings(self.overrides, settings)
        content["name"] = choice.id
        # a new instance: a copy would not be checked, as a label's parts must be
        try:
            return System.model_validate(content)
        except ValidationError as error:
            raise ValueError(find_fault(content, error)) from error


class Decoding(StrictMapping):
    """A decoding: what it changes in the section ``decode``, maybe with a sweep."""

    overrides: dict[str, Any] = {}
    sweep: Sweep = {}

    def choose(self, choice: Choice) -> "Decoding":
        """Make the decoding at the values of its sweep.

        Raises ValueError for values that do not fit.
        """
        settings = _read_settings("decoding", choice, self.sweep)
        return Decoding(overrides=_merge_settings(self.overrides, settings))


def _read_settings(
    what: str, choice: Choice, sweep: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, Any]:
    if len(choice.values) != len(sweep):
        settings = ", ".join(sweep) or "none, since it has no sweep"
        raise ValueError(
            f"the {what} {choice.name!r} takes a value for {settings}; got "
            f"{list(choice.values)}"
        )
    made = {}
    for value, (setting, options) in zip(choice.values, sweep.items(), strict=True):
        if options and _write_label(value) not in options:
            raise ValueError(
                f"unknown label of {setting} {_write_label(value)!r}; "
                f"{list_known(options)}"
            )
        made[setting] = options[_write_label(value)] if options else value
    return made


def _merge_settings(
    overrides: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Merge settings by dotted names into overrides.

    >>> _merge_settings({"normalize": "sem"}, {"normalize_conf.low": -80})
    {'normalize': 'sem', 'normalize_conf': {'low': -80}}
    """
    merged = dict(overrides)
    for setting, value in settings.items():
        # from the innermost key: ``a.b: 1`` is ``{b: 1}``, then ``{a: {b: 1}}``
        for key in reversed(setting.split(".")):
            value = {key: value}
        merged = deep_merge(merged, value)
    return merged


class RowEntry(StrictMapping):
    """A row: a system, a decoding of it, and the paper's numbers.

    There is a number for each column (null: the paper has none). A row of one's own has
    no ``paper`` at all.
    """

    name: RowName
    system: Chosen
    decoding: Chosen = Choice(DEFAULT_DECODING)
    paper: Annotated[tuple[Weight | None, ...], Field(min_length=1)] | None = None


class TableEntry(StrictMapping):
    """A table.

    ``reduction`` names the columns in which reductions from the row ``baseline`` are
    shown, ``scales`` those at which it is made (None: all).
    """

    id: Name
    caption: Text
    columns: Columns
    baseline: Text | None = None
    reduction: Columns | None = None
    scales: Names | None = None
    rows: Annotated[tuple[RowEntry, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_rows(self) -> Self:
        names = [row.name for row in self.rows]
        for number, row in enumerate(self.rows):
            if row.name in names[:number]:
                raise ValueError(
                    f"rows[{number}]: the row {row.name!r} stands twice in this table"
                )
            if row.paper is not None and len(row.paper) != len(self.columns):
                text = (
                    f"must hold a number for each column ({', '.join(self.columns)}), "
                    f"holds {len(row.paper)}"
                )
                raise ValueError(f"rows[{number}] ({row.name}).paper: {text}")
        return self


class Axis(StrictMapping):
    """The axis of x of all figures: what it shows, its unit, its values by scale."""

    label: Text
    unit: Text
    values: dict[Name, Annotated[tuple[Number, ...], Field(min_length=1)]]


class Curve(StrictMapping):
    """A curve: one system at each value of the axis, on one test set.

    ``paper`` holds the paper's error rates by value, ``spread`` the standard deviations
    of its repeats, in points, and ``largest`` the largest reduction that it names, in
    percent.
    """

    name: RowName
    system: Chosen
    decoding: Chosen = Choice(DEFAULT_DECODING)
    column: Text
    paper: dict[Number, Weight | None] = {}
    spread: dict[Number, Weight] = {}
    largest: Number | None = None

    @model_validator(mode="after")
    def _check_spread(self) -> Self:
        for value in self.spread:
            if self.paper.get(value) is None:
                raise ValueError(
                    f"spread: there is no number of the paper at {value:g}"
                )
        return self


class FigureEntry(StrictMapping):
    """A figure: error rates, or their reductions from the rate at ``baseline``."""

    id: Name
    caption: Text
    y: Literal["reduction", "rate"]
    baseline: Number
    curves: Annotated[tuple[Curve, ...], Field(min_length=1)]


def _fill_in_names(key: str, table: bool = False) -> BeforeValidator:
    """Give each item of a mapping its own name, under a key.

    The baseline of a ``table``, a row of it by default, is made "table/row".
    """

    def name_item(name: str, item: Any) -> Any:
        # what is no mapping is for pydantic to refuse, with its place
        if not isinstance(item, dict):
            return item
        named = {**item, key: name}
        baseline = item.get("baseline")
        # that of a figure is a number, a value of the axis
        if table and isinstance(baseline, str) and "/" not in baseline:
            named["baseline"] = f"{name}/{baseline}"
        return named

    def name_items(items: Any) -> Any:
        if not isinstance(items, dict):
            return items
        return {name: name_item(name, item) for name, item in items.items()}

    return BeforeValidator(name_items)


class TablesFile(StrictMapping):
    """All of ``tables.yaml`` as it is written.

    ``measures`` are those of ``score.json`` that columns name, ``quantities`` columns
    of ``<quantity>.json`` and their units; ``seeds`` are those of a run without
    ``--seed``, by scale and system (``default``: the others; else one). ``names`` are
    those of test sets and curves on corpora that the paper does not have, by a pattern
    of the corpus.
    """

    recipe: Name
    paper: Paper
    test_sets: Names
    measures: Annotated[Names, Field()] = ()
    quantities: dict[Name, Text] = {}
    seeds: dict[Name, dict[Name, Count]] = {}
    names: dict[Text, dict[Text, Text]] = {}
    systems: Annotated[dict[Name, System], _fill_in_names("name")]
    decodings: dict[Name, Decoding] = {}
    axis: Axis | None = None
    figures: Annotated[dict[Name, FigureEntry], _fill_in_names("id")] = {}
    tables: Annotated[dict[Name, TableEntry], _fill_in_names("id", table=True)]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if AVERAGE in self.test_sets:
            raise ValueError(
                f"test_sets: {AVERAGE!r} is the mean of the test sets and cannot "
                "be one of them"
            )
        if DEFAULT_DECODING in self.decodings:
            raise ValueError(
                f"decodings: {DEFAULT_DECODING!r} is the section decode as it is; "
                "give yours another name"
            )
        if self.figures and self.axis is None:
            raise ValueError("the key 'axis' is missing: figures need it")
        return self
