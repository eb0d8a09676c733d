"""One line for a module's options that its class does not take, where ESPnet ends with
a traceback.
"""

import inspect
import traceback
from argparse import Namespace
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from espnet_ext.errors import InputError
from espnet_ext.registry import OTHER_SLOTS, SLOT_KEYS, SLOTS, choices

BUILDERS = ("build_model", "build_optimizers")
KEYS = (*SLOT_KEYS, "optim")


def option_fault(error: BaseException) -> str | None:
    """Find the option of a module that has made ESPnet fail while it built a model or
    an optimizer; None if none has.

    The module's class does not have it, or, if the error comes from within the class,
    takes another type.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for place, frame in enumerate(frames):
        args = frame.f_locals.get("args")
        if frame.f_code.co_name in BUILDERS and isinstance(args, Namespace):
            inside = {
                type(each.f_locals["self"])
                for each in frames[place:]
                if "self" in each.f_locals
            }
            return next(
                (
                    fault
                    for key in KEYS
                    for fault in _faults(key, args, inside, str(error))
                ),
                None,
            )
    return None


def _faults(
    key: str, args: Namespace, inside: set[type], message: str
) -> Iterator[str]:
    name, options = getattr(args, key, None), getattr(args, f"{key}_conf", None)
    found = (
        _class(key, name)
        if isinstance(name, str) and isinstance(options, Mapping)
        else None
    )
    if found is None or not options:
        return
    for option, value in options.items():
        unknown = option not in inspect.signature(found).parameters
        suspect = f"'{option}'" in message if unknown else found in inside
        if suspect and (what := unfit(found, option, value)):
            yield f"{key}_conf: {name}: {what}"


def unfit(found: type, option: str, value: Any) -> str | None:
    """Say why a class cannot take an option with this value: it has none of this name,
    or of another type.

    >>> unfit(complex, "rael", 1.0)
    'no option rael: is real meant?'
    """
    known = inspect.signature(found).parameters
    if option not in known:
        near = get_close_matches(option, known, n=1)
        return (
            f"no option {option}: "
            f"{f'is {near[0]} meant?' if near else f'its options are {", ".join(known)}'}"
        )
    types_of = _types(found)
    wanted = _unlike(value, types_of[option]) if option in types_of else None
    return f"{option} is {value!r}, but must be {wanted}" if wanted else None


def fitted[Settings](
    found: type[Settings], settings: Mapping[str, Any], where: str
) -> Settings:
    """Make an instance of a class of these settings; one that it cannot take is refused
    (:func:`unfit`).
    """
    for option, value in settings.items():
        if what := unfit(found, option, value):
            raise InputError(f"{where}: {what}")
    return found(**settings)


def _class(key: str, name: str) -> type | None:
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


def _unlike(value: Any, wanted: Any) -> str | None:
    """Return what a value must be, if it is of another type; text that looks like a
    number is text.
    """
    try:
        taken = TypeAdapter(wanted).validate_python(value)
    except ValidationError:
        pass
    except (PydanticUserError, PydanticUndefinedAnnotation):
        return None
    else:
        if not isinstance(value, str) or not isinstance(taken, int | float):
            return None
    name = getattr(wanted, "__name__", None) if isinstance(wanted, type) else None
    words = {
        "float": "a number",
        "int": "a whole number",
        "bool": "true or false",
        "str": "text",
    }
    return words.get(name or "", str(wanted).replace("typing.", ""))
