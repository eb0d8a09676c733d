"""A table's results as text: plain for the terminal, Markdown for files. Pure functions on the JSON's data."""

from collections.abc import Mapping, Sequence
from typing import Any

from tabulate import tabulate

from espnet_ext.results.figures import curves_table
from espnet_ext.results.tables import PREFIX

NOT_RUN = "-"
REDUCTION = "reduction"  # heads the column of relative reductions
_PIPES = str.maketrans({"|": r"\|", "\n": " "})


def plain_table(result: Mapping[str, Any], row_names: Sequence[str] | None = None) -> str:
    """The table for the terminal, with the rows named (None: all) and a line for each claim that was tested."""
    if "figure" in result:
        body = curves_table(result, "simple")
    else:
        body = _plain_body(result, [row for row in result["rows"] if row_names is None or row["name"] in row_names])
    claims = [f"  {text}: {verdict}{figures}" for text, verdict, figures in _claims(result, tested_only=True)]
    lines = [f"{_title(result)}, {result['meta']['corpus']}, scale {result['scale']}", "", body, "", legend(result)]
    if claims:
        lines += ["", "Claims of the paper, tested on these results:", *claims]
    return "\n".join(lines) + "\n"


def _plain_body(result: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    return "\n\n".join(
        tabulate([row_cells(result, row, group) for row in rows], _plain_header(group), **_layout(group, "simple"))
        for group in column_groups(result)
    )


def markdown_table(result: Mapping[str, Any], heading: str = "#", pictures: str = "") -> str:
    """The table as Markdown, all rows and claims, under a heading of the given level.

    A figure has its picture, ``<pictures><name>.png``, above its numbers.
    """
    lines = [f"{heading} {_title(result)}", ""]
    if "figure" in result:
        name = result["table"]
        lines += [f"![{_title(result)}]({pictures}{name}.png)", "", curves_table(result, "pipe"), ""]
    else:
        for group in column_groups(result):
            rows = [[cell.translate(_PIPES) for cell in row_cells(result, row, group)] for row in result["rows"]]
            lines += [tabulate(rows, _markdown_header(group), **_layout(group, "pipe")), ""]
    lines.append(legend(result))
    if result.get("claims"):
        test = "a paired bootstrap over utterances (two-sided, level 0.05)"
        lines += ["", f"Claims of the paper, tested on these results by {test}:", ""]
        lines += [f"- {text}: **{verdict}**{figures}" for text, verdict, figures in _claims(result)]
    return "\n".join([*lines, "", meta_line(result["meta"]), ""])


def meta_line(meta: Mapping[str, Any]) -> str:
    """One paragraph on how the results were made."""
    git, hardware = meta["git"], meta["hardware"]
    commit = "not in git" if git is None else git["commit"][:12] + (" with uncommitted changes" if git["dirty"] else "")
    parts = [
        f"Corpus: {meta['corpus']}",
        f"command: `{meta['command']}`",
        f"commit: {commit}",
        f"written: {meta['date']}",
        f"hardware: {', '.join([hardware['cpu'], count_of(hardware['cores'], 'core'), *_gpus(hardware['gpu'])])}, "
        f"{hardware['memory_gib']} GiB",
        f"text normalisation: {meta['normaliser'] or NOT_RUN}",
        *_perplexity(meta),
        "versions: " + ", ".join(f"{name} {version}" for name, version in meta["versions"].items() if version),
    ]
    return "; ".join(parts) + "."


def _perplexity(meta: Mapping[str, Any]) -> list[str]:
    value = meta.get("lm_perplexity")
    return [] if value is None else [f"perplexity of the language model: {value:.2f} per token on the dev sets"]


def has_run(result: Mapping[str, Any]) -> bool:
    """Whether any cell of the table has a result."""
    return any(cell["here"] for row in result["rows"] for cell in row["cells"].values())


def format_here(here: Mapping[str, Any] | None) -> str:
    """A result with its spread over seeds and its 95% interval, if it has them.

    >>> format_here({"value": 6.104, "ci95": [5.8, 6.4], "errors": 321, "words": 5262})
    '6.10 [5.80, 6.40]'
    >>> format_here({"value": 6.1, "spread": 0.2, "values": {"1": 6.0, "2": 6.2}, "ci95": None})
    '6.10 ± 0.20'
    >>> format_here(None)
    '-'
    """
    if here is None:
        return NOT_RUN
    spread = f" ± {here['spread']:.2f}" if "spread" in here else ""
    interval = "" if here["ci95"] is None else f" [{here['ci95'][0]:.2f}, {here['ci95'][1]:.2f}]"
    return f"{here['value']:.2f}{spread}{interval}"


def reduction(value: float | None, reference: float | None) -> float | None:
    """The relative reduction from ``reference`` to ``value`` in percent (negative: an increase).

    None if one of them is missing, or if ``reference`` is 0.

    >>> round(reduction(3.72, 4.19), 1)  # P2, section 5, on test-clean
    11.2
    """
    return None if value is None or not reference else 100 * (reference - value) / reference


def _title(result: Mapping[str, Any]) -> str:
    if "figure" in result:
        return f"Figure {result['table'].removeprefix(PREFIX)}. {result['caption']}"
    return f"Table {result['table']}. {result['caption']}: {result['metric']}"


def column_groups(result: Mapping[str, Any]) -> list[list[str]]:
    """Groups of columns that stand side by side, each followed by the reductions of its columns."""
    groups = result.get("groups", [result["columns"]])
    if not result.get("reference"):
        return groups
    headings = {column: heading for heading, column in reduction_columns(result).items()}
    return [[*group, *(headings[column] for column in group if column in headings)] for group in groups]


def reduction_columns(result: Mapping[str, Any]) -> dict[str, str]:
    """Heading of each column of relative reductions -> the column that it is computed from."""
    columns = result.get("reductions", result["columns"][-1:])
    return {REDUCTION if len(columns) == 1 else f"{REDUCTION} {column}": column for column in columns}


def _markdown_header(group: Sequence[str]) -> list[str]:
    pairs = [f"{column} {who}" for column in group for who in ("paper", "here")]
    return [cell.translate(_PIPES) for cell in ("row", *pairs, "seeds")]


def _plain_header(group: Sequence[str]) -> list[str]:
    """Two lines; the column's name is only above the first of its pair, since a terminal is narrow."""
    return ["row", *(cell for column in group for cell in (f"{column}\npaper", "\nhere")), "seeds"]


def _layout(group: Sequence[str], style: str) -> dict[str, Any]:
    """Text aligned left, the paper's numbers right; tabulate must not reformat numbers."""
    align = ["left", *["right", "left"] * len(group), "left"]
    return {"tablefmt": style, "colalign": align, "disable_numparse": True}


def row_cells(result: Mapping[str, Any], row: Mapping[str, Any], group: Sequence[str]) -> list[str]:
    """A row of one group as text: its name, the paper's number and the result for each column, and its seeds."""
    cells = [row["name"]]
    reduced = reduction_columns(result)
    for column in group:
        if column in reduced:
            own, other = (rows[reduced[column]] for rows in (row["cells"], result["reference"]["cells"]))
            here = reduction(_value(own["here"]), _value(other["here"]))
            cells += [_percent(reduction(own["paper"], other["paper"])), _percent(here)]
        else:
            cell = row["cells"][column]
            cells += [_number(cell["paper"]), format_here(cell["here"])]
    return [*cells, " ".join(str(seed) for seed in row["seeds"]) or NOT_RUN]


def legend(result: Mapping[str, Any]) -> str:
    """What the signs in the cells mean, for below the table."""
    if "figure" in result:
        figure = result["figure"]
        rates = (
            f"{result['metric']}, in brackets the reduction from the value at {figure['baseline']:g} on the same curve"
        )
        return f"{rates}; ± standard deviation over seeds; -: not run."
    text = "here: these results, with [95% bootstrap interval] and ± standard deviation over seeds; -: not run."
    if result.get("reference"):
        columns = " and ".join(reduction_columns(result).values())
        text += f" reduction: of {columns}, relative to {result['reference']['name']}."
    return text


def _claims(result: Mapping[str, Any], tested_only: bool = False) -> list[tuple[str, str, str]]:
    """(text, verdict, figures) of each claim."""
    claims = []
    for claim in result.get("claims", []):
        if claim["verdict"] or not tested_only:
            missing = [name for name, test in claim["tests"].items() if test is None]
            verdict = claim["verdict"] or f"not run on {', '.join(missing)}"
            figures = [f"{name} {_difference(test)}" for name, test in claim["tests"].items() if test]
            sides = _sides(claim, result["table"])
            claims.append((claim["text"], verdict, f" ({sides}: {'; '.join(figures)})" if figures else ""))
    return claims


def _sides(claim: Mapping[str, Any], table: str) -> str:
    """What is compared: rows, without the table's own number, or changes from row to row."""
    better, worse = (
        " -> ".join(row.removeprefix(f"{table}/") for row in claim[side].split(" -> ")) for side in ("better", "worse")
    )
    what = "change " if claim.get("compares") == "changes" else ""
    return f"{what}{better} against {worse}"


def _difference(test: Mapping[str, Any]) -> str:
    direction = "higher" if test["lower_by"] < 0 else "lower"
    return f"{abs(test['lower_by']):.2f} {direction}, p = {test['p_value']:.2g}"


def _value(here: Mapping[str, Any] | None) -> float | None:
    return None if here is None else here["value"]


def _number(value: float | None) -> str:
    return NOT_RUN if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return NOT_RUN if value is None else f"{round(value, 1) + 0.0:.1f}%"  # never -0.0


def count_of(number: int, what: str) -> str:
    """A number of things: ``1 core``, ``2 cores``."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def _gpus(names: Sequence[str]) -> list[str]:
    return [f"{names.count(name)} x {name}" for name in dict.fromkeys(names)]
