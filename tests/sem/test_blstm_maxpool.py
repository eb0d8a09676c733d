"""BLSTMMaxPoolEncoder against P2, section 4, and against torch's own modules on single
utterances.
"""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.sem.blstm_maxpool import BLSTMMaxPoolEncoder


def encode_alone(
    encoder: BLSTMMaxPoolEncoder, utterance: torch.Tensor, pooling: list[int]
) -> torch.Tensor:
    """One utterance, (T, D), layer by layer, with the backward pass and the pooling
    written out.
    """
    x = utterance
    for number, layer in enumerate(encoder.layers):
        ahead = layer.forwards(x[None])[0][0]
        back = layer.backwards(x.flip(0)[None])[0][0].flip(0)
        x = torch.cat([ahead, back], dim=-1)
        if number < len(pooling):
            x = torch.stack(
                [window.max(dim=0).values for window in x.split(pooling[number])]
            )
    return x


@pytest.mark.parametrize(
    ("pooling", "num_layers"),
    [
        ([2, 2, 2], 4),
        ([8, 4], 2),
        ([3], 3),
        ([1, 5], 2),
        ([], 1),
        ([2, 2, 2], 3),
        ([32], 2),
    ],
)
@given(st.lists(st.integers(1, 100), min_size=1, max_size=6), st.integers(0, 9))
@settings(max_examples=10)
def test_batch_equals_utterances_one_by_one(pooling, num_layers, lengths, extra):
    torch.manual_seed(0)
    encoder = (
        BLSTMMaxPoolEncoder(5, num_layers=num_layers, hidden_size=3, pooling=pooling)
        .double()
        .eval()
    )
    x = torch.randn(len(lengths), max(lengths) + extra, 5).double()
    out, out_lengths, states = encoder(x, torch.tensor(lengths))
    assert out.shape == (len(lengths), max(out_lengths), 6) and states is None
    for row, utterance, length, out_length in zip(
        out, x, lengths, out_lengths.tolist(), strict=True
    ):
        expected = encode_alone(encoder, utterance[:length], pooling)
        assert out_length == len(expected)
        torch.testing.assert_close(row[:out_length], expected)
        assert not row[out_length:].any()


def test_dropout_is_on_the_inputs_of_the_layers_above_the_first():
    """Zeyer et al. 2018: for each direction on its own, after pooling; neither features
    nor encodings are dropped.
    """
    torch.manual_seed(0)
    encoder = BLSTMMaxPoolEncoder(
        4, num_layers=3, hidden_size=50, pooling=[2], dropout_rate=0.5
    ).train()
    seen: list[list[torch.Tensor]] = []
    for layer in encoder.layers:
        heard: list[torch.Tensor] = []
        for direction in (layer.forwards, layer.backwards):
            direction.register_forward_hook(
                lambda module, given, out, heard=heard: heard.append(given[0])
            )
        seen.append(heard)
    out, _, _ = encoder(torch.randn(1, 12, 4), torch.tensor([12]))
    shares = [[float((x == 0).float().mean()) for x in heard] for heard in seen]
    assert shares[0] == [0.0, 0.0] and (out != 0).all()
    assert all(abs(share - 0.5) < 0.1 for layer in shares[1:] for share in layer)
    ahead, back = seen[1]
    assert not torch.equal(ahead == 0, back.flip(1) == 0)


@pytest.mark.parametrize("pooling", [[2, 2, 2], [2, 0], [-2], [2.5]])
def test_bad_settings_are_refused(pooling):
    with pytest.raises(
        InputError, match=f"blstm_maxpool: pooling {re.escape(str(pooling))}"
    ):
        BLSTMMaxPoolEncoder(40, num_layers=2, hidden_size=2, pooling=pooling)
