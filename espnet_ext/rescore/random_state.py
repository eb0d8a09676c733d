"""The state of torch's random numbers: kept with a training, and replayed where something is computed twice."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

State = tuple[torch.Tensor, torch.Tensor | None]


def random_state(device: torch.device) -> State:
    """What will be drawn next, on the CPU and, if ``device`` is one, on the GPU."""
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def set_random_state(state: State, device: torch.device) -> None:
    """Draw from here on as after :func:`random_state`."""
    cpu, cuda = state
    torch.set_rng_state(cpu)
    if cuda is not None:
        torch.cuda.set_rng_state(cuda, device)


@contextmanager
def replayed(state: State, device: torch.device) -> Iterator[None]:
    """Draw as from ``state`` on inside the block; after it, go on as if nothing had been drawn."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        set_random_state(state, device)
        yield
