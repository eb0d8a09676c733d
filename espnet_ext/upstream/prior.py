"""The prior of modified shallow fusion (P2, section 5 and Table 5).

It is a unigram model of the training transcripts. The search then maximises ``log
p(y|x) - prior_weight * log p_prior(y) + lm_weight * log p_LM(y)``, so that a language
model of more text replaces part of the one that the decoder has learnt from the
transcripts.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from espnet2.legacy.nets.beam_search import BeamSearch
from espnet2.legacy.nets.scorer_interface import BatchScorerInterface

from espnet_ext.errors import InputError
from espnet_ext.text.tokens import read_prior


class PriorScorer(BatchScorerInterface):
    """Score each next token by how often it is in the training transcripts.

    Scores are natural log-probabilities, whatever came before.
    """

    def __init__(self, log_prior: np.ndarray):
        self.log_prior = torch.from_numpy(np.asarray(log_prior, dtype=np.float32))

    def score(
        self,
        y: torch.Tensor,
        state: Any,
        x: torch.Tensor,
    ) -> tuple[torch.Tensor, None]:
        """Score the next token, (vocabulary,).

        Of the encodings ``x``, only device and type are used.
        """
        return self._move_to_device_of(x), None

    def batch_score(
        self,
        ys: torch.Tensor,
        states: list[Any],
        xs: torch.Tensor,
    ) -> tuple[torch.Tensor, list[None]]:
        """Score the next token for each of n hypotheses, (n, vocabulary)."""
        return self._move_to_device_of(xs).expand(len(ys), -1), [None] * len(ys)

    def _move_to_device_of(self, x: torch.Tensor) -> torch.Tensor:
        # kept there: a transfer at each step would wait for the device
        self.log_prior = self.log_prior.to(x)
        return self.log_prior


def add_prior(
    search: BeamSearch | None,
    tokens: list[str],
    prior_file: str | Path | None,
    weight: float,
) -> None:
    """Add the prior to a search with weight ``-weight``; 0 adds nothing."""
    if weight == 0:
        return
    if prior_file is None:
        raise InputError(
            "prior_weight is set: give --prior_file, the prior.txt of the token stage"
        )
    if not isinstance(search, BeamSearch):
        raise InputError(
            "prior_weight is set, but this model is not decoded by ESPnet's beam "
            "search: set it to 0"
        )
    prior = read_prior(prior_file)
    # scores go by the numbers of tokens: the same ones in another order would not do
    if list(prior) != list(tokens):
        raise InputError(
            f"{prior_file}: its tokens are not the model's: give the prior of the "
            "model's own token list"
        )
    scorer = PriorScorer(np.array(list(prior.values())))
    # where a search of ESPnet's looks for scorers of the whole vocabulary
    search.scorers["prior"] = scorer
    search.full_scorers["prior"] = scorer
    search.weights["prior"] = -weight
