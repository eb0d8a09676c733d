"""Keep the results of a run in ``results/`` of its recipe."""

from pathlib import Path

from espnet_ext.tables.claims.verdicts import correct
from espnet_ext.tables.kept.kept_scores import merge, read_scores_file, write_scores
from espnet_ext.tables.kept.result_files import (
    SCORES_FILE,
    keep_result,
    kept_name,
    read_results,
    result_files,
    some_result_files,
)


def keep_results(folder: str | Path, kept: str | Path) -> list[Path]:
    """Copy a run's ``table*.json``, ``figure*.json`` and scores to ``<kept>/<scale>-<corpus>/``.

    Earlier results of the same tables are replaced. Claims are corrected for their number over all that is kept there.

    Raises:
        InputError: a folder without results, or a file that holds none.
    """
    copies = []
    scores = Path(folder) / SCORES_FILE
    for path in some_result_files(Path(folder)):
        result = read_results(path)
        copies.append(Path(kept) / kept_name(result) / path.name)
        keep_result(copies[-1], result)
    for place in dict.fromkeys(copy.parent for copy in copies):
        if scores.is_file():
            own = place / SCORES_FILE
            write_scores(own, merge(read_scores_file(own) if own.is_file() else None, read_scores_file(scores)))
        paths = result_files(place)
        for path, result in zip(paths, correct([read_results(path) for path in paths]), strict=True):
            keep_result(path, result)
    return copies
