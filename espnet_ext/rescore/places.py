"""Where language models and results lie; without torch and transformers, which take seconds to import."""

from pathlib import Path

from espnet_ext.errors import InputError


def check_place(name: str | Path) -> None:
    """Refuse a path that is no folder; a hub name is ``model`` or ``user/model``.

    Raises:
        InputError: names it.
    """
    text = str(name)
    is_path = text.startswith((".", "/", "~")) or text.count("/") > 1 or Path(text).is_file()
    if is_path and not Path(text).is_dir():
        raise InputError(f"{text}: no such folder of a language model: check the path")
