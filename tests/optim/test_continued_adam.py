"""Two trainings, the second with the moments of the first, take the steps of one that never stopped."""

import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.optim.continued_adam import ContinuedAdam


def train(model, optimizer, batches):
    for x in batches:
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()


def test_the_steps_are_those_of_one_training(tmp_path):
    torch.manual_seed(0)
    batches = torch.randn(6, 5, 3)
    whole, parts = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    parts.load_state_dict(whole.state_dict())
    train(whole, torch.optim.Adam(whole.parameters(), lr=0.1), batches)

    first = ContinuedAdam(parts.parameters(), lr=0.1, moments=str(tmp_path / "none.pth"))
    train(parts, first, batches[:4])
    torch.save(first.state_dict()["state"], tmp_path / "moments.pth")
    second = ContinuedAdam(parts.parameters(), lr=0.1, moments=str(tmp_path / "moments.pth"))
    assert second.param_groups[0]["lr"] == 0.1
    train(parts, second, batches[4:])
    torch.testing.assert_close(parts.weight, whole.weight, rtol=0, atol=0)


def test_moments_of_other_parameters_are_refused(tmp_path):
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, torch.randn(1, 5, 3))
    torch.save(optimizer.state_dict()["state"], tmp_path / "moments.pth")
    with pytest.raises(InputError, match="moments of other parameters"):
        ContinuedAdam(torch.nn.Linear(4, 2).parameters(), moments=str(tmp_path / "moments.pth"))
