"""One line for what a config says wrong of the modules that ESPnet builds.

ESPnet ends with a traceback, or takes the value as it is.
"""

import ast
import inspect
import linecache
import os
import re
import sys
import traceback
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from espnet_ext.errors import InputError
from espnet_ext.registry import (
    OTHER_SLOTS,
    PACKAGE,
    SLOT_KEYS,
    SLOTS,
    list_choices,
    list_third_parties,
)

# ESPnet's functions whose local ``args`` are the config
BUILDERS = ("main", "main_worker", "build_model", "build_optimizers")
TRAINS = "train_one_epoch"
KEYS = (*SLOT_KEYS, "optim", "scheduler")
SITE = f"{os.sep}site-packages{os.sep}"
MISSING = re.compile(r"(\S+)\(\) missing \d+ required .*?arguments?: (.*)")
WORDS = {
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "str": "text",
    "list": "a list",
    "tuple": "a list",
    "Sequence": "a list",
    "dict": "a mapping (key: value)",
    "Mapping": "a mapping (key: value)",
}


def find_option_fault(error: BaseException) -> str | None:
    """Find what in a config has made ESPnet fail while it built the config's modules.

    None: it was something else, such as a fault in a plugin of the user's.
    """
    stack = list(traceback.walk_tb(error.__traceback__))
    # the outermost of the builders: what it called is to blame
    for place, (frame, _) in enumerate(stack):
        args = frame.f_locals.get("args")
        if frame.f_code.co_name in BUILDERS and isinstance(args, Namespace):
            return _explain_failed_build(error, args, stack[place:])
    return None


def _explain_failed_build(
    error: BaseException,
    args: Namespace,
    stack: Sequence[tuple[FrameType, int]],
) -> str | None:
    frames = [frame for frame, _ in stack]
    # What fails at the first batch is how the modules fit together, later something
    # else. ``iiter`` is the number of the batch in ESPnet's trainer.
    for frame in frames:
        if frame.f_code.co_name == TRAINS and frame.f_locals.get("iiter") != 1:
            return None
    failed_in = set()
    for frame in frames:
        if "self" in frame.f_locals:
            failed_in.add(type(frame.f_locals["self"]))
    # an option that is named is the surest cause, and so looked for first
    for key in KEYS:
        for fault in _find_option_faults(key, args, failed_in, str(error)):
            return fault
    # whoever writes a plugin needs to see where it fails
    if any(_is_code_of_user(frame) for frame in frames):
        return None
    keys = _find_blamed(args, frames)
    # A file that cannot be read is not a matter of options.
    if not keys and isinstance(error, OSError):
        return None
    blamed = [f"{key}_conf: {getattr(args, key)}" for key in keys]
    place = " or ".join(blamed) or "this config does not work"
    return f"{place}: {explain_error(error)}"


def _find_blamed(args: Namespace, frames: Sequence[FrameType]) -> list[str]:
    """Return the key of the module in which the error occurred.

    The module is the innermost of those that the config names; there are several keys
    if modules are of one class.
    """
    classes = {}
    for key in KEYS:
        found = _find_class(key, args)
        if found:
            classes[key] = found
    for frame in reversed(frames):
        owner = frame.f_locals.get("self")
        keys = [key for key, found in classes.items() if isinstance(owner, found)]
        if keys:
            return keys
    return []


def explain_error(error: BaseException) -> str:
    """Return what an error says in one line, with the condition that an assertion has.

    >>> explain_error(ValueError("Invalid beta parameter"))
    'Invalid beta parameter'
    """
    said = str(error).strip().splitlines()
    text = said[0] if said else type(error).__name__
    if isinstance(error, KeyError):
        return f"there is no {text}"
    if not isinstance(error, AssertionError):
        return text
    # Most assertions say nothing but their condition, which is in the source.
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    path = frame.f_code.co_filename
    code = linecache.getline(path, line).strip().removeprefix("assert ")
    where = f"{Path(path).name}, line {line}"
    try:
        ast.parse(code)
    # a condition of several lines
    except SyntaxError:
        return f"{text}: {where}"
    message = f" ({text})" if said else ""
    return f"`{code}` does not hold{message}: {where}"


@cache
def _list_plugin_packages() -> frozenset[str]:
    return frozenset(entry.value.partition(".")[0] for entry in list_third_parties())


def _is_code_of_user(frame: FrameType) -> bool:
    """Say whether a frame runs code of the user's.

    The user's are plugins of another package, and what is in no package at all.
    """
    root = frame.f_globals.get("__name__", "").partition(".")[0]
    if root in _list_plugin_packages():
        return True
    known = root == PACKAGE or root in sys.stdlib_module_names
    return not known and SITE not in frame.f_code.co_filename


