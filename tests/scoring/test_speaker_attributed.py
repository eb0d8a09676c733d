"""SA-WER, cpWER, tcpWER and counting against their definitions, written out, and
MeetEval's own commands.
"""

import itertools
import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meeteval.io.seglst import SegLST
from meeteval.wer import cp_word_error_rate
from meeteval.wer.wer import (
    time_constrained_minimum_permutation_word_error_rate as tcp_word_error_rate,
)

from espnet_ext.errors import InputError
from espnet_ext.scoring.assignments import (
    align_cp,
    align_tcp,
    count_cp_errors,
    group_turns_by_speaker,
)
from espnet_ext.scoring.error_rate import ErrorRate, count_pairs
from espnet_ext.scoring.speaker_attributed import evaluate_speakers, score_speakers
from espnet_ext.text.words import Segment, join_words_by_speaker
from espnet_ext.text.writing import write_segments


def levenshtein(left, right) -> int:
    row = np.arange(len(right) + 1)
    for word in left:
        moves = np.minimum(row[1:] + 1, row[:-1] + [word != other for other in right])
        new = [row[0] + 1]
        for move in moves:
            new.append(min(move, new[-1] + 1))
        row = np.array(new)
    return int(row[-1])


def turns(said: dict[str, str], recording: str = "r") -> list[Segment]:
    return [
        Segment(recording, speaker, tuple(text.split()), float(place), place + 1.0)
        for place, (speaker, text) in enumerate(said.items())
    ]


SAID = st.dictionaries(
    st.sampled_from("abcd"),
    st.lists(st.sampled_from("xyz"), min_size=1, max_size=5).map(" ".join),
    max_size=4,
)


@given(SAID.filter(bool), SAID)
@settings(max_examples=60)
def test_every_measure_by_its_definition(real, heard):
    result = score_speakers(turns(real), turns(heard) or [Segment("r", "", ())])
    n, m = len(real), len(heard)
    errors = sum(
        levenshtein(real.get(name, "").split(), heard.get(name, "").split())
        for name in {*real, *heard}
    )
    assert result.score.total.errors == errors
    assert result.score.total.reference_length == sum(
        len(text.split()) for text in real.values()
    )
    # cpWER: the least over all assignments of streams, missing ones empty.
    size = max(len(real), len(heard))
    every = [text.split() for text in heard.values()] + [[]] * (size - len(heard))
    speakers = [text.split() for text in real.values()] + [[]] * (size - len(real))
    permuted = [
        sum(map(levenshtein, speakers, order))
        for order in itertools.permutations(every)
    ]
    assert result.cp.errors == min(permuted) <= errors
    assert result.counting == {
        "r": ErrorRate(min(n, m), 0, max(0, n - m), max(0, m - n))
    }


def test_names_count_in_sa_wer_alone():
    result = score_speakers(
        turns({"a": "one two", "b": "three"}), turns({"b": "one two", "z": "three"})
    )
    assert result.score.total == ErrorRate(0, 1, 2, 2) and result.cp == ErrorRate(
        3, 0, 0, 0
    )
    assert result.score.speakers["z"] == ErrorRate(0, 0, 0, 1) and result.unknown == 1
    result = score_speakers(turns({"a": "one two"}), [Segment("r", "a", ())])
    assert result.score.total == result.cp == ErrorRate(0, 0, 2, 0)
    assert result.counting == {"r": ErrorRate(0, 0, 1, 0)}


def test_conditions_are_parts():
    reference = (
        turns({"a": "one two"}, "r1")
        + turns({"a": "three"}, "r2")
        + turns({"a": "four"}, "r3")
    )
    hypothesis = (
        turns({"a": "one"}, "r1")
        + turns({"a": "three"}, "r2")
        + turns({"a": "x"}, "r3")
    )
    groups = {"r1": "0S", "r2": "40", "r3": "40"}
    score = score_speakers(reference, hypothesis, groups=groups).score
    assert {name: part.total for name, part in score.parts.items()} == {
        "0S": ErrorRate(1, 0, 1, 0),
        "40": ErrorRate(1, 1, 0, 0),
    }
    assert score.total == ErrorRate(2, 1, 1, 0)
    assert list(score.utterances) == ["r1", "r2", "r3"]
    with pytest.raises(InputError, match="reference: recording r2 has no group"):
        score_speakers(reference, hypothesis, groups={"r1": "0S"})


@pytest.mark.parametrize(
    ("reference", "hypothesis", "message"),
    [
        ([], [], "no recording to score"),
        (
            turns({"a": "x"}),
            turns({"a": "x"}, "s"),
            "hypothesis: recording r of reference is missing",
        ),
        (
            turns({"a": "x"}),
            turns({"a": "x"}) + turns({"a": "x"}, "s"),
            "recording s is not in reference",
        ),
        ([Segment("r", "a", ())], turns({"a": "x"}), "reference: .*nothing to score"),
    ],
)
def test_refused(reference, hypothesis, message):
    with pytest.raises(InputError, match=message):
        score_speakers(reference, hypothesis)


