"""The claims in the recipes' tables.yaml against the numbers of the papers that stand
beside them.
"""

from pathlib import Path

import pytest

from espnet_ext.tables.reading import load_tables
from espnet_ext.tables.score_table import Scores
from espnet_ext.tables.verdicts import judge_claims

EGS = Path(__file__).parents[3] / "egs"


@pytest.mark.parametrize(
    "recipe",
    [
        "asru2019_cs",
        "libricss_stitch",
        "librispeech_rescore",
        "librispeech_sem",
        "spotify_longctx",
    ],
)
def test_claims_of_the_paper_hold_for_its_numbers(recipe: str):
    tables = load_tables(EGS / recipe / "conf" / "tables.yaml")
    assert tables.claims
    papers = [
        test.paper
        for design in tables.designs
        for claim in judge_claims(tables, design, Scores({}, {}, {}, None))
        for test in claim.tests
        if test.paper is not None  # claims on rows of our own have none
    ]
    assert papers and all(paper > 0 for paper in papers), papers
