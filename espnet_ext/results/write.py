"""Writes the tables of a run: JSON, Markdown, pictures, and on the screen the paper's numbers beside those found."""

from collections.abc import Sequence
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.results.meta import collect_meta
from espnet_ext.results.plan import uses_lm
from espnet_ext.results.render import has_run, plain_table
from espnet_ext.results.results import collect, write_results
from espnet_ext.results.tables import Table, Tables


def write_tables(
    tables: Tables,
    selected: Sequence[Table],
    rows: Sequence[str] | None,
    expdir: str | Path,
    *,
    scale: str,
    corpus: str,
    command: str = "",
    lm_perplexity: str | Path | None = None,
) -> list[Path]:
    """Write ``<expdir>/results/table<T>.json`` and the files drawn from it for each table, and print the tables.

    The files hold every row, so that a run of two rows does not hide what earlier runs have filled in.

    Args:
        tables: the recipe's.
        selected: those to write.
        rows: those to print (None: all).
        expdir: holds ``<system>/seed<N>/...``.
        scale: and ``corpus``, ``command``: said beside the numbers.
        lm_perplexity: a file with the perplexity of a token under the language model, for tables that use one.

    Returns:
        The JSON files.

    Raises:
        InputError: no such folder, or scores that cannot be compared.
    """
    if not Path(expdir).is_dir():
        raise InputError(f"{expdir}: no such folder, so nothing has run there; give the run's --expdir")
    meta = collect_meta(command, tables.recipe_dir)
    # All are collected before the first is written: a score that cannot be compared leaves no half of a set.
    results = [collect(tables, tables.tables[table.id], expdir, scale, corpus, meta) for table in selected]
    written = []
    for table, result in zip(selected, results, strict=True):
        if lm_perplexity and Path(lm_perplexity).is_file() and uses_lm(tables, table):
            result["meta"]["lm_perplexity"] = float(Path(lm_perplexity).read_text(encoding="utf-8"))
        paths = write_results(result, Path(expdir) / "results")
        names = [paths[1].name]
        if "figure" in result and has_run(result):
            from espnet_ext.results.draw import draw  # matplotlib takes a second to import
            from espnet_ext.results.figures import save_png

            picture = paths[0].with_suffix(".png")
            save_png(draw(result), picture)
            names.append(picture.name)
        print(plain_table(result, rows))
        print(f"written: {paths[0]} and {' and '.join(names)}\n")
        written.append(paths[0])
    return written
