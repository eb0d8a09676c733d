"""Training and validation curves, read from the logs that trainings leave."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.work.json_text import parse_json

_EPOCH = re.compile(r"\b([0-9]{1,9})epoch results: (.*)")
_PART = re.compile(r"\[(train|valid)\] ([^\[]*)")
_NUMBER = re.compile(r"([A-Za-z_][\w/.-]*)=([-+0-9.einfa]+)")
# Of what ESPnet logs: the rest is timing, or parts of the loss.
_SHOWN = ("loss", "acc")

Points = tuple[tuple[float, float], ...]  # (epoch or update, value)


@dataclass(frozen=True)
class Curve:
    """One measure of one training.

    Attributes:
        measure: ``loss``, ``acc``, or of our own trainings ``wer`` and the like.
        unit: of the horizontal axis, ``epoch`` or ``update``.
        train, valid: points in rising order; either may be empty.
    """

    measure: str
    unit: str
    train: Points
    valid: Points


def read_curves(path: str | Path) -> list[Curve]:
    """The curves of one training: from ESPnet's log, or from ``training.json``.

    Points that are not finite are left out. What a training that was killed had logged before lies beside its log, in
    ``<name>.earlier.log``; of an epoch that was done twice, the second time counts.

    Raises:
        InputError: a ``training.json`` that is none.
    """
    path = Path(path)
    if path.suffix == ".json":
        return list(_of_history(_history(path)))
    points: dict[tuple[str, str], dict[float, float]] = {}
    for epoch, results in (each for log in (path.with_suffix(".earlier.log"), path) for each in _epochs(log)):
        for part, numbers in _PART.findall(results):
            for name, text in _NUMBER.findall(numbers):
                if name in _SHOWN and math.isfinite(value := _float(text)):
                    points.setdefault((name, part), {})[epoch] = value
    return [
        Curve(name, "epoch", *(tuple(sorted(points.get((name, part), {}).items())) for part in ("train", "valid")))
        for name in _SHOWN
        if (name, "valid") in points or (name, "train") in points
    ]


def _epochs(log: Path) -> Iterator[tuple[float, str]]:
    """Number and results of each epoch that a log tells of; nothing where there is no such file."""
    if log.is_file():
        with open(log, encoding="utf-8", errors="replace") as file:
            for line in file:
                if "epoch results:" in line and (match := _EPOCH.search(line)):
                    yield float(match[1]), match[2]


def _float(text: str) -> float:
    try:
        return float(text.rstrip(".,"))
    except ValueError:
        return math.nan


def _history(path: Path) -> list[Mapping[str, Any]]:
    try:
        history = parse_json(path.read_text(encoding="utf-8"))["history"]
        if not all(isinstance(values["step"], int) for values in history):
            raise TypeError("a step is no whole number")
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a training's report ({error!r}): train again, or delete it") from error
    return history


def _of_history(history: list[Mapping[str, Any]]) -> Iterator[Curve]:
    """One curve for each number of the development sets, with the number of the same name in training beside it."""
    names = dict.fromkeys(key for values in history for key in values if key != "step")
    measures = dict.fromkeys(name.removeprefix("dev_") for name in names)
    for measure in measures:
        train, valid = (
            tuple(
                (float(values["step"]), float(values[name]))
                for values in history
                if isinstance(values.get(name), int | float) and math.isfinite(values[name])
            )
            for name in (measure, f"dev_{measure}")
        )
        if train or valid:
            yield Curve(measure, "update", train, valid)
