"""Who says which word: turns without pauses between them, of drawn vectors, real digits
and synthetic voices.
"""

import numpy as np
import pytest
from bench_speakers import converse, cp_wer, read_utterances, synthetic_speakers, texts

from espnet_ext.multitalker.profiles import profile, resemblyzer
from espnet_ext.transcription import voices
from espnet_ext.transcription.turns import Runs, find_turns, unit
from espnet_ext.transcription.voices import d_vectors_of_runs, tell_voices

MOUTHS = unit(np.abs(np.random.default_rng(1).normal(size=(4, 64))))


def runs_of(
    turns: list[tuple[int, int]], noise: float = 0.05
) -> tuple[Runs, list[int]]:
    """Runs of up to four words of 0.4 s, without a pause; ``turns`` are pairs of
    speaker and number of words.
    """
    rng = np.random.default_rng(0)
    said = [who for who, count in turns for _ in range(count)]
    spoken = MOUTHS[said] + rng.normal(scale=noise, size=(len(said), MOUTHS.shape[1]))
    ends = [range(word + 1, min(word + 4, len(said)) + 1) for word in range(len(said))]
    runs = [
        [spoken[word:end].mean(axis=0) for end in own] for word, own in enumerate(ends)
    ]
    seconds = np.concatenate([0.4 * np.arange(1, len(each) + 1) for each in runs])
    first = np.cumsum([0, *map(len, runs)])
    return Runs(unit(np.concatenate(runs)), seconds, first, np.zeros(len(said))), said


@pytest.mark.parametrize("speakers", [1, 2, 4])
def test_turns_of_drawn_voices(speakers):
    runs, said = runs_of([(who % speakers, 3 + who % 3) for who in range(6 * speakers)])
    assert (
        find_turns(runs)
        == find_turns(runs, number=speakers)
        == [f"speaker{who + 1}" for who in said]
    )


def test_enrolled_speakers_have_their_names_and_others_none():
    runs, said = runs_of([(who, 5) for who in (0, 1, 2, 1, 0, 2, 0, 1)])
    found = find_turns(runs, {"ann": MOUTHS[0], "bob": MOUTHS[2], "cid": MOUTHS[3]})
    assert found == [["ann", "unknown", "bob"][who] for who in said]


def test_few_words_are_one_voice():
    assert (
        find_turns(Runs(np.empty((0, 2)), np.empty(0), np.zeros(1, int), np.empty(0)))
        == []
    )
    for count in range(1, 9):
        assert find_turns(runs_of([(0, count)])[0]) == ["speaker1"] * count
        assert (
            find_turns(runs_of([(0, count)])[0], {"ann": MOUTHS[0]}) == ["ann"] * count
        )


@pytest.fixture(scope="module")
def embedding():
    pytest.importorskip("resemblyzer", reason="d-vectors are not installed")
    return d_vectors_of_runs()


@pytest.mark.parametrize(
    ("speakers", "gap", "number", "most"), [(2, 0.15, 2, 10), (4, 0.0, None, 20)]
)
@pytest.mark.parametrize("kind", ["digits", "synthetic"])
def test_turns_without_pauses(request, embedding, kind, speakers, gap, number, most):
    if kind == "digits":
        every = read_utterances(request.getfixturevalue("digits"), "test-clean")
        chosen = sorted(every)[-speakers:]
    else:
        every = synthetic_speakers("test")
        chosen = sorted(every)[::3][:speakers]
    recording = converse(
        {name: every[name] for name in chosen}, gap, np.random.default_rng(0)
    )
    words = [word for word, _ in recording.words]
    assert (
        cp_wer(recording, texts(tell_voices(words, recording, embedding, None, number)))
        <= most
    )
    embed, rng = resemblyzer(), np.random.default_rng(9)
    profiles = {
        name: profile(np.stack([embed(every[name](rng).samples) for _ in range(2)]))
        for name in chosen
    }
    told = tell_voices(words, recording, embedding, profiles)
    wrong = sum(word not in told.get(name, ()) for word, name in recording.words)
    assert 200 * wrong <= 20 * len(words)  # a wrong word is two errors


def test_blocks_and_loudness_change_nothing(embedding, monkeypatch):
    every = synthetic_speakers("test")
    recording = converse(
        {name: every[name] for name in sorted(every)[:2]},
        0.15,
        np.random.default_rng(0),
        turns=2,
    )
    words = [word for word, _ in recording.words]
    whole = embedding(words, recording)
    monkeypatch.setattr(voices, "_WORDS", 7)
    blocks = embedding(words, recording._replace(samples=recording.samples / 30))
    np.testing.assert_array_equal(blocks.first, whole.first)
    np.testing.assert_allclose(blocks.vectors, whole.vectors, atol=1e-3)
