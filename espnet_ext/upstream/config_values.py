"""Values in the config file of an ESPnet command.

ESPnet takes as they are those that YAML does not read as text. Here each is checked as
if it stood on the command line.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import humanfriendly
from espnet2.utils import types as espnet_types
from espnet2.utils.nested_dict_action import NestedDictAction

from espnet_ext.errors import InputError
from espnet_ext.registry import find_missing_package
from espnet_ext.work.yaml_files import read_yaml

# What converts the text of an option on the command line -> the types that YAML may
# have for it, and how they are called.
WHOLE = ((int,), "a whole number")
NUMBER = ((int, float), "a number")
TEXT = ((str,), "text, in quotes if it looks like a number")
SIZE = ((str, int, float), "a size, such as 2GB")
TYPES: Mapping[Any, tuple[tuple[type, ...], str]] = {
    int: WHOLE,
    espnet_types.int_or_none: WHOLE,
    float: NUMBER,
    espnet_types.float_or_none: NUMBER,
    espnet_types.str2bool: ((bool,), "true or false"),
    str: TEXT,
    espnet_types.str_or_none: TEXT,
    espnet_types.str_or_int: ((str, int), "text or a whole number"),
    humanfriendly.parse_size: SIZE,
    espnet_types.humanfriendly_parse_size_or_none: SIZE,
}
TUPLES = {espnet_types.str2pair_str: 2, espnet_types.str2triple_str: 3}
# ESPnet itself takes a list of tokens and one number of models.
ALSO = {"token_list": list, "src_token_list": list, "keep_nbest_models": int}
# The last item of these says which values are better.
BEST_MODEL = "best_model_criterion"
EARLY_STOPPING = "early_stopping_criterion"
LEAST = {
    "accum_grad": 1,
    "batch_bins": 1,
    "batch_size": 1,
    "beam_size": 1,
    "fold_length": 1,
    "log_interval": 1,
    "max_epoch": 1,
    "nbest": 1,
    "num_iters_per_epoch": 1,
    "valid_batch_bins": 1,
    "valid_batch_size": 1,
    "keep_nbest_models": 0,
    "nbest_averaging_interval": 0,
    "ngpu": 0,
    "num_att_plot": 0,
    "num_workers": 0,
    "patience": 0,
    "seed": 0,
}
ABOVE_ZERO = ("grad_clip", "grad_clip_type")


def check_config_file(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Check the file that ``--config`` among a command's words names.

    Raises InputError: it is no YAML mapping, is empty, or has a value that its option
    cannot take.
    """
    # a parser of its own, since ESPnet's would read the file while it parses
    scan = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    scan.add_argument("--config")
    found, _ = scan.parse_known_args(list(words))
    path = found.config
    if path is None:
        return
    values = read_yaml(path)
    if not values:
        raise InputError(f"{path}: is empty: write the settings of a training into it")
    names = {key: name for key, name in values.items() if isinstance(name, str)}
    package = find_missing_package(names)
    if package:
        raise InputError(f"{path}: {package}")
    actions = {action.dest: action for action in parser._actions}
    for key, value in values.items():
        # argparse refuses unknown keys itself.
        if key not in actions:
            continue
        wanted = find_misfit(actions[key], value)
        if wanted:
            shown = "empty" if value is None else repr(value)
            raise InputError(f"{path}: {key} is {shown}, but must be {wanted}")


def find_misfit(action: argparse.Action, value: Any) -> str | None:
    """Say what the value of an option must be, if it is not; None if it fits."""
    # ``encoder_conf`` and the like
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
            return _describe_expected(action)
    # For Python true is a number, too.
    if isinstance(value, ALSO.get(action.dest, ())) and not isinstance(value, bool):
        return None
    if value is None:
        return None if _takes_none(action) else _describe_expected(action)
    if _takes_list(action):
        return _check_list(action, value)
    return _check_item(action, value)


def _takes_list(action: argparse.Action) -> bool:
    several = isinstance(action.nargs, int) or action.nargs in ("+", "*")
    return several or isinstance(action, argparse._AppendAction)


def _check_list(action: argparse.Action, value: Any) -> str | None:
    count = action.nargs if isinstance(action.nargs, int) else None
    if not isinstance(value, list) or (count and len(value) != count):
        return _describe_expected(action)
    for item in value:
        wanted = _check_item(action, item)
        if wanted:
            return f"a list, each item {wanted}"
    if action.dest == EARLY_STOPPING:
        return _check_direction(value)
    return None


def _check_item(action: argparse.Action, value: Any) -> str | None:
    if action.type in TUPLES:
        return _check_tuple(action, value)
    if action.choices is not None:
        names = [str(choice) for choice in action.choices]
        return None if str(value) in names else f"one of {', '.join(names)}"
    wanted, name = TYPES.get(action.type, ((object,), ""))
    # true is a whole number to Python, and would be taken for 1
    if isinstance(value, bool) and bool not in wanted:
        return name
    return None if isinstance(value, wanted) else name


def _check_tuple(action: argparse.Action, value: Any) -> str | None:
    count = TUPLES[action.type]
    fits = isinstance(value, list) and len(value) == count
    if not fits or not all(isinstance(item, str) for item in value):
        return f"a list of {count} texts, such as {_show_example(action)}"
    if action.dest == BEST_MODEL:
        return _check_direction(value)
    return None


def _check_direction(criterion: Sequence[str]) -> str | None:
    if criterion[-1] in ("min", "max"):
        return None
    return "a list that ends with min or max"


def _describe_expected(action: argparse.Action) -> str:
    if action.type in TUPLES or isinstance(action.nargs, int):
        return f"a list, such as {_show_example(action)}"
    if _takes_list(action):
        return "a list"
    if action.choices is not None:
        return f"one of {', '.join(map(str, action.choices))}"
    _, name = TYPES.get(action.type, ((), "given"))
    return name


def _show_example(action: argparse.Action) -> str:
    values = action.default
    if action.type in TUPLES:
        values = values[0] if values else ("text",) * TUPLES[action.type]
    return f"[{', '.join(map(str, values))}]"


def _takes_none(action: argparse.Action) -> bool:
    """Say whether an option may have no value."""
    if action.default is None:
        return True
    if not callable(action.type):
        return False
    # ESPnet's converters read the word "none" if they may.
    try:
        return action.type("none") is None
    except (ValueError, TypeError):
        return False


def check_ranges(values: Mapping[str, Any]) -> None:
    """Refuse counts that are too small, and limits that are not above zero."""
    for name, least in LEAST.items():
        found = values.get(name)
        several = found if isinstance(found, list | tuple) else [found]
        for value in several:
            if isinstance(value, int | float) and value < least:
                raise InputError(f"{name} is {value}, but must be at least {least}")
    for name in ABOVE_ZERO:
        value = values.get(name)
        # "not above" instead of "at most", so that NaN is refused, too
        if isinstance(value, int | float) and not value > 0:
            raise InputError(f"{name} is {value}, but must be above 0")
