#!/usr/bin/env python3
"""Count how homophones of the synthetic corpus are written: the words that only context of their own language tells.

In such a sentence the subject says which of two words of one sound is meant, and words of the other language stand
between them (HOMOPHONES in espnet_ext/synthetic/mandarin_english_rules.py). Writes a file of facts: by language the
number of homophones in the references, and of those with words of the other language between subject and homophone; by
system and seed how many are written right, as the other word of that sound, or as something else.

Example:
  local/homophones.py --systems exp/mini/{baseline,separate}_cs/seed* --output results/homophones.json
"""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from trained_systems import by_name, facts_of

from espnet_ext.codeswitch.mixed_text import has_han, mixed_tokens
from espnet_ext.command import run_main
from espnet_ext.scoring.alignment_file import Aligned, read_alignment
from espnet_ext.scoring.significance import crossed_test
from espnet_ext.synthetic.mandarin_english_rules import HOMOPHONES
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.tables.scores import read_utterances

RIGHT, OTHER, ELSE = "right", "other_of_the_pair", "something_else"
BOTH = "both"
Counts = dict[str, dict[str, Counter[str]]]  # language -> speaker -> outcome -> homophones


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    folders = by_name(args.systems)
    speakers = speakers_of(args.systems[0] / "decode_default" / args.test_set / "per_utterance.tsv")
    aligned = {
        name: {seed: list(read_alignment(alignment(folder, args.test_set))) for seed, folder in seeds.items()}
        for name, seeds in folders.items()
    }
    first = next(iter(next(iter(aligned.values())).values()))
    references = [[word for word, _ in each.pairs if word is not None] for each in first]
    values = {
        "test_set": args.test_set,
        "references": {language: in_references(references, language) for language in ("zh", "en")},
        "systems": summarise(
            {name: {seed: written(each, speakers) for seed, each in seeds.items()} for name, seeds in aligned.items()}
        ),
    }
    about = (
        "How homophones of the references are written by each system, in percent; lower_by, what is "
        "not right in the first system minus that here, is a fraction"
    )
    write_facts(args.output, about, shlex.join(["local/homophones.py", *(argv or sys.argv[1:])]), values)
    print("written:", args.output)


def alignment(folder: Path, test_set: str) -> Path:
    """The alignment that scoring has written for a system."""
    return folder / "decode_default" / test_set / "alignment.txt"


def speakers_of(path: Path) -> dict[str, str]:
    """Utterance -> speaker, from the ``per_utterance.tsv`` of a scored test set."""
    return {key: count.unit for key, count in read_utterances(path).items()}


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


def written(aligned: Iterable[Aligned], speakers: Mapping[str, str]) -> Counts:
    """Language, also both together -> speaker -> outcome -> number of homophones, in aligned utterances."""
    pairs = pairs_by_language()
    found: Counts = {language: {speaker: Counter() for speaker in speakers.values()} for language in (*pairs, BOTH)}
    for utterance in aligned:
        for reference, hypothesis in utterance.pairs:
            for language, others in pairs.items():
                if reference in others:
                    outcome = RIGHT if hypothesis == reference else OTHER if hypothesis == others[reference] else ELSE
                    for each in (language, BOTH):
                        found[each][speakers[utterance.key]][outcome] += 1
    return found


def summarise(systems: Mapping[str, Mapping[str, Counts]]) -> dict[str, Any]:
    """System -> language -> outcome in percent, and a test of what is not right against the first system.

    A mean over seeds, and by seed. The test is that of docs/statistics.md, over the seeds that both have and speakers.
    """
    first = next(iter(systems.values()))
    summary: dict[str, Any] = {}
    for name, seeds in systems.items():
        summary[name] = {}
        for language in next(iter(seeds.values())):
            summary[name][language] = outcomes({seed: counts[language] for seed, counts in seeds.items()})
            common = [seed for seed in seeds if seed in first]
            if seeds is not first and common:
                own, base = (table([each[seed][language] for seed in common]) for each in (seeds, first))
                test = crossed_test(own[0], base[0], own[1])
                summary[name][language] |= facts_of(test)
    return summary


def outcomes(seeds: Mapping[str, Mapping[str, Counter[str]]]) -> dict[str, Any]:
    """The number of homophones, and the percentage of each outcome: the mean over seeds, and by seed."""
    sums = {seed: sum(speakers.values(), Counter()) for seed, speakers in seeds.items()}
    summary: dict[str, Any] = {"homophones": next(iter(sums.values())).total()}
    for outcome in (RIGHT, OTHER, ELSE):
        by_seed = {seed: 100 * counts[outcome] / counts.total() for seed, counts in sums.items()}
        summary[outcome] = {"mean": fmean(by_seed.values()), "by_seed": by_seed}
    return summary


def table(seeds: Sequence[Mapping[str, Counter[str]]]) -> tuple[np.ndarray, np.ndarray]:
    """Homophones that are not right by seed and speaker, and homophones by speaker."""
    counts = [[speakers[speaker] for speaker in sorted(speakers)] for speakers in seeds]
    errors = np.array([[each.total() - each[RIGHT] for each in row] for row in counts])
    return errors, np.array([each.total() for each in counts[0]])


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=Path, nargs="+", required=True, metavar="DIR", help="scored systems")
    parser.add_argument("--test_set", default="test", choices=("dev", "test"))
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file of facts to write")
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
