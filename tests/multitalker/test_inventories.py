"""Inventories of training and of sets on disk, and the labels of a serialised transcript."""

import numpy as np
import pytest

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.multitalker.inventories import Inventories, segment_labels, write_inventories

ROWS = {"b": np.eye(3)[:2], "a": np.array([[1.0, 1.0, 0.0]]), "c": np.eye(3), "d": np.ones((2, 3))}


@pytest.fixture
def inventories() -> Inventories:
    return Inventories({name: rows.astype(np.float32) for name, rows in ROWS.items()}, size=3, enrolment=2)


def test_a_drawn_inventory_has_the_speakers_and_others(inventories):
    seen = set()
    for seed in range(20):
        names, profiles = inventories.draw(["b", "a", "b"], "mix", np.random.default_rng(seed))
        assert len(names) == len(set(names)) == len(profiles) == 3 and {"a", "b"} <= set(names)
        np.testing.assert_allclose(np.linalg.norm(profiles, axis=1), 1.0, rtol=1e-6)
        seen.add(tuple(names))
    assert {len(seen & {("a", "b", other), (other, "b", "a")}) > 0 for other in "cd"} == {True}
    assert len(seen) > 5


def test_training_draws_enrolment_utterances_anew_and_test_takes_all(inventories):
    drawn = [inventories.draw(["c"], "mix", np.random.default_rng(seed)) for seed in range(20)]
    kinds = {tuple(np.round(profiles[names.index("c")], 2).tolist()) for names, profiles in drawn}
    half = float(np.float32(0.71))
    assert kinds == {(half, half, 0.0), (half, 0.0, half), (0.0, half, half)}
    np.testing.assert_allclose(inventories.of(["c"], "mix"), [np.full(3, 3**-0.5)], rtol=1e-6)


@pytest.mark.parametrize(
    "names, message",
    [
        ([], "^mix: an inventory without speakers"),
        (["a", "b", "a"], "^mix: a is in the inventory twice"),
        (["a", "x"], "^mix: no profile for x: make"),
    ],
)
def test_bad_inventories_are_refused(names, message, inventories):
    with pytest.raises(InputError, match=message):
        inventories.of(names, "mix")


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="^mix: the transcript has 2 utterances between <sc>, but 1 speakers"):
        segment_labels("A <sc> B", ["x"], ["x", "y"], "mix")
    with pytest.raises(InputError, match="^mix: z speaks, but is not in the inventory"):
        segment_labels("A <sc> B", ["x", "z"], ["x", "y"], "mix")


def draw(folder, spoken: dict[str, str], size: int = 4) -> dict[str, list[str]]:
    write_table(folder / "speakers", spoken)
    write_table(folder / "profiles.scp", dict.fromkeys("abcdef", "x.ark:1"))
    write_inventories(folder / "speakers", folder / "profiles.scp", folder / "out", size=size)
    return {key: row.split() for key, row in read_table(folder / "out").items()}


def test_speakers_and_absent_ones(tmp_path):
    drawn = draw(tmp_path, {"m1": "b a b", "m2": "c", "m3": "a b c d e"})
    assert {key: len(names) for key, names in drawn.items()} == {"m1": 4, "m2": 4, "m3": 5}
    assert all(len(set(names)) == len(names) for names in drawn.values())
    assert {"a", "b"} <= set(drawn["m1"]) and "c" in drawn["m2"] and set(drawn["m3"]) == set("abcde")
    assert draw(tmp_path, {"m1": "b a b"})["m1"] == drawn["m1"]


def test_a_speaker_in_the_reference_without_a_profile_is_refused(tmp_path):
    with pytest.raises(InputError, match="m1: no profile for z: make the profiles of all speakers"):
        draw(tmp_path, {"m1": "a z"})
    with pytest.raises(InputError, match="inventories of 0 profiles"):
        draw(tmp_path, {"m1": "a"}, size=0)
