#!/usr/bin/env python3
"""What windows of each context can tell of the synthetic recordings' drowned names, counted: results/names.json.

A window tells a drowned name if the recording's name of that pair is spoken clearly in it. A word is decoded by all
windows that cover it, so it is told if one of them does. Nothing is trained: these are the error rates of a perfect
listener, who guesses the others.
"""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.command import run_main
from espnet_ext.synthetic.long_recordings import CLEAR, DROWNED, NAMES, SentenceWord, render
from espnet_ext.synthetic.parameters import LONGFORM_SIZES
from espnet_ext.synthetic.spotify import shards_of
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.work.yaml_files import read_yaml

ABOUT = (
    "Synthetic Earnings-22 of the scale mini: share of the words by kind, and by context in seconds the share of the "
    "drowned names that a listener gets wrong who knows all clear mentions in the windows and guesses the others"
)


def told(words: Sequence[SentenceWord], pair_of: dict[str, int], context: float, stride: float) -> list[bool]:
    """For each drowned name, whether a window that covers it has a clear mention of its pair."""
    clear = [(pair_of[word.text], word.middle) for word in words if word.kind == CLEAR]
    found = []
    for word in words:
        if word.kind != DROWNED:
            continue
        step = context * stride
        latest = int(word.middle / step)
        starts = [number * step for number in range(latest + 1) if number * step + context > word.middle]
        pair = pair_of[word.text]
        found.append(any(start <= at < start + context for start in starts for name, at in clear if name == pair))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="mini-2min", help="of the synthetic corpus")
    parser.add_argument("--contexts", type=float, nargs="+", default=[5, 10, 15, 20, 40], help="seconds")
    parser.add_argument("--output", type=Path, default=Path("results/names.json"))
    args = parser.parse_args()
    stride = read_yaml("conf/full.yaml")["decode"]["stride"]
    pair_of = {name: number for number, pair in enumerate(NAMES) for name in pair}
    shards = shards_of(Path(), LONGFORM_SIZES[args.size], 0)
    recordings = [shard.recording for shard in shards if shard.part == "earnings22"]
    spoken = [render(recording)[1] for recording in recordings]
    kinds = Counter(word.kind for words in spoken for word in words)
    values = {
        "recordings": len(recordings),
        "words": sum(kinds.values()),
        "kinds": {kind: count / sum(kinds.values()) for kind, count in kinds.items()},
        "wrong": {
            f"{context:g}": 0.5 * (1 - sum(known) / len(known))
            for context in args.contexts
            for known in [[one for words in spoken for one in told(words, pair_of, context, stride)]]
        },
    }
    write_facts(args.output, ABOUT, shlex.join(["local/count_names.py", *sys.argv[1:]]), values)


if __name__ == "__main__":
    run_main(main)
