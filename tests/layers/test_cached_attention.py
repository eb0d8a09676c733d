"""Kept keys and values against ESPnet's attention, which computes them anew."""

import pytest
import torch
from espnet2.legacy.nets.pytorch_backend.transformer.attention import MultiHeadedAttention

from espnet_ext.layers.cached_attention import EncoderMemory, ScoredPrefixes, count_groups
from espnet_ext.layers.prefix_tree import PrefixTree


@pytest.fixture(params=[False, True], ids=["plain", "qk_norm"])
def attention(request):
    torch.manual_seed(2)
    return MultiHeadedAttention(2, 8, 0.0, qk_norm=request.param).double().eval()


def utterances(*rows: int) -> torch.Tensor:
    """Encodings (n, 5, 8), equal for equal numbers."""
    return torch.stack(
        [torch.randn(5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(row)) for row in rows]
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
        torch.testing.assert_close(memory.attend(1, attention, x, mask), attention(x, xs, xs, mask))


def test_memory_knows_its_encodings_again(attention):
    x = utterances(1)[0]
    memory = EncoderMemory(x.expand(3, -1, -1), [attention])
    for same in (x.expand(3, -1, -1), x.expand(7, -1, -1), x.unsqueeze(0)):
        assert memory.is_of(same)
    for other in (x.clone().expand(3, -1, -1), x[:4].expand(3, -1, -1), x[1:].expand(3, -1, -1), x.repeat(3, 1, 1)):
        assert not memory.is_of(other)
    x[0] = 0  # the next utterance in the same place
    assert not memory.is_of(x.expand(3, -1, -1))


def test_memory_of_inference_tensors(attention):
    with torch.inference_mode():
        x = utterances(1)
        memory = EncoderMemory(x, [attention])
        assert memory.is_of(x) and not memory.is_of(x.clone())


def test_new_tokens_attend_to_all_before_them_and_to_no_others(attention):
    groups, each, length = 2, 3, 7
    x = torch.randn(groups * each, length, 8, dtype=torch.float64)
    mask = torch.ones(1, length, length, dtype=torch.bool).tril()
    expected = attention(x, x, x, mask)
    tree, nodes = PrefixTree(1, groups, 0), torch.zeros(groups * each, 0, dtype=torch.long)
    outputs = []
    for first, last in ((0, 1), (1, 4), (4, 5), (5, 7)):
        tree, nodes = tree.extended(nodes, last - first)
        outputs.append(ScoredPrefixes(tree, nodes, first).attend(0, attention, x[:, first:last]))
    torch.testing.assert_close(torch.cat(outputs, dim=1), expected)


def test_weights_multiply_the_scores_of_the_tokens_they_belong_to(attention):
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    weights = torch.rand(2, 3, 3, dtype=torch.float64)
    queries, keys, values = attention.forward_qkv(x, x, x)
    scores = queries @ keys.transpose(-2, -1) / 2 * weights.unsqueeze(1)
    expected = attention.forward_attention(values, scores, torch.ones(1, 3, 3, dtype=torch.bool).tril())
    tree, nodes = PrefixTree(1, 1, 0), torch.zeros(2, 0, dtype=torch.long)
    outputs = []
    for position in range(3):
        tree, nodes = tree.extended(nodes, 1)
        new = slice(position, position + 1)
        prefixes = ScoredPrefixes(tree, nodes, position)
        outputs.append(prefixes.attend(0, attention, x[:, new], weights[:, new, : position + 1]))
    torch.testing.assert_close(torch.cat(outputs, dim=1), expected)
