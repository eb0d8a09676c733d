"""Modified shallow fusion against all hypotheses counted out by hand, and through
ESPnet's own command.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch
from espnet2.legacy.nets.beam_search import BeamSearch
from espnet2.legacy.nets.scorer_interface import BatchScorerInterface
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.text.tokens import estimate_token_prior, read_prior, write_tokens
from espnet_ext.upstream.prior import add_prior

TOKENS = ["<blank>", "<unk>", *"ABCDEFGHIJKLMNOPQ", "<sos/eos>"]
EOS = len(TOKENS) - 1
# ESPnet's beam can be as wide as the vocabulary; of two tokens a hypothesis then
# nothing is lost to pruning
MAX_LENGTH = 2


class Bigram(torch.nn.Module, BatchScorerInterface):
    """A toy model: the next token depends on the last one."""

    def __init__(self, seed: int):
        super().__init__()
        self.table = torch.randn(
            len(TOKENS), len(TOKENS), generator=torch.Generator().manual_seed(seed)
        )
        self.table = (2 * self.table).log_softmax(-1)

    def score(self, y, state, x):
        return self.table[y[-1]], None

    def batch_score(self, ys, states, xs):
        return self.table[ys[:, -1]], [None] * len(ys)


def best_of_all(
    decoder: Bigram,
    lm: Bigram,
    log_prior: np.ndarray,
    prior_weight: float,
    lm_weight: float,
):
    """log p(y|x) - prior_weight log p_prior(y) + lm_weight log p_LM(y) of every
    hypothesis up to MAX_LENGTH.

    ESPnet ends a hypothesis of the greatest length without scoring its end.
    """
    table = (
        decoder.table.numpy() + lm_weight * lm.table.numpy() - prior_weight * log_prior
    )
    best = (-math.inf, ())
    for length in range(MAX_LENGTH + 1):
        for tokens in itertools.product(range(EOS), repeat=length):
            path = (EOS, *tokens, EOS)
            scored = path if length < MAX_LENGTH else path[:-1]
            best = max(
                best, (sum(table[a, b] for a, b in itertools.pairwise(scored)), tokens)
            )
    return best


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10_000),
    prior_weight=st.floats(0.01, 1.5),
    lm_weight=st.floats(0.0, 1.0),
)
@pytest.mark.parametrize("search_class", [BeamSearch, BatchBeamSearch])
def test_search_finds_the_best_of_all_hypotheses(
    search_class, seed, prior_weight, lm_weight, tmp_path_factory
):
    decoder, lm = Bigram(seed), Bigram(seed + 1)
    prior = estimate_token_prior([["A"] * 9 + ["B"], ["A"]], TOKENS)
    path = tmp_path_factory.mktemp("prior") / "prior.txt"
    path.write_text("".join(f"{token} {value}\n" for token, value in prior.items()))
    search = search_class(
        scorers={"decoder": decoder, "lm": lm},
        weights={"decoder": 1.0, "lm": lm_weight},
        beam_size=len(TOKENS),
        vocab_size=len(TOKENS),
        sos=EOS,
        eos=EOS,
        pre_beam_score_key="full",
    )
    add_prior(search, TOKENS, path, prior_weight)
    found = search(torch.zeros(MAX_LENGTH, 2), maxlenratio=-MAX_LENGTH)[0]
    score, tokens = best_of_all(
        decoder, lm, np.array(list(prior.values())), prior_weight, lm_weight
    )
    assert float(found.score) == pytest.approx(score, abs=1e-4)
    assert tuple(token for token in found.yseq.tolist() if token != EOS) == tokens


def test_prior_is_the_unigram_of_the_transcripts(tmp_path):
    write_tokens(["AB A", "A"], tmp_path, "char")
    prior = read_prior(tmp_path / "prior.txt")
    # counts plus one: blank, unknown, space, A, B, end; 7 tokens and 6 more
    expected = {"<blank>": 1, "<unk>": 1, "<space>": 2, "A": 4, "B": 2, "<sos/eos>": 3}
    assert prior == {
        token: pytest.approx(math.log(count / 13), abs=1e-5)
        for token, count in expected.items()
    }
    assert list(prior) == (tmp_path / "tokens.txt").read_text().split()


def test_bad_priors_are_refused(tmp_path):
    path = tmp_path / "prior.txt"
    search = BeamSearch(
        {"decoder": Bigram(0)}, {"decoder": 1.0}, 2, len(TOKENS), EOS, EOS
    )
    add_prior(search, TOKENS, None, 0.0)
    assert "prior" not in search.scorers
    for given_search, file, content, place in (
        (search, None, None, "--prior_file"),
        (search, path, None, "prior.txt: no such file"),
        (search, path, "A -0.1\nB -0.2\n", "not the model's"),
        (None, path, "A -0.1\nB -0.2\n", "beam search"),
        *(
            (search, path, f"{line}\n", "prior.txt: line 1")
            for line in ("A", "A nan", "A x")
        ),
    ):
        if content:
            path.write_text(content)
        with pytest.raises(InputError, match=place):
            add_prior(
                given_search, ["A", "B"] if given_search is None else TOKENS, file, 0.1
            )
