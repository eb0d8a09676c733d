"""Kept keys and values against ESPnet's attention, which computes them anew."""

import pytest
import torch
from espnet2.legacy.nets.pytorch_backend.transformer.attention import (
    MultiHeadedAttention,
)

from espnet_ext.fast_search.cached_attention import EncoderMemory, count_groups


@pytest.fixture(params=[False, True], ids=["plain", "qk_norm"])
def attention(request):
    torch.manual_seed(2)
    return MultiHeadedAttention(2, 8, 0.0, qk_norm=request.param).double().eval()


def utterances(*rows: int) -> torch.Tensor:
    """Encodings (n, 5, 8), equal for equal numbers."""
    return torch.stack(
        [
            torch.randn(
                5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(row)
            )
            for row in rows
        ]
    )


@pytest.mark.parametrize(
    ("rows", "groups"),
    [
        ([1], 1),
        ([1, 1, 1], 1),
        ([1, 1, 2, 2], 2),
        ([1, 2, 3], 3),
        ([1, 1, 2, 2, 1, 1], 3),
        ([1, 1, 2], 3),  # not equally many
        ([1, 2, 2, 1], 4),
    ],
)
def test_utterances_are_told_apart_by_their_encodings(attention, rows, groups):
    xs = utterances(*rows)
    assert count_groups(xs) == groups
    memory = EncoderMemory(xs, [attention, attention])
    x = torch.randn(len(rows), 2, 8, dtype=torch.float64)
    visible = torch.rand(len(rows), 1, 5) > 0.4
    visible[:, :, 0] = True
    for mask in (None, visible):
        torch.testing.assert_close(
            memory.attend(1, attention, x, mask), attention(x, xs, xs, mask)
        )


def test_memory_knows_its_encodings_again(attention):
    x = utterances(1)[0]
    memory = EncoderMemory(x.expand(3, -1, -1), [attention])
    for same in (x.expand(3, -1, -1), x.expand(7, -1, -1), x.unsqueeze(0)):
        assert memory.has_encodings(same)
    for other in (
        x.clone().expand(3, -1, -1),
        x[:4].expand(3, -1, -1),
        x[1:].expand(3, -1, -1),
        x.repeat(3, 1, 1),
    ):
        assert not memory.has_encodings(other)
    x[0] = 0  # the next utterance in the same place
    assert not memory.has_encodings(x.expand(3, -1, -1))


def test_memory_of_inference_tensors(attention):
    with torch.inference_mode():
        x = utterances(1)
        memory = EncoderMemory(x, [attention])
        assert memory.has_encodings(x) and not memory.has_encodings(x.clone())
