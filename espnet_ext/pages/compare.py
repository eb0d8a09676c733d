"""A comparison as one web page: the tests, the most frequent errors, and the errors of all systems side by side."""

from collections import Counter
from pathlib import Path

from espnet_ext.pages.aligned import aligned_data, shown
from espnet_ext.pages.page import write_page
from espnet_ext.scoring.comparison import Compared
from espnet_ext.scoring.comparison_tables import NAMES, heading, pair_rows, paper_rows, system_rows, what_is_covered
from espnet_ext.scoring.error_rate import Pair
from espnet_ext.work.files import atomic_write, write_json

CONFUSIONS = 15  # that are listed for each kind of error
ROWS = 10_000  # of the reference that the page holds


def write_comparison(folder: Path, compared: Compared) -> None:
    """Write ``compare.json``, the page ``compare.html``, and tables to paste, ``compare.md`` and ``compare.tex``."""
    result = compared.result
    paths = {system["name"]: [Path(path).name for path in system["files"]] for system in result["systems"]}
    systems = {
        name: {
            f"{number} {path}": found for number, (path, found) in enumerate(zip(paths[name], files, strict=True), 1)
        }
        for name, files in compared.aligned.items()
    }
    write_page(
        folder / "compare.html",
        "compare.html.j2",
        result=result,
        title=f"{NAMES[result['rate']]} of {', '.join(compared.aligned)}",
        heading=heading(result),
        systems=system_rows(result),
        tests={"": pair_rows(result)} | {name: pair_rows(measure) for name, measure in result["measures"].items()},
        covered=what_is_covered(result),
        confusions=confusions(compared),
        data=[aligned_data("", compared.rows, systems, ROWS)],
    )
    for name, style in (("compare.md", "pipe"), ("compare.tex", "latex_booktabs")):
        with atomic_write(folder / name) as file:
            file.write(paper_rows(result, style) + "\n")
    write_json(folder / "compare.json", result)


def confusions(compared: Compared) -> dict[str, list[list[str]]]:
    """Count the most frequent errors by kind: rows of the tokens, and their number by system, mean over its files."""
    counters = {
        name: Counter(pair for found in files for pairs in found.values() for pair in pairs if pair[0] != pair[1])
        for name, files in compared.aligned.items()
    }
    totals: Counter[Pair] = sum(counters.values(), start=Counter())

    def row(pair: Pair) -> list[str]:
        means = (counters[name][pair] / len(files) for name, files in compared.aligned.items())
        return [*(shown(token) for token in pair if token), *(f"{mean:.1f}".removesuffix(".0") for mean in means)]

    kinds: dict[str, list[Pair]] = {"Substituted": [], "Deleted": [], "Inserted": []}
    for pair in sorted(totals, key=lambda pair: (-totals[pair], str(pair))):
        kinds["Inserted" if pair[0] is None else "Deleted" if pair[1] is None else "Substituted"].append(pair)
    return {kind: [row(pair) for pair in pairs[:CONFUSIONS]] for kind, pairs in kinds.items() if pairs}
