"""Layer-wise pre-training of a BLSTM encoder: the configs of its steps, and what goes from one step to the next."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import run_main
from espnet_ext.sem.pretraining import carry, final_config, parse_settings, plan
from espnet_ext.upstream.checkpoint import load_parameters
from espnet_ext.work.files import atomic_write
from espnet_ext.work.yaml_files import deep_merge, merged_files, read_yaml, write_yaml

COMMENT = "Written by python -m espnet_ext.bin.pretrain"


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
    carry_parser.add_argument("--config", required=True, help="config of the next step")
    carry_parser.add_argument("--seed", type=int, default=0, help="for the new layers' values (default: 0)")
    carry_parser.add_argument("--output", type=Path, required=True, help="file for --init_param")
    carry_parser.set_defaults(run=_carry)

    args = parser.parse_args(argv)
    args.run(args)


def _plan(args: argparse.Namespace) -> None:
    config, settings = read_yaml(args.config), parse_settings(merged_files(args.settings))
    steps = [(step.name, step.config) for step in plan(config, settings)]
    for name, step in [*steps, ("final", final_config(config, settings))]:
        path = args.output / f"{name}.yaml"
        write_yaml(path, step, f"{COMMENT}: {name} of {args.config}")
        print(f"{name}\t{path}")


def _carry(args: argparse.Namespace) -> None:
    before = read_yaml(args.model_config)
    config = deep_merge(before, read_yaml(args.config))
    old = load_parameters(args.model)

    import torch
    from espnet2.tasks.asr import ASRTask

    import espnet_ext

    espnet_ext.register()
    torch.manual_seed(args.seed)
    new = ASRTask.build_model(argparse.Namespace(**config)).state_dict()
    layers = [each["encoder_conf"]["num_layers"] for each in (before, config)]
    state, fresh = carry(old, new, *layers)
    with atomic_write(args.output, "wb") as file:
        torch.save(state, file)
    print(f"{args.output}: {len(state) - len(fresh)} parameters and buffers of {args.model}, {len(fresh)} new ones")
    for name in fresh:
        print(f"new: {name} {tuple(state[name].shape)}")


if __name__ == "__main__":
    run_main(main)
