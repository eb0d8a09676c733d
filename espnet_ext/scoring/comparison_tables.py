"""Write a comparison as text, for the terminal and the page.

``result`` is the content of ``compare.json``.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from tabulate import tabulate

from espnet_ext.scoring.formatting import (
    NOTHING,
    format_count,
    format_interval,
    format_p,
    format_value,
)

NAMES = {
    "wer": "WER",
    "cer": "CER",
    "mer": "MER",
    "sawer": "SA-WER",
    "cpwer": "cpWER",
    "tcpwer": "tcpWER",
}


def format_comparison(result: Mapping[str, Any]) -> str:
    """Write everything about a comparison for the terminal."""
    blocks = [write_heading(result)]
    for header, *rows in (list_system_rows(result), list_pair_rows(result)):
        # Numbers are written out before: tabulate would cut their zeros.
        table = tabulate(rows, header, tablefmt="simple", disable_numparse=True)
        blocks.append(table)
    notes = [describe_coverage(result)]
    notes += [f"warning: {warning}" for warning in result["warnings"]]
    blocks.append("\n".join(notes))
    return "\n\n".join(blocks)


def write_heading(result: Mapping[str, Any]) -> str:
    """Say what was compared on what, in one line."""
    reference = result["reference"]
    normaliser = ""
    if result["normaliser"] != "none":
        normaliser = f", normaliser {result['normaliser']}"
    collar = f", collar {result['collar']:g} s" if result["collar"] else ""
    number = len(result["unit"]["names"])
    return (
        f"{NAMES[result['rate']]} on {reference['number']} {reference['holds']}, "
        f"{reference['tokens']} tokens; "
        f"the unit of the test is the {result['unit']['kind']} "
        f"({number}){normaliser}{collar}"
    )


def list_system_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Lay out the systems with their rates and errors, below the headings.

    A rate has its standard deviation over seeds after ±; errors are means over seeds.
    """
    rate = f"{NAMES[result['rate']]} %"
    rows = [["system", rate, "95% interval", "seeds", "sub", "del", "ins"]]
    for system in result["systems"]:
        row = [
            system["name"],
            format_value(system["value"], system["spread"]),
            format_interval(system["ci95"]),
            str(len(system["values"])),
        ]
        for kind in ("substitutions", "deletions", "insertions"):
            mean = fmean(counts[kind] for counts in system["counts"])
            row.append(f"{mean:.1f}".removesuffix(".0"))
        rows.append(row)
    return rows


def list_pair_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Lay out the tests of two systems, a row each below the headings."""
    rows = [
        ["a minus b", "points", "95% interval", "seeds", "p", "corrected p", "verdict"]
    ]
    for pair in result["pairs"]:
        verdict = f"{pair['better']} is better" if pair["better"] else "open"
        if pair["p_value"] is None:
            verdict = f"no test: {format_count(pair['units'], pair['unit'])}"
        row = [
            f"{pair['a']} - {pair['b']}",
            f"{pair['difference']:+.2f}",
            format_interval(pair["ci95"], "+") or NOTHING,
            str(pair["seeds"]),
            format_p(pair["p_value"]),
            format_p(pair["p_corrected"]),
            verdict,
        ]
        rows.append(row)
    return rows


def describe_coverage(result: Mapping[str, Any]) -> str:
    """Say what the verdicts are about, and what they are not."""
    unit = result["unit"]["kind"]
    pairs = result["pairs"]
    trained: list[str] = []  # whose other trainings a test covers
    for pair in pairs:
        trained += [name for name in pair["trainings"] if name not in trained]
    names = [system["name"] for system in result["systems"]]
    fixed = [name for name in names if name not in trained]
    too = f", and other trainings of {_join_names(trained)}" if trained else ""
    sentences = [f"The test covers other {unit}s{too}."]
    if fixed:
        needed = "other trainings need three seeds a system"
        sentences.append(
            f"Of {_join_names(fixed)} it takes the outputs as given: {needed}."
        )
    if any(pair["exact"] for pair in pairs):
        least = min(pair["least_p"] for pair in pairs)
        sentences.append(
            f"With so few {unit}s an exact sign-flip test must agree; p is at "
            f"least {format_p(least)}."
        )
    if unit == "utterance":
        sentences.append(
            "Utterances that share a speaker are not independent: give --utt2spk."
        )
    return " ".join(sentences)


def _join_names(names: Sequence[str]) -> str:
    """Join names as in a sentence: a, b and c."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
