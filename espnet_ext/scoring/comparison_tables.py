"""A comparison as text: for the terminal, as Markdown and as rows for a LaTeX table."""

from collections.abc import Mapping, Sequence
from typing import Any

from tabulate import tabulate

from espnet_ext.scoring.formatting import NOTHING, count_of, format_interval, format_p, format_value

NAMES = {"wer": "WER", "cer": "CER", "mer": "MER", "sawer": "SA-WER", "cpwer": "cpWER", "tcpwer": "tcpWER"}


def plain_text(result: Mapping[str, Any]) -> str:
    """Write everything about a comparison for the terminal; ``result`` is the content of ``compare.json``."""
    parts = [heading(result), _table(system_rows(result)), _table(pair_rows(result))]
    parts += [f"{name}\n{_table(pair_rows(measure))}" for name, measure in result["measures"].items()]
    parts.append("\n".join([what_is_covered(result), *(f"warning: {warning}" for warning in result["warnings"])]))
    return "\n\n".join(parts)


def _table(rows: Sequence[Sequence[str]], style: str = "simple") -> str:
    return tabulate(rows[1:], rows[0], tablefmt=style, disable_numparse=True)


def heading(result: Mapping[str, Any]) -> str:
    """Say what was compared on what, in one line."""
    reference = result["reference"]
    normaliser = "" if result["normaliser"] == "none" else f", normaliser {result['normaliser']}"
    collar = f", collar {result['collar']:g} s" if result["collar"] else ""
    number = len(result["unit"]["names"])
    return (
        f"{NAMES[result['rate']]} on {reference['number']} {reference['holds']}, {reference['tokens']} tokens; "
        f"the unit of the test is the {result['unit']['kind']} ({number}){normaliser}{collar}"
    )


def system_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Lay out the systems with their rates and errors, a row each below the headings."""
    rows = [["system", f"{NAMES[result['rate']]} %", "95% interval", "seeds", "sub", "del", "ins"]]
    for system in result["systems"]:
        means = (
            sum(counts[kind] for counts in system["counts"]) / len(system["counts"])
            for kind in ("substitutions", "deletions", "insertions")
        )
        numbers = (f"{mean:.1f}".removesuffix(".0") for mean in means)
        rows.append([system["name"], *_rate_cells(system), *numbers])
    return rows


def _rate_cells(system: Mapping[str, Any]) -> list[str]:
    """Return the error rate in percent, with the standard deviation between seeds; its interval; the seeds."""
    value = format_value(system["value"], system["spread"])
    return [value, format_interval(system["ci95"]), str(len(system["values"]))]


def pair_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Lay out the tests of two systems, a row each below the headings."""
    rows = [["a minus b", "points", "95% interval", "seeds", "p", "corrected p", "verdict"]]
    for pair in result["pairs"]:
        interval = format_interval(pair["ci95"], "+") or NOTHING
        p_values = [format_p(pair["p_value"]), format_p(pair["p_corrected"])]
        names = f"{pair['a']} - {pair['b']}"
        rows.append([names, f"{pair['difference']:+.2f}", interval, str(pair["seeds"]), *p_values, _verdict(pair)])
    return rows


def _verdict(pair: Mapping[str, Any]) -> str:
    """Return which of two systems is better, if the test can tell."""
    if pair["p_value"] is None:
        return f"no test: {count_of(pair['units'], pair['unit'])}"
    return f"{pair['better']} is better" if pair["better"] else "undecided"


def what_is_covered(result: Mapping[str, Any]) -> str:
    """Say what the verdicts are about, and what they are not."""
    unit, pairs = result["unit"]["kind"], result["pairs"]
    trained = list(dict.fromkeys(name for pair in pairs for name in pair["trainings"]))
    fixed = [system["name"] for system in result["systems"] if system["name"] not in trained]
    too = f", and other trainings of {_listed(trained)}" if trained else ""
    sentences = [f"The test covers other {unit}s{too}."]
    if fixed:
        needed = "other trainings need three seeds a system"
        sentences.append(f"Of {_listed(fixed)} it takes the outputs as given: {needed}.")
    if any(pair["exact"] for pair in pairs):
        least = min(pair["least_p"] for pair in pairs)
        sentences.append(f"With so few {unit}s an exact sign-flip test must agree; p is at least {format_p(least)}.")
    if unit == "utterance":
        sentences.append("Utterances that share a speaker are not independent: give --utt2spk.")
    if result["measures"]:
        sentences.append("p-values are corrected for the number of pairs, and not for the number of measures.")
    return " ".join(sentences)


def _listed(names: Sequence[str]) -> str:
    """Return names as text.

    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def paper_rows(result: Mapping[str, Any], style: str) -> str:
    """Write a table to paste, each system compared with the first; ``style`` is ``pipe`` or ``latex_booktabs``."""
    first = result["systems"][0]["name"]
    against = {pair["b"]: pair for pair in result["pairs"] if pair["a"] == first}
    rows = [["system", f"{NAMES[result['rate']]} %", "95% interval", "seeds", f"minus {first}", "corrected p"]]
    for system in result["systems"]:
        pair = against.get(system["name"])
        test = ["", ""] if pair is None else [f"{-pair['difference']:+.2f}", format_p(pair["p_corrected"])]
        rows.append([system["name"], *_rate_cells(system), *test])
    return _table(rows, style)
