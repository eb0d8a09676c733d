"""What the tests of configs at full size share: a list of tokens, a batch of two
utterances, and an update.
"""

import torch


def tokens(count: int) -> list[str]:
    """As many tokens, ESPnet's own symbols among them."""
    return [
        "<blank>",
        "<unk>",
        *(f"piece{number}" for number in range(count - 3)),
        "<sos/eos>",
    ]


def batch(text: list[list[int]], **more: torch.Tensor) -> dict[str, torch.Tensor]:
    """A second of speech and a shorter one; ``text`` is padded by -1."""
    text = torch.tensor(text)
    speech = {
        "speech": torch.randn(2, 16000),
        "speech_lengths": torch.tensor([16000, 12000]),
    }
    return speech | {"text": text, "text_lengths": (text >= 0).sum(1)} | more


def size(module: torch.nn.Module) -> int:
    """The number of its parameters."""
    return sum(parameter.numel() for parameter in module.parameters())


def take_step(
    model: torch.nn.Module, data: dict[str, torch.Tensor], optimizer=None
) -> dict[str, torch.Tensor]:
    """Update a model once, and return its statistics: the loss reaches all that is
    trained, and changes it.
    """
    # without moments, which for Adam would be 1.6 GB more
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01)
    loss, stats, _ = model.train()(**data)
    loss.backward()
    assert torch.isfinite(loss)
    trained = {
        name: parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
    assert [name for name, parameter in trained.items() if parameter.grad is None] == []
    largest = max(
        trained.values(), key=lambda parameter: float(parameter.grad.abs().max())
    )
    before = largest.detach().clone()
    optimizer.step()
    assert not torch.equal(largest, before)
    return stats
