"""Make speaker profiles from Kaldi data dirs of enrolment utterances: profiles.ark, profiles.scp and enrolment.

`enrolment` names the utterances behind each profile, so that they can be kept out of mixtures; `recogniser.yaml` says
what the config of a recogniser must say of these profiles: their dimensions. The embeddings are
Resemblyzer's d-vectors, or with --model-config and --model those of a speaker model that ESPnet has trained.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from espnet_ext.bin.several_sets import HELP, make_once, split_sets
from espnet_ext.data.kaldi import read_table, write_table
from espnet_ext.errors import InputError, run_main
from espnet_ext.multitalker.inventories import write_profiles
from espnet_ext.work.yaml_files import write_yaml


def main(argv: Sequence[str] | None = None) -> None:
    parser = _parser()
    for words in split_sets(sys.argv[1:] if argv is None else argv):
        args = parser.parse_args(words)
        if (args.model_config is None) != (args.model is None):
            raise InputError("a speaker model needs both --model-config and --model")
        settings = {key: value for key, value in vars(args).items() if key != "output"}
        files = [folder / name for folder in args.data for name in ("wav.scp", "utt2spk", "segments")]
        files += [path for path in (args.enrolment, args.model_config, args.model) if path]
        if not make_once(args.output, settings, files, "enrolment", lambda args=args: _make(args)):
            print(f"made before: {args.output}", flush=True)


@cache
def _embedding(config: Path | None, model: Path | None):
    from espnet_ext.multitalker.profiles import espnet_speaker_model, resemblyzer

    return espnet_speaker_model(config, model) if model else resemblyzer()


def _make(args: argparse.Namespace) -> None:
    from espnet_ext.multitalker.profiles import make_profiles

    enrolment = {name: row.split() for name, row in read_table(args.enrolment).items()} if args.enrolment else None
    embed = _embedding(args.model_config, args.model)
    profiles, chosen = make_profiles(args.data, embed, args.utterances, args.seed, enrolment)
    scp = write_profiles(args.output, profiles)
    size = next(iter(profiles.values())).shape[1]
    write_yaml(args.output / "recogniser.yaml", {"model_conf": {"profile_size": size}}, "Written with the profiles")
    write_table(args.output / "enrolment", {speaker: " ".join(utterances) for speaker, utterances in chosen.items()})
    print(f"{len(profiles)} speakers, {size} dimensions -> {scp}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", metavar="FILE", help=HELP)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="Kaldi data dirs with utt2spk")
    parser.add_argument("--output", type=Path, required=True, help="folder for the profiles")
    parser.add_argument("--utterances", type=int, default=2, help="of each speaker (default: %(default)s)")
    parser.add_argument(
        "--enrolment", type=Path, help="table of profiles and their utterances (default: drawn from those of --data)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the choice of utterances (default: %(default)s)")
    parser.add_argument("--model-config", type=Path, help="config.yaml of an ESPnet speaker model")
    parser.add_argument("--model", type=Path, help="its parameters")
    return parser


if __name__ == "__main__":
    run_main(main)
