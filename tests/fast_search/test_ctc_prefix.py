"""CTC prefix scores: the same as ESPnet's, and as the sum over all alignments."""

import itertools

import numpy as np
import pytest
import torch
from espnet2.legacy.nets.ctc_prefix_score import CTCPrefixScoreTH

from espnet_ext.fast_search.ctc_prefix import LazyCTCPrefixScorer

LABELS = 7
EOS = 6


class Given(torch.nn.Module):
    """In place of ESPnet's CTC layer: log-probabilities are given."""

    log_softmax = staticmethod(torch.clone)


def log_probabilities(
    frames: int, batch: int = 1, seed: int = 0, sharp: float = 3.0
) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (
        sharp * torch.randn(batch, frames, LABELS, generator=generator)
    ).log_softmax(-1)


def scorer_of(
    x: torch.Tensor, lengths: torch.Tensor | None = None
) -> LazyCTCPrefixScorer:
    scorer = LazyCTCPrefixScorer(Given(), EOS)
    scorer.batch_init_state(x, lengths)
    return scorer


@pytest.mark.parametrize(
    "wanted, frames, steps",
    [(None, 1, 1), (3, 2, 2), (3, 40, 6), (None, 40, 6), (3, 600, 6)],
)
def test_scores_and_states_are_espnets(wanted, frames, steps):
    x = log_probabilities(frames, batch=2)
    lengths = torch.tensor([frames, max(steps, frames - 9)])
    hypotheses = 3
    random = np.random.default_rng(1)
    rows = torch.arange(2 * hypotheses)
    espnet = CTCPrefixScoreTH(x.clone(), lengths, 0, EOS)
    ours = scorer_of(x, lengths)
    last = torch.full_like(rows, EOS).unsqueeze(1)
    state = None
    prefixes = ours.make_empty_prefixes(len(rows))
    for _ in range(steps):
        ids = torch.arange(LABELS).repeat(len(rows), 1)
        if wanted:
            drawn = [random.permutation(LABELS)[:wanted] for _ in rows]
            ids = torch.from_numpy(np.stack(drawn))
        every, new = espnet(last, state, ids if wanted else None)
        expected = every.gather(1, ids)
        found, extensions = ours.extend(prefixes, ids)
        possible = expected > -1e8
        torch.testing.assert_close(
            found[possible], expected[possible], rtol=1e-4, atol=1e-4
        )
        assert (found[~possible] < -1e8).all()
        # the search goes on with labels that were scored, a repeated one among them
        columns = expected.masked_fill(ids == EOS, -1e11).argmax(1)
        if not wanted and last[0, -1] != EOS:
            columns[0] = last[0, -1]
        chosen = ids[rows, columns]
        # ESPnet numbers hypotheses and labels of each utterance together.
        numbers = (rows % hypotheses) * LABELS + chosen
        state = espnet.index_select_state(new, numbers.view(2, -1))
        prefixes = ours.advance(extensions, rows, columns)
        last = torch.cat((last, chosen.unsqueeze(1)), 1)


def test_prefix_is_the_sum_over_all_alignments():
    frames = 5
    x = log_probabilities(frames, sharp=1.0)
    scorer = scorer_of(x)
    total = 0.0
    prefixes = scorer.make_empty_prefixes(1)
    row = torch.tensor([0])
    for label in (2, 2, 3):
        scores, extensions = scorer.extend(prefixes, torch.arange(LABELS).unsqueeze(0))
        total += scores[0, label].item()
        prefixes = scorer.advance(extensions, row, torch.tensor([label]))
    mass = 0.0
    for path in itertools.product(range(LABELS), repeat=frames):
        said = [label for label, _ in itertools.groupby(path) if label]
        if said[:3] == [2, 2, 3]:
            mass += np.exp(sum(x[0, t, label].item() for t, label in enumerate(path)))
    np.testing.assert_allclose(total, np.log(mass), rtol=1e-5)
