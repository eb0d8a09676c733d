"""The table of errors that merging makes, in the recipe's README, is that of the kept measurement."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_readme_has_the_table_of_the_measurement():
    bench = runpy.run_path(str(ROOT / "tests" / "benchmarks" / "bench_window_merging.py"))
    assert bench["table"]() in (ROOT / "egs" / "libricss_stitch" / "README.md").read_text(encoding="utf-8")
