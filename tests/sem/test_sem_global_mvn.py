"""SEMGlobalMVN against P2, eq. 2 to 11, in numpy on energies in double precision."""

import numpy as np
import pytest
import torch
from espnet2.layers.global_mvn import GlobalMVN

from espnet_ext.errors import InputError
from espnet_ext.sem import energy_mask
from espnet_ext.sem.sem_global_mvn import SEMGlobalMVN

LENGTHS = [90, 61, 17, 1]
ETA = [-35.0, -12.0, -2.0, -5.0]


def features(lengths=tuple(LENGTHS), seed=0, channels=40) -> torch.Tensor:
    """Make power-mel features of energies over some 100 dB, (B, T, C).

    They are zero on padded frames.
    """
    random = np.random.default_rng(seed)
    shape = (len(lengths), max(lengths), channels)
    energies = 10.0 ** random.normal(-4.0, 2.0, shape)
    x = energies ** (1 / 15)
    for row, length in zip(x, lengths, strict=True):
        row[length:] = 0.0
    return torch.from_numpy(x).float()


def use_thresholds(monkeypatch, eta_db: list[float]) -> None:
    monkeypatch.setattr(
        "espnet_ext.sem.sem_global_mvn.draw_threshold_db",
        lambda *_: torch.tensor(eta_db, dtype=torch.float32),
    )


def global_mvn(x: np.ndarray, stats_file) -> np.ndarray:
    stats = np.load(stats_file)
    mean = stats["sum"] / stats["count"]
    return (x - mean) / np.sqrt(stats["sum_square"] / stats["count"] - mean**2)


def sem_of_the_paper(
    x: np.ndarray, eta_db: float, stats_file, scale: str = "power_mel"
) -> np.ndarray:
    """One utterance without padding, (T, C), through Fig. 2."""
    e = x.astype(np.float64) ** 15
    e_peak = np.percentile(e, 95, method="inverted_cdf")
    mask = (e >= e_peak * 10.0 ** (eta_db / 10.0)).astype(float)
    normalized = global_mvn(x.astype(np.float64), stats_file)
    if scale == "power_mel":
        r = x.sum(dtype=np.float64) / (x * mask).sum(dtype=np.float64)
    elif scale == "normalized":
        r = normalized.sum() / (normalized * mask).sum()
        r = min(r, 10.0) if r >= 1.0 else 1.0
    else:
        r = 1.0
    return r * normalized * mask


@pytest.mark.parametrize("scale", ["power_mel", "normalized", "none"])
def test_equals_the_paper_for_each_utterance(stats_file, monkeypatch, scale):
    use_thresholds(monkeypatch, ETA)
    x = features()
    module = SEMGlobalMVN(stats_file, scale=scale).train()
    out, lengths = module(x.clone(), torch.tensor(LENGTHS))
    assert lengths.tolist() == LENGTHS
    for row, utterance, length, eta in zip(out, x, LENGTHS, ETA, strict=True):
        own = utterance[:length].numpy()
        expected = sem_of_the_paper(own, eta, stats_file, scale)
        np.testing.assert_allclose(row[:length].numpy(), expected, rtol=2e-4, atol=2e-4)
        assert 0 < (expected == 0).mean() < 1
        assert not row[length:].any()


def test_all_bins_kept_is_plain_global_mvn(stats_file):
    x = features()
    lengths = torch.tensor(LENGTHS)
    expected, _ = GlobalMVN(stats_file)(x.clone(), lengths)
    options = {"eta_min": -900.0, "eta_max": -900.0}
    for scale in energy_mask.SCALES:
        module = SEMGlobalMVN(stats_file, scale=scale, **options).train()
        out, _ = module(x.clone(), lengths)
        assert torch.equal(out, expected)


def test_off_in_evaluation_and_equal_to_espnets_global_mvn(stats_file):
    x = features()
    lengths = torch.tensor(LENGTHS)
    plain = GlobalMVN(stats_file)
    expected, _ = plain(x.clone(), lengths)
    module = SEMGlobalMVN(stats_file, eta_min=-1.0).eval()
    state = torch.get_rng_state()
    out, out_lengths = module(x.clone(), lengths)
    assert torch.equal(out, expected)
    assert torch.equal(out_lengths, lengths)
    # no number was drawn
    assert torch.equal(torch.get_rng_state(), state)
    assert list(module.state_dict()) == list(plain.state_dict())
    out, _ = module(x.clone())
    expected, _ = plain(x.clone())
    assert torch.equal(out, expected)


