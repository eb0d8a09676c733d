"""What a worker keeps from shard to shard: its models, and the search that uses them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from espnet_ext.work import shards as work

# The last Speech2Text, by a hash of what it was built from, and its models, by hashes of their files.
_searches: dict[str, Any] = {}
_models: dict[str, Any] = {}


def speech2text(identity: str, build: Callable[..., Any], options: dict[str, Any]) -> Any:
    """The ``Speech2Text`` that ``build(**options)`` makes, or the last one if it was built from the same ``identity``.

    A new one reuses models from the same files, so a grid of search settings loads each model once.
    """
    if identity not in _searches:
        _searches.clear()
        with _models_kept():
            _searches[identity] = build(**options)
    return _searches[identity]


@contextmanager
def _models_kept() -> Iterator[None]:
    """Have ESPnet's tasks reuse models that are already loaded, and drop those that are not requested."""
    from espnet2.tasks.abs_task import AbsTask

    original = vars(AbsTask)["build_model_from_file"]
    wanted: dict[str, Any] = {}

    def load_or_keep(
        cls: type, config_file: str | Path | None = None, model_file: str | Path | None = None, device: str = "cpu"
    ) -> Any:
        files = {str(path): str(path) for path in (config_file, model_file) if path}
        key = work.fingerprint(cls.__name__, work.file_stamps(files), str(device))
        if key not in wanted:
            wanted[key] = _models[key] if key in _models else original.__func__(cls, config_file, model_file, device)
        return wanted[key]

    AbsTask.build_model_from_file = classmethod(load_or_keep)
    try:
        yield
    finally:
        AbsTask.build_model_from_file = original
        _models.clear()
        _models.update(wanted)
