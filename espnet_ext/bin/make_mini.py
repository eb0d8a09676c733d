"""Synthesise a small corpus in the real corpus's own layout, so that nothing need be downloaded to run a recipe."""

import argparse
from collections.abc import Sequence

from espnet_ext.errors import run_main
from espnet_ext.synthetic.asru2019 import make_asru2019
from espnet_ext.synthetic.libricss import make_libricss
from espnet_ext.synthetic.librispeech import make_librispeech
from espnet_ext.synthetic.parameters import LIBRISPEECH_SIZES
from espnet_ext.synthetic.spotify import make_spotify

MAKERS = {
    "asru2019": make_asru2019,
    "libricss": make_libricss,
    "librispeech": make_librispeech,
    "spotify": make_spotify,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the arguments, make the corpus, and say where it lies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", choices=sorted(MAKERS), required=True, help="whose layout to write")
    parser.add_argument("--size", choices=list(LIBRISPEECH_SIZES), default="mini")
    parser.add_argument("--output", required=True, metavar="DIR", help="the corpus's folder; must be absent or empty")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same bytes (default: %(default)s)")
    parser.add_argument("--nj", type=int, default=2, help="number of processes (default: %(default)s)")
    args = parser.parse_args(arguments)
    made = MAKERS[args.corpus](args.output, args.size, args.seed, args.nj)
    print(f"{args.output}: {'made' if made else 'already there, left as it is'} ({args.corpus}, size {args.size})")


if __name__ == "__main__":
    run_main(main)
