"""The memory that a search of many utterances counts on."""

import pytest
import torch

from espnet_ext.fast_search.whole_sets import count_free_bytes
from espnet_ext.work.gpus import SHARING

GIB = 2**30


@pytest.mark.parametrize(
    ("free", "reserved", "sharing", "expected"),
    [
        (30, 0, None, 30),
        (10, 25, None, 30),  # what PyTorch has kept, less the 5 of the model, is free
        (70, 0, "4", 20),  # three others have not taken their parts yet
        (12, 0, "4", 12),
    ],
)
def test_memory_that_pytorch_has_kept_is_free_and_others_have_their_part(
    free, reserved, sharing, expected, monkeypatch
):
    used = min(5, reserved)
    answers = {
        "mem_get_info": (free * GIB, 80 * GIB),
        "memory_reserved": reserved * GIB,
        "memory_allocated": used * GIB,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, lambda _, answer=answer: answer)
    monkeypatch.delenv(SHARING, raising=False)
    if sharing is not None:
        monkeypatch.setenv(SHARING, sharing)
    assert count_free_bytes(torch.device("cuda")) == expected * GIB


def test_a_cpu_has_free_memory():
    assert count_free_bytes(torch.device("cpu")) > 0
