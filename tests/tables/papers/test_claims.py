"""The claims in the recipes' tables.yaml against the numbers of the papers that stand beside them."""

from collections.abc import Callable

import pytest

from espnet_ext.tables.score_table import Scores
from espnet_ext.tables.verdicts import judge_claims

RECIPES = ("asru2019_cs", "libricss_stitch", "librispeech_rescore", "librispeech_sem", "spotify_longctx")


@pytest.mark.parametrize("recipe", RECIPES)
def test_claims_of_the_paper_hold_for_its_numbers(recipe_tables: Callable, recipe: str):
    tables = recipe_tables(recipe)
    assert tables.claims
    for design in tables.designs:
        claims = judge_claims(tables, design, Scores({}, {}, {}, None))
        papers = [test.paper for claim in claims for test in claim.tests if test.paper is not None]
        assert papers and all(paper > 0 for paper in papers), papers
