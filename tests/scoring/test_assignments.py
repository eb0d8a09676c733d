"""cpWER and tcpWER against MeetEval's own commands; more speakers than those accept."""

import random

import pytest
from meeteval.io.seglst import SegLST
from meeteval.wer import cp_word_error_rate
from meeteval.wer.wer import time_constrained_minimum_permutation_word_error_rate as tcp_word_error_rate

from espnet_ext.errors import InputError
from espnet_ext.scoring.assignments import cp_errors, cp_pairs, orc_errors, streams, tcp_errors, tcp_pairs
from espnet_ext.scoring.error_rate import ErrorRate, count_pairs
from espnet_ext.scoring.speaker_attributed import score_speakers
from espnet_ext.text.turns import Turn, in_order, words_by_speaker


def conversation(speakers: list[str], turns: int, rng: random.Random) -> list[Turn]:
    made = []
    for speaker in speakers:
        time = 0.0
        for _ in range(turns):
            start = time + rng.uniform(0, 4)
            time = start + rng.uniform(0.2, 3)
            words = tuple(rng.choice("abcde") for _ in range(rng.randint(1, 5)))
            made.append(Turn("r", speaker, words, round(start, 3), round(time, 3)))
    return made


def segments(turns: list[Turn]) -> SegLST:
    return SegLST(
        [
            {
                "session_id": turn.recording,
                "speaker": turn.speaker,
                "start_time": turn.start,
                "end_time": turn.end,
                "words": " ".join(turn.words),
            }
            for turn in turns
        ]
    )


@pytest.mark.parametrize("seed", range(20))
def test_as_meeteval_counts(seed):
    rng = random.Random(seed)
    real = conversation(["p", "q", "r"][: rng.randint(1, 3)], rng.randint(1, 6), rng)
    heard = conversation(["x", "y", "z", "q"][: rng.randint(1, 4)], rng.randint(1, 6), rng)
    theirs = cp_word_error_rate(segments(real), segments(heard))
    said, recognised = (words_by_speaker(side)["r"] for side in (real, heard))
    ours = cp_errors(said, recognised)
    assert (ours.errors, ours.reference_length) == (theirs.errors, theirs.length)
    assert sum(count_pairs(pairs).errors for pairs in cp_pairs(said, recognised).values()) == theirs.errors
    for collar in (3.0, 5.0):
        theirs = tcp_word_error_rate(segments(real), segments(heard), collar=collar)
        ours = tcp_errors(streams(real), streams(heard), collar)
        assert (ours.errors, ours.reference_length) == (theirs.errors, theirs.length)


def test_more_speakers_than_meeteval_accepts():
    rng = random.Random(0)
    real = conversation([f"s{number}" for number in range(25)], 3, rng)
    heard = [Turn(turn.recording, f"other-{turn.speaker}", turn.words, turn.start, turn.end) for turn in real]
    result = score_speakers(real, heard)
    words = sum(len(turn.words) for turn in real)
    assert result.cp == result.tcp == ErrorRate(words, 0, 0, 0)
    assert result.orc.reference_length == words and result.orc.errors <= words // 4, "an upper bound, by greedy search"
    assert result.orc_greedy == ("r",)


def test_orc_without_words():
    heard = {"x": ("one", "two")}
    assert orc_errors([Turn("r", "a", ())], heard) == (ErrorRate(0, 0, 0, 2), True)
    assert orc_errors(in_order([Turn("r", "a", ("one",), 0.0, 1.0)]), {}) == (ErrorRate(0, 0, 1, 0), True)


def test_time_decides():
    real = streams([Turn("r", "a", ("one",), 0.0, 1.0), Turn("r", "b", ("one",), 20.0, 21.0)])
    heard = streams([Turn("r", "x", ("one",), 20.0, 21.0), Turn("r", "y", ("one", "two"), 0.0, 1.0)])
    assert tcp_pairs(real, heard) == {("a", "y"): [("one", "one"), (None, "two")], ("b", "x"): [("one", "one")]}
    assert tcp_errors(real, {}) == ErrorRate(0, 0, 2, 0) and tcp_errors({}, heard) == ErrorRate(0, 0, 0, 3)


def test_times_are_needed():
    timed = streams([Turn("r", "a", ("one",), 0.0, 1.0)])
    with pytest.raises(InputError, match="a turn of a has no times"):
        tcp_errors(timed, streams([Turn("r", "a", ("one",))]))
    result = score_speakers([Turn("r", "a", ("one",), 0.0, 1.0)], [Turn("r", "a", ("one",))])
    assert result.tcp is None and result.cp == ErrorRate(1, 0, 0, 0)
