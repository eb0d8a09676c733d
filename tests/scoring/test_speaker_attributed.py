"""SA-WER against a Levenshtein distance written out, cpWER, ORC-WER and counting against their definitions."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.scoring import assignments
from espnet_ext.scoring.error_rate import ErrorRate
from espnet_ext.scoring.speaker_attributed import (
    SpeakerCount,
    count_speakers,
    score_speakers,
    summarise_speakers,
    write_speaker_reports,
)
from espnet_ext.text.turns import Turn


def levenshtein(left, right) -> int:
    row = np.arange(len(right) + 1)
    for word in left:
        moves = np.minimum(row[1:] + 1, row[:-1] + [word != other for other in right])
        new = [row[0] + 1]
        for move in moves:
            new.append(min(move, new[-1] + 1))
        row = np.array(new)
    return int(row[-1])


def turns(said: dict[str, str], recording: str = "r") -> list[Turn]:
    return [
        Turn(recording, speaker, tuple(text.split()), float(place), place + 1.0)
        for place, (speaker, text) in enumerate(said.items())
    ]


SAID = st.dictionaries(
    st.sampled_from("abcd"), st.lists(st.sampled_from("xyz"), min_size=1, max_size=5).map(" ".join), max_size=4
)


@given(SAID.filter(bool), SAID)
@settings(max_examples=60)
def test_every_measure_by_its_definition(real, heard):
    result = score_speakers(turns(real), turns(heard) or [Turn("r", "", ())])
    errors = sum(levenshtein(real.get(name, "").split(), heard.get(name, "").split()) for name in {*real, *heard})
    assert result.score.total.errors == errors
    assert result.score.total.reference_length == sum(len(text.split()) for text in real.values())
    # cpWER: the least over all assignments of streams, missing ones empty.
    size = max(len(real), len(heard))
    streams = [text.split() for text in heard.values()] + [[]] * (size - len(heard))
    speakers = [text.split() for text in real.values()] + [[]] * (size - len(real))
    permuted = [sum(map(levenshtein, speakers, order)) for order in itertools.permutations(streams)]
    assert result.cp.errors == min(permuted) <= errors
    # ORC-WER: the least over all streams in which each utterance may stand.
    best = min(
        sum(
            levenshtein([word for where, text in zip(places, real.values(), strict=True) if where == stream
                         for word in text.split()], streams[stream])
            for stream in range(len(streams))
        )
        for places in itertools.product(range(len(streams)), repeat=len(real))
    )  # fmt: skip
    assert result.orc.errors == best <= result.cp.errors
    assert result.counting == SpeakerCount(
        len(real),
        len(heard),
        max(0, len(real) - len(heard)),
        max(0, len(heard) - len(real)),
        1,
        len(real) != len(heard),
    )


def test_the_right_words_under_the_wrong_name():
    result = score_speakers(turns({"a": "one two", "b": "three"}), turns({"b": "one two", "a": "three"}))
    assert result.score.total.errors == 4
    assert result.cp == ErrorRate(3, 0, 0, 0)
    assert result.orc == ErrorRate(3, 0, 0, 0)


def test_words_of_an_unknown_speaker_are_insertions():
    result = score_speakers(turns({"a": "one two"}), turns({"a": "one two", "z": "one two three"}))
    assert result.score.total == ErrorRate(2, 0, 0, 3)
    assert result.score.speakers == {"a": ErrorRate(2, 0, 0, 0), "z": ErrorRate(0, 0, 0, 3)}
    assert result.unknown == {"r": ("z",)}


def test_nobody_heard_is_all_deletions():
    result = score_speakers(turns({"a": "one two"}), [Turn("r", "a", ())])
    assert result.score.total == result.cp == result.orc == ErrorRate(0, 0, 2, 0)
    assert result.counting == SpeakerCount(1, 0, 1, 0, 1, 1)


def test_utterances_of_a_speaker_are_joined_in_the_order_of_time():
    reference = [Turn("r", "a", ("two",), 5.0, 6.0), Turn("r", "b", ("x",), 2.0, 3.0), Turn("r", "a", ("one",), 1.0, 2)]
    assert score_speakers(reference, turns({"a": "one two", "b": "x"})).score.total == ErrorRate(3, 0, 0, 0)


def test_conditions_are_parts():
    reference = turns({"a": "one two"}, "r1") + turns({"a": "three"}, "r2") + turns({"a": "four"}, "r3")
    hypothesis = turns({"a": "one"}, "r1") + turns({"a": "three"}, "r2") + turns({"a": "x"}, "r3")
    groups = {"r1": "0S", "r2": "40", "r3": "40"}
    score = score_speakers(reference, hypothesis, groups=groups, meeteval=False).score
    assert {name: part.total for name, part in score.parts.items()} == {
        "0S": ErrorRate(1, 0, 1, 0),
        "40": ErrorRate(1, 1, 0, 0),
    }
    assert score.total == ErrorRate(2, 1, 1, 0)
    assert list(score.utterances) == ["r1", "r2", "r3"]
    with pytest.raises(InputError, match="recording r2 of reference has no group"):
        score_speakers(reference, hypothesis, groups={"r1": "0S"})


def test_greedy_search_where_streams_are_long(monkeypatch):
    monkeypatch.setattr(assignments, "ORC_CELLS", 1)
    reference, hypothesis = turns({"a": "x y", "b": "z"}), turns({"a": "z", "b": "x y"})
    result = score_speakers(reference, hypothesis)
    assert result.orc_greedy == ("r",)
    assert result.orc.errors == 0
    assert not score_speakers(reference, turns({"a": "x y z"})).orc_greedy, "with one stream there is no choice"


def test_counts_of_speakers_add_up():
    total = count_speakers({"a": ("x",)}, {}) + count_speakers({"a": ("x",)}, {"b": ("x",), "c": ("x",)})
    assert total == SpeakerCount(2, 2, 1, 1, 2, 2)
    assert total.rate == 1.0


@pytest.mark.parametrize(
    ("reference", "hypothesis", "message"),
    [
        ([], [], "no recording to score"),
        (turns({"a": "x"}), turns({"a": "x"}, "s"), "hypothesis: recording r of reference is missing"),
        (turns({"a": "x"}), turns({"a": "x"}) + turns({"a": "x"}, "s"), "recording s is not in reference"),
        ([Turn("r", "a", ())], turns({"a": "x"}), "nobody says a word in r"),
    ],
)
def test_refused(reference, hypothesis, message):
    with pytest.raises(InputError, match=message):
        score_speakers(reference, hypothesis)


def test_reports(tmp_path):
    reference = turns({"a": "one two", "b": "three"}, "r1") + turns({"a": "four"}, "r2")
    hypothesis = turns({"a": "one", "z": "new"}, "r1") + turns({"a": "four"}, "r2")
    result = score_speakers(reference, hypothesis, groups={"r1": "0S", "r2": "40"})
    write_speaker_reports(tmp_path, result, summarise_speakers(result, replicas=200))
    summary = json.loads((tmp_path / "score.json").read_text())
    assert (summary["value"], summary["errors"], summary["words"]) == (75.0, 3, 4)
    assert summary["cpwer"] == {"value": 50.0, "errors": 2, "words": 4}
    assert summary["measures"]["40"]["value"] == 0.0
    assert summary["speaker_counting"]["missed"] == 0
    assert summary["unknown_speakers"] == 1
    assert (tmp_path / "per_utterance.tsv").read_text().splitlines()[1].split("\t") == ["r1", "3", "1", "0", "2", "1"]
    alignment = (tmp_path / "alignment.txt").read_text()
    assert "recording r1, speaker z (not in the reference)\nREF:  ***\nHYP:  new\n" in alignment
