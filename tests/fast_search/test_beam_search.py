"""The fast search of several utterances: ESPnet's hypotheses, and ESPnet's searches."""

from typing import Any

import pytest
import torch
from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch
from espnet2.legacy.nets.beam_search import Hypothesis
from espnet2.legacy.nets.scorer_interface import BatchScorerInterface
from espnet2.legacy.nets.scorers.ctc import CTCPrefixScorer

from espnet_ext.fast_search.beam_search import FastSearch, make_fast

LABELS = 9
EOS = 8
FRAMES = 30
UTTERANCES = 6
POSSIBLE = -1e4  # a score that is below is ESPnet's number for a probability of zero


class Given(torch.nn.Module):
    """In place of ESPnet's CTC layer: the encodings are log-probabilities."""

    log_softmax = staticmethod(torch.clone)


class Bigram(BatchScorerInterface):
    """Score tokens by the one before."""

    def __init__(self, seed: int):
        generator = torch.Generator().manual_seed(seed)
        table = 2 * torch.randn(LABELS, LABELS, generator=generator)
        self.scores = table.log_softmax(-1)

    def batch_init_state(self, x: torch.Tensor) -> None:
        return None

    def batch_score(self, ys: torch.Tensor, states: list, xs: torch.Tensor) -> tuple:
        return self.scores[ys[:, -1]], states


def build_search(name: str = "ctc", **options: Any) -> BatchBeamSearch:
    search = {"beam_size": 4, "pre_beam_score_key": "full", "pre_beam_ratio": 1.5}
    return BatchBeamSearch(
        scorers={"decoder": Bigram(1), name: CTCPrefixScorer(Given(), EOS)},
        weights={"decoder": 0.7, name: 0.3},
        vocab_size=LABELS,
        sos=EOS,
        eos=EOS,
        **search | options,
    )


def make_posteriors(kind: str, seed: int) -> torch.Tensor:
    """Posteriors with zeros, (utterances, frames, labels)."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(UTTERANCES, FRAMES, LABELS, generator=generator)
    logits[..., 0] += 3
    posteriors = logits.softmax(-1)
    if kind == "banned token":
        posteriors[..., 3] = 0
    elif kind == "banned blank in some frames":
        posteriors[:, ::7, 0] = 0
    elif kind == "few labels in each frame":
        least = posteriors.topk(3).values[..., -1:]
        posteriors[posteriors < least] = 0
    elif kind == "one label in each frame":
        best = posteriors.argmax(-1, keepdim=True)
        posteriors = torch.zeros_like(posteriors).scatter_(-1, best, 1.0)
    return posteriors / posteriors.sum(-1, keepdim=True)


def list_possible(nbest: list[Hypothesis]) -> list[tuple[list[int], float]]:
    return [
        (each.yseq.tolist(), float(each.score))
        for each in nbest
        if each.score > POSSIBLE
    ]


@pytest.mark.parametrize(
    "kind",
    [
        "banned token",
        "banned blank in some frames",
        "few labels in each frame",
        "one label in each frame",
    ],
)
def test_hypotheses_are_espnets_with_posteriors_of_zero(kind):
    found = 0
    for seed in range(4):
        x = make_posteriors(kind, seed).log()
        # in single precision ESPnet's -1e10 for zero rounds scores to multiples of 1024
        exact = x.double()
        lengths = torch.tensor([FRAMES - 3 * number for number in range(UTTERANCES)])
        options = {"x_lengths": lengths, "maxlenratio": 0.0, "minlenratio": 0.0}
        fast = build_search()
        assert make_fast(fast)
        for ours, espnets in zip(
            fast(x.clone(), **options),
            build_search()(exact, **options),
            strict=True,
        ):
            expected = list_possible(espnets)
            possible = list_possible(ours)
            assert [ids for ids, _ in possible] == [ids for ids, _ in expected]
            assert [score for _, score in possible] == pytest.approx(
                [score for _, score in expected], rel=1e-4
            )
            found += bool(expected)
    assert found  # otherwise nothing was compared


@pytest.mark.parametrize(
    "options",
    [{"pre_beam_score_key": "decoder"}, {"return_hs": True}, {"name": "my_ctc"}],
)
def test_other_searches_stay_espnets(options):
    search = build_search(**options)
    assert not make_fast(search)
    assert type(search) is BatchBeamSearch
    kinds = [type(each) for each in search.part_scorers.values()]
    assert kinds == [CTCPrefixScorer]


def test_a_pre_beam_key_without_ctc_means_nothing():
    search = build_search(pre_beam_score_key="decoder")
    search.part_scorers.clear()
    search.do_pre_beam = False
    assert make_fast(search)
    assert type(search) is FastSearch