def test_threshold_is_drawn_anew_for_each_utterance_and_step(stats_file):
    x = features([50, 50])
    x[1] = x[0]
    module = SEMGlobalMVN(stats_file, eta_min=-60.0).train()
    lengths = torch.tensor([50, 50])
    torch.manual_seed(1)
    first, _ = module(x.clone(), lengths)
    second, _ = module(x.clone(), lengths)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    for expected in (first, second):
        again, _ = module(x.clone(), lengths)
        assert torch.equal(again, expected)
    torch.manual_seed(2)
    other, _ = module(x.clone(), lengths)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("scale", "fill"),
    [("power_mel", 0.0), ("power_mel", 1e30), ("normalized", -3.0), ("none", 50.0)],
)
def test_padding_takes_part_in_nothing(stats_file, monkeypatch, scale, fill):
    x = features()
    module = SEMGlobalMVN(stats_file, scale=scale).train()
    for row, length in zip(x, LENGTHS, strict=True):
        row[length:] = fill
    x = torch.nn.functional.pad(x, (0, 0, 0, 7), value=fill)
    use_thresholds(monkeypatch, ETA)
    together, _ = module(x.clone(), torch.tensor(LENGTHS))
    for row, utterance, length, eta in zip(together, x, LENGTHS, ETA, strict=True):
        use_thresholds(monkeypatch, [eta])
        alone, _ = module(utterance[None, :length].clone(), torch.tensor([length]))
        torch.testing.assert_close(row[:length], alone[0], rtol=1e-6, atol=1e-6)
        assert not row[length:].any()


@pytest.mark.parametrize(
    ("scale", "eta"),
    [("power_mel", 30.0), ("power_mel", -80.0), ("normalized", 0.0), ("none", 30.0)],
)
def test_silent_and_short_utterances_stay_finite(stats_file, scale, eta):
    x = torch.cat([features([20, 1]), torch.zeros(3, 20, 40)])
    x[3, 5, 7] = 0.5  # a single sound, too rare to be the peak
    x[4, :, :1] = 1e-3
    lengths = torch.tensor([20, 1, 20, 20, 1])
    variable = x.clone().requires_grad_()
    module = SEMGlobalMVN(stats_file, eta_min=eta, eta_max=eta, scale=scale).train()
    out, _ = module(variable, lengths)
    out.square().sum().backward()
    assert torch.isfinite(out).all() and torch.isfinite(variable.grad).all()
    # the threshold of a silent utterance is zero energy, which masks nothing
    plain, _ = GlobalMVN(stats_file)(x[2:3].clone())
    torch.testing.assert_close(out[2], plain[0])


def test_guard_of_the_literal_equation_10(stats_file, monkeypatch):
    """Sums near zero or of the wrong sign neither blow features up nor flip them.

    They are sums of mean-subtracted features.
    """
    plain_module = SEMGlobalMVN(stats_file, scale="none").train()
    literal = SEMGlobalMVN(stats_file, scale="normalized").train()
    limited = SEMGlobalMVN(stats_file, scale="normalized", max_scale=1.5).train()
    mean = torch.from_numpy(np.linspace(0.3, 0.7, 40)).float()
    use_thresholds(monkeypatch, [-1.0])
    loud = torch.cat([mean.repeat(9, 1) - 0.2, mean.repeat(3, 1) + 0.6])[None]
    plain, _ = plain_module(loud.clone())
    # the total is negative or smaller than what is kept: r would be below 1
    out, _ = literal(loud.clone())
    assert torch.equal(out, plain)
    # almost all of the sum is masked away: r would be about 300
    large = (mean + 0.25).repeat(100, 1)
    large[:, -1] = 2.0 * mean[-1]
    large[:3, 20] = mean[20] + 1.0
    use_thresholds(monkeypatch, [0.0])
    plain, _ = plain_module(large[None].clone())
    out, _ = limited(large[None].clone())
    kept = plain != 0
    expected = torch.full_like(plain[kept], 1.5)
    torch.testing.assert_close(out[kept] / plain[kept], expected)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float16, 4e-3), (torch.bfloat16, 4e-2)]
)
def test_half_precision(stats_file, monkeypatch, dtype, tolerance):
    """3,000 frames of 40 channels: their sum is beyond float16."""
    use_thresholds(monkeypatch, [-20.0])
    x = features([3000]).to(dtype)
    out, _ = SEMGlobalMVN(stats_file).train()(x.clone())
    assert out.dtype == dtype
    expected = sem_of_the_paper(x[0].double().numpy(), -20.0, stats_file)
    same = (out[0] != 0).numpy() == (expected != 0)
    assert same.mean() > 0.999
    difference = np.abs(out[0].double().numpy() - expected)[same]
    assert difference.max() < tolerance * np.abs(expected).max()


@pytest.mark.parametrize(
    "options",
    [
        {"eta_min": 0.0, "eta_max": -1.0},
        {"eta_min": float("-inf")},
        {"eta_max": float("nan")},
        {"scale": "mel"},
        {"max_scale": 0.5},
        {"max_scale": float("nan")},
    ],
)
def test_bad_settings_and_log_mel_features_are_refused(stats_file, options):
    with pytest.raises(InputError, match=f"sem_global_mvn: .*{next(iter(options))}"):
        SEMGlobalMVN(stats_file, **options)
    log_mel = torch.rand(2, 50, 40).log()
    with pytest.raises(InputError, match="power_mel"):
        SEMGlobalMVN(stats_file).train()(log_mel, torch.tensor([50, 50]))
