"""A comparison as text, for the terminal and the page.

``result`` is the content of ``compare.json``.
"""

from collections.abc import Mapping, Sequence
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
    tables = (
        tabulate(rows[1:], rows[0], tablefmt="simple", disable_numparse=True)
        for rows in (list_system_rows(result), list_pair_rows(result))
    )
    covered = [
        describe_coverage(result),
        *(f"warning: {warning}" for warning in result["warnings"]),
    ]
    return "\n\n".join([write_heading(result), *tables, "\n".join(covered)])


def write_heading(result: Mapping[str, Any]) -> str:
    """Say what was compared on what, in one line."""
    reference = result["reference"]
    normaliser = (
        "" if result["normaliser"] == "none" else f", normaliser {result['normaliser']}"
    )
    collar = f", collar {result['collar']:g} s" if result["collar"] else ""
    number = len(result["unit"]["names"])
    return (
        f"{NAMES[result['rate']]} on {reference['number']} {reference['holds']}, "
        f"{reference['tokens']} tokens; "
        f"the unit of the test is the {result['unit']['kind']} "
        f"({number}){normaliser}{collar}"
    )


def list_system_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Lay out the systems with their rates (± their standard deviation between seeds)
    and errors below the headings.
    """
    rows = [
        [
            "system",
            f"{NAMES[result['rate']]} %",
            "95% interval",
            "seeds",
            "sub",
            "del",
            "ins",
        ]
    ]
    for system in result["systems"]:
        means = (
            sum(counts[kind] for counts in system["counts"]) / len(system["counts"])
            for kind in ("substitutions", "deletions", "insertions")
        )
        value, interval = (
            format_value(system["value"], system["spread"]),
            format_interval(system["ci95"]),
        )
        numbers = (f"{mean:.1f}".removesuffix(".0") for mean in means)
        rows.append(
            [system["name"], value, interval, str(len(system["values"])), *numbers]
        )
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
        interval = format_interval(pair["ci95"], "+") or NOTHING
        p_values = [format_p(pair["p_value"]), format_p(pair["p_corrected"])]
        names = f"{pair['a']} - {pair['b']}"
        rows.append(
            [
                names,
                f"{pair['difference']:+.2f}",
                interval,
                str(pair["seeds"]),
                *p_values,
                verdict,
            ]
        )
    return rows


def describe_coverage(result: Mapping[str, Any]) -> str:
    """Say what the verdicts are about, and what they are not."""
    unit, pairs = result["unit"]["kind"], result["pairs"]
    trained = list(dict.fromkeys(name for pair in pairs for name in pair["trainings"]))
    fixed = [
        system["name"] for system in result["systems"] if system["name"] not in trained
    ]
    too = f", and other trainings of {_listed(trained)}" if trained else ""
    sentences = [f"The test covers other {unit}s{too}."]
    if fixed:
        needed = "other trainings need three seeds a system"
        sentences.append(
            f"Of {_listed(fixed)} it takes the outputs as given: {needed}."
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


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
