"""Stateless attention against numpy's equation and ESPnet's own modules."""

import numpy as np
import pytest
import torch
from espnet2.legacy.nets.pytorch_backend.rnn.attentions import initial_att

from espnet_ext.fast_search import rnn_attention
from espnet_ext.fast_search.rnn_attention import ATTENTIONS, attend, memorise

ENCODINGS = 6
CELLS = 5
FRAMES = 9
HYPOTHESES = 4


def make(atype: str) -> torch.nn.Module:
    torch.manual_seed(1)
    # a filter of 2 * 6 + 1 frames is longer than the utterances
    attention = initial_att(
        atype, ENCODINGS, CELLS, aheads=1, adim=7, awin=1, aconv_chans=3, aconv_filts=6
    ).double()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.mul_(3)  # so that weights are far from uniform
    return attention


def inputs(count: int = HYPOTHESES) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(2)
    x = torch.randn(1, FRAMES, ENCODINGS).double()
    z = torch.randn(count, CELLS).double()
    return x, z, torch.rand(count, FRAMES).double().softmax(dim=-1)


def espnets(attention, x, z, previous, lengths=None):
    """ESPnet's context vectors and weights; ``x`` is repeated for each hypothesis."""
    attention.reset()
    return attention(
        x.expand(len(z), -1, -1), lengths or [x.size(1)] * len(z), z, previous
    )


def ours(attention, x, z, previous):
    return attend(attention, memorise(attention, x)[0], z, previous)


def test_location_is_the_equation_in_numpy():
    attention = make("location")
    x, z, previous = inputs()
    context, weights = ours(attention, x, z, previous)

    p = {
        name: parameter.detach().numpy()
        for name, parameter in attention.named_parameters()
    }
    for row in range(HYPOTHESES):
        padded = np.pad(previous[row].numpy(), 6)
        energies = np.zeros(FRAMES)
        for t in range(FRAMES):
            f = np.array(
                [
                    padded[t : t + 13] @ p["loc_conv.weight"][channel, 0, 0]
                    for channel in range(3)
                ]
            )
            keys = p["mlp_enc.weight"] @ x[0, t].numpy() + p["mlp_enc.bias"]
            hidden = np.tanh(
                keys + p["mlp_dec.weight"] @ z[row].numpy() + p["mlp_att.weight"] @ f
            )
            energies[t] = p["gvec.weight"][0] @ hidden + p["gvec.bias"][0]
        expected = np.exp(2.0 * energies) / np.exp(2.0 * energies).sum()
        np.testing.assert_allclose(weights[row].detach(), expected, rtol=1e-9)
        np.testing.assert_allclose(
            context[row].detach(), expected @ x[0].numpy(), rtol=1e-9
        )
    assert weights.max() > 0.5


@pytest.mark.parametrize("atype", ATTENTIONS)
def test_attends_as_espnets_module(atype):
    attention = make(atype)
    x, z, previous = inputs()
    memory = memorise(attention, x)[0]
    # noatt gives back the weights it gets; ESPnet's makes its context vector of none
    # but its own first ones
    previous = (
        memory.make_uniform_weights().expand_as(previous)
        if atype == "noatt"
        else previous
    )
    context, weights = attend(attention, memory, z, previous)
    expected_context, expected_weights = espnets(
        attention, x, z, None if atype == "noatt" else previous
    )
    torch.testing.assert_close(context, expected_context)
    torch.testing.assert_close(weights, expected_weights.double())


@pytest.mark.parametrize("atype", ATTENTIONS)
def test_padding_is_not_read(atype):
    attention = make(atype)
    x, z, _ = inputs()
    lengths = [FRAMES, 4, 1]
    batch = x.repeat(3, 1, 1)
    for row, length in enumerate(lengths):
        batch[row, length:] = torch.nan
    for memory, length in zip(
        memorise(attention, batch, torch.tensor(lengths)), lengths, strict=True
    ):
        context, weights = attend(
            attention, memory, z, memory.make_uniform_weights().expand(HYPOTHESES, -1)
        )
        expected = espnets(attention, x[:, :length], z, None)
        assert weights.shape == (HYPOTHESES, length) and memory.width == FRAMES
        torch.testing.assert_close(context, expected[0])
        torch.testing.assert_close(weights, expected[1].double())


@pytest.mark.parametrize(
    ("chunk", "gradients"), [(1, True), (3 * FRAMES * 7, False), (10**6, True)]
)
def test_blocks_do_not_matter(monkeypatch, chunk, gradients):
    attention = make("location")
    x, z, previous = inputs()
    expected = espnets(attention, x, z, previous)
    monkeypatch.setattr(rnn_attention, "CHUNK_PER_THREAD", chunk)
    with torch.set_grad_enabled(gradients):
        torch.testing.assert_close(ours(attention, x, z, previous), expected)
