import numpy as np
import pytest
import torch
from espnet2.layers.global_mvn import GlobalMVN

from espnet_ext.errors import InputError
from espnet_ext.sem.dropout_global_mvn import DropoutGlobalMVN


@pytest.fixture
def batch():
    x = torch.rand(4, 500, 40, generator=torch.Generator().manual_seed(0)) + 1.0
    return x, torch.tensor([500, 400, 300, 1])


def test_each_bin_is_dropped_or_scaled(stats_file, batch):
    x, lengths = batch
    plain, _ = GlobalMVN(stats_file)(x.clone(), lengths)
    torch.manual_seed(0)
    out, out_lengths = DropoutGlobalMVN(stats_file, dropout_rate=0.2).train()(
        x.clone(), lengths
    )
    assert torch.equal(out_lengths, lengths)
    valid = plain != 0
    dropped = out[valid] == 0
    # 48,000 bins: 5 standard deviations
    assert dropped.float().mean().item() == pytest.approx(
        0.2, abs=5 * np.sqrt(0.16 / valid.sum().item())
    )
    torch.testing.assert_close(out[valid][~dropped], plain[valid][~dropped] / 0.8)
    assert not out[1, 400:].any()
    # single bins, not whole channels or frames
    zero = out[0] == 0
    shares = zero.float().mean(0)
    assert shares.min() > 0.1 and shares.max() < 0.3 and not zero.all(1).any()


def test_drawn_anew_and_seeded(stats_file, batch):
    x, lengths = batch
    module = DropoutGlobalMVN(stats_file, dropout_rate=0.3).train()
    torch.manual_seed(4)
    first, second = (module(x.clone(), lengths)[0] for _ in range(2))
    torch.manual_seed(4)
    assert torch.equal(first, module(x.clone(), lengths)[0]) and not torch.equal(
        first, second
    )


@pytest.mark.parametrize("training", [True, False])
def test_off_in_evaluation_and_at_rate_zero(stats_file, batch, training):
    x, lengths = batch
    module = DropoutGlobalMVN(stats_file, dropout_rate=0.0 if training else 0.3).train(
        training
    )
    assert torch.equal(
        module(x.clone(), lengths)[0], GlobalMVN(stats_file)(x.clone(), lengths)[0]
    )
    assert list(module.state_dict()) == list(GlobalMVN(stats_file).state_dict())


@pytest.mark.parametrize("rate", [-0.1, 1.0, 2.0, float("nan")])
def test_bad_rate_is_refused(stats_file, rate):
    with pytest.raises(
        InputError,
        match=rf"dropout_global_mvn: dropout_rate is {rate}, it must be in \[0, 1\)",
    ):
        DropoutGlobalMVN(stats_file, dropout_rate=rate)
