"""The alignment-based stitcher's encoder in ESPnet's MT model, written out."""

import pytest
import torch
from espnet2.asr.encoder.transformer_encoder import TransformerEncoder
from espnet2.tasks.mt import MTTask

from espnet_ext.errors import InputError
from espnet_ext.stitch.stitcher.aligned_pairs import AlignedPairsEncoder

OPTIONS = {
    "output_size": 12,
    "attention_heads": 2,
    "linear_units": 8,
    "num_blocks": 2,
    "dropout_rate": 0.0,
}


@pytest.mark.parametrize("size", [6, 5])
def test_pairs_are_concatenated(size):
    """Against ESPnet's encoder on what is put side by side by hand.

    With 2 x 6 = 12 there is no linear layer.
    """
    torch.manual_seed(0)
    encoder = AlignedPairsEncoder(size, **OPTIONS).eval()
    tokens = torch.randn(2, 8, size)
    pairs = torch.stack(
        [
            torch.cat([tokens[:, 2 * place], tokens[:, 2 * place + 1]], dim=-1)
            for place in range(4)
        ],
        1,
    )
    plain = TransformerEncoder(2 * size, input_layer=None, **OPTIONS).eval()
    plain.load_state_dict(encoder.state_dict())
    lengths = torch.tensor([8, 6])
    found, found_lengths, _ = encoder(tokens, lengths)
    wanted, wanted_lengths, _ = plain(pairs, torch.tensor([4, 3]))
    torch.testing.assert_close(found, wanted)
    assert found_lengths.tolist() == wanted_lengths.tolist() == [4, 3]
    assert (encoder.embed is None) == (size == 6)


def test_no_pairs():
    encoder = AlignedPairsEncoder(6, **OPTIONS)
    for width, lengths in ((7, [7, 7]), (8, [8, 7])):
        with pytest.raises(
            InputError, match="not a sequence of pairs: set patch_size: 2"
        ):
            encoder(torch.randn(2, width, 6), torch.tensor(lengths))


@pytest.fixture
def model(build_model):
    """Return a function that builds a stitcher."""
    tokens = ["<blank>", "<unk>", *"abcdef", "<sos/eos>"]
    settings = {
        "token_list": tokens,
        "src_token_list": tokens,
        "frontend": "embed",
        "frontend_conf": {"embed_dim": 6},
        "encoder": "aligned_pairs",
        "encoder_conf": OPTIONS,
        "decoder": "transformer",
        "decoder_conf": {"attention_heads": 2, "linear_units": 8, "num_blocks": 1},
        "model": "stitcher",
        "model_conf": {"patch_size": 2, "report_bleu": False},
    }
    return lambda **options: build_model(MTTask, **settings | options).eval()


def test_in_the_mt_model_the_first_pair_is_two_starts_and_padding_changes_nothing(
    model,
):
    built = model()
    source = torch.tensor([[2, 3, 4, 5, 6, 7], [7, 6, 5, 4, -1, -1]])
    encodings, lengths = built.encode(source, torch.tensor([6, 4]))
    assert lengths.tolist() == [4, 3]
    table = built.frontend.embed[0].weight
    scale = 6**0.5
    positions = built.frontend.embed[1].pe[0]
    start = built.src_sos
    ids = torch.tensor([start, start, 2, 3, 4, 5, 6, 7])
    by_hand = (table[ids] * scale + positions[:8]).reshape(1, 4, 12)
    plain = TransformerEncoder(12, input_layer=None, **OPTIONS).eval()
    plain.load_state_dict(built.encoder.state_dict())
    torch.testing.assert_close(encodings[:1], plain(by_hand, torch.tensor([4]))[0])
    alone, _ = built.encode(source[1:, :4], torch.tensor([4]))
    torch.testing.assert_close(encodings[1:, :3], alone)


def test_embeddings_begin_small_and_matrices_are_shared(model):
    wide = {"embed_dim": 64}
    built = model(
        frontend_conf=wide,
        encoder="transformer",
        encoder_conf=OPTIONS | {"output_size": 64, "input_layer": None},
        model_conf={
            "report_bleu": False,
            "share_encoder_decoder_input_embed": True,
            "share_decoder_input_output_embed": True,
        },
    )
    weight = built.frontend.embed[0].weight
    assert weight is built.decoder.embed[0].weight is built.decoder.output_layer.weight
    assert abs(weight.std().item() - 64**-0.5) < 0.02
    assert (
        abs(model(frontend_conf=wide).decoder.embed[0].weight.std().item() - 12**-0.5)
        < 0.06
    )
