"""Check, repair, subset, combine and split Kaldi data dirs, and convert them from and to Lhotse manifests.

Examples:
  python -m espnet_ext.bin.data_dir validate --check-audio --rate 16000 data/train
  python -m espnet_ext.bin.data_dir subset --shortest data/train 1000 data/train_1k
  python -m espnet_ext.bin.data_dir subset --utt-list some_ids data/train data/train_some
  python -m espnet_ext.bin.data_dir combine data/all data/train data/dev
  python -m espnet_ext.bin.data_dir split --per-utt data/test 8
  python -m espnet_ext.bin.data_dir from-manifests --recordings R.jsonl.gz --supervisions S.jsonl.gz data/train
"""

import argparse
import sys
from pathlib import Path

from espnet_ext.data import data_dir_checks as checks
from espnet_ext.data import data_dir_parts as subsets
from espnet_ext.data.data_dir import read_data_dir, replace_folder, require_folder, write_data_dir, write_tables
from espnet_ext.data.kaldi_tables import scan_table
from espnet_ext.errors import InputError, run_main


def validate(args: argparse.Namespace) -> int:
    data, scans = checks.scan_data_dir(args.dir)
    problems = checks.validate_scan(data, scans, require_text=not args.no_text, files=not args.no_wav)
    if args.check_audio or args.check_feats:
        from espnet_ext.data import data_dir_audio

        if args.check_audio and not problems:  # the tables first: opening 280,000 files takes long
            problems += data_dir_audio.check_audio(data, rate=args.rate)
        if args.check_feats and not problems:
            problems += data_dir_audio.check_features(data)
    for warning in checks.warn(data):
        if not (args.no_spk_sort and "prefix" in warning.what):
            print(f"warning: {args.dir}/{warning}", file=sys.stderr)
    for problem in problems:
        print(f"error: {args.dir}/{problem}", file=sys.stderr)
    if not problems:
        print(f"{args.dir}: {len(data.utt2spk):,} utterances, {len(data.spk2utt):,} speakers: all is well")
    return 1 if problems else 0


def fix(args: argparse.Namespace) -> None:
    fixed = checks.fix_data_dir(args.dir)
    dropped = sum(map(len, fixed.dropped.values()))
    print(f"{args.dir}: kept {len(fixed.data.utt2spk):,} utterances, dropped {dropped:,}; before: {args.dir}/.backup")
    for reason, ids in fixed.dropped.items():
        file, what = reason.split(": ", 1)
        print(f"  dropped {len(ids):,}: {checks.Problem(file, what, ids, 'dropped')}".removesuffix(": dropped"))
    for name in fixed.dropped_files:
        print(f"  removed {name}: it had gaps or was no list of positive numbers")


def subset(args: argparse.Namespace) -> None:
    data = read_data_dir(args.source)
    listed = bool(args.utt_list or args.spk_list)
    if listed and len(args.rest) != 1:
        raise InputError("with a list the arguments are: --utt-list FILE SOURCE DEST")
    if not listed and (len(args.rest) != 2 or not args.rest[0].isdecimal()):
        raise InputError("the arguments are: SOURCE NUMBER DEST, with a whole number")
    if args.utt_list:
        chosen = list(scan_table(args.utt_list).table)
    elif args.spk_list:
        chosen = subsets.of_speakers(data, list(scan_table(args.spk_list).table))
    else:
        count = int(args.rest[0])
        chosen = CHOICES[args.how](data, count) if args.how else subsets.at_random(data, count, args.seed)
    destination = _other_than(args.rest[-1], args.source)
    write_data_dir(subsets.subset(data, chosen), destination)
    print(f"{destination}: {len(chosen):,} of the {len(data.utt2spk):,} utterances of {args.source}")


CHOICES = {
    "first": subsets.first,
    "last": subsets.last,
    "shortest": subsets.shortest,
    "per_speaker": subsets.per_speaker,
    "spread": subsets.spread,
}


def combine(args: argparse.Namespace) -> None:
    parts = [read_data_dir(source) for source in args.sources]
    for source in args.sources:
        _other_than(args.dest, source)
    if args.suffix_source:
        parts = [
            subsets.with_suffix(part, f"-{Path(source).name}") for part, source in zip(parts, args.sources, strict=True)
        ]
    combined = subsets.combine(parts)
    write_data_dir(combined, args.dest)
    left_out = sorted({name for part in parts for name in part.tables} - combined.tables.keys())
    for name in left_out:
        print(f"left out {name}: not all of the data dirs have it")
    print(f"{args.dest}: {len(combined.utt2spk):,} utterances of {len(parts)} data dirs")


def split(args: argparse.Namespace) -> None:
    data = read_data_dir(args.dir)
    parts = subsets.split(data, args.parts, by="utterance" if args.per_utt else "speaker")
    destination = Path(args.dir) / f"split{args.parts}{'utt' if args.per_utt else ''}"
    with replace_folder(destination) as folder:
        for number, part in enumerate(parts, start=1):
            (folder / str(number)).mkdir()
            write_tables(part, folder / str(number))
    print(f"{destination}/1 to {len(parts)}: {', '.join(str(len(part.utt2spk)) for part in parts)} utterances")


