"""Writes docs/walkthrough.md from the trace of a recipe at smoke.

python tests/docs/make_walkthrough.py
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS / "recipes"), str(TESTS / "gpu")]

from call_trace import ROOT, VARIABLE, Call, first_sentence, read_trace  # noqa: E402

PAGE = ROOT / "docs" / "walkthrough.md"
RECIPE = "egs/librispeech_sem"
# The options of the smoke run, which tests/recipes/test_librispeech_sem.py traces too.
OPTIONS = ("--table", "1,2,3,4,r", "--rows", "baseline,0dB")
INTRODUCTION = """# From a recording to a number

Every file of which a function ran while `egs/librispeech_sem/run.sh --scale smoke`
went from FLAC files to cells of Tables 1 to 4, in the order in which they are first
entered, with the first function that ran, how many did, and what the file says it is
for. The corpus is the synthetic one, whose making is a part of stage 1.

This page is written by `python tests/docs/make_walkthrough.py`; a test runs the recipe
again and fails if a file that ran is missing here.
"""


def split_by_stage(calls: Iterable[Call]) -> list[tuple[str, list[Call]]]:
    """Return the calls of each stage, which begins with its function in recipe.py."""
    stages: list[tuple[str, list[Call]]] = [("before the first stage", [])]
    names = read_stage_names()
    for call in calls:
        if call.file == f"{RECIPE}/recipe.py" and call.function in names:
            stages.append((f"stage {names[call.function]}: {call.function}", []))
        stages[-1][1].append(call)
    return stages


def read_stage_names() -> dict[str, str]:
    """Return the number of each stage by the name of its function."""
    lines = (ROOT / RECIPE / "run.sh").read_text(encoding="utf-8").splitlines()
    words = [line.split() for line in lines if line.startswith("run ")]
    return {name: number for _, number, name, *_ in words}


def format_page(calls: list[Call]) -> str:
    """Return the page: a table for each stage, each file where it is first entered."""
    functions: dict[str, set[str]] = {}
    for call in calls:
        functions.setdefault(call.file, set()).add(call.function)
    count = sum(len(names) for names in functions.values())
    lines = [INTRODUCTION, f"{len(functions)} files, {count} functions."]
    shown: set[str] = set()
    for title, stage in split_by_stage(calls):
        rows = []
        for call in stage:
            if call.file not in shown:
                shown.add(call.file)
                rows.append(format_row(call, len(functions[call.file])))
        if rows:
            lines += ["", f"## {title[0].upper()}{title[1:]}", ""]
            lines += ["| file | enters at | functions | what it is for |"]
            lines += ["|---|---|--:|---|", *rows]
    return "\n".join(lines) + "\n"


def format_row(call: Call, count: int) -> str:
    """Return the row of a file, of which ``count`` functions ran, this one first."""
    name = call.file.removeprefix("espnet_ext/")
    purpose = first_sentence(call.file)
    return f"| `{name}` | `{call.function}` | {count} | {purpose} |"


def list_files(page: str) -> set[str]:
    """Return the files that a page has rows for, below the repository."""
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    names = [row.split("`")[1] for row in rows]
    return {name if name.startswith("egs/") else f"espnet_ext/{name}" for name in names}


def main() -> None:
    """Run the recipe and write the page."""
    from runs import smoke_run

    with tempfile.TemporaryDirectory() as folder:
        os.environ[VARIABLE] = str(Path(folder, "trace"))
        smoke_run(Path(RECIPE).name, *OPTIONS, folder=Path(folder))
        calls = read_trace(Path(folder, "trace"))
    PAGE.write_text(format_page(calls), encoding="utf-8")
    subprocess.run(["git", "diff", "--stat", str(PAGE)], cwd=ROOT, check=False)


if __name__ == "__main__":
    main()
