"""Log-likelihoods of a causal language model (P3, eq. 2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from espnet_ext.rescore.models.language_model import LmScorer, begin_and_end
from espnet_ext.rescore.models.prefix_trees import Rows, inputs_of, padded, takes_trees, to_rows
from espnet_ext.rescore.models.vocabulary import is_plain, log_probs


@dataclass(frozen=True, eq=False)
class CausalChunk:
    """Hypotheses of one forward pass.

    Attributes:
        rows: their tokens after a begin token.
        targets: the token after each token, the end token last, padded as ``rows.paths``, (n, longest).
    """

    rows: Rows
    targets: torch.Tensor

    @property
    def ids(self) -> torch.Tensor:
        return self.rows.ids


class CausalScorer(LmScorer):
    """Scores a hypothesis by its log-likelihood, from its first token to the end token (P3, eq. 2).

    The model reads a begin token first, so that the first token is scored as well. A prefix that hypotheses of a list
    share is computed once if the model takes a tree's attention mask. The score of a hypothesis without words is the
    log-probability that the end token follows.

    Args:
        model: a model of ``AutoModelForCausalLM``.
        tokenizer: its tokenizer; needs a begin or an end token.
        casing: a key of ``CASINGS``.

    Attributes:
        plain: whether the vocabulary can be computed in blocks.
    """

    name = "causal"

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, casing: str = "as-is"):
        begin, self.end = begin_and_end(tokenizer)
        super().__init__(model, tokenizer, casing, ([begin], []))
        self.known([begin, self.end])
        self.plain = is_plain(model)

    @cached_property
    def as_trees(self) -> bool:
        """Tell whether hypotheses share a row as a prefix tree; found out where the model runs."""
        return takes_trees(self.model)

    def chunks(self, lists: Sequence[Sequence[str]]) -> list[CausalChunk]:
        """Return forward passes over the hypotheses of all lists."""
        numbered = self.encode(lists)
        following = [ids[1:] + [self.end] for hypotheses in numbered for _, ids in hypotheses]
        return [
            CausalChunk(rows, torch.from_numpy(padded([following[hyp] for hyp in rows.hyps.tolist()])))
            for rows in to_rows(numbered, self.as_trees, self.budget)
        ]

    def terms(self, chunk: CausalChunk) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-probabilities of tokens, (n,), and the numbers of their hypotheses, (n,)."""
        device, rows = self.model.device, chunk.rows
        scored = rows.paths >= 0
        terms = log_probs(
            self.model,
            rows.real.to(device),
            rows.paths[scored].to(device),
            chunk.targets[scored].to(device),
            self.plain,
            **inputs_of(self.model, rows),
        )
        return terms, rows.hyps.unsqueeze(1).expand_as(scored)[scored].to(device)
