"""CTC prefix scores: the same as ESPnet's, and as the sum over all alignments."""

import itertools

import numpy as np
import pytest
import torch
from espnet2.asr.ctc import CTC
from espnet2.legacy.nets.scorers.ctc import CTCPrefixScorer

from espnet_ext.upstream.ctc_prefix import LazyCTCPrefixScorer

LABELS, EOS = 7, 6


class Given(torch.nn.Module):
    """In place of ESPnet's CTC layer: log-probabilities are given."""

    log_softmax = staticmethod(torch.clone)


def log_probabilities(frames: int, batch: int = 1, seed: int = 0, sharp: float = 3.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (sharp * torch.randn(batch, frames, LABELS, generator=generator)).log_softmax(-1)


@pytest.mark.parametrize("wanted, frames, steps", [(None, 1, 1), (3, 2, 2), (3, 40, 6), (None, 40, 6), (3, 600, 6)])
def test_scores_and_states_are_espnets(wanted, frames, steps):
    x, lengths, hypotheses = log_probabilities(frames, batch=2), torch.tensor([frames, max(steps, frames - 9)]), 3
    random = np.random.default_rng(1)
    scorers = [kind(Given(), EOS) for kind in (CTCPrefixScorer, LazyCTCPrefixScorer)]
    for scorer in scorers:
        scorer.batch_init_state(x, lengths)
    prefixes = torch.full((2 * hypotheses, 1), EOS)
    states = [[None] * len(prefixes)] * 2
    for _ in range(steps):
        ids = None
        if wanted:
            ids = torch.stack([torch.from_numpy(random.permutation(LABELS)[:wanted]) for _ in prefixes])
        (expected, theirs), (found, ours) = (
            scorer.batch_score_partial(prefixes, ids, state, x) for scorer, state in zip(scorers, states, strict=True)
        )
        possible = expected > -1e8
        torch.testing.assert_close(found[possible], expected[possible], rtol=1e-4, atol=1e-4)
        assert (found[~possible] < -1e8).all()
        # the search goes on with labels that were scored, a repeated one among them
        chosen = expected[:, :EOS].argmax(1)
        chosen[0] = prefixes[0, -1] if not wanted and prefixes[0, -1] != EOS else chosen[0]
        best = (torch.arange(hypotheses).repeat(2) * LABELS + chosen).view(2, hypotheses)
        states = [scorer.batch_select_state(state, best) for scorer, state in zip(scorers, (theirs, ours), strict=True)]
        prefixes = torch.cat((prefixes, chosen.unsqueeze(1)), 1)


def test_prefix_is_the_sum_over_all_alignments():
    frames = 5
    x = log_probabilities(frames, sharp=1.0)
    scorer = LazyCTCPrefixScorer(Given(), EOS)
    scorer.batch_init_state(x)
    total, prefix, state = 0.0, [EOS], [None]
    for label in (2, 2, 3):
        scores, new = scorer.batch_score_partial(torch.tensor([prefix]), None, state, x)
        total += scores[0, label].item()
        state = [scorer.select_state(new, 0, label)]
        prefix.append(label)
    mass = 0.0
    for path in itertools.product(range(LABELS), repeat=frames):
        said = [label for label, _ in itertools.groupby(path) if label]
        if said[:3] == [2, 2, 3]:
            mass += np.exp(sum(x[0, t, label].item() for t, label in enumerate(path)))
    np.testing.assert_allclose(total, np.log(mass), rtol=1e-5)


def test_the_scorer_serves_a_batched_search():
    torch.manual_seed(0)
    ctc = CTC(LABELS, 8)
    encodings = torch.randn(30, 8)
    prefixes, ids = torch.tensor([[EOS], [EOS]]), torch.tensor([[1, 2, 6], [3, 1, 6]])
    results = []
    for scorer in (CTCPrefixScorer(ctc, EOS), LazyCTCPrefixScorer(ctc, EOS)):
        scorer.batch_init_state(encodings)
        scores, _ = scorer.batch_score_partial(prefixes, ids, [None, None], encodings)
        results.append(scores)
    assert results[1].dtype == results[0].dtype
    torch.testing.assert_close(results[1].gather(1, ids), results[0].gather(1, ids), rtol=1e-4, atol=1e-4)
