"""Rows of a table to paste into a paper or a page: LaTeX (booktabs) and Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tabulate import tabulate

from espnet_ext.errors import InputError
from espnet_ext.tables.pages.render import has_intervals, reduction_columns, shown_cell, shown_seeds
from espnet_ext.work.settings import known

Style = Literal["latex", "markdown"]
_LATEX = str.maketrans(
    {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
     "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$"}
)  # fmt: skip
_MARKDOWN = str.maketrans({"|": r"\|", "\n": " "})


def paste_table(
    result: Mapping[str, Any], style: Style, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> str:
    """A table with some rows and columns (None: all): for each column the paper's number, ours and its 95% interval.

    Raises:
        InputError: an unknown row or column.
    """
    names = [row["name"] for row in result["rows"]]
    wanted_rows = _wanted(rows, names, "row")
    wanted = _wanted(columns, shown_columns(result), "column")
    body = [paste_cells(result, row, wanted) for row in result["rows"] if row["name"] in wanted_rows]
    return _table([heads(result, wanted), *body], style)


def paste_row(result: Mapping[str, Any], row: Mapping[str, Any], columns: Sequence[str], style: Style) -> str:
    """One row, as a line."""
    cells = [_escaped(cell, style) for cell in paste_cells(result, row, columns)]
    return " & ".join(cells) + r" \\" if style == "latex" else f"| {' | '.join(cells)} |"


def shown_columns(result: Mapping[str, Any]) -> list[str]:
    """The columns of a table, and those of relative reductions."""
    return [*result["columns"], *(reduction_columns(result) if result["reference"] else {})]


def heads(result: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """The headings of :func:`paste_cells`."""
    parts = [
        [f"{column}, paper", f"{column}, ours", *(["95% interval"] if _interval(result, column) else [])]
        for column in columns
    ]
    return ["row", *(head for part in parts for head in part), "seeds"]


def paste_cells(result: Mapping[str, Any], row: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """A row as text: its name, the paper's numbers, ours and their intervals, and the seeds."""
    cells = [row["name"]]
    for column in columns:
        shown = shown_cell(result, row, column)
        cells += [shown.paper, shown.here, *([shown.interval or "-"] if _interval(result, column) else [])]
    return [*cells, shown_seeds(row)]


def _interval(result: Mapping[str, Any], column: str) -> bool:
    return column in result["columns"] and has_intervals(result, column)


def _wanted(names: Sequence[str] | None, there: Sequence[str], kind: str) -> list[str]:
    for name in names or ():
        if name not in there:
            raise InputError(f"no {kind} {name!r}; {known(there)}")
    return list(there if names is None else names)


def _table(rows: Sequence[Sequence[str]], style: Style) -> str:
    escaped = [[_escaped(cell, style) for cell in row] for row in rows]
    align = ["left", *["right"] * (len(rows[0]) - 1)]
    layout = "latex_raw" if style == "latex" else "pipe"
    text = tabulate(escaped[1:], escaped[0], tablefmt=layout, colalign=align, disable_numparse=True)
    if style == "markdown":
        return text
    lines = text.splitlines()
    rules = iter((r"\toprule", r"\midrule", r"\bottomrule"))
    return "\n".join(next(rules) if line == r"\hline" else line for line in lines)


def _escaped(cell: str, style: Style) -> str:
    return cell.translate(_LATEX if style == "latex" else _MARKDOWN)
