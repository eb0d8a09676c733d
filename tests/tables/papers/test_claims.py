"""The claims in the recipes' tables.yaml against the numbers of the papers that stand beside them."""

from collections.abc import Callable

import pytest

from espnet_ext.tables.collect import collect
from espnet_ext.tables.score_table import Meta, Scores

RECIPES = ("asru2019_cs", "libricss_stitch", "librispeech_rescore", "librispeech_sem", "spotify_longctx")


@pytest.mark.parametrize("recipe", RECIPES)
def test_claims_of_the_paper_hold_for_its_numbers(recipe_tables: Callable, recipe: str):
    tables = recipe_tables(recipe, "full")
    meta = Meta(recipe=recipe, corpus="c", scale="full", tables=(), units={}, normaliser=None, runs=())
    results = collect(tables, tables.tables, Scores({}, {}, {}, None), meta)
    claims = [claim for result in results for claim in result.claims if not claim.claim.own]
    effects = {
        (claim.text, test.column.name): test.paper + claim.claim.margin
        for claim in claims
        for test in claim.tests
        if test.paper is not None
    }
    assert len(effects) >= 8 and all(effect > 0 for effect in effects.values()), effects
