#!/usr/bin/env python3
"""Which words of the synthetic Rev16 are wrong at each context, over all seeds: results/errors.json.

No word of Rev16 needs another mention, so what longer contexts gain there is something else. A word is near an edge if
it ends at most NEAR seconds before or after a place where a window begins or ends, the ends of the recording aside. The
distance was chosen after a look at the results: further away, words are rarely lost at any context.

Example:
  local/count_errors.py --exp exp/mini
"""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from espnet_ext.command import run_main
from espnet_ext.encoder.long_fastconformer import SUBSAMPLING
from espnet_ext.errors import InputError
from espnet_ext.longform.decoding.posteriors import windows
from espnet_ext.longform.recording_features import RecordingFeatures
from espnet_ext.scoring.alignment_file import read_alignment
from espnet_ext.scoring.error_rate import Pair
from espnet_ext.synthetic.long_recordings import render
from espnet_ext.synthetic.parameters import LONGFORM_SIZES
from espnet_ext.synthetic.spotify import shards_of
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.text.transcript import Word
from espnet_ext.work.yaml_files import read_yaml

ABOUT = (
    "Synthetic Rev16 of the scale mini, system base, all seeds together, windows an eighth of a window apart (default) "
    "and half a window (half): by context in seconds the words, those substituted, deleted and inserted, and the words "
    "and deletions near an edge of a window"
)
NEAR = 0.75  # seconds


def seconds_between_edges(context: float, stride: float) -> float:
    """Seconds from one edge of a window to the next: decoding moves windows by whole frames of the encoder."""
    features, (stages, *_) = RecordingFeatures(), SUBSAMPLING["fastconformer"]
    frame = 2**stages * features.hop / features.rate
    first, second = islice(windows(sys.maxsize, 1, round(context / frame), stride), 2)
    return frame * (second.frame - first.frame)


def count_errors(pairs: Sequence[Pair], words: Sequence[Word], step: float) -> dict[str, int]:
    """Count the errors of a recording, and its words and deletions near an edge.

    Args:
        pairs: tokens of reference and hypothesis, None for a gap.
        words: the reference with its times.
        step: seconds from one edge to the next.

    Raises:
        InputError: the reference has other words.
    """
    spoken = [pair for pair in pairs if pair[0] is not None]
    if [reference for reference, _ in spoken] != [word.text for word in words]:
        raise InputError("the alignment is not of these words: decode and score again with this version")
    near = [abs(word.end - step * max(1, round(word.end / step))) <= NEAR for word in words]
    deleted = [hypothesis is None for _, hypothesis in spoken]
    return {
        "words": len(words),
        "substituted": sum(hypothesis not in (None, reference) for reference, hypothesis in spoken),
        "deleted": sum(deleted),
        "inserted": len(pairs) - len(spoken),
        "near": sum(near),
        "near_deleted": sum(lost and is_near for lost, is_near in zip(deleted, near, strict=True)),
    }


def added(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    return {name: sum(each[name] for each in counts) for name in counts[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exp", type=Path, default=Path("exp/mini"), help="decoded and scored")
    parser.add_argument("--decodings", nargs="+", default=["default", "half"], choices=["default", "half"])
    parser.add_argument("--contexts", nargs="+", default=["5", "10", "15", "20", "40"], help="seconds")
    parser.add_argument("--seeds", nargs="+", default=["11", "12", "13", "14", "15"])
    parser.add_argument("--output", type=Path, default=Path("results/errors.json"))
    args = parser.parse_args()
    shards = shards_of(Path(), LONGFORM_SIZES["mini-2min"], 0)
    spoken = {f"rev16-{int(shard.id):02d}": render(shard.recording)[1] for shard in shards if shard.part == "rev16"}
    values: dict[str, Any] = {"seeds": len(args.seeds), "near_s": NEAR}
    for decoding in args.decodings:
        stride = read_yaml(args.exp / "configs" / f"decode_{decoding}.yaml")["stride"]
        values[decoding] = {}
        for context in args.contexts:
            systems = [args.exp / f"base_{context}" / f"seed{seed}" for seed in args.seeds]
            files = [system / f"decode_{decoding}" / "rev16" / "alignment.txt" for system in systems]
            blocks = [block for file in files for block in read_alignment(file)]
            step = seconds_between_edges(float(context), stride)
            counts = [count_errors(each.pairs, spoken[each.key], step) for each in blocks]
            values[decoding][context] = added(counts)
    write_facts(args.output, ABOUT, shlex.join(["local/count_errors.py", *sys.argv[1:]]), values)


if __name__ == "__main__":
    run_main(main)
