#!/usr/bin/env python3
"""Draw whose words decoders' self-attention uses in one utterance, side by side.

What a token takes from another is the norm of the value that it gets, weighted by the
attention, as a share of all that it takes (attention_maps.py). The decoder reads the
reference. Writes attention.png and its data, attention.json. "Between languages" is the
mean share that a token takes from tokens of the other language, over tokens that follow
one of them: in that utterance, and by seed over the whole test set.

Example:
  local/plot_attention.py --data exp/mini/encodings/test --output results \\
    --systems exp/mini/{baseline,reweight,shared,separate}_cs/seed*
"""

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.kaldi.arks import read_array
from espnet_ext.kaldi.tables import read_table
from espnet_ext.kaldi.utterance_audio import read_samples, read_spans
from espnet_ext.text.mixed_text import has_han
from espnet_ext.work.files import expand_home, write_json
from espnet_ext.work.plot_style import save_png
from espnet_ext.work.yaml_files import read_yaml


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    texts = read_table(args.data / "text")
    utterance = args.utterance or max(texts, key=lambda key: count_switches(texts[key]))
    if utterance not in texts:
        raise InputError(
            f"{args.data}: there is no utterance {utterance}: give an id of its text"
        )
    # All are looked for before torch is imported, which takes seconds.
    checkpoints = {folder: find_checkpoint(folder) for folder in args.systems}

    from attention_figures import draw_values
    from attention_maps import AttentionMap, TranscriptReader

    shown: dict[str, AttentionMap] = {}
    shares: dict[str, dict[str, float]] = {}
    for folder in args.systems:
        name, seed = folder.resolve().parent.name, folder.name.removeprefix("seed")
        speech = make_reader(args.data, folder / "config.yaml")
        reader = TranscriptReader(folder / "config.yaml", checkpoints[folder])
        maps = {
            key: reader.map_attention(key, speech(key), text, args.block)
            for key, text in texts.items()
        }
        # Of several seeds, the map of the first is drawn.
        shown.setdefault(name, maps[utterance])
        found = [each.share_between_languages() for each in maps.values()]
        shares.setdefault(name, {})[seed] = fmean(
            share for share in found if not math.isnan(share)
        )
    first = next(iter(shown.values()))
    for name, each in shown.items():
        if each.tokens != first.tokens:
            raise InputError(
                f"{name} has other tokens than {next(iter(shown))}: give systems "
                "with one vocabulary"
            )
    values = {
        "data": args.data.name,
        "utterance": utterance,
        "block": args.block,
        "tokens": first.tokens,
        "languages": first.languages,
        "systems": {
            name: list_values(each, shares[name]) for name, each in shown.items()
        },
    }
    args.output.mkdir(parents=True, exist_ok=True)
    write_json(args.output / "attention.json", values)
    save_png(draw_values(values), args.output / "attention.png")
    for name in shown:
        print(
            f"{name}: between languages {fmean(shares[name].values()):.3f} in "
            f"{args.data.name}"
        )
    print("written:", args.output / "attention.png", args.output / "attention.json")


def list_values(shown: Any, by_seed: Mapping[str, float]) -> dict[str, Any]:
    """Return what is drawn of a system, and its shares between languages."""
    return {
        "between_languages": shown.share_between_languages(),
        "mean": fmean(by_seed.values()),
        "by_seed": by_seed,
        "weights": shown.weights.round(6).tolist(),
    }


def count_switches(text: str) -> int:
    """Count the switches of a text between Han characters and other words."""
    scripts = [has_han(letter) for letter in text if not letter.isspace()]
    return sum(one != other for one, other in pairwise(scripts))


def find_checkpoint(folder: Path) -> Path:
    """Return the recipe's average over epochs in the folder of a training."""
    found = [*folder.glob("best*.ave.pth"), *folder.glob("last*.ave.pth")]
    if len(found) != 1:
        raise InputError(
            f"{folder}: {len(found)} averages over epochs (best<N>.ave.pth): name "
            "a trained system"
        )
    return found[0]


def make_reader(data: Path, config: Path) -> Callable[[str], np.ndarray]:
    """Make a reader of an utterance's input.

    It gives kept encodings (``feats.scp``), or samples at the model's rate.
    """
    if (data / "feats.scp").is_file():
        feats = read_table(data / "feats.scp")
        return lambda key: read_array(feats[key])
    from espnet_ext.upstream.options import read_sampling_rate

    spans, rate = read_spans(data), read_sampling_rate(read_yaml(config))
    if rate is None:
        raise InputError(
            f"{config}: its frontend has no sampling rate: set fs in its options"
        )
    return lambda key: read_samples(key, spans[key], rate)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--systems",
        type=expand_home,
        nargs="+",
        required=True,
        metavar="DIR",
        help="trainings, SYSTEM/seed<N>",
    )
    add(
        "--data",
        type=expand_home,
        required=True,
        metavar="DIR",
        help="data dir, or the encoder's kept outputs of one",
    )
    add(
        "--output",
        type=expand_home,
        required=True,
        metavar="DIR",
        help="folder for the picture and its values",
    )
    add(
        "--utterance",
        metavar="ID",
        help="utterance to draw (default: the one with most language switches)",
    )
    add(
        "--block",
        type=int,
        metavar="N",
        help="block of the decoder, from 1 (default: the last)",
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
