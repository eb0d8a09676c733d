"""BatchRNNDecoder against ESPnet's: parameters, training, scores, beam search."""

import copy
import random
from functools import partial

import numpy as np
import pytest
import torch
from espnet2.asr.decoder.rnn_decoder import RNNDecoder
from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch
from espnet2.legacy.nets.beam_search import BeamSearch
from espnet2.legacy.nets.scorer_interface import BatchScorerInterface
from espnet2.utils.get_default_kwargs import get_default_kwargs
from small_decoders import frames, padded
from small_decoders import search as search_of

from espnet_ext.errors import InputError
from espnet_ext.fast_search.batch_rnn import BatchRNNDecoder, make_batched
from espnet_ext.fast_search.rnn_attention import ATTENTIONS

VOCABULARY = 12
ENCODINGS = 6
EOS = VOCABULARY - 1
CONFIGS = {
    "lstm": {},
    "gru": {"rnn_type": "gru"},
    "lstm_3_layers": {"num_layers": 3, "context_residual": True},
    "gru_2_layers": {
        "rnn_type": "gru",
        "num_layers": 2,
        "dropout": 0.3,
        "replace_sos": True,
    },
    **{
        atype: {"att_conf": {"atype": atype, "adim": 7}}
        for atype in ATTENTIONS
        if atype != "location"
    },
    "residual": {"context_residual": True, "sampling_probability": 0.5},
}
FEW = ["lstm_3_layers", "gru_2_layers", "residual"]
LENGTHS = [9, 5, 14, 1]
encodings = partial(frames, ENCODINGS)
search = partial(search_of, VOCABULARY, ENCODINGS)
FEW_TOKENS = {"maxlenratio": -6.0}


class OneByOne(RNNDecoder, BatchScorerInterface):
    """ESPnet's decoder in the batched search: it scores hypotheses in a loop."""


def options(name: str) -> dict:
    attention = {"atype": "location", "adim": 7, "aconv_chans": 3, "aconv_filts": 4}
    return {
        "vocab_size": VOCABULARY,
        "encoder_output_size": ENCODINGS,
        "hidden_size": 8,
        "att_conf": attention,
    } | (CONFIGS[name])


def espnets(name: str = "lstm", seed: int = 0) -> RNNDecoder:
    """ESPnet's decoder in double precision, whose choices are far from uniform."""
    torch.manual_seed(seed)
    decoder = RNNDecoder(**options(name)).double().eval()
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.mul_(3)
    return decoder


def looping(peer: RNNDecoder) -> OneByOne:
    decoder = copy.copy(peer)
    decoder.__class__ = OneByOne
    return decoder


def tolerance(name: str) -> float:
    """Tolerance of scores in double precision.

    ESPnet's noatt computes its weights in single precision.
    """
    return 1e-6 if name == "noatt" else 1e-9


def assert_same_hypotheses(found, expected, tolerance=1e-9):
    assert [h.yseq.tolist() for h in found] == [
        h.yseq.tolist() for h in expected
    ] and len(found) > 1
    np.testing.assert_allclose(
        [float(h.score) for h in found],
        [float(h.score) for h in expected],
        atol=tolerance,
    )
    for scorer, values in expected[0].scores.items():
        assert float(found[0].scores[scorer]) == pytest.approx(
            float(values), abs=tolerance
        )


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def test_options_are_espnets():
    """What ESPnet writes into config.yaml for options that are left open."""
    assert get_default_kwargs(BatchRNNDecoder) == get_default_kwargs(RNNDecoder)


@pytest.mark.parametrize("name", FEW)
def test_training_is_espnets(name):
    peer = espnets(name).train()
    ours = BatchRNNDecoder(**options(name)).double().train()
    ours.load_state_dict(peer.state_dict())
    tokens = torch.randint(EOS, (3, 6))
    lengths = torch.tensor([6, 5, 2])
    found = []
    for decoder in (ours, peer):
        torch.manual_seed(0)  # for dropout
        random.seed(0)  # for the sampling of fed-back tokens
        with torch.enable_grad():
            logits, _ = decoder(*padded(ENCODINGS, [9, 5, 4]), tokens, lengths)
            logits.square().sum().backward()
        found.append([logits, *(parameter.grad for parameter in decoder.parameters())])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, torch.float64) for name in CONFIGS), ("lstm", torch.float32)],
)
def test_scores_are_espnets(name, dtype):
    """A tree of prefixes in one batch at each step, against score() along each."""
    torch.manual_seed(0)
    # as ESPnet initialises it: for three times the weights, float32 itself is off by
    # more than 1e-5
    peer = (
        espnets(name) if dtype == torch.float64 else RNNDecoder(**options(name)).eval()
    ).to(dtype)
    ours = make_batched(copy.deepcopy(peer))
    x = encodings().to(dtype)

    def espnets_scores(prefix: list[int]) -> torch.Tensor:
        state = peer.init_state(x)
        for end in range(1, len(prefix) + 1):
            logp, state = peer.score(torch.tensor(prefix[:end]), state, x)
        return logp

    prefixes = [[EOS]]
    states = [ours.batch_init_state(x)]
    for origins in (
        [0],
        [0, 0, 0],
        [2, 0, 2, 1],
        [3, 3, 3],
        [0, 1, 2, 2, 2],
        [4, 3, 2, 1, 0],
    ):
        logp, states = ours.batch_score(
            torch.tensor(prefixes), states, x.expand(len(prefixes), -1, -1)
        )
        expected = torch.stack([espnets_scores(prefix) for prefix in prefixes])
        atol = tolerance(name) if dtype == torch.float64 else 1e-5
        torch.testing.assert_close(logp, expected, rtol=0, atol=atol)
        assert logp.dtype == dtype
        states = [
            ours.select_state(states, origin % len(prefixes)) for origin in origins
        ]
        prefixes = [
            prefixes[o % len(prefixes)] + [int(torch.randint(EOS, ()))] for o in origins
        ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, BatchBeamSearch) for name in CONFIGS),
        *((name, BeamSearch) for name in FEW),
    ],
)
def test_search_finds_what_espnets_does(name, kind):
    peer = espnets(name)
    x = encodings()
    assert_same_hypotheses(
        search(kind, make_batched(peer))(x),
        search(BeamSearch, peer)(x),
        tolerance(name),
    )


