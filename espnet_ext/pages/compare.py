"""A comparison as one web page: tests, and the errors of all systems side by side."""

from pathlib import Path

from espnet_ext.pages.aligned import make_aligned_data
from espnet_ext.pages.page import write_page
from espnet_ext.scoring.alignments import Aligned
from espnet_ext.scoring.comparison import Compared
from espnet_ext.scoring.comparison_tables import (
    NAMES,
    describe_coverage,
    list_pair_rows,
    list_system_rows,
    write_heading,
)
from espnet_ext.work.files import write_json

ROWS = 10_000  # of the reference that the page holds


def write_comparison(folder: Path, compared: Compared) -> None:
    """Write ``compare.json`` and the page ``compare.html``."""
    result = compared.result
    systems = {}
    for system in result["systems"]:
        aligned = compared.aligned[system["name"]]
        files: dict[str, Aligned] = {}
        # numbered, since files of two folders may have one name
        for path, found in zip(system["files"], aligned, strict=True):
            files[f"{len(files) + 1} {Path(path).name}"] = found
        systems[system["name"]] = files
    write_page(
        folder / "compare.html",
        "compare.html.j2",
        result=result,
        title=f"{NAMES[result['rate']]} of {', '.join(systems)}",
        heading=write_heading(result),
        tables=[list_system_rows(result), list_pair_rows(result)],
        covered=describe_coverage(result),
        data=[make_aligned_data("", compared.rows, systems, ROWS)],
    )
    write_json(folder / "compare.json", result)
