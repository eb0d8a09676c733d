"""The language-related decoder against ESPnet's and against its own forward pass."""

import re
from itertools import cycle

import pytest
import torch
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from hypothesis import given, settings
from hypothesis import strategies as st
from small_decoders import (
    EOS,
    FRAMES,
    OTHERS,
    SIZE,
    VOCAB,
    encodings,
    make,
    teach,
    tokens,
)

from espnet_ext.codeswitch.language_transformer import (
    MODES,
    UNKNOWN,
    LanguageTransformerDecoder,
)
from espnet_ext.errors import InputError

FEW = ["none", "bias", "separate"]
# what ESPnet's blocks can be besides their default
KINDS = {
    "default": {},
    "concat_after": {"concat_after": True},
    "normalize_after": {"normalize_before": False},
    "qk_norm": {"qk_norm": True},
    "sdpa": {"use_sdpa": True},
    "no_output_layer": {"use_output_layer": False},
    "checkpoint": {"gradient_checkpoint_layers": [1, 3]},
}


def score_in_steps(
    decoder: TransformerDecoder, x: torch.Tensor, ys: torch.Tensor
) -> torch.Tensor:
    """The same by the scorer of a beam search, token by token."""
    states, scores = [None] * len(ys), []
    for length in range(1, ys.size(1) + 1):
        score, states = decoder.batch_score(
            ys[:, :length], states, x.expand(len(ys), -1, -1)
        )
        scores.append(score)
    return torch.stack(scores, dim=1)


@pytest.mark.parametrize("kind", KINDS)
def test_none_is_espnets_decoder(kind):
    ours, peer = make(**KINDS[kind]), make(cls=TransformerDecoder, **KINDS[kind])
    assert ours.state_dict().keys() == peer.state_dict().keys()
    ours.load_state_dict(peer.state_dict())
    xs, ys = encodings(3), tokens(3, 8)
    batch = (xs, torch.tensor([FRAMES, 4, 6]), ys, torch.tensor([8, 3, 5]))
    for training in (True, False):
        for left, right in zip(
            ours.train(training)(*batch), peer.train(training)(*batch), strict=True
        ):
            assert torch.equal(left, right)
    states, peer_states = [None] * 3, [None] * 3
    for length in range(1, 9):
        score, states = ours.batch_score(
            ys[:, :length], states, xs, xs_mask=xs[:, None, :, 0] > -1
        )
        expected, peer_states = peer.batch_score(
            ys[:, :length], peer_states, xs, xs_mask=xs[:, None, :, 0] > -1
        )
        torch.testing.assert_close(score, expected, rtol=1e-9, atol=1e-9)
    one, _ = ours.score(ys[0], None, xs[0])
    torch.testing.assert_close(
        one, peer.score(ys[0], None, xs[0])[0], rtol=1e-9, atol=1e-9
    )


def test_other_modes_return_hidden_states_too():
    decoder = make("separate")
    xs, ys = encodings(2), tokens(2, 4)
    batch = (xs, torch.tensor([FRAMES, FRAMES]), ys, torch.tensor([4, 4]))
    scores, lengths = decoder(*batch)
    (same, hidden), _ = decoder(*batch, return_hs=True)
    (also, outputs), _ = decoder(*batch, return_all_hs=True)
    assert (
        torch.equal(scores, same)
        and torch.equal(scores, also)
        and lengths.tolist() == [4, 4]
    )
    assert torch.equal(decoder.output_layer(hidden), scores) and len(outputs) == 3
    assert torch.equal(decoder.after_norm(outputs[-1]), hidden)


@pytest.mark.parametrize(
    ("mode", "blocks"),
    [*((mode, None) for mode in OTHERS), ("separate", [2]), ("bias", [2])],
)
def test_neutral_factors_give_the_scores_of_none(mode, blocks):
    neutral = {
        "same_language_weight": 1.0,
        "other_language_weight": 1.0,
        "other_language_factor": 1.0,
    }
    decoder, plain = make(mode, blocks=blocks, **neutral), make()
    state = plain.state_dict()
    if mode == "separate":  # both languages have the plain decoder's parameters
        for key in list(decoder.state_dict()):
            name, _, rest = key.partition(".self_attn.")
            if rest[:2] in ("0.", "1."):
                state[key] = plain.state_dict()[f"{name}.self_attn.{rest[2:]}"]
        state = {
            key: state[key] for key in decoder.state_dict() if key != "token_languages"
        }
    assert decoder.load_state_dict(state, strict=False).missing_keys == [
        "token_languages"
    ]
    x, ys = encodings()[0], tokens(4, 10)
    expected = teach(plain, x, ys)
    torch.testing.assert_close(teach(decoder, x, ys), expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        score_in_steps(decoder, x, ys), expected, rtol=1e-9, atol=1e-9
    )


