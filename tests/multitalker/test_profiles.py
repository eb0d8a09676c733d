"""Speaker profiles on disk, inventories, and the labels of a serialized transcript."""

from pathlib import Path

import numpy as np
import pytest

from espnet_ext.errors import InputError
from espnet_ext.multitalker.inventories import Inventories, profile, read_profiles, segment_labels, write_profiles

ROWS = {"b": np.eye(3)[:2], "a": np.array([[1.0, 1.0, 0.0]]), "c": np.eye(3), "d": np.ones((2, 3))}


@pytest.fixture
def inventories() -> Inventories:
    return Inventories({name: rows.astype(np.float32) for name, rows in ROWS.items()}, size=3, enrolment=2)


def test_written_profiles_are_read_again(tmp_path):
    scp = write_profiles(tmp_path / "out", ROWS)
    found = read_profiles([scp])
    assert list(found) == ["a", "b", "c", "d"]
    for name, rows in ROWS.items():
        np.testing.assert_array_equal(found[name], rows.astype(np.float32))
    # any Kaldi tool takes scp and ark for what they are
    (line, *_) = scp.read_text().splitlines()
    position = line.split()[1]
    path, _, offset = position.rpartition(":")
    assert Path(path).read_bytes()[int(offset) :].startswith(b"\0BFM ")


def test_a_profile_is_the_mean_direction():
    rows = np.array([[2.0, 0.0], [0.0, 0.1]])
    np.testing.assert_allclose(profile(rows), [0.5**0.5, 0.5**0.5])


@pytest.mark.parametrize("value", [np.array([[np.nan, 1.0]]), np.zeros((1, 2)), np.zeros((0, 2))])
def test_bad_profiles_are_refused(value, tmp_path):
    scp = write_profiles(tmp_path, {"x": np.ones((1, 2)), "y": value})
    with pytest.raises(InputError, match=rf"^{scp}: y: .*make (it|them) anew"):
        read_profiles([scp])


def test_bad_files_are_refused(tmp_path):
    first = write_profiles(tmp_path / "1", {"x": np.ones((1, 2))})
    second = write_profiles(tmp_path / "2", {"y": np.ones((1, 5))})
    with pytest.raises(InputError, match="y: a profile of 5 dimensions, but that of x has 2"):
        read_profiles([first, second])
    with pytest.raises(InputError, match="x has a profile in another file too"):
        read_profiles([first, first])
    (tmp_path / "1" / "profiles.ark").unlink()
    with pytest.raises(InputError, match="x: no profile can be read from"):
        read_profiles([first])
    with pytest.raises(InputError, match="no profiles to write"):
        write_profiles(tmp_path, {})


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


def test_more_speakers_than_the_size_are_all_there(inventories):
    names, _ = inventories.draw(["a", "b", "c", "d"], "mix", np.random.default_rng(0))
    assert sorted(names) == ["a", "b", "c", "d"]


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
