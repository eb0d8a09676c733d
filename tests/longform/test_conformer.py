"""The Conformer layer against ESPnet's own, and its attention against the equation."""

import pytest
import torch
from espnet2.asr.encoder.conformer_encoder import ConvolutionModule as TheirConvolution
from espnet2.asr.encoder.conformer_encoder import (
    EncoderLayer,
    MultiHeadedAttention,
    PositionwiseFeedForward,
)

from espnet_ext.longform import conformer
from espnet_ext.longform.batch_renorm import Ramp
from espnet_ext.longform.conformer import ConformerLayer, SelfAttention
from espnet_ext.longform.positions import compute_rotation, rotate
from espnet_ext.upstream.padding import Padding

SIZE = 12
HEADS = 3
UNITS = 20
KERNEL = 5


def espnets(ours: ConformerLayer) -> EncoderLayer:
    """ESPnet's layer with the same weights and biases.

    Its biases are 0 where ours has none.
    """
    swish = torch.nn.SiLU()
    gelu = torch.nn.GELU(approximate="tanh")
    theirs = EncoderLayer(
        SIZE,
        MultiHeadedAttention(HEADS, SIZE, 0.0),
        PositionwiseFeedForward(SIZE, UNITS, 0.0, gelu),
        PositionwiseFeedForward(SIZE, UNITS, 0.0, gelu),
        TheirConvolution(SIZE, KERNEL, swish),
        0.0,
    ).double()
    queries, keys, values = ours.attention.queries_keys_values.weight.chunk(3)
    renorm = ours.convolution.norm
    state = {
        "self_attn.linear_q.weight": queries,
        "self_attn.linear_k.weight": keys,
        "self_attn.linear_v.weight": values,
        "self_attn.linear_out.weight": ours.attention.output.weight,
        "conv_module.norm.running_mean": renorm.running_mean,
        "conv_module.norm.running_var": renorm.running_deviation**2 - 1e-5,
        "conv_module.norm.num_batches_tracked": renorm.updates,
    }
    convolutions = {
        "pointwise_conv1": "gated",
        "depthwise_conv": "depthwise",
        "pointwise_conv2": "output",
    }
    for name, own in convolutions.items():
        module = getattr(ours.convolution, own)
        weight = module.weight if own == "depthwise" else module.weight.unsqueeze(-1)
        state |= {
            f"conv_module.{name}.weight": weight,
            f"conv_module.{name}.bias": module.bias,
        }
    norms = {
        "conv_module.norm": renorm,
        "norm_ff_macaron": ours.first_feed_forward[0],
        "norm_mha": ours.attention_norm,
        "norm_conv": ours.convolution_norm,
        "norm_ff": ours.second_feed_forward[0],
        "norm_final": ours.norm,
    }
    for name, norm in norms.items():
        state |= {f"{name}.weight": norm.weight, f"{name}.bias": norm.bias}
    modules = {
        "feed_forward_macaron": ours.first_feed_forward,
        "feed_forward": ours.second_feed_forward,
    }
    for name, module in modules.items():
        state |= {
            f"{name}.w_1.weight": module[1].weight,
            f"{name}.w_2.weight": module[4].weight,
        }
    missing = theirs.state_dict().keys() - state.keys()
    zeros = {key: torch.zeros_like(theirs.state_dict()[key]) for key in missing}
    assert all(key.endswith("bias") for key in zeros)
    theirs.load_state_dict(state | zeros)
    for norm in norms:
        theirs.get_submodule(
            norm
        ).eps = 1e-5  # torch's; ESPnet's layer norms have 1e-12
    return theirs.eval()


@pytest.fixture
def layer() -> ConformerLayer:
    """A layer whose norms are far from the identity."""
    torch.manual_seed(0)
    layer = (
        ConformerLayer(SIZE, HEADS, UNITS, KERNEL, "batch_renorm", Ramp())
        .double()
        .eval()
    )
    with torch.no_grad():
        for module in layer.modules():
            if isinstance(module, (torch.nn.LayerNorm, conformer.BatchRenorm)):
                module.weight.uniform_(0.5, 1.5)
                module.bias.uniform_(-0.5, 0.5)
        layer.convolution.norm.running_mean.uniform_(-0.2, 0.2)
        layer.convolution.norm.running_deviation.uniform_(0.3, 2.0)
    return layer


def test_is_espnets_layer(layer):
    x = torch.randn(2, 17, SIZE).double()
    expected, _ = espnets(layer)(x, torch.ones(2, 1, 17, dtype=torch.bool))
    torch.testing.assert_close(layer(x), expected)


def masked(
    attention: SelfAttention, x: torch.Tensor, valid: torch.Tensor, turned
) -> torch.Tensor:
    """The same attention in one call of torch's, with a mask for padding."""
    projected = attention.queries_keys_values(x).unflatten(-1, (3, attention.heads, -1))
    queries, keys, values = projected.permute(2, 0, 3, 1, 4)
    queries, keys = rotate(queries, *turned), rotate(keys, *turned)
    found = torch.nn.functional.scaled_dot_product_attention(
        queries, keys, values, attn_mask=valid[:, None, None]
    )
    return attention.output(found.transpose(1, 2).flatten(2)) * valid.unsqueeze(-1)


@pytest.mark.parametrize("lengths", [[9, 4, 9, 1, 4], [9, 9], [3, 9, 9, 9]])
def test_attention_by_length_is_that_with_a_mask(lengths, monkeypatch):
    """Outputs and gradients are the same, and torch's attention never gets a mask.

    With one it leaves its flash kernel.
    """
    torch.manual_seed(2)
    attention = SelfAttention(8, 2).double()
    turned = compute_rotation(9, 4, 1e4)
    lengths = torch.tensor(lengths)
    x = torch.randn(len(lengths), 9, 8).double().requires_grad_()
    weights = torch.randn(len(lengths), 9, 8).double() * (
        torch.arange(9) < lengths.unsqueeze(1)
    ).unsqueeze(-1)
    calls = []
    theirs = conformer.scaled_dot_product_attention
    monkeypatch.setattr(
        conformer,
        "scaled_dot_product_attention",
        lambda *args, **options: calls.append(options) or theirs(*args, **options),
    )
    results = []
    for out in (
        attention(x, Padding.from_lengths(lengths, 9), turned),
        masked(attention, x, torch.arange(9) < lengths.unsqueeze(1), turned),
    ):
        gradients = torch.autograd.grad(
            (out * weights).sum(), [x, *attention.parameters()]
        )
        results.append((out, gradients))
    torch.testing.assert_close(results[0], results[1])
    assert len(calls) == len(set(lengths.tolist())) and not any(
        call.get("attn_mask") is not None for call in calls
    )
