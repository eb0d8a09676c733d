"""The files that the config of an ESPnet training names."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError

# lists of words, which may look like paths and never are
WORDS = ("token_list", "src_token_list")
NEEDED = ("_file", "bpemodel")  # how keys end that name a file, which must be there


def find_named_files(
    config: Mapping[str, Any],
    bases: Sequence[Path],
    source: Path,
) -> dict[str, Path]:
    """Find the files that a config names: as it writes them -> where they are.

    ``bases`` are the folders from which relative paths may be meant, the likeliest
    first; ``source`` is the config's file, for messages. Raises InputError: a file that
    the config needs is not there, or is a folder.
    """
    found = {}
    for key, value in _list_strings(config):
        # A bare word may be a file's name, but only where a file is expected: `exp` may
        # also be an option's value.
        is_path = "/" in value
        if "\n" in value or not (is_path or key.endswith((*NEEDED, "token_list"))):
            continue
        needed = key.endswith(NEEDED)
        candidates = [base / value for base in bases]
        path = next((each for each in candidates if each.exists()), None)
        # a text with a slash that is nowhere is no path, unless its key says so
        if path is not None and path.is_file():
            found[value] = path.resolve()
        elif path is not None and (is_path or needed):
            raise InputError(
                f"{source}: {key} names the folder {path}: only files can be "
                "packed and loaded"
            )
        elif path is None and needed:
            raise InputError(
                f"{source}: {key}: {value} is not there: put it back, or correct "
                "the path"
            )
    return found


def _list_strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield all strings in a config with the nearest key above them."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if not (name in WORDS and isinstance(item, list)):
                yield from _list_strings(item, str(name))
    elif isinstance(value, list):
        for item in value:
            yield from _list_strings(item, key)
    elif isinstance(value, str):
        yield key, value


def replace_paths(value: Any, paths: Mapping[str, str], key: str = "") -> Any:
    """Return a copy of a config with other paths, old -> new.

    All strings that are keys of ``paths`` are replaced, but for lists of tokens.
    """
    if isinstance(value, Mapping):
        return {name: replace_paths(item, paths, name) for name, item in value.items()}
    if isinstance(value, list):
        # a token may be spelt like a file
        return value if key in WORDS else [replace_paths(item, paths) for item in value]
    return paths.get(value, value) if isinstance(value, str) else value


def list_base_folders(folder: Path) -> list[Path]:
    """List where relative paths of a config may start.

    The folders are the config's own, and where its training was run: here or above.
    """
    folder = folder.resolve()
    return [folder, Path.cwd(), *folder.parents]