def test_reports(tmp_path):
    write_segments(
        tmp_path / "ref.json",
        turns({"a": "one two", "b": "three"}, "r1") + turns({"a": "four"}, "r2"),
    )
    write_segments(
        tmp_path / "hyp.json",
        turns({"a": "one", "z": "new"}, "r1") + turns({"a": "four"}, "r2"),
    )
    (tmp_path / "groups").write_text("r1 0S\nr2 40\n")
    evaluate_speakers(
        tmp_path / "ref.json",
        tmp_path / "hyp.json",
        tmp_path,
        groups=tmp_path / "groups",
    )
    summary = json.loads((tmp_path / "score.json").read_text())
    assert (summary["value"], summary["errors"], summary["words"]) == (75.0, 3, 4)
    assert summary["cpwer"] == {"value": 50.0, "errors": 2, "words": 4}
    assert summary["measures"]["40"]["value"] == 0.0
    assert summary["speaker_counting"] == {
        "value": 0.0,
        "speakers": 3,
        "missed": 0,
        "false_alarms": 0,
    }
    assert summary["unknown_speakers"] == 1
    assert (tmp_path / "per_utterance.tsv").read_text().splitlines()[1].split("\t") == [
        "r1",
        "3",
        "1",
        "0",
        "2",
        "1",
    ]
    assert (tmp_path / "per_speaker.tsv").read_text().splitlines()[1].split("\t") == [
        "a",
        "3",
        "2",
        "0",
        "1",
        "0",
    ]
    alignment = (tmp_path / "alignment.txt").read_text()
    assert (
        "recording r1, speaker z (not in the reference)\nREF:  ***\nHYP:  new\n"
        in alignment
    )


def conversation(speakers: list[str], turns: int, rng: random.Random) -> list[Segment]:
    made = []
    for speaker in speakers:
        time = 0.0
        for _ in range(turns):
            start = time + rng.uniform(0, 4)
            time = start + rng.uniform(0.2, 3)
            words = tuple(rng.choice("abcde") for _ in range(rng.randint(1, 5)))
            made.append(Segment("r", speaker, words, round(start, 3), round(time, 3)))
    return made


def segments(turns: list[Segment]) -> SegLST:
    names = ("session_id", "speaker", "start_time", "end_time", "words")
    return SegLST(
        [
            dict(zip(names, (t.recording, t.speaker, *t.span, t.text), strict=True))
            for t in turns
        ]
    )


@pytest.mark.parametrize("seed", range(20))
def test_as_meeteval_counts(seed):
    rng = random.Random(seed)
    real = conversation(["p", "q", "r"][: rng.randint(1, 3)], rng.randint(1, 6), rng)
    heard = conversation(
        ["x", "y", "z", "q"][: rng.randint(1, 4)], rng.randint(1, 6), rng
    )
    theirs = cp_word_error_rate(segments(real), segments(heard))
    said, recognised = (join_words_by_speaker(side)["r"] for side in (real, heard))
    ours = count_cp_errors(said, recognised)
    assert (ours.errors, ours.reference_length) == (theirs.errors, theirs.length)
    assert (
        sum(count_pairs(pairs).errors for pairs in align_cp(said, recognised).values())
        == theirs.errors
    )
    for collar in (3.0, 5.0):
        theirs = tcp_word_error_rate(segments(real), segments(heard), collar=collar)
        pairs = align_tcp(
            group_turns_by_speaker(real), group_turns_by_speaker(heard), collar
        ).values()
        assert sum(count_pairs(each).errors for each in pairs) == theirs.errors


def test_more_speakers_than_meeteval_accepts():
    rng = random.Random(0)
    real = conversation([f"s{number}" for number in range(25)], 3, rng)
    heard = [
        Segment(
            turn.recording, f"other-{turn.speaker}", turn.words, turn.start, turn.end
        )
        for turn in real
    ]
    result = score_speakers(real, heard)
    words = sum(len(turn.words) for turn in real)
    assert result.cp == result.tcp == ErrorRate(words, 0, 0, 0)


def test_time_decides():
    real = group_turns_by_speaker(
        [Segment("r", "a", ("one",), 0.0, 1.0), Segment("r", "b", ("one",), 20.0, 21.0)]
    )
    heard = group_turns_by_speaker(
        [
            Segment("r", "x", ("one",), 20.0, 21.0),
            Segment("r", "y", ("one", "two"), 0.0, 1.0),
        ]
    )
    assert align_tcp(real, heard) == {
        ("a", "y"): [("one", "one"), (None, "two")],
        ("b", "x"): [("one", "one")],
    }


def test_times_are_needed():
    timed = group_turns_by_speaker([Segment("r", "a", ("one",), 0.0, 1.0)])
    with pytest.raises(InputError, match="a turn of a has no times"):
        align_tcp(timed, group_turns_by_speaker([Segment("r", "a", ("one",))]))
    result = score_speakers(
        [Segment("r", "a", ("one",), 0.0, 1.0)], [Segment("r", "a", ("one",))]
    )
    assert result.tcp is None and result.cp == ErrorRate(1, 0, 0, 0)


def test_a_speaker_without_a_name_is_assigned_once():
    real = {"a": ("one",), "b": ("two",)}
    heard = {"": ("one",)}
    assert align_cp(real, heard) == {
        ("a", ""): [("one", "one")],
        ("b", None): [("two", None)],
    }
    assert count_cp_errors(heard, real) == ErrorRate(1, 0, 0, 1)
