"""Layer-wise pre-training of a BLSTM encoder: the configs of its steps, and what goes from one step to the next."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import run_main
from espnet_ext.sem.pretraining import carry_parameters, write_plan
from espnet_ext.work.yaml_files import merged_files


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")

    plan_parser = commands.add_parser("plan", help="write the steps' configs, print 'name<TAB>config' for each")
    plan_parser.add_argument("--config", required=True, help="config of the training that all leads to")
    plan_parser.add_argument("--settings", required=True, nargs="+", help="YAML with start_layers ...; later ones win")
    plan_parser.add_argument("--output", type=Path, required=True, help="folder for the configs")
    plan_parser.set_defaults(run=_plan)

    carry_parser = commands.add_parser("carry", help="initial parameters of a step from the step before")
    carry_parser.add_argument("--model", type=Path, required=True, help="what the step before has trained")
    carry_parser.add_argument("--model-config", type=Path, required=True, help="the config.yaml beside it")
    carry_parser.add_argument("--config", type=Path, required=True, help="config of the next step")
    carry_parser.add_argument("--seed", type=int, default=0, help="for the new layers' values (default: 0)")
    carry_parser.add_argument("--output", type=Path, required=True, help="file for --init_param")
    carry_parser.set_defaults(run=_carry)

    args = parser.parse_args(argv)
    args.run(args)


def _plan(args: argparse.Namespace) -> None:
    for name, path in write_plan(Path(args.config), merged_files(args.settings), args.output):
        print(f"{name}\t{path}")


def _carry(args: argparse.Namespace) -> None:
    carry_parameters(args.model, args.model_config, args.config, args.seed, args.output)


if __name__ == "__main__":
    run_main(main)
