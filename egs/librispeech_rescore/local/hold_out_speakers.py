#!/usr/bin/env python3
"""Divide the lists of dev sets by speaker, to train on some and tune on others.

Public lists are seldom of training sets: what is recognised there has been learnt. The
output has train.jsonl, with the speakers of all dev sets but those held out, the dev
sets with these alone, and the test sets as links.
Example: local/hold_out_speakers.py LibriSpeech-lists LibriSpeech-lists-held
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from espnet_ext.command import run_main
from espnet_ext.corpora.data_dirs import TRAIN
from espnet_ext.errors import InputError
from espnet_ext.nbest.sources import find_lists, read_lists
from espnet_ext.nbest.speakers import find_speakers
from espnet_ext.synthetic.parameters import make_generator
from espnet_ext.text.nbest import NBest, write_nbest
from espnet_ext.work.files import expand_home

DEV_SETS = ("dev-clean", "dev-other")
TEST_SETS = ("test-clean", "test-other")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists", type=expand_home, help="folder of lists of all sets")
    parser.add_argument("output", type=expand_home, help="folder, which must not exist")
    parser.add_argument(
        "--share", type=float, default=0.25, help="of each dev set's speakers, held out"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the draw of speakers")
    parser.add_argument(
        "--tests", nargs="*", default=list(TEST_SETS), help="test sets to link"
    )
    args = parser.parse_args()
    if not 0 < args.share < 1:
        raise InputError(f"--share takes a number between 0 and 1, not {args.share:g}")
    sources = {part: find_source(args.lists, part) for part in (*DEV_SETS, *args.tests)}
    train = []
    held_out = {}
    for part in DEV_SETS:
        lists = read_lists(sources[part])
        speakers = name_speakers(lists, sources[part])
        chosen = draw_speakers(part, speakers.values(), args.share, args.seed)
        held_out[part] = [each for each in lists if speakers[each.utt_id] in chosen]
        train += [each for each in lists if speakers[each.utt_id] not in chosen]
        print(f"{part}: held out are {', '.join(sorted(chosen))}")
    args.output.mkdir(parents=True)
    for part, lists in {TRAIN: train, **held_out}.items():
        write_nbest(args.output / f"{part}.jsonl", lists)
        print(f"{args.output / part}.jsonl: {len(lists)} lists")
    for part in args.tests:
        (args.output / sources[part].name).symlink_to(sources[part].resolve())


def find_source(folder: Path, part: str) -> Path:
    """Find the lists of a part. Raises InputError: there are none."""
    source = find_lists(folder, part)
    if source is None:
        raise InputError(f"{folder}: no lists of {part}")
    return source


def name_speakers(lists: Sequence[NBest], source: Path) -> dict[str, str]:
    """Name the speaker of each utterance. Raises InputError: they are not known."""
    utterances = [each.utt_id for each in lists]
    speakers = find_speakers(utterances, source)
    if not speakers:
        raise InputError(
            f"{source}: speakers are not known: its utterances need LibriSpeech's ids "
            "or a utt2spk beside it"
        )
    return speakers


def draw_speakers(
    part: str, speakers: Iterable[str], share: float, seed: int
) -> set[str]:
    """Draw a share of a dev set's speakers, at least one and not all."""
    names = sorted(set(speakers))
    if len(names) < 2:
        raise InputError(f"{part}: has one speaker, who cannot be on both sides")
    count = min(max(1, round(share * len(names))), len(names) - 1)
    chosen = make_generator(seed).choice(len(names), size=count, replace=False)
    return {names[index] for index in chosen}


if __name__ == "__main__":
    run_main(main)
