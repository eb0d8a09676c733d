"""The speaker-attributed decoder: ESPnet's inside, equations around, step by step."""

import numpy as np
import pytest
import torch
from espnet2.asr.decoder.rnn_decoder import RNNDecoder
from espnet2.asr.decoder.s4_decoder import S4Decoder
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder

from espnet_ext.codeswitch.language_transformer import LanguageTransformerDecoder
from espnet_ext.errors import InputError
from espnet_ext.fast_search.batch_rnn import BatchRNNDecoder
from espnet_ext.stitch.recogniser.decoder_readouts import make_readout
from espnet_ext.stitch.recogniser.speaker_attributed_decoder import (
    SpeakerAttributedDecoder,
)

VOCAB = 9
SIZE = 8
CONTEXT = 6
PROFILE = 4
TRANSFORMER = {"attention_heads": 2, "linear_units": 8, "num_blocks": 3}
RNN = {
    "hidden_size": 10,
    "num_layers": 2,
    "att_conf": {"atype": "location", "adim": 7, "aconv_filts": 3},
}
DECODERS = {
    "transformer": lambda: TransformerDecoder(VOCAB, SIZE, **TRANSFORMER),
    "language_transformer": lambda: LanguageTransformerDecoder(
        VOCAB, SIZE, **TRANSFORMER
    ),
    "rnn": lambda: RNNDecoder(VOCAB, SIZE, **RNN),
    "batch_rnn": lambda: BatchRNNDecoder(VOCAB, SIZE, context_residual=True, **RNN),
}


def build(name: str, attention_block: int = -1, **options) -> SpeakerAttributedDecoder:
    torch.manual_seed(3)
    options = {"query_conf": {"hidden_size": 5}, "cosine_scale": 5.0, **options}
    decoder = make_readout(DECODERS[name](), attention_block)
    return SpeakerAttributedDecoder(decoder, VOCAB, CONTEXT, PROFILE, **options).eval()


def inputs(lengths=(11, 11), tokens=(6, 6)) -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    ys = torch.randint(VOCAB, (2, max(tokens)))
    ys[:, 0] = VOCAB - 1
    return {
        "hs_pad": torch.randn(2, max(lengths), SIZE),
        "hlens": torch.tensor(lengths),
        "speaker_encodings": torch.randn(2, max(lengths), CONTEXT),
        "ys_in_pad": ys,
        "ys_in_lens": torch.tensor(tokens),
        "profiles": torch.randn(2, 3, PROFILE),
        "present": torch.ones(2, 3, dtype=torch.bool),
    }


@pytest.mark.parametrize("block", [-1, 2])
def test_transformer_against_espnets_decoder_and_the_equations(block):
    decoder = build("transformer", attention_block=block)
    data = inputs()
    torch.manual_seed(3)
    espnet = TransformerDecoder(VOCAB, SIZE, **TRANSFORMER).eval()
    order = ("hs_pad", "hlens", "ys_in_pad", "ys_in_lens")
    with torch.no_grad():
        scores, log_posteriors = decoder(**data)
        (_, hidden), _ = espnet(*(data[name] for name in order), return_hs=True)
        queries, _ = decoder.query(
            espnet.decoders[block if block < 0 else block - 1].src_attn.attn.mean(1)
            @ data["speaker_encodings"],
            data["ys_in_pad"],
        )
    for b in range(2):
        for n in range(6):
            q = queries[b, n].numpy()
            profiles = data["profiles"][b].numpy()
            energies = np.exp(
                [5 * q @ d / np.linalg.norm(q) / np.linalg.norm(d) for d in profiles]
            )
            posteriors = energies / energies.sum()
            np.testing.assert_allclose(
                log_posteriors[b, n].exp(), posteriors, atol=1e-5
            )
            u = hidden[b, n].numpy() + decoder.profile.weight.detach().numpy() @ (
                posteriors @ profiles
            )
            o = (
                espnet.output_layer.weight.detach().numpy() @ u
                + espnet.output_layer.bias.detach().numpy()
            )
            np.testing.assert_allclose(scores[b, n], o, atol=1e-5)


