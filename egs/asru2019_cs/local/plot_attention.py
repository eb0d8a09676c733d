#!/usr/bin/env python3
"""Draw the decoder's self-attention in one utterance, for trained systems side by side, tokens coloured by language.

The decoder reads the reference. Writes attention.png, and its data, attention.json; both
can be kept in results/. "Between languages" is the
mean weight that a token gives to tokens of the other language, over tokens that follow one of them.

Example:
  local/plot_attention.py --systems exp/mini/{baseline,reweight,shared,separate}_cs/seed1 --data data/mini/test \\
    --output exp/mini/attention
"""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from espnet_ext.codeswitch.mixed_text import has_han
from espnet_ext.data.kaldi_tables import read_table
from espnet_ext.data.utterance_audio import read_spans
from espnet_ext.errors import InputError, run_main
from espnet_ext.results.kept.facts import write_facts
from espnet_ext.results.pages.plot_style import DOTS_PER_INCH, save_png


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    spans, texts = read_spans(args.data), read_table(args.data / "text")
    utterance = args.utterance or most_switches(texts)
    if utterance not in spans or utterance not in texts:
        raise InputError(f"{args.data}: there is no utterance {utterance}: give an id of its wav.scp and text")
    checkpoints = {folder: checkpoint(folder, args.model) for folder in args.systems}
    names = [name_of(folder) for folder in checkpoints]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in checkpoints]

    # torch and ESPnet, for which a wrong argument should not wait
    from attention_figures import draw_values

    from espnet_ext.codeswitch.attention_maps import AttentionMaps

    maps = {}
    for name, (folder, model_file) in zip(names, checkpoints.items(), strict=True):
        maps[name] = AttentionMaps(folder / "config.yaml", model_file).of(
            utterance, spans[utterance], texts[utterance], args.block
        )
    first = next(iter(maps.values()))
    for name, each in maps.items():
        if each.tokens != first.tokens:
            raise InputError(f"{name} has other tokens than {names[0]}: give systems with one vocabulary")
    values = {
        "utterance": utterance,
        "block": args.block,
        "tokens": first.tokens,
        "languages": first.languages,
        "systems": {
            name: {"between_languages": each.share_between_languages(), "weights": each.weights.round(6).tolist()}
            for name, each in maps.items()
        },
    }
    args.output.mkdir(parents=True, exist_ok=True)
    about = "Weights of the decoder's self-attention in one utterance, mean over the heads"
    command = shlex.join(["local/plot_attention.py", *(argv or sys.argv[1:])])
    write_facts(args.output / "attention.json", about, command, values)
    save_png(draw_values(values), args.output / "attention.png", args.dpi, data=values)
    for name, each in maps.items():
        print(f"{name}: between languages {each.share_between_languages():.3f}")
    print("written:", args.output / "attention.png", args.output / "attention.json")


def most_switches(texts: Mapping[str, str]) -> str:
    """The utterance with most language switches; the first of several."""
    return max(texts, key=lambda utterance: switches(texts[utterance]))


def switches(text: str) -> int:
    """How often a text switches between Han characters and other words."""
    scripts = [has_han(character) for character in text if not character.isspace()]
    return sum(one != other for one, other in zip(scripts, scripts[1:], strict=False))


def checkpoint(folder: Path, name: str | None) -> Path:
    """A system's checkpoint: the one called ``name``, or the recipe's only average over epochs in its folder."""
    if name:
        return folder / name
    found = [*folder.glob("best*.ave.pth"), *folder.glob("last*.ave.pth")]
    if len(found) != 1:
        raise InputError(f"{folder}: {len(found)} averages over epochs (best<N>.ave.pth): name one by --model")
    return found[0]


def name_of(folder: Path) -> str:
    """``separate_cs`` of ``exp/mini/separate_cs/seed1``."""
    return folder.resolve().parent.name if folder.name.startswith("seed") else folder.name


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
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="Kaldi data dir with wav.scp and text")
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
