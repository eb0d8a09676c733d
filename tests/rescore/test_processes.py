"""Gradients of several processes, with the exchange replaced; tests/rescore/models/test_large_models.py starts two."""

import pytest
import torch

from espnet_ext.rescore import processes


@pytest.fixture
def exchanged(monkeypatch) -> list[int]:
    """The lengths of what is exchanged; the other process has the same gradients."""
    lengths = []

    def all_reduce(tensor: torch.Tensor) -> None:
        lengths.append(tensor.numel())
        tensor.mul_(2)

    monkeypatch.setattr(processes, "count", lambda: 2)
    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    return lengths


def made(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[torch.nn.Parameter]:
    parameters = [torch.nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in shapes]
    for number, parameter in enumerate(parameters, start=1):
        parameter.grad = torch.arange(1, parameter.numel() + 1).view(parameter.shape).to(dtype) * number
    return parameters


def test_many_gradients_are_summed_by_few_exchanges(exchanged):
    parameters = [*made((2, 3), (), (4,)), *made((3,), (2,), dtype=torch.bfloat16)]
    parameters[3].grad = None
    parameters.append(torch.nn.Parameter(torch.zeros(5), requires_grad=False))
    wanted = [torch.zeros(3) if own.grad is None else 0.5 * own.grad.clone() for own in parameters[:5]]
    processes.sum_gradients(parameters, 0.25)
    assert exchanged == [6 + 1 + 4, 3 + 2]
    for parameter, gradient in zip(parameters, wanted, strict=False):
        torch.testing.assert_close(parameter.grad, gradient.to(parameter.dtype))
    assert parameters[5].grad is None


def test_what_is_exchanged_at_once_is_bounded(exchanged, monkeypatch):
    monkeypatch.setattr(processes, "BUCKET", 40)
    parameters = made((4,), (6,), (1,), (20,), (2,))
    wanted = [2 * parameter.grad.clone() for parameter in parameters]
    processes.sum_gradients(parameters, 1.0)
    assert exchanged == [10, 1, 20, 2]
    for parameter, gradient in zip(parameters, wanted, strict=True):
        assert torch.equal(parameter.grad, gradient)
