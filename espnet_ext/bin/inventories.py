"""Draw the inventory of each mixture: its speakers, and absent ones from the same set, in random order.

Reads `text_speakers` of a set of mixtures and the profiles' names; writes a table for `sa_asr_inference --inventory`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.data.kaldi import read_table, write_table
from espnet_ext.errors import run_main
from espnet_ext.multitalker.inventories import draw_inventories


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--speakers", type=Path, required=True, help="text_speakers of the mixtures")
    parser.add_argument("--profiles", type=Path, required=True, help="profiles.scp of the speakers to choose from")
    parser.add_argument("--size", type=int, default=8, help="profiles of a mixture (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice and the order (default: %(default)s)")
    parser.add_argument("--output", type=Path, required=True, help="the table to write")
    args = parser.parse_args(argv)
    spoken = {mixture: row.split() for mixture, row in read_table(args.speakers).items()}
    inventories = draw_inventories(spoken, list(read_table(args.profiles)), args.size, args.seed)
    write_table(args.output, {mixture: " ".join(names) for mixture, names in inventories.items()})
    absent = sum(len(set(names) - set(spoken[mixture])) for mixture, names in inventories.items()) / len(inventories)
    print(f"{len(inventories)} mixtures, {absent:.1f} profiles of absent speakers each -> {args.output}")


if __name__ == "__main__":
    run_main(main)
