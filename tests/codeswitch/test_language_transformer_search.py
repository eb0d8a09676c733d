"""The language-related decoder in ESPnet's beam search."""

from functools import partial

import pytest
import torch
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch
from espnet2.legacy.nets.beam_search import BeamSearch
from small_decoders import EOS, FRAMES, SIZE, VOCAB, encodings, make, teach
from small_decoders import search as search_of

from espnet_ext.codeswitch.language_transformer import MODES, LanguageTransformerDecoder
from espnet_ext.upstream.inference import forget_ended

search = partial(search_of, VOCAB, SIZE)


def best(hypotheses: list, count: int = 4) -> list[tuple]:
    # ESPnet has the CTC scores of one hypothesis in single precision
    return [
        (hyp.yseq.tolist(), pytest.approx(float(hyp.score.detach()), abs=1e-5))
        for hyp in hypotheses[:count]
    ]


@pytest.mark.parametrize(
    ("mode", "ctc_weight"),
    [*((mode, 0.3) for mode in MODES), ("none", 0.0), ("separate", 0.0)],
)
def test_batched_search_finds_what_one_by_one_search_finds(mode, ctc_weight):
    decoder = make(mode)
    xs, lengths = encodings(3), torch.tensor([FRAMES, 12, 14])
    with torch.no_grad():
        expected = [
            best(
                search(BeamSearch, decoder, ctc_weight)(
                    x[:length], maxlenratio=-6, minlenratio=-4
                )
            )
            for x, length in zip(xs, lengths, strict=True)
        ]
        batched = search(BatchBeamSearch, decoder, ctc_weight)
        for x, length, hypotheses in zip(xs, lengths, expected, strict=True):
            assert (
                best(batched(x[:length], maxlenratio=-6, minlenratio=-4)) == hypotheses
            )
        together = batched(xs, maxlenratio=-6, minlenratio=-4, x_lengths=lengths)
    assert [best(hypotheses) for hypotheses in together] == expected
    assert expected[0] != expected[1] != expected[2]


def test_a_search_with_espnets_decoder_finds_the_same():
    xs, lengths = encodings(3), torch.tensor([FRAMES, 12, 14])
    for options in ({}, {"hyp_primer": [EOS, 3, 4]}, {"return_hs": True}):
        found = [
            search(BatchBeamSearch, make(cls=cls), 0.3, **options)(
                xs, maxlenratio=-8, x_lengths=lengths
            )
            for cls in (LanguageTransformerDecoder, TransformerDecoder)
        ]
        assert [best(hypotheses) for hypotheses in found[0]] == [
            best(hypotheses) for hypotheses in found[1]
        ]


def test_hypotheses_that_have_ended_keep_nothing():
    """They wait for the end of the search, which holds the keys and values of the whole
    batch.
    """
    decoder = make()
    xs = encodings(2)
    plain, forgetting = (search(BatchBeamSearch, decoder) for _ in range(2))
    forget_ended(forgetting)
    kept, ended = (
        [hyp for found in each(xs, maxlenratio=-6) for hyp in found]
        for each in (plain, forgetting)
    )
    assert ended and all(hyp.states["decoder"] is None for hyp in ended)
    assert all(hyp.states["decoder"] is not None for hyp in kept)
    assert [hyp.yseq.tolist() for hyp in ended] == [hyp.yseq.tolist() for hyp in kept]
    # and yet they can be scored again
    hyp = ended[0]
    score, _ = decoder.score(hyp.yseq, hyp.states["decoder"], xs[0])
    torch.testing.assert_close(
        score, teach(decoder, xs[0], hyp.yseq.unsqueeze(0))[0, -1], rtol=1e-9, atol=1e-9
    )
