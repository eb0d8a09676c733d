"""LongFastConformerEncoder: padding, conditioning, masks, sizes (P5, 2.1, 2.4, 3.2)."""

import math

import pytest
import torch
from espnet2.asr.ctc import CTC
from espnet2.legacy.nets.pytorch_backend.transformer.subsampling import TooShortUttError
from pairwise import pairwise

from espnet_ext.errors import InputError
from espnet_ext.longform.conformer import NORMS
from espnet_ext.longform.long_fastconformer import (
    POSITIONS,
    SUBSAMPLING,
    LongFastConformerEncoder,
)
from espnet_ext.longform.positions import compute_sinusoids

SMALL = {
    "output_size": 12,
    "attention_heads": 3,
    "num_blocks": 3,
    "subsampling_channels": 4,
}
LENGTHS = [61, 24, 40, 1]


def build(tokens: int = 7, **options) -> tuple[LongFastConformerEncoder, CTC]:
    """An encoder and the CTC head of its model.

    The conditioning layer is as ESPnetASRModel makes it.
    """
    torch.manual_seed(0)
    encoder = LongFastConformerEncoder(10, **{**SMALL, **options})
    if encoder.interctc_use_conditioning:
        encoder.conditioning_layer = torch.nn.Linear(tokens, encoder.output_size())
    return encoder.double(), CTC(tokens, encoder.output_size()).double()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(
        len(LENGTHS), max(LENGTHS) + 3, 10, generator=torch.Generator().manual_seed(1)
    ).double()
    return x, torch.tensor(LENGTHS)


@pairwise("norm, positions, subsampling", NORMS, POSITIONS, SUBSAMPLING)
def test_batch_equals_utterances_one_by_one(norm, positions, subsampling):
    encoder, ctc = build(norm=norm, positions=positions, subsampling=subsampling)
    x, lengths = batch()
    with torch.no_grad():
        encoder.train()(
            x, lengths, ctc=ctc
        )  # so that running statistics are no longer 0 and 1
        out, out_lengths, states = encoder.eval()(x, lengths, ctc=ctc)
        factor = {"fastconformer": 8, "conformer": 4}[subsampling]
        assert (
            out_lengths.tolist() == [math.ceil(length / factor) for length in LENGTHS]
            and states is None
        )
        assert out.shape == (len(LENGTHS), max(out_lengths), 12)
        for row, utterance, length, out_length in zip(
            out, x, LENGTHS, out_lengths.tolist(), strict=True
        ):
            alone, _, _ = encoder(
                utterance[None, :length], torch.tensor([length]), ctc=ctc
            )
            torch.testing.assert_close(row[:out_length], alone[0])
            assert not row[out_length:].any()


@pytest.mark.parametrize("norm", NORMS)
def test_gradients_are_finite_and_reach_every_parameter(norm):
    encoder, ctc = build(norm=norm, dropout_rate=0.1, attention_dropout_rate=0.1)
    x, lengths = batch()
    x.requires_grad_()
    out, _, _ = encoder.train()(x, lengths, ctc=ctc)
    ctc.log_softmax(out).pow(2).sum().backward()
    for name, parameter in [*encoder.named_parameters(), *ctc.named_parameters()]:
        assert torch.isfinite(parameter.grad).all() and parameter.grad.any(), name
    assert (
        torch.isfinite(x.grad).all()
        and not x.grad[1, 24:].any()
        and not x.grad[3, 1:].any()
    )


def test_each_layer_but_the_last_is_conditioned_on_the_ctc_head():
    encoder, ctc = build(positions="none", norm="layer")
    weight = encoder.conditioning_layer.weight
    bias = encoder.conditioning_layer.bias
    x, lengths = batch()
    x, lengths = x[:1, :61], lengths[:1]
    hidden, _ = encoder.subsampling(x, lengths)
    for number, layer in enumerate(encoder.layers):
        hidden = layer(hidden)
        if number < 2:
            logits = encoder.after_norm(hidden) @ ctc.ctc_lo.weight.T + ctc.ctc_lo.bias
            posteriors = logits.exp() / logits.exp().sum(-1, keepdim=True)
            hidden = hidden + posteriors @ weight.T + bias
    torch.testing.assert_close(
        encoder(x, lengths, ctc=ctc)[0], encoder.after_norm(hidden)
    )
    encoder.interctc_use_conditioning = False
    assert (encoder(x, lengths)[0] - encoder.after_norm(hidden)).abs().max() > 1e-3


def test_positions_enter_as_named():
    x, lengths = batch()
    outs = {}
    for positions in POSITIONS:
        encoder, ctc = build(positions=positions)
        outs[positions] = encoder.eval()(x, lengths, ctc=ctc)[0]
    assert not torch.allclose(outs["rotary"], outs["none"]) and not torch.allclose(
        outs["sinusoidal"], outs["none"]
    )
    other, ctc = build(rotary_base=1e4)
    assert not torch.allclose(other.eval()(x, lengths, ctc=ctc)[0], outs["rotary"])
    # both kinds are added once, after the subsampling: sinusoids to the input times the
    # root of D, Fourier features, whose norm is the root of a half, to the input as it
    # is
    fourier, _ = build(positions="fourier")
    angles = torch.arange(8.0)[:, None].double() * fourier.fourier.w_r
    features = torch.cat([angles.cos(), angles.sin()], dim=-1) / math.sqrt(12)
    torch.testing.assert_close(
        features.norm(dim=-1), torch.full((8,), math.sqrt(0.5)).double()
    )
    for positions, scale, added in (
        ("sinusoidal", math.sqrt(12), compute_sinusoids(8, 12)),
        ("fourier", 1.0, features),
    ):
        encoder, ctc = build(positions=positions)
        encoder.positions = "none"
        encoder.fourier = None
        encoder.subsampling.register_forward_hook(
            lambda module, args, out, scale=scale, added=added: (
                out[0] * scale + added,
                out[1],
            )
        )
        torch.testing.assert_close(
            encoder.eval()(x, lengths, ctc=ctc)[0], outs[positions]
        )


def test_what_cannot_be_encoded_is_refused():
    encoder, ctc = build()
    with pytest.raises(InputError, match="self_conditioning"):
        encoder(*batch())
    assert build(self_conditioning=False)[0](*batch())[0].shape == (4, 8, 12)
    with pytest.raises(TooShortUttError, match="no frame"):
        encoder(batch()[0], torch.tensor([61, 0, 40, 1]), ctc=ctc)


@pytest.mark.parametrize(
    "options",
    [
        {"norm": "group"}, {"positions": "relative"}, {"subsampling": "vgg"},
        {"attention_heads": 5}, {"num_blocks": 0}, {"cnn_module_kernel": 8},
        {"rotary_base": 1.0}, {"renorm_steps": [10, 5, 20]},
        {"renorm_steps": [10]}, {"output_size": 9, "positions": "sinusoidal"},
    ],
)  # fmt: skip
def test_bad_settings_are_refused(options):
    with pytest.raises(
        InputError, match=f"^long_fastconformer: .*{next(iter(options))}"
    ):
        build(**options)
