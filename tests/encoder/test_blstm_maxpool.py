"""BLSTMMaxPoolEncoder against P2, section 4, and against torch's own modules on single utterances."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.encoder.blstm_maxpool import BLSTMMaxPoolEncoder, max_pool
from espnet_ext.errors import InputError


def encode_alone(encoder: BLSTMMaxPoolEncoder, utterance: torch.Tensor, pooling: list[int]) -> torch.Tensor:
    """One utterance, (T, D), layer by layer, with the backward pass and the pooling written out."""
    x = utterance
    for number, layer in enumerate(encoder.layers):
        ahead = layer.forwards(x[None])[0][0]
        back = layer.backwards(x.flip(0)[None])[0][0].flip(0)
        x = torch.cat([ahead, back], dim=-1)
        if number < len(pooling):
            x = torch.stack([window.max(dim=0).values for window in x.split(pooling[number])])
    return x


@pytest.fixture(scope="module")
def encoder() -> BLSTMMaxPoolEncoder:
    torch.manual_seed(0)
    return BLSTMMaxPoolEncoder(5, num_layers=4, hidden_size=3, pooling=[2, 2, 2]).double().eval()


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(0, 9))
@settings(max_examples=40)
def test_batch_equals_utterances_one_by_one(encoder, lengths, extra):
    x = torch.randn(len(lengths), max(lengths) + extra, 5, generator=torch.Generator().manual_seed(1)).double()
    out, out_lengths, states = encoder(x, torch.tensor(lengths))
    assert out_lengths.tolist() == [math.ceil(math.ceil(math.ceil(length / 2) / 2) / 2) for length in lengths]
    assert out.shape == (len(lengths), max(out_lengths), 6) and states is None
    for row, utterance, length, out_length in zip(out, x, lengths, out_lengths.tolist(), strict=True):
        torch.testing.assert_close(row[:out_length], encode_alone(encoder, utterance[:length], [2, 2, 2]))
        assert not row[out_length:].any()


@pytest.mark.parametrize(
    ("pooling", "num_layers"), [([8, 4], 2), ([3], 3), ([1, 5], 2), ([], 1), ([2, 2, 2], 3), ([32], 2)]
)
def test_other_pooling(pooling, num_layers):
    torch.manual_seed(0)
    encoder = BLSTMMaxPoolEncoder(4, num_layers=num_layers, hidden_size=2, pooling=pooling).double().eval()
    lengths = [100, 64, 33, 32, 31, 9, 8, 1]
    x = torch.randn(len(lengths), 100, 4).double()
    out, out_lengths, _ = encoder(x, torch.tensor(lengths))
    for row, utterance, length, out_length in zip(out, x, lengths, out_lengths.tolist(), strict=True):
        expected = encode_alone(encoder, utterance[:length], pooling)
        assert out_length == len(expected)
        torch.testing.assert_close(row[:out_length], expected)


@given(st.integers(1, 9), st.lists(st.integers(1, 50), min_size=1, max_size=5))
@settings(max_examples=60)
def test_max_pool_is_the_maximum_of_valid_frames(factor, lengths):
    # negative throughout: zeros of padding must not win
    x = -torch.rand(len(lengths), max(lengths), 2, generator=torch.Generator().manual_seed(2)) - 1.0
    out, out_lengths = max_pool(x, torch.tensor(lengths), factor)
    for row, utterance, length, out_length in zip(out, x, lengths, out_lengths.tolist(), strict=True):
        windows = utterance[:length].split(factor)
        assert out_length == len(windows)
        assert torch.equal(row[:out_length], torch.stack([window.max(dim=0).values for window in windows]))


def test_paper_size():
    """Six layers of 1024 cells and 40 channels, counted by hand; time reduction 8."""
    with torch.device("meta"):
        encoder = BLSTMMaxPoolEncoder(40)
    gates, directions, biases = 4, 2, 2
    first = directions * gates * 1024 * (40 + 1024 + biases)
    others = 5 * directions * gates * 1024 * (2 * 1024 + 1024 + biases)
    assert first + others == 134_643_712
    assert sum(parameter.numel() for parameter in encoder.parameters()) == 134_643_712
    assert encoder.output_size() == 2048
    assert math.prod(encoder.pooling) == 8 and encoder.pooling == [2, 2, 2, 1, 1, 1]


def test_dropout_is_on_the_inputs_of_the_layers_above_the_first():
    """Zeyer et al. 2018: for each direction on its own, after pooling; neither features nor encodings are dropped."""
    torch.manual_seed(0)
    encoder = BLSTMMaxPoolEncoder(4, num_layers=3, hidden_size=50, pooling=[2], dropout_rate=0.5).train()
    seen: list[list[torch.Tensor]] = []
    for layer in encoder.layers:
        heard: list[torch.Tensor] = []
        for direction in (layer.forwards, layer.backwards):
            direction.register_forward_hook(lambda module, given, out, heard=heard: heard.append(given[0]))
        seen.append(heard)
    out, _, _ = encoder(torch.randn(1, 12, 4), torch.tensor([12]))
    shares = [[float((x == 0).float().mean()) for x in heard] for heard in seen]
    assert shares[0] == [0.0, 0.0] and (out != 0).all()
    assert all(abs(share - 0.5) < 0.1 for layer in shares[1:] for share in layer)
    ahead, back = seen[1]
    assert not torch.equal(ahead == 0, back.flip(1) == 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 2, "pooling": [2, 2, 2]}, r"pooling \[2, 2, 2\] does not fit 2 layers"),
        ({"pooling": [2, 0]}, r"pooling \[2, 0\]"),
        ({"pooling": [-2]}, r"pooling \[-2\]"),
        ({"pooling": [2.5]}, r"pooling \[2.5\]"),
        ({"num_layers": 0, "pooling": []}, "num_layers is 0"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(InputError, match=f"blstm_maxpool: {message}"):
        BLSTMMaxPoolEncoder(40, hidden_size=2, **options)
