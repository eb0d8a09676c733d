"""The tables of a recipe and the numbers that its paper prints: those that a module
names as RECIPE and PAPER.
"""

from pathlib import Path

import pytest

from espnet_ext.tables.reading import Tables, load_tables
from espnet_ext.work.yaml_files import read_yaml

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def tables(request: pytest.FixtureRequest) -> Tables:
    scale = getattr(request.module, "SCALE", None)
    return load_tables(
        HERE.parents[2] / "egs" / request.module.RECIPE / "conf" / "tables.yaml", scale
    )


@pytest.fixture(scope="module")
def paper(request: pytest.FixtureRequest) -> dict:
    return read_yaml(HERE / f"{request.module.PAPER}.yaml")
