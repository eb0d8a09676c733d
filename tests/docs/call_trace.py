"""Notes which functions of the package and of the recipes a run calls, in the order of
their first call, also in the processes that it forks.
"""

import ast
import inspect
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[2]
PLACES = tuple(f"{ROOT / place}{os.sep}" for place in ("espnet_ext", "egs"))
VARIABLE = "ESPNET_EXT_TRACE"  # in the environment of a run: the file to write
_TOOL = sys.monitoring.PROFILER_ID


@dataclass(frozen=True)
class Call:
    """The first call of a function: its file below the repository, and its name."""

    file: str
    function: str


def start_trace(path: str) -> None:
    """Append a line to a file for the first call of each function in each process."""
    # Lines are shorter than a block and the file is opened for appending, so those of
    # several processes do not mix.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(code: CodeType, offset: int) -> object:
        # The bodies of classes and modules run on import; they are not optimised.
        is_function = code.co_flags & inspect.CO_OPTIMIZED
        if is_function and code.co_filename.startswith(PLACES):
            name = os.path.relpath(code.co_filename, ROOT)
            function = code.co_qualname.split(".<locals>")[0]
            os.write(file, f"{name}\t{function}\n".encode())
        return sys.monitoring.DISABLE  # of this function: only its first call counts

    sys.monitoring.use_tool_id(_TOOL, "calls")
    start = sys.monitoring.events.PY_START
    sys.monitoring.register_callback(_TOOL, start, note)
    sys.monitoring.set_events(_TOOL, start)


def read_trace(path: Path) -> list[Call]:
    """Return the functions that ran, each once, in the order of their first call."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Call(*line.split("\t")) for line in dict.fromkeys(lines)]


def first_sentence(file: str) -> str:
    """Return the first sentence of a file's docstring, on one line."""
    text = ast.get_docstring(ast.parse((ROOT / file).read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return paragraph.removesuffix(".")
