#!/usr/bin/env python3
"""Draw the energies and the small-energy masks (P2, Fig. 1 and 3) of a data dir.

The energies are those of time-frequency bins. Writes fig1_energy.png, fig3_masks.png,
and their numbers to energy.json: the share of bins below a threshold is what a fixed
threshold masks.

Example:
  local/plot_energy.py --data data/train-clean-100 --output exp/mini/energy
"""

import argparse
import shlex
import sys
from collections.abc import Sequence

from energy_figures import MARKED_DB, draw_distribution, draw_masks

from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.kaldi.utterance_audio import read_spans
from espnet_ext.sem import energy_statistics as statistics
from espnet_ext.sem.power_mel import PowerMelFrontend
from espnet_ext.work.files import expand_home
from espnet_ext.work.plot_style import save_png
from espnet_ext.work.provenance import write_record


def main(argv: Sequence[str] | None = None) -> None:
    args = parse_arguments(argv)
    spans = read_spans(args.data)
    if args.utterance and args.utterance not in spans:
        raise InputError(
            f"{args.data}: there is no utterance {args.utterance}: give an id of "
            "this data dir"
        )
    if args.rate < 1:
        raise InputError(
            f"--rate {args.rate}: give the sampling rate of the audio in Hz, such "
            "as 16000"
        )
    args.output.mkdir(parents=True, exist_ok=True)
    frontend = PowerMelFrontend(fs=args.rate)
    chosen = statistics.draw_utterances(spans, args.max_utterances, args.seed)
    histogram, longest = statistics.survey_energies(
        {key: spans[key] for key in chosen}, frontend
    )
    utterance = args.utterance or longest
    example = statistics.make_mask_example(utterance, spans[utterance], frontend)

    name = args.name or args.data.resolve().name
    figures = {
        args.output / "fig1_energy.png": draw_distribution(histogram, name),
        args.output / "fig3_masks.png": draw_masks(example),
    }
    for path, figure in figures.items():
        save_png(figure, path)
    about = (
        f"Energy of time-frequency bins relative to the peak ({name}); shares from 0 "
        "to 1"
    )
    command = shlex.join(["local/plot_energy.py", *(argv or sys.argv[1:])])
    write_record(
        args.output / "energy.json",
        about,
        command,
        statistics.list_values(histogram, example),
    )
    print_summary(histogram)
    print("written:", *figures, args.output / "energy.json")


def print_summary(histogram: statistics.EnergyHistogram) -> None:
    index = statistics.find_edge(MARKED_DB)
    masked, energy = (
        histogram.compute_share_below()[index],
        histogram.compute_energy_below()[index],
    )
    zeros = histogram.zeros / histogram.total
    print(
        f"{histogram.utterances:,} utterances, {histogram.total:,} time-frequency bins"
    )
    print(
        f"masked at {MARKED_DB:.0f} dB: {masked:.1%} of the bins (P2: 74.3% on "
        "LibriSpeech)"
    )
    print(f"energy below {MARKED_DB:.0f} dB: {energy:.2%}")
    print(
        "of exactly zero energy (eta = -inf), counted among the masked: "
        f"{histogram.zeros:,} bins ({zeros:.2%})"
    )
    if histogram.silent:
        print(
            "left out, since eta is not defined where e_peak is zero: "
            f"{histogram.silent:,} silent utterances"
        )


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=expand_home,
        required=True,
        metavar="DIR",
        help="Kaldi data dir with wav.scp",
    )
    parser.add_argument(
        "--output",
        type=expand_home,
        required=True,
        metavar="DIR",
        help="folder for the figures and numbers",
    )
    parser.add_argument(
        "--max-utterances",
        type=int,
        default=1000,
        metavar="N",
        help="how many to draw at random (default: 1000)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of that draw (default: 0)"
    )
    parser.add_argument(
        "--utterance",
        metavar="ID",
        help="utterance in fig3_masks.png (default: the longest below 10 s)",
    )
    parser.add_argument(
        "--rate", type=int, default=16000, help="sampling rate in Hz (default: 16000)"
    )
    parser.add_argument(
        "--name",
        help="name of the speech, for the title (default: that of the data dir)",
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    run_main(main)
