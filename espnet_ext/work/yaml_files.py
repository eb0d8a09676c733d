"""Read YAML safely, merge it as ESPnet's configs need it, write it when it changes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from espnet_ext.errors import InputError
from espnet_ext.work.files import atomic_write

# How many values a file may hold, counted as often as its anchors repeat them. A few
# lines of anchors that repeat anchors could stand for billions, and fill the memory; a
# vocabulary has some 100,000.
MOST_ENTRIES = 10_000_000
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _UniqueKeyLoader(_SafeLoader):
    """The safe loader, which refuses a key that occurs twice in a mapping.

    The safe loader is libyaml's where that is there, which is many times as fast.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} stands twice",
                    problem_mark=key.start_mark,
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        # Before 6.0.4, PyYAML repeats the keys of a mapping as often as it is merged.
        if len(node.value) > MOST_ENTRIES:
            raise yaml.MarkedYAMLError(
                problem="anchors make too many keys of it", problem_mark=node.start_mark
            )


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML file that holds one mapping (an empty file is an empty mapping)."""
    try:
        with open(path, encoding="utf-8") as file:
            value = yaml.load(file, Loader=_UniqueKeyLoader)
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file: check the path, or run the stage that makes it"
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InputError(f"{path}:{place}: {error.problem or error.context}") from error
    # ValueError: not UTF-8, or a date such as 2020-13-45.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: not readable as YAML: {str(error).splitlines()[0]}"
        ) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(
            f"{path}: must hold a mapping (key: value), holds a {type(value).__name__}"
        )
    try:
        entries = _count_entries(value, known={})
    except RecursionError:
        raise InputError(
            f"{path}: holds itself, by an anchor (&), or is nested too deeply: "
            "write it out"
        ) from None
    if entries > MOST_ENTRIES:
        raise InputError(
            f"{path}: anchors (&) make {entries:,} values of it: write it out"
        )
    return value


def _count_entries(value: Any, known: dict[int, int]) -> int:
    """Count the values that a file stands for, as often as anchors repeat them.

    ``known`` has the counts of the values that were looked at, by ``id``, so that each
    is looked at once. A value that holds itself is looked at until RecursionError.
    """
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_count_entries(part, known) for part in parts)
    return known[id(value)]


def deep_merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``over`` merged into it.

    Mappings are merged; lists, numbers and null are replaced.

    In ESPnet, ``encoder_conf`` holds the options of the class that ``encoder`` names.
    So if ``over`` changes ``X``, the ``X_conf`` of ``base`` belongs to another class,
    and is dropped before that of ``over`` is merged.

    >>> adam = {"optim": "adam", "optim_conf": {"eps": 0.1}}
    >>> deep_merge(adam, {"optim": "sgd", "optim_conf": {"lr": 2.0}})
    {'optim': 'sgd', 'optim_conf': {'lr': 2.0}}
    """
    changed = [key for key in over if key in base and base[key] != over[key]]
    dropped = {f"{key}_conf" for key in changed}
    merged = {key: value for key, value in base.items() if key not in dropped}
    for key, value in over.items():
        if isinstance(value, Mapping):
            below = merged.get(key)
            # Merged into nothing, too, so that the result shares no mapping with over.
            value = deep_merge(below if isinstance(below, Mapping) else {}, value)
        merged[key] = value
    return merged


def write_yaml(path: str | Path, value: Mapping[str, Any], comment: str) -> bool:
    """Write ``value`` below a comment line, completely or not at all.

    Return False if nothing has changed.
    """
    body = yaml.safe_dump(
        dict(value), sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    text = f"# {comment}\n{body}"
    path = Path(path)
    if path.is_file() and path.read_bytes() == text.encode():
        return False
    with atomic_write(path) as file:
        file.write(text)
    return True
