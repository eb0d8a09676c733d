"""Log-likelihoods of a causal language model (P3, eq. 2)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from espnet_ext.rescore.models.language_model import LmScorer, find_begin_and_end
from espnet_ext.rescore.models.prefix_trees import Rows, make_inputs, pad_rows, to_rows
from espnet_ext.rescore.models.vocabulary import compute_log_probs, is_plain


@dataclass(frozen=True, eq=False)
class CausalChunk:
    """The hypotheses of one forward pass.

    ``rows``: their tokens, after a begin token. ``targets``: the token after each
    token, the end token last, padded as ``rows.paths``, (n, longest).
    """

    rows: Rows
    targets: torch.Tensor

    @property
    def ids(self) -> torch.Tensor:
        return self.rows.ids


class CausalScorer(LmScorer):
    """Score a hypothesis by its log-likelihood (P3, eq. 2).

    It goes from the first token to the end token. The model, of
    ``AutoModelForCausalLM``, reads a begin token first, so that the first token is
    scored as well. A prefix that hypotheses of a list share is computed once if the
    model takes a tree's attention mask. The score of a hypothesis without words is the
    log-probability that the end token follows. ``plain``: the vocabulary can be
    computed in blocks.
    """

    name = "causal"

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        casing: str = "as-is",
    ):
        begin, self.end = find_begin_and_end(tokenizer)
        # The end token is predicted and never read, so that nothing stands after a
        # text.
        super().__init__(model, tokenizer, casing, ([begin], []))
        self.require_known([begin, self.end])
        self.plain = is_plain(model)

    def chunks(
        self, lists: Sequence[Sequence[str]], names: Sequence[str] = ()
    ) -> list[CausalChunk]:
        """Return forward passes over the hypotheses of all lists."""
        numbered = self.encode(lists, names)
        # By the number of the hypothesis: what each of its tokens has to predict.
        following = []
        for hypotheses in numbered:
            following += [[*ids[1:], self.end] for _, ids in hypotheses]
        chunks = []
        for rows in to_rows(numbered, self.as_trees, self.budget):
            targets = pad_rows([following[hyp] for hyp in rows.hyps.tolist()])
            chunks.append(CausalChunk(rows, torch.from_numpy(targets)))
        return chunks

    def terms(self, chunk: CausalChunk) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-probabilities of tokens, and their hypotheses.

        Both are (n,); hypotheses are numbers.
        """
        device = self.model.device
        rows = chunk.rows
        # A node that hypotheses share predicts another token for each: the terms are as
        # many as tokens of hypotheses, and not as nodes.
        scored = rows.paths >= 0
        terms = compute_log_probs(
            self.model,
            rows.real.to(device),
            rows.paths[scored].to(device),
            chunk.targets[scored].to(device),
            self.plain,
            **make_inputs(self.model, rows),
        )
        hyps = rows.hyps.unsqueeze(1).expand_as(scored)[scored]
        return terms, hyps.to(device)
