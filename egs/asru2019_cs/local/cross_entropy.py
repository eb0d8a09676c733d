#!/usr/bin/env python3
"""Measure a decoder's cross-entropy in nats a token, by language, in the two tokens after a switch and elsewhere.

The decoder reads the reference. Writes a file of facts: the mean of each system's seeds, by seed, and the difference to
the first system, tested over seeds and speakers as docs/statistics.md says.

Example:
  local/cross_entropy.py --systems exp/mini/{baseline,separate}_cs/seed* --data exp/mini/encodings/test \\
    --output results/cross_entropy.json
"""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from trained_systems import by_name, checkpoint, facts_of

from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.scoring.significance import crossed_test
from espnet_ext.tables.kept.facts import write_facts

Sums = dict[str, dict[str, tuple[float, int]]]  # class of tokens -> speaker -> nats and tokens


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    texts, speakers = read_table(args.data / "text"), read_table(args.data / "utt2spk")
    systems = by_name(args.systems)
    checkpoints = {folder: checkpoint(folder, args.model) for seeds in systems.values() for folder in seeds.values()}
    measured = {
        name: {seed: measure(folder, checkpoints[folder], args.data, texts, speakers) for seed, folder in seeds.items()}
        for name, seeds in systems.items()
    }
    values = {"data": args.data.name, "systems": summarise(measured)}
    args.output.parent.mkdir(parents=True, exist_ok=True)
    about = "Cross-entropy in nats a token of references, by language; near: the two tokens after a switch of language"
    write_facts(args.output, about, shlex.join(["local/cross_entropy.py", *(argv or sys.argv[1:])]), values)
    for name, classes in values["systems"].items():
        print(name, ", ".join(f"{kind} {each['mean']:.3f}" for kind, each in classes.items()))
    print("written:", args.output)


def measure(folder: Path, model: Path, data: Path, texts: Mapping[str, str], speakers: Mapping[str, str]) -> Sums:
    """Nats and tokens of one training, by class of tokens and speaker."""
    from espnet_ext.codeswitch.cross_entropy import token_losses
    from espnet_ext.codeswitch.trained_decoder import TrainedDecoder, read_sources

    decoder = TrainedDecoder(folder / "config.yaml", model)
    sums: Sums = {}
    for utterance, source in read_sources(data).items():
        speaker = speakers[utterance]
        for loss in token_losses(decoder, decoder.example(utterance, source, texts[utterance])):
            for kind in ("all", loss.language, f"{loss.language} {loss.place}"):
                nats, count = sums.setdefault(kind, {}).get(speaker, (0.0, 0))
                sums[kind][speaker] = (nats + loss.nats, count + 1)
    return sums


def summarise(measured: Mapping[str, Mapping[str, Sums]]) -> dict[str, dict[str, Any]]:
    """System -> class of tokens -> mean over seeds, by seed, and the test against the first system.

    Raises:
        InputError: systems that were measured on different tokens.
    """
    first = next(iter(measured.values()))
    found: dict[str, dict[str, Any]] = {}
    for name, seeds in measured.items():
        found[name] = {}
        for kind in sorted(next(iter(first.values()))):
            own, words = table(seeds, kind)
            by_seed = {seed: float(row.sum() / words.sum()) for seed, row in zip(seeds, own, strict=True)}
            found[name][kind] = {"mean": float(np.mean(list(by_seed.values()))), "by_seed": by_seed}
            common = [seed for seed in seeds if seed in first]
            if seeds is not first and common:
                base, same = table({seed: first[seed] for seed in common}, kind)
                if not np.array_equal(words, same):
                    raise InputError(f"{name} has other tokens than {next(iter(measured))}: give one vocabulary")
                test = crossed_test(table({seed: seeds[seed] for seed in common}, kind)[0], base, words)
                found[name][kind] |= facts_of(test)
    return found


def table(seeds: Mapping[str, Sums], kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Nats by seed and speaker, and tokens by speaker, of a class of tokens."""
    speakers = sorted(next(iter(seeds.values()))[kind])
    nats = np.array([[sums[kind][speaker][0] for speaker in speakers] for sums in seeds.values()])
    return nats, np.array([next(iter(seeds.values()))[kind][speaker][1] for speaker in speakers])


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", type=Path, nargs="+", required=True, metavar="DIR", help="trained systems")
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="data dir, or the encoder's kept outputs of one"
    )
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="file of facts to write")
    parser.add_argument("--model", metavar="NAME", help="checkpoint in each folder (default: its average over epochs)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
