"""Keep the last model that a process has loaded.

A worker's next shard need not load it again.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from threading import RLock
from typing import Any

# Function that loads models -> what it was called with last, and the model.
_last: dict[Callable, tuple[str, Any]] = {}
_lock = RLock()


def keep_last[**Arguments, Model](
    load: Callable[Arguments, Model],
) -> Callable[Arguments, Model]:
    """Decorate a function that loads a model, so that it gives the last one again.

    It does for the same arguments, if files among them have not changed. Another model
    is loaded only after the last one is dropped, so that two never fill the memory
    together.
    """
    signature = inspect.signature(load)

    @wraps(load)
    def load_or_reuse(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Model:
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        stamps = []
        for value in (*call.args, *call.kwargs.values()):
            if isinstance(value, str | Path) and Path(value).is_file():
                status = Path(value).stat()
                stamps.append((status.st_size, status.st_mtime_ns))
        key = repr((call.arguments, stamps))
        with _lock:
            if load not in _last or _last[load][0] != key:
                _last.pop(load, None)
                _last[load] = key, load(*args, **kwargs)
            return _last[load][1]

    return load_or_reuse