def _find_option_faults(
    key: str,
    args: Namespace,
    failed_in: set[type],
    message: str,
) -> Iterator[str]:
    """Yield what an error's message says of the options of one module of a config.

    ``failed_in``: classes whose methods the error came through.
    """
    name = getattr(args, key, None)
    found = _find_class(key, args)
    options = getattr(args, f"{key}_conf", None) or {}
    if found is None or not isinstance(options, Mapping):
        return
    lacking = MISSING.match(message)
    # the constructor may be that of a class above
    constructors = [f"{each.__qualname__}.__init__" for each in found.__mro__]
    if lacking and lacking[1] in constructors:
        yield f"{key}_conf: {name}: needs {lacking[2]}"
    known = inspect.signature(found).parameters
    for option, value in options.items():
        # Other modules may have options of the same name, or values that look wrong and
        # work: an option is named only where the error speaks of it.
        is_quoted = f"'{option}'" in message
        suspect = found in failed_in if option in known else is_quoted
        fault = explain_misfit(found, option, value) if suspect else None
        if fault:
            yield f"{key}_conf: {name}: {fault}"


def check_options(key: str, name: str, found: type, options: Mapping[str, Any]) -> None:
    """Refuse options in a config that the class of this name cannot take.

    A class cannot take unknown options, and values of another type or below zero. A
    class that passes any option on to another is not asked for names.
    """
    parameters = inspect.signature(found).parameters.values()
    # ``**options``
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    names = {each.name for each in parameters}
    for option, value in options.items():
        if takes_any and option not in names:
            continue
        fault = explain_misfit(found, option, value)
        if fault:
            raise InputError(f"{key}_conf: {name}: {fault}")


def explain_misfit(found: type, option: str, value: Any) -> str | None:
    """Say why a class cannot take an option with this value; None if it can.

    >>> explain_misfit(complex, "rael", 1.0)
    'no option rael: is real meant?'
    """
    known = inspect.signature(found).parameters
    if option not in known:
        near = get_close_matches(str(option), known, n=1)
        advice = f"its options are {', '.join(known)}"
        if near:
            advice = f"is {near[0]} meant?"
        return f"no option {option}: {advice}"
    default = known[option].default
    if default is inspect.Parameter.empty:
        default = None
    wanted = _explain_wrong_type(value, _read_types(found).get(option), default)
    if wanted:
        return f"{option} is {value!r}, but must be {wanted}"
    # A count has a whole number above 0 as default; for others, -1 may mean something.
    is_count = type(default) is int and default > 0
    if is_count and _is_number(value) and value < 0:
        return f"{option} is {value!r}, but must not be negative"
    return None


def make_checked[Settings](
    found: type[Settings],
    settings: Mapping[str, Any],
    where: str,
) -> Settings:
    """Make an instance of a class with these settings.

    Raises InputError: one that it cannot take (:func:`explain_misfit`).
    """
    for option, value in settings.items():
        fault = explain_misfit(found, option, value)
        if fault:
            raise InputError(f"{where}: {fault}")
    return found(**settings)


def _find_class(key: str, args: Namespace) -> type | None:
    name = getattr(args, key, None)
    if not isinstance(name, str):
        return None
    for slot in (key, OTHER_SLOTS.get(key, key)):
        if slot not in SLOTS:
            continue
        # the dict of the ASR task comes first
        for classes, _ in list_choices(slot)[:1]:
            if name in classes:
                return classes[name]
    return None


def _read_types(found: type) -> Mapping[str, Any]:
    try:
        return get_type_hints(found.__init__)  # type: ignore[misc]
    except (NameError, TypeError):
        return {}


def _explain_wrong_type(value: Any, annotation: Any, default: Any) -> str | None:
    """Say what a value must be, if it is of another type than its option's."""
    if value is None and default is None:
        return None
    # Some annotations of ESPnet are wrong (`rate: int = 0.1`): what their own default
    # does not fit says nothing.
    if default is not None and not _fits(default, annotation):
        annotation = None
    fits = _fits(value, annotation)
    if fits is None:
        return _explain_unlike_default(value, default)
    if fits:
        return None
    kind = get_origin(annotation) or annotation
    if kind is Literal:
        return f"one of {', '.join(map(repr, get_args(annotation)))}"
    return WORDS.get(getattr(kind, "__name__", ""), str(annotation))


def _fits(value: Any, annotation: Any) -> bool | None:
    """Say whether a value is of a type; None if the type cannot be asked.

    Text that looks like a number is text, and true is no number.
    """
    if annotation is None:
        return None
    try:
        taken = TypeAdapter(annotation).validate_python(value)
    except ValidationError:
        return False
    except (PydanticUserError, PydanticUndefinedAnnotation):
        return None
    # pydantic takes true for 1, and "1" for 1
    if annotation in (int, float) and isinstance(value, bool):
        return False
    return not isinstance(value, str) or not isinstance(taken, int | float)


def _explain_unlike_default(value: Any, default: Any) -> str | None:
    if isinstance(default, bool):
        return None if isinstance(value, bool) else WORDS["bool"]
    if isinstance(default, int | float):
        return None if _is_number(value) else WORDS["float"]
    if isinstance(default, tuple) and default:
        is_list = isinstance(value, list | tuple) and len(value) == len(default)
        return None if is_list else f"a list of {len(default)}, as {list(default)}"
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
