#!/usr/bin/env python3
"""Divide the lists of dev sets by speaker, to train on some and tune on others.

Public lists are seldom of training sets: what is recognised there has been learnt. The
output has train.jsonl, with the speakers of all dev sets but those held out, the dev
sets with these alone, the test sets as links, and utt2spk where ids do not say who
speaks. Who is held out of one dev set is held out of all.
Example: local/hold_out_speakers.py LibriSpeech-lists LibriSpeech-lists-held
"""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from espnet_ext.command import run_main
from espnet_ext.corpora.data_dirs import TRAIN
from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.nbest.sources import find_lists, read_lists
from espnet_ext.nbest.speakers import UTT2SPK, find_speakers
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
    check_test_sets(args.tests)
    sources = {part: find_source(args.lists, part) for part in (*DEV_SETS, *args.tests)}
    dev_sets = {part: read_lists(sources[part]) for part in DEV_SETS}
    refuse_shared_utterances(dev_sets, sources)
    speakers = {
        part: name_speakers(lists, sources[part]) for part, lists in dev_sets.items()
    }
    held_out = choose_speakers(speakers, args.share, args.seed)
    divided: dict[str, list[NBest]] = {TRAIN: []}
    for part, lists in dev_sets.items():
        divided[part] = []
        for each in lists:
            is_held_out = speakers[part][each.utt_id] in held_out
            divided[part if is_held_out else TRAIN].append(each)
    if not divided[TRAIN]:
        raise InputError(
            f"{args.lists}: all speakers would be held out, since the dev sets share "
            "them: give a smaller --share or another --seed"
        )
    table = gather_speakers(args.lists, speakers.values())
    args.output.mkdir(parents=True)
    for part, lists in divided.items():
        write_nbest(args.output / f"{part}.jsonl", lists)
        print(f"{args.output / part}.jsonl: {len(lists)} lists")
    for part in args.tests:
        (args.output / sources[part].name).symlink_to(sources[part].resolve())
    if table:
        write_table(args.output / UTT2SPK, table)


def check_test_sets(parts: Sequence[str]) -> None:
    """Refuse test sets that are named twice, or as what is written."""
    for number, part in enumerate(parts):
        if part in (TRAIN, *DEV_SETS, *parts[:number]):
            raise InputError(f"--tests {part}: is in the output already: leave it out")


def find_source(folder: Path, part: str) -> Path:
    """Find the lists of a part. Raises InputError: there are none."""
    source = find_lists(folder, part)
    if source is None:
        raise InputError(f"{folder}: no lists of {part}")
    return source


def refuse_shared_utterances(
    dev_sets: Mapping[str, Sequence[NBest]], sources: Mapping[str, Path]
) -> None:
    """Refuse an utterance that is in two dev sets: it would be trained on twice."""
    found: dict[str, Path] = {}
    for part, lists in dev_sets.items():
        for each in lists:
            if each.utt_id in found:
                raise InputError(
                    f"{found[each.utt_id]}, {sources[part]}: {each.utt_id} is in both: "
                    "keep one of its lists"
                )
        found |= dict.fromkeys((each.utt_id for each in lists), sources[part])


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


def choose_speakers(
    speakers: Mapping[str, Mapping[str, str]], share: float, seed: int
) -> set[str]:
    """Choose whom to hold out of all dev sets, and print who they are.

    ``speakers`` are, by dev set, those of its utterances.
    """
    held_out: set[str] = set()
    drawn = {}
    for part, by_utterance in speakers.items():
        drawn[part] = draw_speakers(part, by_utterance.values(), share, seed)
        held_out |= drawn[part]
        print(f"{part}: held out are {', '.join(sorted(drawn[part]))}")
    # Drawn for another set only: in this one they would be trained on.
    for part, by_utterance in speakers.items():
        if also := held_out.intersection(by_utterance.values()) - drawn[part]:
            print(f"{part}: held out as in another set: {', '.join(sorted(also))}")
    return held_out


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


def gather_speakers(
    folder: Path, dev_sets: Iterable[Mapping[str, str]]
) -> dict[str, str]:
    """Gather the speakers who would be lost: ids alone do not say them.

    The table beside the lists has those of test sets too; a test set that is a folder
    may have its own, which its link leads to.
    """
    beside = folder / UTT2SPK
    table = read_table(beside) if beside.is_file() else {}
    for speakers in dev_sets:
        if speakers != find_speakers([*speakers]):
            table.update(speakers)
    return table


if __name__ == "__main__":
    run_main(main)
