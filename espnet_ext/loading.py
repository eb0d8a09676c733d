"""Print that ESPnet is being loaded, and make that take half as long.

Of 22 s for ``import espnet2.bin.asr_train``, typeguard takes a third to parse modules,
and wandb, rarely used, a tenth.
"""

import atexit
import functools
import gc
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from inspect import isfunction
from io import StringIO
from types import ModuleType
from typing import Any

from espnet_ext.errors import say

RARELY_USED = ("wandb",)  # of what ESPnet's trainer imports
EVERY_TRAINING = (
    "espnet2.tasks.abs_task",
    "espnet2.train.",
)  # modules whose functions with types each training calls
_waiting: list[Callable[[], object]] = []


def say_loading() -> None:
    """Print that ESPnet is being loaded, which takes 4 to 45 s, unless it is there, or
    this process is a worker.
    """
    import multiprocessing

    if "espnet2.tasks" not in sys.modules and multiprocessing.parent_process() is None:
        print("loading ESPnet ...", file=sys.stderr, flush=True)


def import_attention() -> None:
    """Import ESPnet's attention without its line on stderr that Flash Attention, which
    nothing here needs, is not installed.
    """
    said = StringIO()
    # a release that has it elsewhere imports it later, with its line
    with redirect_stderr(said), suppress(ModuleNotFoundError):
        import_module("espnet2.legacy.nets.pytorch_backend.transformer.attention")
    for line in said.getvalue().splitlines():
        # one that is installed and broken is the user's to know
        if "No module named 'flash_attn'" not in line:
            say(line, error=True)


class LoadQuickly:
    """Wait on ``sys.meta_path`` for the first module of ESPnet, and prepare what it
    imports.

    Not for the package itself, which commands that need no model look for without
    importing it.
    """

    def find_spec(self, name: str, *_: object) -> None:
        """Leave the search for a module to the others."""
        if name.startswith("espnet2."):
            sys.meta_path.remove(self)
            defer_type_checks()
            defer_modules()
            atexit.register(
                gc.freeze
                # two seconds less at the end, in which thousands of modules were
                # searched
            )


def defer_type_checks() -> None:
    """Let functions that typeguard decorates from now on be compiled with their checks
    when they are first called.
    """
    import typeguard

    decorate = typeguard.typechecked

    def deferred(target: Any = None, **options: Any) -> Any:
        if not isfunction(target) or options:
            return decorate(target, **options)
        checked = functools.cache(lambda: decorate(target))
        if target.__module__.startswith(EVERY_TRAINING):
            _waiting.append(checked)
        return functools.wraps(target)(
            lambda *args, **kwargs: checked()(*args, **kwargs)
        )

    typeguard.typechecked = deferred


def prepare_forks() -> None:
    """Compile what trainings call, and let no search for garbage copy what is loaded,
    in processes forked later.
    """
    while _waiting:
        _waiting.pop()()
    gc.freeze()


class _Later(ModuleType):
    """A module that is loaded for any attribute but its file, for which ``inspect``,
    and so torch, asks all modules.
    """

    def __getattr__(self, name: str) -> Any:
        self.__class__ = ModuleType  # type: ignore[assignment]
        self.__spec__.loader.exec_module(self)  # type: ignore[union-attr]
        return getattr(self, name)


def defer_modules() -> None:
    """Let modules that are rarely used be loaded when something of them is first used."""
    for name in RARELY_USED:
        if name not in sys.modules and (spec := find_spec(name)):
            module = sys.modules[name] = module_from_spec(spec)
            module.__class__ = _Later
