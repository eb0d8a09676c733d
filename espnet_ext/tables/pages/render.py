"""A table's results as text: plain for the terminal, Markdown for files. Pure functions on the JSON's data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import filterfalse
from typing import Any

from tabulate import tabulate

from espnet_ext.tables.claims.counts import DAGGER, claims_of, mark_of
from espnet_ext.tables.claims.counts import NOT_RUN as NO_VERDICT
from espnet_ext.tables.claims.verdicts import verdict_text
from espnet_ext.tables.pages.figures import curves_table, seeds_note
from espnet_ext.tables.plans.tables import PREFIX

NOT_RUN = "-"
EFFECT = (
    "effect: how much lower (as claimed) or higher the error rate is, in points, mean over seeds, with its 95% interval"
    " for other trainings and other units (below zero: the other way); p: two-sided, corrected over the claims of this"
    " corpus and scale (Holm). A verdict needs three seeds on each side."
)
PAPERS, OURS = "Claims of the paper, tested on these results:", "Our own claims, tested on these results:"
REDUCTION = "reduction"  # heads the column of relative reductions
_PIPES = str.maketrans({"|": r"\|", "\n": " "})


def plain_table(result: Mapping[str, Any], row_names: Sequence[str] | None = None) -> str:
    """The table for the terminal, with the rows named (None: all) and a line for each claim that was tested."""
    if "figure" in result:
        body = curves_table(result, "simple")
    else:
        body = _plain_body(result, [row for row in result["rows"] if row_names is None or row["name"] in row_names])
    lines = [f"{_title(result)}, {result['meta']['corpus']}, scale {result['scale']}", "", body, "", legend(result)]
    for heading, claims in _by_owner(result):
        if ran := [_claim_line(claim, result["table"]) for claim in claims if claim["verdict"] != NO_VERDICT]:
            lines += ["", heading, *ran]
    if note := looked_note(result["claims"]):
        lines += ["", note]
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
            lines += [_markdown_group(result, group), ""]
    lines.append(legend(result))
    if result["claims"]:
        lines += ["", claims_section(result)]
    return "\n".join([*lines, "", meta_line(result["meta"]), ""])


def meta_line(meta: Mapping[str, Any]) -> str:
    """One paragraph on how the results were made."""
    parts = [
        f"Corpus: {meta['corpus']}",
        *_run_parts(meta),
        f"text normalisation: {meta['normaliser'] or NOT_RUN}",
        *_perplexity(meta),
        "versions: " + ", ".join(f"{name} {version}" for name, version in meta["versions"].items() if version),
    ]
    earlier = [f" Added to results of an earlier run: {'; '.join(_run_parts(run))}." for run in meta.get("earlier", [])]
    return "; ".join(parts) + "." + "".join(earlier)


def _run_parts(run: Mapping[str, Any]) -> list[str]:
    git, hardware = run["git"], run["hardware"]
    commit = "not in git" if git is None else git["commit"][:12] + (" with uncommitted changes" if git["dirty"] else "")
    return [
        f"command: `{run['command']}`",
        f"commit: {commit}",
        f"written: {run['date']}",
        f"hardware: {', '.join([hardware['cpu'], count_of(hardware['cores'], 'core'), *_gpus(hardware['gpu'])])}, "
        f"{hardware['memory_gib']} GiB",
    ]


def _perplexity(meta: Mapping[str, Any]) -> list[str]:
    value = meta.get("lm_perplexity")
    return [] if value is None else [f"perplexity of the language model: {value:.2f} per token on the dev sets"]


def has_run(result: Mapping[str, Any]) -> bool:
    """Whether any cell of the table has a result."""
    return any(cell["here"] for row in result["rows"] for cell in row["cells"].values())


def format_value(here: Mapping[str, Any] | None) -> str:
    """A result with its spread over seeds, if there are several.

    >>> format_value({"value": 6.1, "spread": 0.2, "values": {"1": 6.0, "2": 6.2}, "ci95": None})
    '6.10 ± 0.20'
    >>> format_value(None)
    '-'
    """
    if here is None:
        return NOT_RUN
    return f"{here['value']:.2f}" + (f" ± {here['spread']:.2f}" if "spread" in here else "")


def format_interval(here: Mapping[str, Any] | None) -> str:
    """A result's 95% interval, or "" if it has none.

    >>> format_interval({"value": 6.104, "ci95": [5.8, 6.4], "errors": 321, "words": 5262})
    '[5.80, 6.40]'
    """
    return "" if here is None or here["ci95"] is None else f"[{here['ci95'][0]:.2f}, {here['ci95'][1]:.2f}]"


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


def called(result: Mapping[str, Any]) -> str:
    """``table 1``, or ``figure 1``."""
    return f"figure {result['table'].removeprefix(PREFIX)}" if "figure" in result else f"table {result['table']}"


def column_groups(result: Mapping[str, Any]) -> list[list[str]]:
    """Groups of columns that stand side by side, each followed by the reductions of its columns."""
    groups: list[list[str]] = result["groups"]
    if not result["reference"]:
        return groups
    headings = {column: heading for heading, column in reduction_columns(result).items()}
    return [[*group, *(headings[column] for column in group if column in headings)] for group in groups]


def reduction_columns(result: Mapping[str, Any]) -> dict[str, str]:
    """Heading of each column of relative reductions -> the column that it is computed from. All name that column."""
    return {f"{REDUCTION} of {column}": column for column in result["reductions"]}


@dataclass(frozen=True)
class ShownCell:
    """A cell as text: the paper's number, ours with its spread over seeds, and the 95% interval of ours."""

    paper: str
    here: str
    interval: str


