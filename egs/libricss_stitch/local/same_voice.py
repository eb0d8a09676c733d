#!/usr/bin/env python3
"""How alike d-vectors must be to be one voice, on the utterances of a data dir, written as facts.

It is the cosine at which as many pairs of one voice are told apart as pairs of two voices are taken for one.
"""

import argparse
import shlex
import sys
from itertools import combinations
from pathlib import Path

import numpy as np

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import read_data_dir
from espnet_ext.kaldi.utterance_audio import read_samples, read_spans
from espnet_ext.multitalker.profiles import RATE, resemblyzer
from espnet_ext.tables.kept.facts import write_facts

ABOUT = (
    "Cosines of the d-vectors of two utterances: of one speaker, and of two. Percentiles of both, and the threshold at "
    "which both kinds of errors are as frequent (equal_error, in percent of the pairs)."
)


def equal_error(same: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Threshold and error at which the shares of ``same`` below and of ``other`` above it are the nearest.

    >>> equal_error(np.array([0.6, 0.8, 0.9]), np.array([0.1, 0.2, 0.7]))
    (0.7, 0.3333333333333333)
    """
    limits = np.unique(np.concatenate([same, other]))
    missed = np.searchsorted(np.sort(same), limits, side="left") / len(same)
    taken = 1 - np.searchsorted(np.sort(other), limits, side="left") / len(other)
    best = int(np.argmin(np.abs(missed - taken)))
    return float(limits[best]), float((missed[best] + taken[best]) / 2)


def middle(samples: np.ndarray, length: int) -> np.ndarray:
    """So many samples from the middle, or all if there are fewer."""
    start = max(0, (len(samples) - length) // 2)
    return samples[start : start + length]


def measure(data: Path, each: int, seconds: float, seed: int) -> dict[str, object]:
    """The statistics of so many utterances of each speaker of a data dir, of which so many seconds are heard."""
    spans, speakers, embed = read_spans(data), read_data_dir(data).utt2spk, resemblyzer()
    rng = np.random.default_rng(seed)
    vectors: dict[str, list[np.ndarray]] = {}
    for speaker in sorted(set(speakers.values())):
        own = sorted(key for key, value in speakers.items() if value == speaker)
        chosen = rng.choice(own, min(each, len(own)), replace=False)
        heard = [middle(read_samples(key, spans[key], RATE), round(seconds * RATE)) for key in chosen]
        found = [np.asarray(embed(samples)) for samples in heard]
        vectors[speaker] = [vector / np.linalg.norm(vector) for vector in found]
    every = [(speaker, vector) for speaker, own in vectors.items() for vector in own]
    pairs = [(one == other, float(left @ right)) for (one, left), (other, right) in combinations(every, 2)]
    same, other = (np.array([cosine for kind, cosine in pairs if kind == wanted]) for wanted in (True, False))
    if not len(same) or not len(other):
        raise InputError(f"{data}: at least two speakers with two utterances are needed")
    threshold, error = equal_error(same, other)
    return {
        "threshold": round(threshold, 3),
        "equal_error": round(100 * error, 1),
        "speakers": len(vectors),
        "utterances": len(every),
        "same": {f"{share} %": round(float(np.percentile(same, share)), 3) for share in (5, 50, 95)},
        "other": {f"{share} %": round(float(np.percentile(other, share)), 3) for share in (5, 50, 95)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="data dir of utterances with their speakers")
    parser.add_argument("--each", type=int, default=12, help="utterances of a speaker")
    parser.add_argument("--seconds", type=float, default=2.0, help="from the middle of each utterance")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True, help="JSON")
    args = parser.parse_args()
    values = measure(args.data, args.each, args.seconds, args.seed)
    write_facts(args.output, ABOUT, shlex.join(["local/same_voice.py", *sys.argv[1:]]), values)
    print(values)


if __name__ == "__main__":
    main()
