"""Inventories of training and of sets on disk, and labels of a transcript."""

import numpy as np
import pytest

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.stitch.recogniser.inventories import (
    Inventories,
    label_segments,
    write_inventories,
)

ROWS = {
    "b": np.eye(3)[:2],
    "a": np.array([[1.0, 1.0, 0.0]]),
    "c": np.eye(3),
    "d": np.ones((2, 3)),
}


@pytest.fixture
def inventories() -> Inventories:
    return Inventories(
        {name: rows.astype(np.float32) for name, rows in ROWS.items()},
        size=3,
        enrolment=2,
    )


def test_a_drawn_inventory_has_the_speakers_and_others(inventories):
    seen = set()
    for seed in range(20):
        names, profiles = inventories.draw(
            ["b", "a", "b"], "mix", np.random.default_rng(seed)
        )
        assert len(names) == len(set(names)) == len(profiles) == 3 and {
            "a",
            "b",
        } <= set(names)
        np.testing.assert_allclose(np.linalg.norm(profiles, axis=1), 1.0, rtol=1e-6)
        seen.add(tuple(names))
    assert {
        len(seen & {("a", "b", other), (other, "b", "a")}) > 0 for other in "cd"
    } == {True}
    assert len(seen) > 5


def test_training_draws_enrolment_utterances_anew_and_test_takes_all(inventories):
    drawn = [
        inventories.draw(["c"], "mix", np.random.default_rng(seed))
        for seed in range(20)
    ]
    kinds = {
        tuple(np.round(profiles[names.index("c")], 2).tolist())
        for names, profiles in drawn
    }
    half = float(np.float32(0.71))
    assert kinds == {(half, half, 0.0), (half, 0.0, half), (0.0, half, half)}
    np.testing.assert_allclose(
        inventories.select(["c"], "mix"), [np.full(3, 3**-0.5)], rtol=1e-6
    )


def test_bad_inventories_are_refused(inventories, tmp_path):
    for names, place in (
        ([], "without speakers"),
        (["a", "b", "a"], "a is .*twice"),
        (["a", "x"], "x"),
    ):
        with pytest.raises(InputError, match=f"^mix: .*{place}"):
            inventories.select(names, "mix")
    for names, place in ((["x"], "2 utterances"), (["x", "z"], "z")):
        with pytest.raises(InputError, match=f"^mix: .*{place}"):
            label_segments("A <sc> B", names, ["x", "y"], "mix")
    for spoken, size, place in (
        ("a z", 4, "m1: no profile for z"),
        ("a", 0, "0 profiles"),
    ):
        with pytest.raises(InputError, match=place):
            draw(tmp_path, {"m1": spoken}, size)


def draw(folder, spoken: dict[str, str], size: int = 4) -> dict[str, list[str]]:
    write_table(folder / "speakers", spoken)
    write_table(folder / "profiles.scp", dict.fromkeys("abcdef", "x.ark:1"))
    write_inventories(
        folder / "speakers", folder / "profiles.scp", folder / "out", size=size
    )
    return {key: row.split() for key, row in read_table(folder / "out").items()}


def test_speakers_and_absent_ones(tmp_path):
    drawn = draw(tmp_path, {"m1": "b a b", "m2": "c", "m3": "a b c d e"})
    assert {key: len(names) for key, names in drawn.items()} == {
        "m1": 4,
        "m2": 4,
        "m3": 5,
    }
    assert all(len(set(names)) == len(names) for names in drawn.values())
    assert (
        {"a", "b"} <= set(drawn["m1"])
        and "c" in drawn["m2"]
        and set(drawn["m3"]) == set("abcde")
    )
    assert draw(tmp_path, {"m1": "b a b"})["m1"] == drawn["m1"]
