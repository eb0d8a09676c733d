"""Inventories of mixtures: their speakers and absent ones, by seed and mixture alone; Table 1 of sets on disk."""

import json

import pytest

from espnet_ext.bin import count_mixtures, inventories
from espnet_ext.data.kaldi import read_table, write_table
from espnet_ext.errors import InputError
from espnet_ext.multitalker.turns import Turn, write_turns


def draw(folder, spoken: dict[str, str], size: int = 4) -> dict[str, list[str]]:
    write_table(folder / "speakers", spoken)
    write_table(folder / "profiles.scp", dict.fromkeys("abcdef", "x.ark:1"))
    options = ["--speakers", folder / "speakers", "--profiles", folder / "profiles.scp", "--output", folder / "out"]
    inventories.main([str(option) for option in (*options, "--size", size)])
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


def test_table_1_counts_references(tmp_path):
    turns = [
        Turn("m1", "a", ("A", "B"), 0.0, 2.0),
        Turn("m1", "b", ("C",), 1.0, 3.0),
        Turn("m2", "a", ("A",), 0.0, 5.0),
    ]
    write_turns(tmp_path / "set" / "references.json", turns)
    count_mixtures.main(["--data", str(tmp_path / "set"), "--output", str(tmp_path / "exp")])
    # 2 samples, 2 words and 4 s each, 8 s in all, a third of one overlapped and nothing of the other
    expected = {"samples": (2, "mixtures"), "mean_words": (2, "words"), "mean_seconds": (4, "s")}
    expected |= {"hours": (0.0022, "h"), "overlap": (16.6667, "%")}
    found = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "exp").iterdir()}
    assert {name: (item["value"], item["unit"]) for name, item in found.items()} == expected
    with pytest.raises(InputError, match="as many --output as --data"):
        count_mixtures.main(["--data", "a", "b", "--output", str(tmp_path)])
