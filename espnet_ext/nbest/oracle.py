"""The oracle of N-best lists: the best choice from them, and its error rate."""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError, say
from espnet_ext.kaldi.tables import write_table
from espnet_ext.nbest.sources import find_oddities
from espnet_ext.scoring.score_files import convert_to_percent
from espnet_ext.text.nbest import (
    Hypothesis,
    NBest,
    count_word_errors,
    drop_repeated_texts,
    read_nbest,
    require_references,
    split_reference,
)
from espnet_ext.work.files import write_json


def choose_oracle(nbest: NBest, depth: int | None = None) -> Hypothesis:
    """Return the hypothesis with the fewest word errors among the first ``depth``.

    Of equals it is the first.
    """
    errors = count_word_errors(nbest)[:depth]
    return nbest.hyps[errors.index(min(errors))]


def count_oracle_errors(lists: Sequence[NBest], depth: int | None = None) -> list[int]:
    """Return the oracle's word errors among the first 1, 2 ... ``depth`` hypotheses.

    The first number counts the errors of the best hypotheses. A shorter list takes part
    with all its hypotheses.
    """
    if not lists:
        raise InputError("there are no N-best lists")
    # Of each list the fewest errors so far, by rank: they never rise.
    fewest = []
    for nbest in lists:
        errors = count_word_errors(nbest)[:depth]
        fewest.append(list(accumulate(errors, min)))
    longest = max(map(len, fewest))
    return [sum(own[min(n, len(own) - 1)] for own in fewest) for n in range(longest)]


def make_oracle_report(lists: Sequence[NBest], path: str | Path) -> dict[str, Any]:
    """Return the oracle's errors as JSON.

    ``value`` is the error rate in percent among the first ``n`` hypotheses. Raises
    InputError, which names ``path``: lists lack references, or these all words.
    """
    require_references(lists, path, "--ref")
    errors = count_oracle_errors(lists)
    words = sum(len(split_reference(nbest)) for nbest in lists)
    if not words:
        raise InputError(
            f"{path}: all references are empty, so there is no error rate: check where "
            "they come from"
        )
    rows = [
        {"n": n, "errors": count, "value": convert_to_percent(count / words)}
        for n, count in enumerate(errors, start=1)
    ]
    return {"lists": len(lists), "words": words, "oracle": rows}


def format_oracle_report(report: dict[str, Any]) -> list[str]:
    """Return what :func:`make_oracle_report` found, as lines to print.

    >>> best = {"n": 1, "errors": 3, "value": 75.0}
    >>> format_oracle_report({"lists": 1, "words": 4, "oracle": [best]})
    ['1 lists, 4 words', '          1-best: WER 75.00 %  (3 errors)']
    """
    lines = [f"{report['lists']} lists, {report['words']} words"]
    for row in report["oracle"]:
        name = "1-best" if row["n"] == 1 else f"{row['n']}-best oracle"
        lines.append(f"{name:>16}: WER {row['value']:.2f} %  ({row['errors']} errors)")
    return lines


def report_lists(path: Path, report: Path) -> None:
    """Write and print :func:`make_oracle_report` of a JSONL file with references.

    The number of short lists is printed too.
    """
    lists = read_nbest(path)
    found = make_oracle_report(lists, path)
    write_json(report, found)
    for warning in find_oddities(lists, path):
        say(warning)
    texts = [len(drop_repeated_texts(nbest).hyps) for nbest in lists]
    say(
        f"{sum(count < max(texts) for count in texts)} lists have fewer than "
        f"{max(texts)} distinct texts"
    )
    say("\n".join(format_oracle_report(found)))


def write_choice(output: Path, lists: Path, depth: int | None = None) -> None:
    """Write the oracle's choice among the first ``depth`` of each list as Kaldi text.

    With a depth of 1 that is the first pass's choice.
    """
    chosen = {
        nbest.utt_id: choose_oracle(nbest, depth).text for nbest in read_nbest(lists)
    }
    write_table(output, chosen)
