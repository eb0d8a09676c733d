"""Check a corpus and write its Lhotse manifests, or download it."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from espnet_ext.corpora import asru2019, earnings22, libricss, librispeech, rev16, spotify, tedlium
from espnet_ext.data.manifests import write_parts
from espnet_ext.data.audio_files import CHECKS
from espnet_ext.errors import run_main


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the arguments, prepare or download the corpus, and say where the result lies."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    _add_librispeech(commands)
    _add_asru2019(commands)
    _add_libricss(commands)
    _add_spotify(commands)
    _add_tests(commands)
    _add_download(commands)
    args = parser.parse_args(arguments)
    args.function(args)


def _add_librispeech(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("librispeech", help="write the manifests of a corpus in LibriSpeech's layout")
    parser.add_argument(
        "--corpus", required=True, metavar="DIR", help="the folder that holds train-clean-100 and so on"
    )
    _add_preparation(parser)
    parser.set_defaults(function=_prepare_librispeech)


def _add_asru2019(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "asru2019",
        help="write the manifests of the ASRU 2019 code-switching corpus and of LibriSpeech's 460 hours",
        description=asru2019.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--corpus", required=True, metavar="DIR", help=f"the folder that holds {', '.join(asru2019.PARTS)}"
    )
    parser.add_argument("--librispeech", metavar="DIR", help="LibriSpeech (default: LibriSpeech in --corpus, if there)")
    parser.add_argument(
        "--folder",
        type=_part_folder,
        action="append",
        default=[],
        metavar="PART=DIR",
        help="the folder of a part that has another name or place; may be repeated",
    )
    _add_preparation(parser)
    parser.set_defaults(function=_prepare_asru2019)


def _add_libricss(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser(
        "libricss", help="write LibriCSS's manifests, and its first channel cut at silences with references by person"
    )
    parser.add_argument("--corpus", required=True, metavar="DIR", help="the folder that holds for_release")
    parser.add_argument("--output", required=True, metavar="DIR", help="where manifests and segments/ go")
    parser.add_argument(
        "--enrolment-list",
        metavar="FILE",
        help=f"{libricss.ENROLMENT_LIST}: write each session's enrolment utterances and inventory into segments/",
    )
    parser.add_argument(
        "--utterances",
        type=_positive,
        default=libricss.ENROLMENT_UTTERANCES,
        help="of a speaker (default: %(default)s)",
    )
    parser.set_defaults(function=_prepare_libricss)


def _prepare_libricss(args: argparse.Namespace) -> None:
    manifests = libricss.prepare_libricss(args.corpus)
    enrolment = None
    if args.enrolment_list:
        enrolment = libricss.read_enrolment(args.enrolment_list, manifests["recordings"].ids, args.utterances)
    write_parts("libricss", {"all": manifests}, Path(args.output))
    segments = Path(args.output) / "segments"
    libricss.write_segments(manifests, segments)
    if enrolment is not None:
        libricss.write_enrolment(segments, enrolment)
    _say_parts({"all": manifests}, args.output)


def _add_spotify(commands: argparse._SubParsersAction) -> None:
    parser = _long_parser(commands, "spotify", spotify)
    parser.add_argument("--part", default="train", help="its name in the files' names (default: %(default)s)")
    parser.add_argument("--drop-bad", action="store_true", help="leave faulty episodes out, in place of refusing all")
    parser.set_defaults(
        prepare=lambda args: spotify.prepare_spotify(
            args.corpus,
            args.output,
            args.part,
            drop_bad=args.drop_bad,
            num_jobs=args.nj,
            check_audio=args.check_audio,
        )
    )


def _add_tests(commands: argparse._SubParsersAction) -> None:
    """TED-LIUM, Earnings-22 and Rev16, which are test sets as they stand."""
    for name, module in (("earnings22", earnings22), ("rev16", rev16)):
        prepare = getattr(module, f"prepare_{name}")
        _long_parser(commands, name, module).set_defaults(
            prepare=lambda args, prepare=prepare: prepare(args.corpus, args.output, args.nj, args.check_audio)
        )
    parser = _long_parser(commands, "tedlium", tedlium)
    parser.add_argument("--parts", type=_names, default=list(tedlium.PARTS), metavar="A,B", help="(default: dev,test)")
    parser.set_defaults(
        prepare=lambda args: tedlium.prepare_tedlium(args.corpus, args.output, args.parts, args.nj, args.check_audio)
    )


def _long_parser(commands: argparse._SubParsersAction, name: str, module: ModuleType) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=f"write the manifests of {(module.__doc__ or name).partition(' (')[0].partition(':')[0]}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--corpus", required=True, metavar="DIR", help="the corpus's folder")
    _add_common(parser)
    parser.set_defaults(function=lambda args: _say_parts(args.prepare(args), args.output))
    return parser


def _add_preparation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", type=_names, metavar="A,B", help="parts to prepare (default: those that are there)")
    _add_common(parser)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", required=True, metavar="DIR", help="where the manifests go")
    parser.add_argument("--nj", type=_positive, default=2, help="number of threads (default: %(default)s)")
    parser.add_argument(
        "--check-audio",
        choices=CHECKS,
        default="auto",
        help="full decodes all audio, header reads headers only, auto chooses by the number of files "
        "(default: %(default)s)",
    )


def _prepare_librispeech(args: argparse.Namespace) -> None:
    manifests = librispeech.prepare_librispeech(args.corpus, args.output, args.parts, args.nj, args.check_audio)
    _say_parts(manifests, args.output)


def _prepare_asru2019(args: argparse.Namespace) -> None:
    manifests = asru2019.prepare_asru2019(
        args.corpus,
        args.output,
        args.parts,
        folders=dict(args.folder),
        librispeech_dir=args.librispeech,
        num_jobs=args.nj,
        check_audio=args.check_audio,
    )
    _say_parts(manifests, args.output)
    print(f"text rules: {', '.join(asru2019.RULES.record['rules'])} ({asru2019.RULES.name})")


def _say_parts(manifests: Mapping[str, Mapping], output: str) -> None:
    for part, sets in manifests.items():
        hours = sum(supervision.duration for supervision in sets["supervisions"]) / 3600
        print(f"{part}: {len(sets['supervisions']):,} utterances, {hours:.2f} hours")
    print(f"manifests in {output}")


def _add_download(commands: argparse._SubParsersAction) -> None:
    parser = commands.add_parser("download", help="download a corpus, or go on with a download that broke off")
    parser.add_argument("corpus", choices=["librispeech"])
    parser.add_argument("--output", required=True, metavar="DIR", help="archives go here, the corpus into LibriSpeech/")
    parser.add_argument("--parts", type=_names, default=list(librispeech.PARTS), metavar="A,B", help="(default: all)")
    parser.add_argument("--no-lm-text", action="store_true", help="without the language-model text (1.5 GB)")
    parser.add_argument("--base-url", default=librispeech.BASE_URL, help="a mirror of %(default)s")
    parser.set_defaults(function=_download)


def _download(args: argparse.Namespace) -> None:
    corpus = librispeech.download_librispeech(
        args.output, args.parts, lm_text=not args.no_lm_text, base_url=args.base_url
    )
    print(f"corpus in {corpus}")


def _names(value: str) -> list[str]:
    return [name.strip() for name in value.split(",") if name.strip()]


def _part_folder(value: str) -> tuple[str, str]:
    part, _, folder = value.partition("=")
    if not folder:
        raise argparse.ArgumentTypeError(f"{value} is not PART=DIR")
    return part, folder


def _positive(value: str) -> int:
    number = int(value)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{value} is not positive")
    return number


if __name__ == "__main__":
    run_main(main)
