"""Every recipe, killed at a random moment of each stage: the resumed run ends like one
that was not killed.
"""

import os
import random

import pytest
from runs import RECIPES, ROWS, Run, stages


def test_all_rows_are_of_recipes():
    assert ROWS.keys() <= set(RECIPES)
    assert all(stages(recipe)[0] == 1 for recipe in RECIPES)


@pytest.mark.kill
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_killed_run_ends_as_a_whole_one(recipe, tmp_path):
    """The seed of the moments is printed where the test fails; KILL_SEED gives it
    again.
    """
    seed = int(os.environ.get("KILL_SEED") or random.randrange(1_000_000))
    print(f"KILL_SEED={seed}")
    moments = random.Random(f"{seed} {recipe}")
    whole, killed = Run(recipe, tmp_path / "whole"), Run(recipe, tmp_path / "killed")
    for stage, seconds in whole.seconds_of_stages().items():
        delay = moments.uniform(0, seconds)
        print(f"stage {stage}: killed after {delay:.2f} s of {seconds:.2f} s")
        killed.kill_in(stage, delay)
    killed.finish()
    assert killed.results() == whole.results()