def shown_cell(result: Mapping[str, Any], row: Mapping[str, Any], column: str) -> ShownCell:
    """A cell of a row; a column of reductions has no interval."""
    reduced = reduction_columns(result) if result["reference"] else {}
    if column in reduced:
        own, other = (rows[reduced[column]] for rows in (row["cells"], result["reference"]["cells"]))
        here = reduction(_value(own["here"]), _value(other["here"]))
        return ShownCell(_percent(reduction(own["paper"], other["paper"])), _percent(here), "")
    cell = row["cells"][column]
    return ShownCell(_number(cell["paper"]), format_value(cell["here"]), format_interval(cell["here"]))


def shown_seeds(row: Mapping[str, Any]) -> str:
    """The seeds of a row."""
    return " ".join(str(seed) for seed in row["seeds"]) or NOT_RUN


def has_intervals(result: Mapping[str, Any], column: str) -> bool:
    """Whether a column of error rates has an interval in any row."""
    cells = [row["cells"][column]["here"] for row in result["rows"] if column in row["cells"]]
    return any(here and here["ci95"] for here in cells)


def _markdown_group(result: Mapping[str, Any], group: Sequence[str]) -> str:
    """Columns side by side: the paper's number, ours and its interval each stand in a column of their own."""
    with_interval = [column for column in group if column in result["columns"] and has_intervals(result, column)]
    header, align = ["row"], ["left"]
    for column in group:
        header += [f"{column}, paper", "ours", *(["95% interval"] if column in with_interval else [])]
        align += ["right", "right", *(["left"] if column in with_interval else [])]
    rows = []
    for row in result["rows"]:
        cells = [row["name"]]
        for column in group:
            shown = shown_cell(result, row, column)
            cells += [shown.paper, shown.here, *([shown.interval] if column in with_interval else [])]
        rows.append([cell.translate(_PIPES) for cell in (*cells, shown_seeds(row))])
    heads = [cell.translate(_PIPES) for cell in (*header, "seeds")]
    return tabulate(rows, heads, tablefmt="pipe", colalign=[*align, "left"], disable_numparse=True)


def _plain_header(group: Sequence[str]) -> list[str]:
    """Two lines; the column's name is only above the first of its pair, since a terminal is narrow."""
    return ["row", *(cell for column in group for cell in (f"{column}\npaper", "\nours")), "seeds"]


def _layout(group: Sequence[str], style: str) -> dict[str, Any]:
    """Text aligned left, the paper's numbers right; tabulate must not reformat numbers."""
    align = ["left", *["right", "left"] * len(group), "left"]
    return {"tablefmt": style, "colalign": align, "disable_numparse": True}


def row_cells(result: Mapping[str, Any], row: Mapping[str, Any], group: Sequence[str]) -> list[str]:
    """A row of one group as text: its name, the paper's number and the result for each column, and its seeds."""
    cells = [row["name"]]
    for column in group:
        shown = shown_cell(result, row, column)
        cells += [shown.paper, f"{shown.here} {shown.interval}".rstrip()]
    return [*cells, shown_seeds(row)]


def legend(result: Mapping[str, Any]) -> str:
    """What the signs in the cells mean, for below the table."""
    if "figure" in result:
        figure = result["figure"]
        rates = (
            f"{result['metric']}, in brackets the reduction from the value at {figure['baseline']:g} on the same curve,"
            " over the seeds that both have"
        )
        others = f" Rows with different seeds: {note}." if (note := seeds_note(result)) else ""
        return f"{rates}; ± standard deviation over seeds; -: not run.{others}"
    text = (
        "ours: mean over seeds ± standard deviation between trainings, [95% interval of the mean with other "
        f"{_units(result)}, for these trainings]; -: not run."
    )
    if result["reference"] and result["reductions"]:
        text += f" reduction: relative to {result['reference']['name']}."
    return text


def _units(result: Mapping[str, Any]) -> str:
    return "speakers or recordings" if result["scores"] else "utterances"


def claims_section(result: Mapping[str, Any]) -> str:
    """The claims of the paper and then our own, each as a table under a heading, and what the columns mean."""
    parts = [f"{heading}\n\n{_claims_table(claims)}" for heading, claims in _by_owner(result)]
    if any(map(_tested, result["claims"])):
        parts.append(EFFECT)
    if note := looked_note(result["claims"]):
        parts.append(note)
    return "\n\n".join(parts)


