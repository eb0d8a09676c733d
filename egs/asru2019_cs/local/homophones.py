#!/usr/bin/env python3
"""Count how homophones of the synthetic corpus are written: the words that only context of their own language tells.

In such a sentence the subject says which of two words of one sound is meant, and words of the other language stand
between them (espnet_ext/synthetic/mandarin_english.py). Writes a file of facts: by language the number of homophones in
the references, and of those with words of the other language between subject and homophone; by system and seed how many
are written right, as the other word of that sound, or as something else.

Example:
  local/homophones.py --systems exp/mini/{baseline,separate}_cs/seed* --output results/homophones.json
"""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from trained_systems import by_name

from espnet_ext.codeswitch.mixed_text import has_han, mixed_tokens
from espnet_ext.errors import run_main
from espnet_ext.results.kept.facts import write_facts
from espnet_ext.scoring.score_files import read_alignment
from espnet_ext.synthetic.mandarin_english_rules import HOMOPHONES

RIGHT, OTHER, ELSE = "right", "other_of_the_pair", "something_else"


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    systems = {
        name: summarise({seed: written(folder / "decode_default" / args.test_set) for seed, folder in seeds.items()})
        for name, seeds in by_name(args.systems).items()
    }
    first = args.systems[0] / "decode_default" / args.test_set / "alignment.txt"
    references = [[word for word, _ in each.pairs if word is not None] for each in read_alignment(first)]
    about = "How homophones of the references are written by each system, as a mean over seeds in percent"
    command = shlex.join(["local/homophones.py", *(argv or sys.argv[1:])])
    values = {
        "test_set": args.test_set,
        "references": {language: in_references(references, language) for language in ("zh", "en")},
        "systems": systems,
    }
    write_facts(args.output, about, command, values)
    print("written:", args.output)


def in_references(references: Iterable[Sequence[str]], language: str) -> dict[str, int]:
    """The number of homophones, and of those that words of the other language separate from their subject."""
    subjects = {
        _written(word, language): mixed_tokens(_written(subject, language))
        for tongue, *pair in HOMOPHONES
        if tongue == language
        for subject, word in pair
    }
    homophones = separated = 0
    for tokens in references:
        for place, token in enumerate(tokens):
            if token in subjects:
                homophones += 1
                end = _end_of(subjects[token], tokens[:place])
                separated += end is not None and any(
                    has_han(other) == (language == "en") for other in tokens[end:place]
                )
    return {"homophones": homophones, "separated": separated}


def _end_of(words: Sequence[str], tokens: Sequence[str]) -> int | None:
    """Where ``words`` last end in ``tokens``; None if they are not there."""
    ends = range(len(tokens), len(words) - 1, -1)
    return next((end for end in ends if list(tokens[end - len(words) : end]) == list(words)), None)


def pairs_by_language() -> dict[str, dict[str, str]]:
    """Language -> word -> the other word of its sound, as references write them."""
    return {
        tongue: {
            word: other
            for language, *pair in HOMOPHONES
            if language == tongue
            for (_, one), (_, two) in (pair, pair[::-1])
            for word, other in [(_written(one, language), _written(two, language))]
        }
        for tongue in ("zh", "en")
    }


def _written(entry: str, language: str) -> str:
    """A word of ``song|...`` as a text has it."""
    mandarin, english = entry.split("|")
    return english.upper() if language == "en" else mandarin


def written(scored: Path) -> dict[str, Counter[str]]:
    """Language -> outcome -> number of homophones, from the alignment of a scored test set."""
    return count(
        (pair for each in read_alignment(scored / "alignment.txt") for pair in each.pairs), pairs_by_language()
    )


def count(
    aligned: Iterable[tuple[str | None, str | None]], pairs: dict[str, dict[str, str]]
) -> dict[str, Counter[str]]:
    """Language -> outcome -> number of homophones among aligned pairs of reference and hypothesis."""
    found: dict[str, Counter[str]] = {language: Counter() for language in pairs}
    for reference, hypothesis in aligned:
        for language, others in pairs.items():
            if reference in others:
                outcome = RIGHT if hypothesis == reference else OTHER if hypothesis == others[reference] else ELSE
                found[language][outcome] += 1
    return found


def summarise(seeds: dict[str, dict[str, Counter[str]]]) -> dict[str, Any]:
    """Language -> the number of homophones, and of each outcome the percentage: the mean over seeds, and by seed."""
    summary: dict[str, Any] = {}
    for language in next(iter(seeds.values())):
        total = next(iter(seeds.values()))[language].total()
        summary[language] = {"homophones": total}
        for outcome in (RIGHT, OTHER, ELSE):
            by_seed = {seed: 100 * counts[language][outcome] / total for seed, counts in seeds.items()}
            summary[language][outcome] = {"mean": fmean(by_seed.values()), "by_seed": by_seed}
    return summary


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=Path, nargs="+", required=True, metavar="DIR", help="scored systems")
    parser.add_argument("--test_set", default="test", choices=("dev", "test"))
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file of facts to write")
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
