"""Bootstrap intervals and tests against draws written out, kaldialign, and what the normal distribution says."""

import kaldialign
import numpy as np
import pytest
from scipy import stats

from espnet_ext.scoring import bootstrap
from espnet_ext.scoring.bootstrap import bootstrap_interval


def made_up_set(seed: int, number: int = 400, rate: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Errors and lengths of a test set whose utterances are of different difficulty."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, 40, number)
    return generator.binomial(lengths, rate * generator.uniform(0, 2, number)), lengths


def drawn_rates(columns: list[np.ndarray], replicas: int, seed: int) -> list[np.ndarray]:
    """Sums over draws of whole utterances by index, one replica after the other."""
    generator = np.random.default_rng(seed)
    number = len(columns[0])
    sums = []
    for _ in range(replicas):
        chosen = generator.integers(0, number, number)
        sums.append([column[chosen].sum() for column in columns])
    return list(np.array(sums).T)


def test_interval_equals_drawing_utterances():
    errors, lengths = made_up_set(0)
    drawn_errors, drawn_lengths = drawn_rates([errors, lengths], 10_000, seed=1)
    expected = np.quantile(drawn_errors / drawn_lengths, [0.025, 0.975])
    interval = bootstrap_interval(errors, lengths, seed=2)
    width = expected[1] - expected[0]
    # A 2.5th percentile of 10,000 draws has a standard error of 1.1% of the width of the interval.
    assert np.abs(np.array(interval) - expected).max() < 0.06 * width


def test_interval_agrees_with_kaldialign():
    generator = np.random.default_rng(3)
    references = [
        [str(word) for word in generator.integers(0, 50, length)] for length in generator.integers(5, 30, 200)
    ]
    hypotheses = [[word if generator.random() > 0.1 else "x" for word in text] for text in references]
    errors = [kaldialign.edit_distance(*pair)["total"] for pair in zip(references, hypotheses, strict=True)]
    low, high = bootstrap_interval(errors, [len(text) for text in references])
    peer = kaldialign.bootstrap_wer_ci(references, hypotheses, seed=1)  # mean and 1.96 standard deviations
    assert low == pytest.approx(peer["ci95min"], abs=0.08 * 2 * peer["ci95"])
    assert high == pytest.approx(peer["ci95max"], abs=0.08 * 2 * peer["ci95"])


def test_interval_covers_the_true_rate_nineteen_times_in_twenty():
    covered = 0
    for seed in range(200):
        low, high = bootstrap_interval(*made_up_set(seed, number=100), replicas=300)
        covered += low <= 0.1 <= high
    assert stats.binomtest(covered, 200, 0.95).pvalue > 1e-4


def test_interval_is_seeded_and_does_not_depend_on_the_memory_it_takes(monkeypatch):
    errors, lengths = made_up_set(1)
    first = bootstrap_interval(errors, lengths, replicas=1000, seed=5)
    assert first == bootstrap_interval(errors, lengths, replicas=1000, seed=5)
    assert first != bootstrap_interval(errors, lengths, replicas=1000, seed=6)
    monkeypatch.setattr(bootstrap, "_CHUNK_CELLS", 7)
    assert first == bootstrap_interval(errors, lengths, replicas=1000, seed=5)


def test_interval_holds_the_rate_and_widens_with_the_level_and_fewer_utterances():
    errors, lengths = made_up_set(2)
    low, high = bootstrap_interval(errors, lengths)
    assert low < errors.sum() / lengths.sum() < high
    wide = bootstrap_interval(errors, lengths, level=0.99)
    assert wide[0] < low and high < wide[1]
    few = bootstrap_interval(errors[:50], lengths[:50])
    assert few[1] - few[0] > 2 * (high - low)


def test_interval_without_spread():
    assert bootstrap_interval([0, 0, 0], [3, 4, 5]) == (0, 0)
    assert bootstrap_interval([2], [8]) == (0.25, 0.25)
    assert bootstrap_interval([30, 60], [10, 20]) == (3, 3)  # insertions only


def test_utterances_without_any_of_the_tokens_are_drawn_too():
    """Of a language that only some utterances hold: errors (insertions) may stand where there is no reference."""
    errors, lengths = made_up_set(12)
    lengths[::3] = 0
    drawn_errors, drawn_lengths = drawn_rates([errors, lengths], 10_000, seed=13)
    expected = np.quantile(drawn_errors / drawn_lengths, [0.025, 0.975])
    interval = bootstrap_interval(errors, lengths)
    assert np.abs(np.array(interval) - expected).max() < 0.06 * (expected[1] - expected[0])


def test_draws_without_a_reference_are_left_out():
    # Of three utterances only one has a reference; it is drawn k times with probability b(k; 3, 1/3).
    low, high = bootstrap_interval([1, 1, 0], [4, 0, 0])
    assert (low, high) == (0.25, 2 / 4 + 1 / 4)


def test_blocks_widen_the_interval_where_utterances_of_a_speaker_are_alike():
    generator = np.random.default_rng(11)
    lengths = np.full(1000, 20)
    errors = generator.binomial(20, np.repeat(generator.uniform(0, 0.3, 40), 25))
    by_utterance = bootstrap_interval(errors, lengths)
    by_speaker = bootstrap_interval(errors.reshape(40, 25).sum(1), lengths.reshape(40, 25).sum(1))
    assert by_speaker[1] - by_speaker[0] > 2 * (by_utterance[1] - by_utterance[0])


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], []), {}, "no utterances"),
        (([1, 2], [3]), {}, "one number per utterance"),
        (([[1]], [[2]]), {}, "one number per utterance"),
        (([1, 2], [3, -1]), {}, "at least 0"),
        (([1, 2], [0, 0]), {}, "one above 0"),
        (([0] * 999 + [1], [0] * 999 + [1]), {"replicas": 1, "seed": 2}, "no draw has a reference"),
        (([1], [2]), {"replicas": 0}, "at least 1"),
        (([1], [2]), {"level": 1.0}, "between 0 and 1"),
    ],
)
def test_bad_input_is_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(*arguments, **options)
