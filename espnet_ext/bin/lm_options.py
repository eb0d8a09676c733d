"""What the commands that train language models of transformers have in common on their command line."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.work.yaml_files import merged_files, take_options


def training_parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options of every such training."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--lm", help="folder of a model and its tokenizer, or a name on the hub")
    parser.add_argument("--casing", help="how text is written for it: lower, upper, sentence or as-is")
    parser.add_argument(
        "--config",
        type=Path,
        nargs="+",
        required=True,
        help="YAML: batch_size, lr ..., also --lm, --scorer and the like; later ones win",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the data's order and of what is drawn (default: 0)")
    parser.add_argument("--ngpu", type=int, default=0, help="1: train on a GPU (default: 0)")
    parser.add_argument("--output", type=Path, required=True, help="folder of the training")
    return parser


def parse_training(
    parser: argparse.ArgumentParser, argv: Sequence[str] | None, options: Mapping[str, Any]
) -> tuple[argparse.Namespace, dict[str, Any]]:
    """Read the command line and its config: options with what the config has of them, and the rest of the config.

    Args:
        options: those that the config may have besides ``lm`` and ``casing``, with their defaults.
    """
    args = parser.parse_args(argv)
    config = merged_files(args.config)
    take_options(args, config, {"lm": None, "casing": None, **options})
    if args.lm is None:
        parser.error("--lm is missing: give a folder or a name on the hub")
    return args, config