def _by_owner(result: Mapping[str, Any]) -> list[tuple[str, Sequence[Mapping[str, Any]]]]:
    found = [(PAPERS, claims_of([result])), (OURS, claims_of([result], own=True))]
    return [(heading, claims) for heading, claims in found if claims]


def looked_note(claims: Sequence[Mapping[str, Any]]) -> str:
    """What a dagger means; nothing if no claim has one.

    >>> looked_note([{"verdict": "holds", "extended": 3}])
    '†: seeds were added after a look at 3, with which the claim read undecided; p is not corrected for that.'
    """
    looked = sorted({claim["extended"] for claim in claims if mark_of(claim)})
    if not looked:
        return ""
    numbers = " or ".join(map(str, looked))
    return (
        f"{DAGGER}: seeds were added after a look at {numbers}, with which the claim read undecided; "
        "p is not corrected for that."
    )


def _claims_table(claims: Sequence[Mapping[str, Any]]) -> str:
    """Claims as a Markdown table: verdict, effect with its interval, p-values, seeds and units, by test set.

    Those that were tested on no test set stand below it in one line.
    """
    rows = []
    for claim in filter(_tested, claims):
        for number, (column, test) in enumerate(claim["tests"].items()):
            first = number == 0
            head = [shown_claim(claim) if first else "", f"**{verdict_text(claim)}**" if first else ""]
            corrected = shown_p(claim["p_corrected"]) if first else ""
            rows.append([cell.translate(_PIPES) for cell in (*head, column, *cells_of_test(test), corrected)])
    header = ["claim", "verdict", "test set", "effect", "95% interval", "seeds", "units", "p", "corrected p"]
    table = [tabulate(rows, header, tablefmt="pipe", disable_numparse=True)] if rows else []
    left = "; ".join(map(shown_claim, filterfalse(_tested, claims)))
    missing = [f"Not tested here, since a row was not run: {left}."] if left else []
    return "\n\n".join((*table, *missing))


def _tested(claim: Mapping[str, Any]) -> bool:
    return any(claim["tests"].values())


def shown_claim(claim: Mapping[str, Any]) -> str:
    """The text of a claim, with its margin if it has one.

    >>> shown_claim({"text": "An hour is no worse", "margin": 1.0})
    'An hour is no worse (by more than 1 point)'
    """
    points = "" if claim["margin"] == 1 else "s"
    return claim["text"] + (f" (by more than {claim['margin']:g} point{points})" if claim["margin"] else "")


def cells_of_test(test: Mapping[str, Any] | None) -> tuple[str, str, str, str, str]:
    """Effect, interval, seeds, units and p-value of a test as text; the effect is positive if it is as claimed."""
    if test is None:
        return "not run", NOT_RUN, NOT_RUN, NOT_RUN, NOT_RUN
    units = NOT_RUN if test["units"] is None else count_of(test["units"], test["unit"])
    return shown_effect(test), shown_interval(test), " ".join(map(str, test["seeds"])), units, shown_p(test["p_value"])


def shown_effect(test: Mapping[str, Any]) -> str:
    """By how much the error rate is lower, as the claim says, or higher.

    >>> shown_effect({"lower_by": -1.5})
    '1.50 higher'
    """
    return f"{abs(test['lower_by']):.2f} {'higher' if test['lower_by'] < 0 else 'lower'}"


def shown_interval(test: Mapping[str, Any]) -> str:
    """The interval of the effect, in the direction that :func:`shown_effect` names.

    >>> shown_interval({"lower_by": -1.5, "ci95": [-3.1, 0.1]})
    '[-0.10, +3.10]'
    """
    if test["ci95"] is None:
        return NOT_RUN
    low, high = test["ci95"] if test["lower_by"] >= 0 else (-test["ci95"][1], -test["ci95"][0])
    return f"[{low:+.2f}, {high:+.2f}]"


def shown_p(p_value: float | None) -> str:
    """A p-value in two digits.

    >>> shown_p(0.0312), shown_p(0.0001), shown_p(None)
    ('0.031', '0.0001', '-')
    """
    return NOT_RUN if p_value is None else f"{p_value:.2g}"


def _claim_line(claim: Mapping[str, Any], table: str) -> str:
    """A claim for the terminal, in one line."""
    figures = []
    for name, test in claim["tests"].items():
        p_value = "" if test["p_value"] is None else f", p = {shown_p(test['p_value'])}"
        figures.append(f"{name} {shown_effect(test)}{p_value}")
    corrected = "" if claim["p_corrected"] is None else f"; corrected p = {shown_p(claim['p_corrected'])}"
    text = f"{_sides(claim, table)}: {'; '.join(figures)}{corrected}"
    return f"  {shown_claim(claim)}: {verdict_text(claim)} ({text})"


def _sides(claim: Mapping[str, Any], table: str) -> str:
    """What is compared: rows, without the table's own number, or changes from row to row."""
    better, worse = (
        " -> ".join(row.removeprefix(f"{table}/") for row in claim[side].split(" -> ")) for side in ("better", "worse")
    )
    what = "change " if claim["compares"] == "changes" else ""
    return f"{what}{better} against {worse}"


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
