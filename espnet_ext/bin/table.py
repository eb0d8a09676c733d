"""A paper's tables: what they need, merged configs for it, and what came out beside the paper's numbers."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import InputError, run_main
from espnet_ext.results.config import load_tables, decode_config, train_config
from espnet_ext.results.schema import DEFAULT_DECODING
from espnet_ext.results.tables import Table, Tables
from espnet_ext.results.meta import collect_meta
from espnet_ext.results.plan import decodings_needed, select, sets_needed, systems_needed, uses_lm
from espnet_ext.results.render import has_run, plain_table
from espnet_ext.results.report import keep_results, write_report
from espnet_ext.results.results import collect, write_results
from espnet_ext.work.yaml_files import merged_files, write_yaml


def main(argv: Sequence[str] | None = None) -> None:
    args = get_parser().parse_args(_join_rows(sys.argv[1:] if argv is None else argv))
    args.run(args)


def get_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m espnet_ext.bin.table", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")

    plan = _command(commands, "plan", _plan, "print 'system<TAB>config<TAB>training sets' for each training needed")
    _add_selection(plan)
    plan.add_argument("--format", choices=["tsv", "text"], default="tsv", help="tsv for scripts, text to read")

    decodings = _command(commands, "decodings", _decodings, "print 'system<TAB>decoding' for each decoding needed")
    _add_selection(decodings)
    decodings.add_argument(
        "--test-sets", action="store_true", help="print the test sets that it needs, as a third field"
    )

    train = _command(commands, "train-config", _train_config, "write a system's training config")
    _add_tables(train)
    train.add_argument("--system", required=True, help="a system in the tables file")
    _add_merge(train)

    decode = _command(commands, "decode-config", _decode_config, "write a decoding's config")
    _add_tables(decode)
    decode.add_argument("--decoding", default=DEFAULT_DECODING, help="a decoding in the tables file")
    decode.add_argument("--config", required=True, help="the paper's own decoding config")
    _add_merge(decode)

    merge = _command(commands, "merge", _merge, "write a config with overlays merged into it")
    merge.add_argument("--config", required=True, help="the paper's own config")
    _add_merge(merge)

    write = _command(commands, "write", _write, "write and print tables: the paper's numbers and those found")
    _add_selection(write)
    write.add_argument("--expdir", required=True, help="holds <system>/seed<seed>/...; results go to <expdir>/results")
    write.add_argument("--corpus", required=True, help="name of the corpus, for the reader")
    write.add_argument("--command", default="", help="the command that made the results, for the reader")
    write.add_argument(
        "--lm-perplexity", type=Path, help="a file with the LM's perplexity a token, for tables with one"
    )

    results = _command(commands, "results", _results, "keep the results of runs, and write RESULTS.md from all kept")
    results.add_argument("--recipe-dir", required=True, help="the recipe's folder")
    results.add_argument("--results", nargs="+", action="extend", default=[], help="folders with a run's table*.json")
    results.add_argument("--output", help="default: RESULTS.md in the recipe's folder")
    results.add_argument("--notes", help="what differs from the paper; default: conf/results_notes.md, if there")
    return parser


def _command(commands, name: str, function, text: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(run=function)
    return parser


def _add_tables(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tables", required=True, help="the recipe's conf/tables.yaml")
    parser.add_argument("--scale", help="smoke, mini or full: which values figures have on their axis (default: all)")


def _add_selection(parser: argparse.ArgumentParser) -> None:
    _add_tables(parser)
    parser.add_argument("--table", default="all", help="a table, several with commas between, or all (default)")
    parser.add_argument("--rows", default="", help="rows with commas between (default: all)")


def _add_merge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--overlay", nargs="+", action="extend", default=[], help="YAML merged over it, in order")
    parser.add_argument("--output", required=True, help="the file to write; left alone if it would not change")


def _join_rows(argv: Sequence[str]) -> list[str]:
    """Make ``--rows -60dB`` one word, or argparse takes the row for an option."""
    joined: list[str] = []
    for word in argv:
        if joined and joined[-1] == "--rows":
            joined[-1] = f"--rows={word}"
        else:
            joined.append(word)
    return joined


def _selection(args: argparse.Namespace) -> tuple[Tables, list[Table], list[str] | None]:
    tables = load_tables(args.tables, args.scale)
    ids = None if args.table == "all" else [name.strip() for name in args.table.split(",")]
    rows = [name.strip() for name in args.rows.split(",")] if args.rows else None
    return tables, select(tables, ids, rows), rows


def _plan(args: argparse.Namespace) -> None:
    tables, selected, _ = _selection(args)
    if args.format == "tsv":
        for system in systems_needed(tables, selected):
            print(f"{system.name}\t{system.config}\t{' '.join(system.train)}")
        return
    decodings = decodings_needed(selected)
    for system in systems_needed(tables, selected):
        names = ", ".join(decoding for name, decoding in decodings if name == system.name)
        print(f"{system.name}: {system.config}, trained on {' '.join(system.train)}; decodings: {names}")


def _decodings(args: argparse.Namespace) -> None:
    tables, selected, _ = _selection(args)
    if not args.test_sets:
        for system, decoding in decodings_needed(selected):
            print(f"{system}\t{decoding}")
        return
    for (system, decoding), names in sets_needed(tables, selected).items():
        print(f"{system}\t{decoding}\t{' '.join(names)}")


def _train_config(args: argparse.Namespace) -> None:
    config = train_config(load_tables(args.tables, args.scale), args.system, args.overlay, args.scale)
    _write_config(args, config, f"system {args.system} of {args.tables}")


def _decode_config(args: argparse.Namespace) -> None:
    config = decode_config(load_tables(args.tables, args.scale), args.decoding, args.config, args.overlay)
    _write_config(args, config, f"decoding {args.decoding} of {args.tables}")


def _merge(args: argparse.Namespace) -> None:
    _write_config(args, merged_files([args.config, *args.overlay]), args.config)


def _write_config(args: argparse.Namespace, config: dict, source: str) -> None:
    overlays = f" with {' '.join(args.overlay)}" if args.overlay else ""
    written = write_yaml(args.output, config, f"Written by python -m espnet_ext.bin.table: {source}{overlays}")
    print(f"{args.output}: {'written' if written else 'unchanged'}")


def _write(args: argparse.Namespace) -> None:
    if not args.scale:
        raise InputError("--scale is missing: results say at which scale they came out")
    if not Path(args.expdir).is_dir():
        raise InputError(f"{args.expdir}: no such folder, so nothing has run there; give the run's --expdir")
    tables, selected, rows = _selection(args)
    meta = collect_meta(args.command, tables.recipe_dir)
    # The files hold every row, so that a run of two rows does not hide what other rows have already given.
    results = [collect(tables, tables.tables[t.id], args.expdir, args.scale, args.corpus, meta) for t in selected]
    for table, result in zip(selected, results, strict=True):
        if args.lm_perplexity and args.lm_perplexity.is_file() and uses_lm(tables, table):
            result["meta"]["lm_perplexity"] = float(args.lm_perplexity.read_text(encoding="utf-8"))
        paths = write_results(result, Path(args.expdir) / "results")
        names = [paths[1].name]
        if "figure" in result and has_run(result):
            from espnet_ext.results.draw import draw
            from espnet_ext.results.figures import save_png  # matplotlib takes a while

            picture = paths[0].with_suffix(".png")
            save_png(draw(result), picture)
            names.append(picture.name)
        print(plain_table(result, rows))
        print(f"written: {paths[0]} and {' and '.join(names)}\n")


def _results(args: argparse.Namespace) -> None:
    recipe_dir = Path(args.recipe_dir)
    if not recipe_dir.is_dir():
        raise InputError(f"{recipe_dir}: no such folder; give the recipe's with --recipe-dir")
    notes = Path(args.notes) if args.notes else recipe_dir / "conf" / "results_notes.md"
    output = Path(args.output) if args.output else recipe_dir / "RESULTS.md"
    kept = recipe_dir / "results"
    for folder in args.results:
        keep_results(folder, kept)
    folders = sorted(path for path in kept.glob("*") if path.is_dir())
    if not folders:
        raise InputError(f"{kept}: nothing is kept there yet: give a run's folder with --results")
    count = write_report(folders, output, notes if args.notes or notes.is_file() else None)
    print(f"{output}: {count} tables")


if __name__ == "__main__":
    run_main(main)
