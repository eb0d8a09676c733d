"""BLSTM against torch's own bidirectional LSTM on packed sequences."""

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from espnet_ext.sem.blstm import BLSTM

NAMES = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


def pair(input_size: int, hidden_size: int) -> tuple[BLSTM, torch.nn.LSTM]:
    """The layer and torch's, with the same weights, in double precision."""
    torch.manual_seed(0)
    ours = BLSTM(input_size, hidden_size).double()
    peer = torch.nn.LSTM(
        input_size, hidden_size, batch_first=True, bidirectional=True
    ).double()
    with torch.no_grad():
        for name in NAMES:
            getattr(peer, name).copy_(getattr(ours.forwards, name))
            getattr(peer, f"{name}_reverse").copy_(getattr(ours.backwards, name))
    return ours, peer


def run_packed(
    lstm: torch.nn.LSTM, x: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(
        lstm(packed)[0], batch_first=True, total_length=x.size(1)
    )[0]


@pytest.mark.parametrize(
    ("lengths", "extra"),
    [([30, 22, 1, 29, 17], 3), ([1, 2], 0), ([7, 7, 7], 0), ([1], 3)],
)
def test_values_and_gradients_equal_packed_sequences(lengths, extra):
    ours, peer = pair(6, 9)
    lengths = torch.tensor(lengths)
    frames = int(lengths.max()) + extra
    x, weight = (
        torch.randn(len(lengths), frames, 6).double(),
        torch.randn(len(lengths), frames, 18).double(),
    )
    valid = (torch.arange(frames) < lengths[:, None])[..., None]
    inputs = x.clone().requires_grad_(), x.clone().requires_grad_()

    expected = run_packed(peer, inputs[1], lengths)
    (expected * weight).sum().backward()
    out = ours(inputs[0], lengths) * valid
    (out * weight).sum().backward()

    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=1e-9, atol=1e-12)
    for direction, suffix in ((ours.forwards, ""), (ours.backwards, "_reverse")):
        for name in NAMES:
            expected_grad = getattr(peer, name + suffix).grad
            torch.testing.assert_close(
                getattr(direction, name).grad, expected_grad, rtol=1e-9, atol=1e-12
            )
    assert inputs[0].grad.abs().max() > 0
