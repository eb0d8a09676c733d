"""Write the results page: tables with the paper's numbers beside ours, training curves, figures, and an error browser.

Takes recipes' folders of experiments (or recipes, or single runs such as egs/librispeech_sem/exp/mini) and writes a
folder of static HTML: open its index.html in a browser; no network or server is needed. An older report is replaced.

Example:
  python -m espnet_ext.bin.report egs/*/exp --output report
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import run_main


def main(argv: Sequence[str] | None = None) -> None:
    arguments = _parser().parse_args(argv)

    # matplotlib takes a second to import
    from espnet_ext.report.errors import Limits
    from espnet_ext.report.runs import find_recipes
    from espnet_ext.report.site import write_site

    recipes = find_recipes(arguments.folders, arguments.datadir)
    pages = write_site(recipes, arguments.output, Limits(arguments.utterances, arguments.audio))
    for page in pages:
        for note in page.errors.notes:
            print(f"note: {page.name}: {note}")
    print(f"written: {arguments.output / 'index.html'}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m espnet_ext.bin.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="egs/<recipe>/exp, a recipe, or a run")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the page")
    parser.add_argument(
        "--utterances",
        type=_count,
        default=10_000,
        metavar="N",
        help="the worst of each scored test set that can be browsed (default: %(default)s)",
    )
    parser.add_argument(
        "--audio",
        type=_count,
        default=50,
        metavar="N",
        help="utterances of each test set whose audio is copied, as MP3; 0 for none (default: %(default)s)",
    )
    parser.add_argument(
        "--datadir", type=Path, metavar="DIR", help="data dirs of the one run given (default: the recipe's data/<run>)"
    )
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, not {value}")
    return value


if __name__ == "__main__":
    run_main(main)
