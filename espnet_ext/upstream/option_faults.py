"""One line for what a config says wrong of the modules that ESPnet builds, where ESPnet
ends with a traceback or takes the value as it is.
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
    choices,
    third_parties,
)

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
    **dict.fromkeys(("list", "tuple", "Sequence"), "a list"),
    **dict.fromkeys(("dict", "Mapping"), "a mapping (key: value)"),
}


def option_fault(error: BaseException) -> str | None:
    """Find what in a config has made ESPnet fail while it built the config's modules;
    None if it was something else, such as a fault in a plugin of the user's.
    """
    stack = list(traceback.walk_tb(error.__traceback__))
    for place, (frame, _) in enumerate(stack):
        args = frame.f_locals.get("args")
        if frame.f_code.co_name in BUILDERS and isinstance(args, Namespace):
            return _fault_of_building(error, args, stack[place:])
    return None


def _fault_of_building(
    error: BaseException,
    args: Namespace,
    stack: Sequence[tuple[FrameType, int]],
) -> str | None:
    frames = [frame for frame, _ in stack]
    # what fails at the first batch is how the modules fit together, later something else
    if any(
        frame.f_code.co_name == TRAINS and frame.f_locals.get("iiter") != 1
        for frame in frames
    ):
        return None
    inside = {
        type(frame.f_locals["self"]) for frame in frames if "self" in frame.f_locals
    }
    for key in KEYS:
        for fault in _faults(key, args, inside, str(error)):
            return fault
    # whoever writes a plugin needs to see where it fails
    if any(_is_users(frame) for frame in frames):
        return None
    blamed = [f"{key}_conf: {getattr(args, key)}" for key in _find_blamed(args, frames)]
    if not blamed and isinstance(error, OSError):
        return None
    place = " or ".join(blamed) or "this config does not work"
    return f"{place}: {reason(error)}"


def _find_blamed(args: Namespace, frames: Sequence[FrameType]) -> list[str]:
    """Return the key of the module in which the error occurred, the innermost of those
    that the config names; several if they are of one class.
    """
    classes = {key: found for key in KEYS if (found := _class_of(key, args))}
    for frame in reversed(frames):
        owner = frame.f_locals.get("self")
        if keys := [key for key in classes if isinstance(owner, classes[key])]:
            return keys
    return []


def reason(error: BaseException) -> str:
    """Return what an error says in one line, with the condition that an assertion has.

    >>> reason(ValueError("Invalid beta parameter"))
    'Invalid beta parameter'
    """
    said = str(error).strip().splitlines()
    text = said[0] if said else type(error).__name__
    if isinstance(error, KeyError):
        return f"there is no {text}"
    if not isinstance(error, AssertionError):
        return text
    frame, line = list(traceback.walk_tb(error.__traceback__))[-1]
    path = frame.f_code.co_filename
    code = linecache.getline(path, line).strip().removeprefix("assert ")
    where = f"{Path(path).name}, line {line}"
    try:
        ast.parse(code)
    except SyntaxError:  # it goes on in the next line
        return f"{text}: {where}"
    return f"`{code}` does not hold{f' ({text})' if said else ''}: {where}"


@cache
def _plugin_packages() -> frozenset[str]:
    return frozenset(entry.value.partition(".")[0] for entry in third_parties())


def _is_users(frame: FrameType) -> bool:
    """Return whether a frame runs code of the user's: a plugin of another package, or
    what is no package at all.
    """
    root = frame.f_globals.get("__name__", "").partition(".")[0]
    if root in _plugin_packages():
        return True
    known = root == PACKAGE or root in sys.stdlib_module_names
    return not known and SITE not in frame.f_code.co_filename


def _faults(
    key: str,
    args: Namespace,
    inside: set[type],
    message: str,
) -> Iterator[str]:
    name, found = getattr(args, key, None), _class_of(key, args)
    options = getattr(args, f"{key}_conf", None) or {}
    if found is None or not isinstance(options, Mapping):
        return
    lacking = MISSING.match(message)
    # the constructor may be that of a class above
    constructors = [f"{each.__qualname__}.__init__" for each in found.__mro__]
    if lacking and lacking[1] in constructors:
        yield f"{key}_conf: {name}: needs {lacking[2]}"
    for option, value in options.items():
        unknown = option not in inspect.signature(found).parameters
        suspect = f"'{option}'" in message if unknown else found in inside
        if suspect and (what := unfit(found, option, value)):
            yield f"{key}_conf: {name}: {what}"


def check_options(key: str, name: str, found: type, options: Mapping[str, Any]) -> None:
    """Refuse options in a config that the class which ``name`` stands for cannot take:
    unknown ones, and values of another type or below zero.

    A class that passes any option on to another is not asked for names.
    """
    parameters = inspect.signature(found).parameters.values()
    takes_any = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    names = {each.name for each in parameters}
    for option, value in options.items():
        if takes_any and option not in names:
            continue
        if what := unfit(found, option, value):
            raise InputError(f"{key}_conf: {name}: {what}")


def unfit(found: type, option: str, value: Any) -> str | None:
    """Say why a class cannot take an option with this value: it has none of this name,
    or of another type.

    >>> unfit(complex, "rael", 1.0)
    'no option rael: is real meant?'
    """
    known = inspect.signature(found).parameters
    if option not in known:
        near = get_close_matches(str(option), known, n=1)
        return (
            f"no option {option}: "
            f"{f'is {near[0]} meant?' if near else f'its options are {", ".join(known)}'}"
        )
    default = known[option].default
    if default is inspect.Parameter.empty:
        default = None
    if wanted := _unlike(value, _types(found).get(option), default):
        return f"{option} is {value!r}, but must be {wanted}"
    if _is_number(value) and value < 0 and type(default) is int and default > 0:
        return f"{option} is {value!r}, but must not be negative"
    return None


def fitted[Settings](
    found: type[Settings],
    settings: Mapping[str, Any],
    where: str,
) -> Settings:
    """Make an instance of a class of these settings; one that it cannot take is refused
    (:func:`unfit`).
    """
    for option, value in settings.items():
        if what := unfit(found, option, value):
            raise InputError(f"{where}: {what}")
    return found(**settings)


def _class_of(key: str, args: Namespace) -> type | None:
    name = getattr(args, key, None)
    if not isinstance(name, str):
        return None
    for slot in (key, OTHER_SLOTS.get(key, key)):
        for classes, _ in choices(slot)[:1] if slot in SLOTS else []:
            if name in classes:
                return classes[name]
    return None


def _types(found: type) -> Mapping[str, Any]:
    try:
        return get_type_hints(found.__init__)  # type: ignore[misc]
    except (NameError, TypeError):
        return {}


def _unlike(value: Any, annotation: Any, default: Any) -> str | None:
    """Return what a value must be, if it is of another type than its option's."""
    if value is None and default is None:
        return None
    # Some annotations of ESPnet are wrong (`rate: int = 0.1`): what their own default
    # does not fit says nothing.
    if default is not None and not _fits(default, annotation):
        annotation = None
    fits = _fits(value, annotation)
    if fits is None:
        return _unlike_default(value, default)
    if fits:
        return None
    kind = get_origin(annotation) or annotation
    if kind is Literal:
        return f"one of {', '.join(map(repr, get_args(annotation)))}"
    return WORDS.get(getattr(kind, "__name__", ""), str(annotation))


def _fits(value: Any, annotation: Any) -> bool | None:
    """Return whether a value is of a type; None if the type is none that can be asked.

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
    if annotation in (int, float) and isinstance(value, bool):
        return False
    return not isinstance(value, str) or not isinstance(taken, int | float)


def _unlike_default(value: Any, default: Any) -> str | None:
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
