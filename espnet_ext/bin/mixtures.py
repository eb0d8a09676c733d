"""Make sets of multi-talker mixtures of a corpus's utterances, and count each as P4's Table 1 does.

Without --count every utterance of the manifests is used once, as in P4's sets.
"""

import argparse
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from espnet_ext.bin.several_sets import HELP, make_once, split_sets
from espnet_ext.errors import InputError, run_main
from espnet_ext.multitalker.mixture_plan import MixtureSettings, Source, count_set, counts_line, plan_mixtures
from espnet_ext.multitalker.mixtures import enrolment_utterances, read_sources, write_mixtures, write_references


def main(argv: list[str] | None = None) -> None:
    """Parse the arguments, make the mixtures of each set, and print their counts."""
    parser = _parser()
    sets = [parser.parse_args(words) for words in split_sets(sys.argv[1:] if argv is None else argv)]
    read = cache(read_sources)  # sets share them
    for arguments in sets:
        settings = {key: value for key, value in vars(arguments).items() if key not in ("nj", "output")}
        files = [*arguments.recordings, *arguments.supervisions, *filter(None, [arguments.leave_out])]
        made = make_once(Path(arguments.output), settings, files, "text", lambda words=arguments: _make(words, read))
        print(f"{'written to' if made else 'made before:'} {arguments.output}", flush=True)


def _make(arguments: argparse.Namespace, read: Callable[..., list[Source]]) -> None:
    least, _, most = arguments.utterances.partition("-")
    if not (least.isdecimal() and (most or least).isdecimal()):
        raise InputError(f"--utterances {arguments.utterances}: give the fewest and the most, such as 3-8")
    settings = MixtureSettings(
        utterances=(int(least), int(most or least)),
        speakers=arguments.speakers,
        overlap=arguments.overlap,
        gap=arguments.gap,
        count=arguments.count,
    )
    if len(arguments.recordings) != len(arguments.supervisions):
        raise InputError("give as many --recordings as --supervisions: one of each a part of the corpus")
    left_out = enrolment_utterances(arguments.leave_out) if arguments.leave_out else frozenset()
    parts = zip(arguments.recordings, arguments.supervisions, strict=True)
    sources = [source for files in parts for source in read(*files, left_out)]
    prefix = arguments.name.replace(" ", "-")
    mixtures = plan_mixtures(sources, settings, prefix=prefix, seed=arguments.seed)
    if arguments.no_audio:
        write_references(mixtures, arguments.output)
    else:
        write_mixtures(mixtures, arguments.output, nj=arguments.nj)
    print(counts_line(arguments.name, count_set(mixtures)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m espnet_ext.bin.mixtures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--sets", metavar="FILE", help=HELP)
    parser.add_argument(
        "--recordings", required=True, nargs="+", metavar="FILE", help="Lhotse manifests of the utterances' audio"
    )
    parser.add_argument("--supervisions", required=True, nargs="+", metavar="FILE", help="of their text and speakers")
    parser.add_argument(
        "--leave-out", metavar="FILE", help="table of speakers and enrolment utterances, which are not mixed"
    )
    parser.add_argument("--output", required=True, metavar="DIR", help="the set's folder")
    parser.add_argument("--name", required=True, help="of the set; begins the mixtures' ids")
    parser.add_argument("--utterances", required=True, metavar="A-B", help="the fewest and the most of a mixture")
    parser.add_argument("--speakers", type=int, required=True, help="the most of a mixture")
    parser.add_argument("--overlap", type=float, required=True, help="share of the speech in which several speak")
    parser.add_argument("--gap", type=float, default=0.5, help="least seconds between starts (default: %(default)s)")
    parser.add_argument("--count", type=int, help="of mixtures (default: every utterance once)")
    parser.add_argument("--no-audio", action="store_true", help="write references and text only")
    parser.add_argument("--seed", type=int, default=0, help="(default: %(default)s)")
    parser.add_argument("--nj", type=int, default=2, help="number of processes (default: %(default)s)")
    return parser


if __name__ == "__main__":
    run_main(main)
