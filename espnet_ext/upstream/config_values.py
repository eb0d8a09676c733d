"""Values in the config file of an ESPnet command. ESPnet takes as they are those that
YAML does not read as text: here each is checked as if it stood on the command line.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import humanfriendly
from espnet2.utils import types as espnet_types
from espnet2.utils.nested_dict_action import NestedDictAction

from espnet_ext.errors import InputError
from espnet_ext.registry import missing_package
from espnet_ext.work.yaml_files import read_yaml

# What converts the text of an option on the command line -> the types that YAML may
# have for it, and how they are called.
TYPES: Mapping[Any, tuple[tuple[type, ...], str]] = {
    int: ((int,), "a whole number"),
    espnet_types.int_or_none: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    espnet_types.float_or_none: ((int, float), "a number"),
    espnet_types.str2bool: ((bool,), "true or false"),
    str: ((str,), "text, in quotes if it looks like a number"),
    espnet_types.str_or_none: ((str,), "text, in quotes if it looks like a number"),
    espnet_types.str_or_int: ((str, int), "text or a whole number"),
    humanfriendly.parse_size: ((str, int, float), "a size, such as 2GB"),
    espnet_types.humanfriendly_parse_size_or_none: (
        (str, int, float),
        "a size, such as 2GB",
    ),
}
TUPLES = {espnet_types.str2pair_str: 2, espnet_types.str2triple_str: 3}
# ESPnet itself takes a list of tokens and one number of models.
ALSO = {"token_list": list, "src_token_list": list, "keep_nbest_models": int}
# The last item of these says which values are better.
CRITERIA = ("best_model_criterion", "early_stopping_criterion")
LEAST = {
    **dict.fromkeys(
        ("accum_grad", "batch_size", "batch_bins", "beam_size", "nbest"), 1
    ),
    **dict.fromkeys(("valid_batch_size", "valid_batch_bins", "fold_length"), 1),
    **dict.fromkeys(("max_epoch", "log_interval", "num_iters_per_epoch"), 1),
    **dict.fromkeys(("num_workers", "patience", "num_att_plot", "seed", "ngpu"), 0),
    **dict.fromkeys(("keep_nbest_models", "nbest_averaging_interval"), 0),
}
ABOVE_ZERO = ("grad_clip", "grad_clip_type")


def check_config_file(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Read the file that ``--config`` among a command's words names; InputError if it
    is no YAML mapping, is empty, or has a value that its option cannot take.
    """
    scan = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    scan.add_argument("--config")
    path = scan.parse_known_args(list(words))[0].config
    if path is None:
        return
    values = read_yaml(path)
    if not values:
        raise InputError(f"{path}: is empty: write the settings of a training into it")
    names = {key: name for key, name in values.items() if isinstance(name, str)}
    if package := missing_package(names):
        raise InputError(f"{path}: {package}")
    actions = {action.dest: action for action in parser._actions}
    for key, value in values.items():
        if key in actions and (wanted := find_misfit(actions[key], value)):
            shown = "empty" if value is None else repr(value)
            raise InputError(f"{path}: {key} is {shown}, but must be {wanted}")


def find_misfit(action: argparse.Action, value: Any) -> str | None:
    """Say what the value of an option must be, if it is not; None if it fits."""
    if isinstance(action, NestedDictAction):
        fits = isinstance(value, Mapping) or (value is None and action.default is None)
        return None if fits else "a mapping (key: value), {} for none"
    if isinstance(value, str) and callable(action.type):
        try:
            # as argparse does with each default that is text: "20" is a number, and
            # "none" is nothing
            value = action.type(value)
        # each converter has exceptions of its own
        except Exception:
            return _expected(action)
    if isinstance(value, ALSO.get(action.dest, ())) and not isinstance(value, bool):
        return None
    if value is None:
        return None if _takes_none(action) else _expected(action)
    if _takes_list(action):
        return _misfit_of_list(action, value)
    return _misfit_of_one(action, value)


def _takes_list(action: argparse.Action) -> bool:
    several = isinstance(action.nargs, int) or action.nargs in ("+", "*")
    return several or isinstance(action, argparse._AppendAction)


def _misfit_of_list(action: argparse.Action, value: Any) -> str | None:
    count = action.nargs if isinstance(action.nargs, int) else None
    if not isinstance(value, list) or (count and len(value) != count):
        return _expected(action)
    for item in value:
        if wanted := _misfit_of_one(action, item):
            return f"a list, each item {wanted}"
    if action.dest == CRITERIA[1] and value[-1] not in ("min", "max"):
        return "a list that ends with min or max"
    return None


def _misfit_of_one(action: argparse.Action, value: Any) -> str | None:
    count = TUPLES.get(action.type)
    if count:
        fits = isinstance(value, list) and len(value) == count
        if not fits or not all(isinstance(item, str) for item in value):
            return f"a list of {count} texts, such as {_example(action)}"
        if action.dest == CRITERIA[0] and value[-1] not in ("min", "max"):
            return "a list that ends with min or max"
        return None
    if action.choices is not None:
        names = [str(choice) for choice in action.choices]
        return None if str(value) in names else f"one of {', '.join(names)}"
    wanted, name = TYPES.get(action.type, ((object,), ""))
    if not isinstance(value, wanted) or (
        isinstance(value, bool) and bool not in wanted
    ):
        return name
    return None


def _expected(action: argparse.Action) -> str:
    if action.type in TUPLES or isinstance(action.nargs, int):
        return f"a list, such as {_example(action)}"
    if _takes_list(action):
        return "a list"
    if action.choices is not None:
        return f"one of {', '.join(map(str, action.choices))}"
    return TYPES.get(action.type, ((), "given"))[1]


def _example(action: argparse.Action) -> str:
    values = action.default
    if action.type in TUPLES:
        values = values[0] if values else ("text",) * TUPLES[action.type]
    return f"[{', '.join(map(str, values))}]"


def _takes_none(action: argparse.Action) -> bool:
    """Return whether an option may have no value: ESPnet's converters say by reading
    the word "none".
    """
    if action.default is None or not callable(action.type):
        return action.default is None
    try:
        return action.type("none") is None
    except (ValueError, TypeError):
        return False


def check_ranges(values: Mapping[str, Any]) -> None:
    """Refuse counts that are too small, and limits that are not above zero."""
    for name, least in LEAST.items():
        found = values.get(name)
        for value in found if isinstance(found, list | tuple) else [found]:
            if isinstance(value, int | float) and value < least:
                raise InputError(f"{name} is {value}, but must be at least {least}")
    for name in ABOVE_ZERO:
        value = values.get(name)
        if isinstance(value, int | float) and not value > 0:
            raise InputError(f"{name} is {value}, but must be above 0")
