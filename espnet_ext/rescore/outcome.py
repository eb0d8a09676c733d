"""What a second pass did: what is printed of it, and the files that it leaves."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import write_table
from espnet_ext.nbest.oracle import count_oracle_errors
from espnet_ext.nbest.selection import Weights
from espnet_ext.rescore.weights import (
    ErrorCurve,
    Tuned,
    count_errors_at,
    find_weight,
    find_widest_piece,
)
from espnet_ext.scoring.formatting import format_count, format_interval
from espnet_ext.scoring.score_files import convert_to_percent
from espnet_ext.text.nbest import NBest, split_reference, write_nbest
from espnet_ext.work.files import atomic_write_text, refuse_input, write_json

CURVES = "curves.tsv"
RESULTS = ("nbest.jsonl", "text", "ref", "interpolation.json", CURVES)
MARK = ".rescored"  # in the folder of a second pass
# Weights at which a line tells the errors: some of each order of magnitude.
SHOWN = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, math.inf)


@dataclass(frozen=True)
class Outcome:
    """Hold the weights of all scores, and the lists before and after.

    ``tuned`` is how weights were tuned, None if they were given; ``curves`` has the
    errors on the lists that they were tuned on by each tuned weight. ``speakers`` are
    those of all utterances, none if they are not known.
    """

    weights: Weights
    tuned: Tuned | None
    before: list[NBest]
    after: list[NBest]
    curves: Mapping[str, ErrorCurve] = field(default_factory=dict)
    speakers: Mapping[str, str] = field(default_factory=dict)


def list_outcome(outcome: Outcome) -> list[str]:
    """Return what a second pass did, as lines to print.

    The lines are the weights, the errors by each tuned weight, and, if there are
    references, error rates and the gain.
    """
    named = ", ".join(f"{name} {value:.6g}" for name, value in outcome.weights.items())
    lines = [f"weights: {named}"]
    if tuned := outcome.tuned:
        rate = _format_rate(tuned.errors, tuned.words)
        lines.append(f"on {tuned.lists} development lists: WER {rate}")
    for name, curve in outcome.curves.items():
        lines += _describe_curve(name, curve)
    changed = 0
    silent = 0
    for old, new in zip(outcome.before, outcome.after, strict=True):
        first = old.hyps[0].text
        changed += first != new.hyps[0].text
        others = any(hyp.text for hyp in old.hyps)
        silent += not first and others
    number = len(outcome.before)
    lines.append(
        f"{number} lists; the best hypothesis has changed in {changed} of them"
    )
    if silent:
        lines.append(
            f"{silent} lists stay as they are: their best hypothesis has no words"
        )
    references = [nbest.ref for nbest in outcome.before]
    has_words = any(references)
    if has_words and None not in references:
        lines += _describe_rates(outcome)
    return lines


def _describe_rates(outcome: Outcome) -> list[str]:
    """Tell the error rates of the first pass, of the result and of the oracle."""
    before = count_oracle_errors(outcome.before)
    (after,) = count_oracle_errors(outcome.after, 1)
    words = sum(len(split_reference(nbest)) for nbest in outcome.before)
    first = _format_rate(before[0], words)
    rescored = _format_rate(after, words)
    oracle = _format_rate(before[-1], words)
    rates = (
        f"WER: first pass {first}, rescored {rescored}, {len(before)}-best oracle "
        f"{oracle} of {words} words"
    )
    return [rates, _describe_gain(outcome)]


def _describe_gain(outcome: Outcome) -> str:
    """Tell how much lower the error rate is, with its interval on other units.

    Units are speakers, whose utterances share a voice; without them, utterances.
    """
    # scipy, for Student's distribution, is imported only where it is needed
    from espnet_ext.scoring.significance import run_outputs_test

    unit_of = outcome.speakers
    first: dict[str, int] = {}  # errors by unit, and below of the result
    rescored: dict[str, int] = {}
    words: dict[str, int] = {}
    for old, new in zip(outcome.before, outcome.after, strict=True):
        unit = unit_of.get(old.utt_id, old.utt_id)
        (errors_before,) = count_oracle_errors([old], 1)
        (errors_after,) = count_oracle_errors([new], 1)
        first[unit] = first.get(unit, 0) + errors_before
        rescored[unit] = rescored.get(unit, 0) + errors_after
        words[unit] = words.get(unit, 0) + len(split_reference(old))
    test = run_outputs_test(
        [[*rescored.values()]], [[*first.values()]], [*words.values()]
    )
    units = format_count(test.units, "speaker" if unit_of else "utterance")
    gain = f"gain: {convert_to_percent(test.difference):.2f} points"
    if test.ci95 is None:
        return f"{gain}, no interval over {units}"
    interval = format_interval([convert_to_percent(end) for end in test.ci95])
    return f"{gain}, 95% interval {interval} over {units}"


def _describe_curve(name: str, curve: ErrorCurve) -> list[str]:
    """Tell the errors by a weight, and whether the best is at an end of the curve."""
    shown = []
    for weight in SHOWN:
        place = "alone" if math.isinf(weight) else f"{weight:g}"
        shown.append(f"{place}: {count_errors_at(curve, weight)}")
    fewest = min(curve.errors)
    low, high = find_widest_piece(curve, fewest)
    best = f"fewest: {fewest} from {find_weight(low):.3g} to {find_weight(high):.3g}"
    lines = [f"errors by the weight of {name}: {', '.join(shown)}; {best}"]
    # At an end one score decides alone: more lists, or another model, may be needed.
    if low == 0.0 and high == 1.0:
        lines.append(f"warning: no weight of {name} changes the number of errors")
    elif low == 0.0:
        lines.append(f"warning: without {name} there are as few errors")
    elif high == 1.0:
        lines.append(f"warning: with {name} alone there are as few errors")
    return lines


def _format_rate(errors: int, words: int) -> str:
    return f"{100 * errors / words:.2f} %"


def check_output(folder: Path, inputs: Iterable[Path | None]) -> None:
    """Refuse a folder in which a second pass would replace what is not its own."""
    if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
        raise InputError(f"{folder}: is no folder: name one for the results")
    inputs = list(inputs)
    results = [folder / name for name in RESULTS]
    for path in (folder, *results):
        refuse_input(path, inputs)
    # A data dir has a text, too, and a first pass lists.
    if (folder / MARK).exists():
        return
    for path in results:
        if path.exists():
            raise InputError(
                f"{path}: was not written by rescore, and would be replaced: name "
                "another folder"
            )


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Write the results of a second pass in the place of those of an earlier one."""
    folder.mkdir(parents=True, exist_ok=True)
    # All of them first: a second pass without tuning leaves no weights of another.
    for name in RESULTS:
        (folder / name).unlink(missing_ok=True)
    (folder / MARK).touch()
    if tuned := outcome.tuned:
        write_json(folder / "interpolation.json", asdict(tuned))
        write_curves(folder / CURVES, outcome.curves, tuned.words)
    write_nbest(folder / "nbest.jsonl", outcome.after)
    best = {nbest.utt_id: nbest.hyps[0].text for nbest in outcome.after}
    write_table(folder / "text", best)
    references = {
        nbest.utt_id: nbest.ref for nbest in outcome.after if nbest.ref is not None
    }
    if len(references) == len(outcome.after):
        write_table(folder / "ref", references)


def write_curves(path: Path, curves: Mapping[str, ErrorCurve], words: int) -> None:
    """Write the errors by each tuned weight: the pieces on which they are constant.

    Columns, separated by tabs, are the score, the weights where a piece begins and ends
    (``inf``: this score alone), the word errors of the development lists, and their
    rate in percent.
    """
    with atomic_write_text(path) as file:
        file.write("score\tfrom\tto\terrors\twer\n")
        for name, curve in curves.items():
            weights = [f"{find_weight(corner):.6g}" for corner in curve.corners]
            pieces = zip(pairwise(weights), curve.errors, strict=True)
            for (begin, end), errors in pieces:
                rate = convert_to_percent(errors / words)
                file.write(f"{name}\t{begin}\t{end}\t{errors}\t{rate}\n")