def from_manifests(args: argparse.Namespace) -> None:
    from espnet_ext.data import manifests  # imports Lhotse and with it torch, which the other commands do not need

    if not len(args.recordings) == len(args.supervisions) == len(args.dirs):
        raise InputError("give as many --recordings as --supervisions and data dirs")
    for recordings, supervisions, folder in zip(args.recordings, args.supervisions, args.dirs, strict=True):
        data = manifests.to_data_dir(*manifests.read_manifests(recordings, supervisions))
        checks.raise_problems(folder, checks.validate(data, require_text=False) + checks.check_files(data))
        write_data_dir(data, folder)
        print(f"{folder}: {len(data.utt2spk):,} utterances, {len(data.spk2utt):,} speakers")


def to_manifests(args: argparse.Namespace) -> None:
    from espnet_ext.data import manifests

    data = read_data_dir(args.dir)
    checks.raise_problems(args.dir, checks.validate(data, require_text=False))
    recordings, supervisions = manifests.from_data_dir(data)
    manifests.write_manifests(recordings, supervisions, args.out)
    print(f"{args.out}: {len(recordings):,} recordings, {len(supervisions):,} supervisions")


def _other_than(destination: str, source: str) -> str:
    if Path(destination).resolve() == require_folder(source).resolve():
        raise InputError(f"{destination}: is also the source: name another folder to write to")
    return destination


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(function, help: str, name: str = "") -> argparse.ArgumentParser:
        command = commands.add_parser(name or function.__name__, help=help, description=help)
        command.set_defaults(function=function)
        return command

    command = add(validate, "say by file and utterance what is wrong; exit status 1 if anything is")
    command.add_argument("--check-audio", action="store_true", help="open each audio file and look at its samples")
    command.add_argument("--rate", type=int, help="the sampling rate that the audio must have, in Hz")
    command.add_argument("--check-feats", action="store_true", help="read feats.scp and look for NaN and infinity")
    command.add_argument("--no-text", action="store_true", help="text may be missing")
    command.add_argument("--no-wav", action="store_true", help="do not look whether the audio files are there")
    command.add_argument("--no-spk-sort", action="store_true", help="no warning where a speaker is not a prefix")
    command.add_argument("--no-feats", "--non-print", action="store_true", help="for Kaldi's habit: always so here")
    command.add_argument("dir")

    command = add(fix, "keep the utterances that are whole, sort; the files as they were go to DIR/.backup")
    command.add_argument("dir")

    command = add(subset, "a part: SOURCE NUMBER DEST, spread evenly if no option says otherwise")
    how = command.add_mutually_exclusive_group()
    for option, choice, text in (
        ("--first", "first", "the first in sorted order"),
        ("--last", "last", "the last in sorted order"),
        ("--shortest", "shortest", "the shortest"),
        ("--per-spk", "per_speaker", "this number of each speaker"),
        ("--random", "", "drawn at random, see --seed"),
    ):
        how.add_argument(option, action="store_const", dest="how", const=choice, help=text)
    how.add_argument("--utt-list", metavar="FILE", help="the utterances in this file (first column): SOURCE DEST")
    how.add_argument("--spk-list", metavar="FILE", help="the speakers in this file (first column): SOURCE DEST")
    command.add_argument("--seed", type=int, default=0, help="for --random (default: 0)")
    command.add_argument("source", metavar="SOURCE")
    command.add_argument("rest", nargs="+", metavar="NUMBER DEST")
    command.set_defaults(how="spread")

    command = add(combine, "put several data dirs together")
    command.add_argument("--suffix-source", action="store_true", help="append the source's name to its ids")
    command.add_argument("dest", metavar="DEST")
    command.add_argument("sources", nargs="+", metavar="SOURCE")

    command = add(split, "split by speaker into DIR/splitN/1 ... N, or by utterance into DIR/splitNutt")
    command.add_argument("--per-utt", action="store_true", help="by utterance: speakers may be divided")
    command.add_argument("dir")
    command.add_argument("parts", type=int, metavar="N")

    command = add(from_manifests, "write data dirs from Lhotse manifests; all may be repeated", "from-manifests")
    command.add_argument("--recordings", action="append", required=True)
    command.add_argument("--supervisions", action="append", required=True)
    command.add_argument("dirs", nargs="+", metavar="DIR")

    command = add(to_manifests, "write OUT/recordings.jsonl.gz and OUT/supervisions.jsonl.gz", "to-manifests")
    command.add_argument("dir")
    command.add_argument("out", metavar="OUT")
    return parser


def main(argv: list[str] | None = None) -> int | None:
    args = make_parser().parse_args(argv)
    return args.function(args)


if __name__ == "__main__":
    run_main(main)