def test_without_profiles_in_the_output_it_is_espnets_rnn_decoder():
    decoder = build("rnn")
    data = inputs()
    torch.manual_seed(3)
    espnet = RNNDecoder(VOCAB, SIZE, **RNN).eval()
    torch.nn.init.zeros_(decoder.profile.weight)
    expected, _ = espnet(
        *(data[name] for name in ("hs_pad", "hlens", "ys_in_pad", "ys_in_lens"))
    )
    torch.testing.assert_close(decoder(**data)[0], expected)


def test_rnn_context_has_the_weights_of_the_attention():
    """Where speaker encodings are the encodings, so are the contexts."""
    decoder = build("batch_rnn")
    data = inputs(lengths=(11, 7))
    hidden, weights = decoder.asr(
        *(data[name] for name in ("hs_pad", "hlens", "ys_in_pad", "ys_in_lens"))
    )
    torch.testing.assert_close(weights @ data["hs_pad"], hidden[..., -SIZE:])
    assert not weights[1, :, 7:].any()


@pytest.mark.parametrize("name", DECODERS)
def test_step_by_step_is_teacher_forcing(name):
    """Two utterances of two hypotheses each, as in a search.

    The second has a profile less.
    """
    decoder = build(name)
    data = inputs()
    data["present"][1, 2] = False
    rows = torch.tensor([0, 0, 1, 1])
    with torch.no_grad():
        scores, log_posteriors = decoder(**data)
        states = [decoder.init_state(data["hs_pad"])] * 4
        for n in range(1, 7):
            step, states = decoder.step(
                data["ys_in_pad"][rows, :n], states, data["hs_pad"][rows],
                data["speaker_encodings"], data["profiles"], data["present"],
            )  # fmt: skip
            torch.testing.assert_close(
                step, scores[rows, n - 1].log_softmax(-1), atol=1e-5, rtol=1e-4
            )
            states = [states[0], states[0], states[3], states[3]]
    for state, expected in zip(states, log_posteriors[rows], strict=True):
        torch.testing.assert_close(
            state["tokens"].collect_tokens()[0], expected, atol=1e-5, rtol=1e-4
        )


@pytest.mark.parametrize("name", DECODERS)
def test_padding_changes_nothing(name):
    decoder = build(name)
    data = inputs(lengths=(11, 7), tokens=(6, 4))
    data["present"][1, 2] = False
    with torch.no_grad():
        scores, log_posteriors = decoder(**data)
        cut = {
            "hs_pad": 7,
            "speaker_encodings": 7,
            "ys_in_pad": 4,
            "profiles": 2,
            "present": 2,
        }
        alone = {
            key: value[1:, : cut[key]] if key in cut else value[1:]
            for key, value in data.items()
        }
        expected, expected_posteriors = decoder(**alone)
    torch.testing.assert_close(scores[1:, :4], expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(
        log_posteriors[1:, :4, :2], expected_posteriors, atol=1e-5, rtol=1e-4
    )


def test_decoders_that_cannot_be_read_out_are_refused():
    headless = TransformerDecoder(VOCAB, SIZE, use_output_layer=False, **TRANSFORMER)
    for decoder, block, place in (
        (S4Decoder.__new__(S4Decoder), -1, "S4Decoder"),
        (DECODERS["transformer"](), 4, "attention_block"),
        (headless, -1, "output layer"),
    ):
        with pytest.raises(InputError, match=place):
            make_readout(decoder, block)


def test_the_block_whose_weights_are_taken_is_not_fused():
    fused = TransformerDecoder(
        VOCAB, SIZE, dropout_rate=0.2, src_attention_dropout_rate=0.2, **TRANSFORMER
    )
    fused.decoders[-1].src_attn.use_flash_attn = True
    fused.decoders[-1].src_attn.dropout = torch.nn.Identity()
    decoder = SpeakerAttributedDecoder(make_readout(fused), VOCAB, CONTEXT, PROFILE)
    attention = decoder.asr.decoder.decoders[-1].src_attn
    assert not attention.use_flash_attn and attention.dropout.p == 0.2
