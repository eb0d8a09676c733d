#!/usr/bin/env python3
"""Draw whose words the decoder's self-attention uses in one utterance, for trained systems side by side.

What a token takes from another is the norm of the value that it gets, weighted by the attention, as a share of all that
it takes (espnet_ext/codeswitch/attention_maps.py). The decoder reads the reference. Writes attention.png and its data,
attention.json; both can be kept in results/. "Between languages" is the mean share that a token takes from tokens of
the other language, over tokens that follow one of them: in that utterance, and by seed over the whole test set.

Example:
  local/plot_attention.py --systems exp/mini/{baseline,reweight,shared,separate}_cs/seed* \\
    --data exp/mini/encodings/test --output results
"""

import argparse
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from trained_systems import by_name, checkpoint

from espnet_ext.codeswitch.mixed_text import has_han
from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.work.plot_style import DOTS_PER_INCH, save_png


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    from espnet_ext.codeswitch.trained_decoder import read_sources

    sources, texts = read_sources(args.data), read_table(args.data / "text")
    utterance = args.utterance or most_switches(texts)
    if utterance not in sources or utterance not in texts:
        raise InputError(f"{args.data}: there is no utterance {utterance}: give an id of its text")
    systems = by_name(args.systems)
    checkpoints = {folder: checkpoint(folder, args.model) for seeds in systems.values() for folder in seeds.values()}

    from attention_figures import draw_values

    from espnet_ext.codeswitch.attention_maps import AttentionMap, attention_map
    from espnet_ext.codeswitch.trained_decoder import TrainedDecoder

    shown: dict[str, AttentionMap] = {}
    shares: dict[str, dict[str, float]] = {}
    for name, seeds in systems.items():
        for seed, folder in seeds.items():
            decoder = TrainedDecoder(folder / "config.yaml", checkpoints[folder])
            maps = {
                key: attention_map(decoder, decoder.example(key, source, texts[key]), args.block)
                for key, source in sources.items()
            }
            shown.setdefault(name, maps[utterance])
            found = [each.share_between_languages() for each in maps.values()]
            shares.setdefault(name, {})[seed] = fmean(share for share in found if not math.isnan(share))
    first = next(iter(shown.values()))
    for name, each in shown.items():
        if each.tokens != first.tokens:
            raise InputError(f"{name} has other tokens than {next(iter(shown))}: give systems with one vocabulary")
    values = {
        "data": args.data.name,
        "utterance": utterance,
        "block": args.block,
        "tokens": first.tokens,
        "languages": first.languages,
        "systems": {
            name: {
                "between_languages": each.share_between_languages(),
                "mean": fmean(shares[name].values()),
                "by_seed": shares[name],
                "weights": each.weights.round(6).tolist(),
            }
            for name, each in shown.items()
        },
    }
    args.output.mkdir(parents=True, exist_ok=True)
    about = "Shares that the decoder's self-attention takes from each token, by norms of weighted values"
    command = shlex.join(["local/plot_attention.py", *(argv or sys.argv[1:])])
    write_facts(args.output / "attention.json", about, command, values)
    save_png(draw_values(values), args.output / "attention.png", args.dpi, data=values)
    for name in shown:
        print(f"{name}: between languages {fmean(shares[name].values()):.3f} in {args.data.name}")
    print("written:", args.output / "attention.png", args.output / "attention.json")


def most_switches(texts: Mapping[str, str]) -> str:
    """The utterance with most language switches; the first of several."""
    return max(texts, key=lambda utterance: switches(texts[utterance]))


def switches(text: str) -> int:
    """How often a text switches between Han characters and other words."""
    scripts = [has_han(character) for character in text if not character.isspace()]
    return sum(one != other for one, other in zip(scripts, scripts[1:], strict=False))


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--systems",
        type=Path,
        nargs="+",
        required=True,
        metavar="DIR",
        help="trained systems: config.yaml and checkpoint",
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="data dir, or the encoder's kept outputs of one"
    )
    parser.add_argument(
        "--output", type=Path, required=True, metavar="DIR", help="folder for the picture and its numbers"
    )
    parser.add_argument(
        "--utterance", metavar="ID", help="utterance to draw (default: the one with most language switches)"
    )
    parser.add_argument("--block", type=int, metavar="N", help="block of the decoder, from 1 (default: the last)")
    parser.add_argument("--dpi", type=int, default=DOTS_PER_INCH, help="dots per inch (default: %(default)s)")
    parser.add_argument("--model", metavar="NAME", help="checkpoint in each folder (default: its average over epochs)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
