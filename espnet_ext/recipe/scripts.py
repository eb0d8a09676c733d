"""Python files that are in no package: recipes, and what is in their ``local/``."""

import io
import pickle
from importlib import util
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

_loaded: dict[tuple[Path, str], ModuleType] = {}


def load_script(path: Path, name: str = "") -> ModuleType:
    """Import a Python file that is not in a package; once, whoever asks."""
    key = (path, name)
    if key not in _loaded:
        spec = util.spec_from_file_location(name or path.stem, path)
        assert spec and spec.loader
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _loaded[key] = module
    return _loaded[key]


def pickle_with_scripts(value: Any) -> bytes:
    """Pickle a value that may hold functions and classes of scripts.

    ``pickle.loads`` loads these in another process.
    """
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()


class _Pickler(pickle.Pickler):
    """Writes the path of a script in place of a module that nobody can import."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, FunctionType | type):
            own_name = value.__name__
            for (path, name), module in _loaded.items():
                if getattr(module, own_name, None) is value:
                    return _find_in_script, (path, name, own_name)
        return NotImplemented  # tells pickle to go on as usual


def _find_in_script(path: Path, name: str, function: str) -> Any:
    return getattr(load_script(path, name), function)