@pytest.mark.parametrize("name", ["lstm", "gru_2_layers", "dot"])
def test_search_with_ctc_finds_what_espnets_does(name):
    peer = espnets(name)
    ours = make_batched(peer)
    x = encodings()
    one_by_one = search(BeamSearch, peer, 0.3)(x, **FEW_TOKENS)
    assert_same_hypotheses(search(BeamSearch, ours, 0.3)(x, **FEW_TOKENS), one_by_one)
    # ESPnet's batched search has a way of its own: it asks CTC for eos even if that is
    # not among the tokens in question
    batched = search(BatchBeamSearch, looping(peer), 0.3)(x, **FEW_TOKENS)
    assert_same_hypotheses(search(BatchBeamSearch, ours, 0.3)(x, **FEW_TOKENS), batched)
    # where CTC scores all tokens, the two searches differ by no more than single
    # precision in CTC
    one_by_one = search(BeamSearch, peer, 0.3, beam=8)(x, **FEW_TOKENS)
    assert_same_hypotheses(
        search(BatchBeamSearch, ours, 0.3, beam=8)(x, **FEW_TOKENS), one_by_one, 1e-4
    )


@pytest.mark.parametrize(
    ("name", "ctc_weight"),
    [("lstm", 0.0), ("gru_2_layers", 0.3), ("dot", 0.3), ("noatt", 0.0)],
)
def test_several_utterances_at_once(name, ctc_weight, caplog):
    """Utterances of different lengths in a batch, as one by one.

    The padding is full of NaN where CTC does not read it.
    """
    peer = espnets(name)
    batched = search(BatchBeamSearch, make_batched(peer), ctc_weight)
    one_by_one = (
        search(BatchBeamSearch, looping(peer), ctc_weight)
        if ctc_weight
        else search(BeamSearch, peer)
    )
    batch, lengths = padded(ENCODINGS, LENGTHS, 0.0 if ctc_weight else torch.nan)
    found = batched(batch, x_lengths=lengths, **FEW_TOKENS)
    assert len(found) == len(LENGTHS)
    for row, length in enumerate(LENGTHS):
        expected = one_by_one(batch[row, :length], **FEW_TOKENS)
        assert_same_hypotheses(
            found[row], expected, 1e-4 if ctc_weight else tolerance(name)
        )
    assert "padded encoder frames are attended to" not in caplog.text
    # one utterance in a padded batch of its own
    alone = batched(batch[1:2], x_lengths=lengths[1:2], **FEW_TOKENS)[0]
    assert_same_hypotheses(alone, found[1], 1e-4 if ctc_weight else 1e-9)


def test_the_next_utterance_is_another():
    """Searches in turn on one decoder, into the same memory.

    Nothing is kept from one utterance to the next.
    """
    peer = espnets()
    batched = search(BatchBeamSearch, make_batched(peer))
    buffer = encodings()
    expected = []
    for seed in (0, 1, 0, 2):
        expected.append(search(BeamSearch, peer)(encodings(seed=seed), **FEW_TOKENS))
        assert_same_hypotheses(
            batched(buffer.copy_(encodings(seed=seed)), **FEW_TOKENS), expected[-1]
        )
    assert expected[0][0].yseq.tolist() != expected[1][0].yseq.tolist()


def test_from_rnn_shares_parameters():
    peer = espnets()
    ours = make_batched(peer)
    assert all(
        a is b for a, b in zip(ours.parameters(), peer.parameters(), strict=True)
    )
    assert type(peer) is RNNDecoder and not ours.training and make_batched(ours) is ours


@pytest.mark.parametrize(
    "changes",
    [
        {"att_conf": {"atype": "coverage"}},
        {"att_conf": {"atype": ["location", "location"]}},
        {"num_encs": 2},
        {"rnn_type": "rnn"},
    ],
)
def test_bad_settings_are_refused(changes):
    ((name, value),) = changes.items()
    with pytest.raises(
        InputError, match=f"^batch_rnn: {'atype' if name == 'att_conf' else name}"
    ):
        BatchRNNDecoder(**{**options("lstm"), name: value})