@settings(max_examples=8)
@given(seed=st.integers(0, 1000), count=st.integers(1, 4), length=st.integers(1, 14))
@pytest.mark.parametrize("mode", MODES)
def test_scores_in_steps_are_those_of_the_forward_pass(mode, seed, count, length):
    decoder, x, ys = make(mode, seed=seed), encodings()[0], tokens(count, length, seed)
    torch.testing.assert_close(
        score_in_steps(decoder, x, ys), teach(decoder, x, ys), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(("kind", "mode"), zip(KINDS, cycle(OTHERS), strict=False))
def test_all_kinds_of_blocks_score_alike(mode, kind):
    decoder, x, ys = make(mode, **KINDS[kind]), encodings()[0], tokens(2, 7)
    expected = teach(decoder, x, ys)
    torch.testing.assert_close(
        score_in_steps(decoder, x, ys), expected, rtol=1e-9, atol=1e-9
    )
    torch.testing.assert_close(
        teach(decoder.train(), x, ys), expected, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("mode", FEW)
def test_hypotheses_may_be_chosen_again_and_again(mode):
    """As beams of two utterances are pruned: several go on from one, some end, in any
    order; their number changes.
    """
    decoder, source = make(mode), torch.Generator().manual_seed(3)
    xs, ys, states = encodings(2), tokens(2, 1), [None, None]
    for count in (4, 4, 2, 5, 1, 3, 3):
        score, states = decoder.batch_score(ys, states, xs)
        expected = [
            teach(decoder, x, hypothesis[None])[0, -1]
            for x, hypothesis in zip(xs, ys, strict=True)
        ]
        torch.testing.assert_close(score, torch.stack(expected), rtol=1e-9, atol=1e-9)
        chosen = torch.randint(0, len(ys), (count,), generator=source)
        states, xs = [states[index] for index in chosen], xs[chosen]
        ys = torch.cat(
            (ys[chosen], torch.randint(0, EOS, (count, 1), generator=source)), dim=1
        )


@pytest.mark.parametrize("mode", FEW)
def test_a_long_primer_is_scored_at_once_and_a_state_may_be_ahead(mode):
    decoder, x, ys = make(mode), encodings()[0], tokens(2, 9)
    xs, expected = x.expand(2, -1, -1), teach(decoder, x, ys)
    scores, states = decoder.batch_score(ys[:, :5], [None, None], xs)
    torch.testing.assert_close(scores, expected[:, 4], rtol=1e-9, atol=1e-9)
    scores, states = decoder.batch_score(ys[:, :8], states, xs)
    torch.testing.assert_close(scores, expected[:, 7], rtol=1e-9, atol=1e-9)
    scores, _ = decoder.batch_score(ys[:, :3], states, xs)  # a search that goes back
    torch.testing.assert_close(scores, expected[:, 2], rtol=1e-9, atol=1e-9)
    scores, _ = decoder.batch_score(ys[:, :8], [states[0], None], xs)
    torch.testing.assert_close(scores, expected[:, 7], rtol=1e-9, atol=1e-9)


def test_other_encodings_are_never_taken_for_the_ones_before():
    """A streaming search has more frames at each block; and an utterance may lie where
    the last one has lain.
    """
    ours, peer = make(), make(cls=TransformerDecoder)
    x, ys = encodings()[0], tokens(2, 6)
    states, peer_states = [None, None], [None, None]
    for length, frames in ((1, 4), (2, 4), (3, 7), (4, 7), (5, FRAMES)):
        if length == 4:
            x[2] += 1
        xs = x[:frames].expand(2, -1, -1)
        score, states = ours.batch_score(ys[:, :length], states, xs)
        expected, peer_states = peer.batch_score(ys[:, :length], peer_states, xs)
        torch.testing.assert_close(score, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_all_modes_start_from_the_values_of_espnets_decoder(mode):
    """So that seeds are pairs: what is not the attention is equal, and each stream is
    the attention it replaces.
    """
    states, after = [], []
    for kind, options in (
        (TransformerDecoder, {}),
        (LanguageTransformerDecoder, {"mode": mode}),
    ):
        torch.manual_seed(3)
        states.append(
            kind(
                VOCAB, SIZE, num_blocks=2, linear_units=20, attention_heads=2, **options
            ).state_dict()
        )
        after.append(torch.rand(1).item())  # what is built after the decoder
    start, state = states
    state.pop("token_languages", None)
    assert {re.sub(r"self_attn\.\d\.", "self_attn.", name) for name in state} == set(
        start
    )
    for name, value in state.items():
        assert torch.equal(
            value, start[re.sub(r"self_attn\.\d\.", "self_attn.", name)]
        ), name
    assert after[0] == after[1]


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "share"},
        {"blocks": [0]},
        {"blocks": [7]},
        {"blocks": 2},
        {"languages": ["en"]},
        {"languages": ["en", "zh", "en"]},
    ],
)
def test_bad_options_are_refused(options):
    place = (
        next(iter(options))
        if "languages" not in options
        else "name two or more, each once"
    )
    with pytest.raises(InputError, match=f"language_transformer: .*{place}"):
        LanguageTransformerDecoder(VOCAB, SIZE, **{"mode": "shared"} | options)


def test_what_cannot_be_scored_is_refused():
    decoder = make("separate")
    for function in (decoder.forward_one_step, decoder.forward_partially_AR):
        with pytest.raises(InputError, match="separate"):
            function(None)
    decoder.token_languages.fill_(UNKNOWN)
    with pytest.raises(InputError, match="not known"):
        decoder.score(tokens(1, 1)[0], None, encodings()[0])
