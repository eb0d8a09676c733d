"""The section of RESULTS.md with the results of other people: all of them, row by row."""

from collections.abc import Mapping, Sequence
from typing import Any

from tabulate import tabulate

from espnet_ext.tables.kept.reproductions import by_table
from espnet_ext.tables.kept.result_files import natural
from espnet_ext.tables.pages.render import called, format_interval, format_value, has_run

PAPER, HERE = "the paper", "this repository"


def reproductions_section(
    results: Sequence[Mapping[str, Any]], reproductions: Sequence[Mapping[str, Any]]
) -> list[str]:
    """Lines of Markdown; none if nobody has sent results.

    Args:
        results: what the recipe itself keeps.
        reproductions: as :func:`espnet_ext.tables.kept.reproductions.read_reproductions` returns them.
    """
    if not reproductions:
        return []
    lines = ["## Results of others", "", "Everything that was sent, beside the paper and what is kept here.", ""]
    for table, others in sorted(by_table(reproductions).items(), key=lambda item: natural(item[0])):
        own = [(HERE, result) for result in results if result["table"] == table and has_run(result)]
        lines += [f"### {called(others[0][1]).capitalize()}", "", _table([*own, *others]), ""]
        lines += [_origin(name, result) for name, result in others] + [""]
    return lines


def _table(sources: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """A line for each row and source; the paper's numbers come first in each row."""
    columns = list(dict.fromkeys(column for _, result in sources for column in result["columns"]))
    names = list(dict.fromkeys(row["name"] for _, result in sources for row in result["rows"]))
    lines = []
    for name in names:
        found = [(who, result, row) for who, result in sources for row in result["rows"] if row["name"] == name]
        paper = [_paper(found, column) for column in columns]
        lines.append([name, PAPER, "", *paper, ""])
        for who, result, row in found:
            cells = [row["cells"].get(column, {}).get("here") for column in columns]
            if any(cells):
                values = [f"{format_value(cell)} {format_interval(cell)}".strip() for cell in cells]
                data = f"{result['meta']['corpus']}, {result['scale']}"
                lines.append(["", who, data, *values, " ".join(map(str, row["seeds"]))])
    heads = ["row", "by", "corpus, scale", *columns, "seeds"]
    return tabulate([[cell.replace("|", "/") for cell in line] for line in lines], heads, "pipe", disable_numparse=True)


def _paper(found: Sequence[tuple[str, Mapping[str, Any], Mapping[str, Any]]], column: str) -> str:
    numbers = [row["cells"][column]["paper"] for _, _, row in found if column in row["cells"]]
    return next((f"{number:.2f}" for number in numbers if number is not None), "")


def _origin(name: str, result: Mapping[str, Any]) -> str:
    meta = result["meta"]
    commit = meta["git"]["commit"][:12] + (" with changes" if meta["git"]["dirty"] else "")
    hardware = ", ".join([meta["hardware"]["cpu"], *meta["hardware"]["gpu"]])
    return f"- {name}: `{meta['command']}`; commit {commit}; {hardware}; {meta['date']}"
