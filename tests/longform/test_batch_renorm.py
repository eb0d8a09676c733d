"""Batch renormalisation, against torch's and Ioffe's algorithm 1 in numpy."""

import numpy as np
import pytest
import torch

from espnet_ext.longform.batch_renorm import BatchRenorm, Ramp

EPS = 1e-3


def batches(count: int, seed: int = 0) -> list[torch.Tensor]:
    """Batches of (3, 7, 4) whose channels differ, and drift."""
    random = torch.Generator().manual_seed(seed)
    scale = torch.tensor([0.5, 1.0, 3.0, 0.1])
    shift = torch.tensor([0.0, -2.0, 5.0, 0.3])
    return [
        torch.randn(3, 7, 4, generator=random).double() * scale * (1 + i) + shift * i
        for i in range(count)
    ]


def randomised(**options) -> BatchRenorm:
    torch.manual_seed(3)
    norm = BatchRenorm(4, eps=EPS, **options).double()
    with torch.no_grad():
        norm.weight.uniform_(0.5, 2.0)
        norm.bias.uniform_(-1.0, 1.0)
    return norm


@pytest.mark.parametrize("ramp", [None, Ramp(), Ramp(0, 1, 1, rmax=1.0, dmax=0.0)])
def test_is_batch_norm_while_r_is_1_and_d_is_0(ramp):
    ours = randomised(ramp=ramp)
    peer = torch.nn.BatchNorm1d(4, eps=EPS).double()
    peer.load_state_dict({"weight": ours.weight, "bias": ours.bias}, strict=False)
    for x in batches(3):
        mine = x.clone().requires_grad_()
        theirs = x.clone().requires_grad_()
        out = ours(mine)
        expected = peer(theirs.transpose(1, 2)).transpose(1, 2)
        torch.testing.assert_close(out, expected)
        torch.autograd.backward([out.pow(3).sum(), expected.pow(3).sum()])
        torch.testing.assert_close(mine.grad, theirs.grad)
    torch.testing.assert_close(ours.weight.grad, peer.weight.grad)
    torch.testing.assert_close(ours.bias.grad, peer.bias.grad)


def test_follows_ioffes_algorithm():
    ramp = Ramp(start=2, shift_end=6, factor_end=10, rmax=3.0, dmax=5.0)
    momentum = 0.25
    norm = randomised(ramp=ramp, momentum=momentum)
    weight = norm.weight.detach().numpy()
    bias = norm.bias.detach().numpy()
    running_mean = np.zeros(4)
    running_deviation = np.ones(4)
    moved = []
    for update, x in enumerate(batches(14)):
        frames = x.numpy().reshape(-1, 4)
        mean = frames.mean(0)
        deviation = np.sqrt(frames.var(0) + EPS)
        rmax = 1 + 2 * min(max((update - 2) / 8, 0), 1)
        dmax = 5 * min(max((update - 2) / 4, 0), 1)
        r = np.clip(deviation / running_deviation, 1 / rmax, rmax)
        d = np.clip((mean - running_mean) / running_deviation, -dmax, dmax)
        moved.append((r != 1).any() and (d != 0).any())
        expected = ((frames - mean) / deviation * r + d) * weight + bias
        found = norm(x).detach().numpy().reshape(-1, 4)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        # the running values are a plain mean until it has as many terms as 1 / momentum
        share = max(1 / (update + 1), momentum)
        running_mean += share * (mean - running_mean)
        running_deviation += share * (deviation - running_deviation)
        np.testing.assert_allclose(norm.running_mean, running_mean)
        np.testing.assert_allclose(norm.running_deviation, running_deviation)
    assert moved == [False] * 3 + [True] * 11
    x = batches(1, seed=5)[0]
    expected = (x.numpy() - running_mean) / running_deviation * weight + bias
    found = norm.eval()(x).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert norm.updates == 14


def test_r_and_d_have_no_gradient():
    """The derivative of the normalised values alone, times r.

    Ioffe, section 3: "treated as constants".
    """
    norm = BatchRenorm(1, ramp=Ramp(0, 1, 1), eps=EPS).double()
    first = torch.tensor([[[0.0], [1.0], [5.0]]]).double()
    x = torch.tensor([[[2.0], [3.0], [9.0]]]).double()
    norm(first), norm(first)
    x.requires_grad_()
    norm(x).square().sum().backward()
    deviation = float(first.var(correction=0) + EPS) ** 0.5
    frames = x.detach().clone().requires_grad_()
    mean = frames.mean()
    own = (frames.var(correction=0) + EPS).sqrt()
    r = own.item() / deviation
    d = (mean.item() - 2.0) / deviation
    assert 1 / 3 < r < 3 and r != 1
    ((frames - mean) / own * r + d).square().sum().backward()
    torch.testing.assert_close(x.grad, frames.grad)


@pytest.mark.parametrize(("ramp", "training"), [(None, False), (Ramp(0, 1, 1), True)])
def test_padding_takes_no_part(ramp, training):
    valid = torch.arange(7) < torch.tensor([7, 2, 4]).unsqueeze(1)
    clean = randomised(ramp=ramp)
    spoilt = randomised(ramp=ramp)
    for x in batches(4):
        alone = x[valid].unsqueeze(0)
        clean.train(training), spoilt.train(training)
        padded = x.masked_fill(~valid.unsqueeze(-1), 1e6)
        out = spoilt(padded, valid)
        torch.testing.assert_close(out[valid].unsqueeze(0), clean(alone))
        assert not out[~valid].any()
    torch.testing.assert_close(spoilt.running_mean, clean.running_mean)


def test_limits_are_ioffes():
    limits = [
        Ramp().compute_limits(torch.tensor(updates))
        for updates in (0, 5000, 15000, 22500, 25000, 40000, 10**6)
    ]
    assert [float(d) for _, d in limits] == [0.0, 0.0, 2.5, 4.375, 5.0, 5.0, 5.0]
    assert [float(r) for r, _ in limits] == pytest.approx(
        [1.0, 1.0, 1 + 4 / 7, 2.0, 1 + 8 / 7, 3.0, 3.0]
    )
