"""Word times from posteriors with a known path, and torchaudio's of the whole."""

import kaldialign
import numpy as np
import pytest
import torch
from torchaudio.functional import forced_align

from espnet_ext.errors import InputError
from espnet_ext.longform.alignment.forced import Aligner, match_tokens

VOCABULARY = 12
rng_words = [f"w{number}" for number in range(30)]


def spell(word: str) -> list[int]:
    """One to three tokens, drawn from the word's name."""
    rng = np.random.default_rng(int(word[1:]))
    return [int(token) for token in rng.integers(1, VOCABULARY, rng.integers(1, 4))]


def spoken(texts, seed=0, noise=0.3):
    """Posteriors of spoken words, (frames, vocabulary), and each word's frames."""
    rng = np.random.default_rng(seed)
    path = []
    times = []
    for text in texts:
        path += [0] * int(rng.integers(1, 6))
        start = len(path)
        for token in spell(text):
            if path and path[-1] == token:
                path.append(0)
            path += [token] * int(rng.integers(1, 4))
        first = next(frame for frame in range(start, len(path)) if path[frame])
        times.append((first, len(path)))
    path += [0] * 5
    posteriors = noise * rng.dirichlet(np.ones(VOCABULARY), len(path))
    posteriors[np.arange(len(path)), path] += 1 - noise
    return posteriors.astype(np.float32), times


def run(posteriors, texts, piece, longest=10**6, part=37):
    aligner = Aligner(texts, [spell(text) for text in texts], piece, longest)
    words = [
        word
        for at in range(0, len(posteriors), part)
        for word in aligner.step(posteriors[at : at + part])
    ]
    return words + aligner.finish()


def test_a_long_recording_in_pieces_has_the_true_times():
    rng = np.random.default_rng(1)
    texts = [str(rng.choice(rng_words)) for _ in range(2000)]
    posteriors, times = spoken(texts)
    words = run(posteriors, texts, piece=500)
    assert [word.text for word in words] == texts
    assert [(word.start, word.end) for word in words] == times
    assert min(word.confidence for word in words) > 0.7


def test_one_piece_is_what_torchaudio_aligns():
    rng = np.random.default_rng(2)
    texts = [str(rng.choice(rng_words)) for _ in range(40)]
    posteriors, _ = spoken(texts, noise=0.7)
    ids = [token for text in texts for token in spell(text)]
    path, _ = forced_align(
        torch.from_numpy(np.log(posteriors)).unsqueeze(0),
        torch.tensor([ids], dtype=torch.int32),
    )
    words = run(posteriors, texts, piece=10**6)
    covered = np.zeros(len(posteriors), dtype=bool)
    for word in words:
        covered[int(word.start) : int(word.end)] = True
    assert not (path[0].numpy() > 0)[~covered].any()  # no token lies outside of a word


def test_words_that_the_transcript_lacks_or_adds_disturb_only_their_neighbours():
    rng = np.random.default_rng(3)
    texts = [str(rng.choice(rng_words)) for _ in range(1000)]
    posteriors, times = spoken(texts)
    kept = [
        place for place in range(1000) if place % 50 != 25
    ]  # two words in a hundred are not written
    words = run(posteriors, [texts[place] for place in kept], piece=400)
    wrong = sum(
        (word.start, word.end) != times[place]
        for word, place in zip(words, kept, strict=True)
    )
    assert wrong < 0.05 * len(kept)


def test_a_word_without_tokens_lies_behind_the_word_before():
    aligner = Aligner(["a", "-", "b"], [[1], [], [2]], 100, 100)
    assert aligner.step(np.eye(3, dtype=np.float32)[[0, 1, 0, 0, 2]]) == []
    assert [(word.start, word.end) for word in aligner.finish()] == [
        (1, 2),
        (2, 2),
        (4, 5),
    ]


def test_the_space_before_a_word_is_no_part_of_it():
    aligner = Aligner(["a", "b"], [[1], [3, 2]], 100, 100, space=3)
    aligner.step(np.eye(4, dtype=np.float32)[[1, 3, 0, 0, 2]])
    assert [(word.start, word.end) for word in aligner.finish()] == [(0, 1), (4, 5)]


def test_another_recordings_transcript_is_refused():
    rng = np.random.default_rng(4)
    posteriors, _ = spoken([str(rng.choice(rng_words)) for _ in range(400)])
    others = [str(rng.choice(rng_words)) for _ in range(400)]
    with pytest.raises(InputError, match="does not agree with it"):
        run(
            posteriors[:, [0, *range(VOCABULARY - 1, 0, -1)]],
            others,
            piece=200,
            longest=800,
        )


def test_a_short_recordings_wrong_transcript_is_refused():
    rng = np.random.default_rng(5)
    texts, others = ([str(rng.choice(rng_words)) for _ in range(60)] for _ in range(2))
    posteriors, _ = spoken(texts)
    assert len(run(posteriors, texts, piece=10**6)) == len(texts)
    for wrong in (others, texts[:28], texts[32:], texts[:1]):
        with pytest.raises(
            InputError, match="from word 1 of the transcript on does not agree with it"
        ):
            run(posteriors, wrong, piece=10**6)


def test_the_wrong_end_of_a_long_recordings_transcript_is_refused():
    rng = np.random.default_rng(6)
    texts, others = ([str(rng.choice(rng_words)) for _ in range(400)] for _ in range(2))
    posteriors, _ = spoken(texts)
    with pytest.raises(InputError, match="does not agree with it"):
        run(posteriors, texts[:360] + others[:40], piece=300)
    tail = texts[:397] + others[:3]  # too few words to tell
    assert [word.text for word in run(posteriors, tail, piece=300)] == tail


def test_too_few_frames_are_refused():
    with pytest.raises(InputError, match="2 frames are too few for the 3 tokens"):
        aligner = Aligner(["a"], [[1, 1, 2]], 100, 100)
        aligner.step(np.full((2, 3), 1 / 3, np.float32))
        aligner.finish()


def test_matches_are_those_of_the_nearest_beginning():
    rng = np.random.default_rng(5)
    for _ in range(20):
        expected = list(rng.integers(0, 4, 30))
        heard = [token for token in expected[:15] if rng.random() > 0.1]
        pairs = match_tokens(expected, heard)
        assert all(expected[place] == heard[other] for place, other in pairs)
        costs = [
            kaldialign.edit_distance(expected[:end], heard)["total"]
            for end in range(31)
        ]
        cost = min(costs)
        end = costs.index(min(costs))
        assert (
            end + len(heard) - 2 * len(pairs) <= 2 * cost
        )  # as many pairs as so few edits leave
