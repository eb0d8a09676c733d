"""blocked_linear against torch's own linear layer."""

import torch
from pairwise import pairwise

from espnet_ext.fast_search import blocked_linear as module
from espnet_ext.fast_search.blocked_linear import blocked_linear


@pairwise(
    "inputs_stride, outputs, count, with_bias",
    [1, 2],
    [1, 7, 8, 9, 24, 30],
    [1, 5],
    [True, False],
)
def test_is_torchs_linear(monkeypatch, inputs_stride, outputs, count, with_bias):
    monkeypatch.setattr(module, "ROWS", 8)
    torch.manual_seed(0)
    x = torch.randn(count, 6).double()
    weight = torch.randn(outputs, 6 * inputs_stride).double()[:, ::inputs_stride]
    weight, bias = (
        weight.requires_grad_(),
        torch.randn(outputs).double() if with_bias else None,
    )
    found = blocked_linear(x, weight, bias)
    expected = torch.nn.functional.linear(x, weight, bias)
    torch.testing.assert_close(found, expected)
    gradients = [
        torch.autograd.grad(out.square().sum(), weight)[0] for out in (found, expected)
    ]
    torch.testing.assert_close(*gradients)
