"""What this package's own programs do in their process before they import ESPnet.

``import espnet_ext`` and ``espnet_ext.register()`` run inside other people's programs
too, and do nothing of this: there nothing changes but ESPnet's dicts of classes.
"""

import functools
import gc
import inspect
import io
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, suppress
from importlib import import_module
from typing import Any

from espnet_ext.errors import say
from espnet_ext.upstream.logs import escape_logged_controls

# Packages whose checks of types wait. typeguard parses a module again for each function
# that it decorates, which is a third of the time that ESPnet takes to load.
DEFERRED = ("espnet2.", "espnet3.")
# modules whose functions with types each training calls
EVERY_TRAINING = ("espnet2.tasks.abs_task", "espnet2.train.")
_waiting: list[Callable[[], object]] = []  # of those functions, not compiled yet


def prepare_process() -> None:
    """Prepare this process, which is one of ours, for ESPnet, and register the plugins.

    Calling it again changes nothing.
    """
    import espnet_ext

    prepare_imports()
    espnet_ext.register()


def prepare_imports() -> None:
    """Say that ESPnet is being loaded, and make that faster and quieter."""
    escape_logged_controls()
    # a fork of a process that has loaded it
    if "espnet2.tasks" in sys.modules:
        return
    say_loading()
    defer_type_checks()
    import_attention()


def say_loading() -> None:
    """Print that ESPnet is being loaded, which takes 4 to 45 s.

    Nothing is printed if it is there, or if this process is a worker.
    """
    import multiprocessing

    if "espnet2.tasks" not in sys.modules and multiprocessing.parent_process() is None:
        say("loading ESPnet ...", error=True)


def import_attention() -> None:
    """Import ESPnet's attention without its line that Flash Attention is not there.

    Nothing here needs it.
    """
    said = io.StringIO()
    # a release that has it elsewhere imports it later, with its line
    with redirect_stderr(said), suppress(ModuleNotFoundError):
        import_module("espnet2.legacy.nets.pytorch_backend.transformer.attention")
    for line in said.getvalue().splitlines():
        # one that is installed and broken is the user's to know
        if "No module named 'flash_attn'" not in line:
            say(line, error=True)


def defer_type_checks() -> None:
    """Let typeguard compile ESPnet's functions when they are first called.

    That is, those that it decorates from now on. Calling it again changes nothing.
    """
    import typeguard

    decorate = typeguard.typechecked
    if getattr(decorate, "defers", False):
        return

    def deferred(target: Any = None, **options: Any) -> Any:
        if options or not _is_plain_function_of_espnet(target):
            return decorate(target, **options)

        @functools.cache
        def checked() -> Any:
            return decorate(target)

        if target.__module__.startswith(EVERY_TRAINING):
            _waiting.append(checked)

        # ESPnet reads signatures of functions, which ``wraps`` passes on
        @functools.wraps(target)
        def call(*arguments: Any, **named: Any) -> Any:
            return checked()(*arguments, **named)

        return call

    setattr(deferred, "defers", True)  # noqa: B010 - mypy knows no attributes of functions
    typeguard.typechecked = deferred


def _is_plain_function_of_espnet(target: Any) -> bool:
    """Say whether a call can be passed on to a decorated function.

    A wrapper of a generator or coroutine would no longer be seen as one.
    """
    return (
        inspect.isfunction(target)
        and target.__module__.startswith(DEFERRED)
        and not inspect.isgeneratorfunction(target)
        and not inspect.iscoroutinefunction(target)
        and not inspect.isasyncgenfunction(target)
    )


def prepare_forks() -> None:
    """Let processes that are forked later share what this one has loaded."""
    # Compiled here once, not in each of them.
    while _waiting:
        compile_function = _waiting.pop()
        compile_function()
    # A search for garbage writes to each object, and so copies the memory of all.
    gc.freeze()
