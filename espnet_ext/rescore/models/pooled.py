"""RescoreGPT and RescoreBERT: scores from hidden states (P3, eq. 10 to 12).

The vocabulary of the model is not used.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.language_model import (
    LmScorer,
    find_begin_and_end,
    find_surrounding,
    reads_both_ways,
    take_first_line,
)
from espnet_ext.rescore.models.prefix_trees import Rows, compute_hidden_states, to_rows

HEAD = "pooling.safetensors"


class TokenHead(torch.nn.Module):
    """Apply a linear layer to the hidden state of one token.

    ``place`` is 0, the first one (P3, eq. 10), or -1, the last one (P3, eq. 11).
    """

    def __init__(self, size: int, place: int):
        super().__init__()
        self.place = place
        self.score = torch.nn.Linear(size, 1)

    def forward(self, hidden: torch.Tensor, paths: torch.Tensor) -> torch.Tensor:
        """Return scores, (n,), of hidden states on paths.

        ``hidden`` is (nodes, size), ``paths`` (n, longest), padded with -1.
        """
        chosen = paths[:, 0]
        # Paths differ in length: the last token is not in the last column.
        if self.place != 0:
            last = (paths >= 0).sum(dim=1, keepdim=True) - 1
            chosen = paths.gather(1, last).squeeze(1)
        return self.score(hidden[chosen]).squeeze(1)


class AttentionHead(torch.nn.Module):
    """Attend with one learnt query, then apply a linear layer (P3, eq. 12)."""

    def __init__(self, size: int):
        super().__init__()
        self.origin = torch.nn.Parameter(torch.randn(size) / size**0.5)
        self.query = torch.nn.Linear(size, size, bias=False)
        self.key = torch.nn.Linear(size, size, bias=False)
        self.value = torch.nn.Linear(size, size, bias=False)
        self.score = torch.nn.Linear(size, 1)

    def forward(self, hidden: torch.Tensor, paths: torch.Tensor) -> torch.Tensor:
        """Return scores, (n,), of hidden states on paths.

        ``hidden`` is (nodes, size), ``paths`` (n, longest), padded with -1.
        """
        # The query is the same for all hypotheses, and W_V may be applied after the
        # weighted sum. So neither W_K nor W_V is multiplied with the state of every
        # token.
        query = self.query(self.origin) @ self.key.weight
        energies = hidden @ query / hidden.size(1) ** 0.5
        # Padding, -1, takes the last state; its weight is exactly 0.
        on_paths = energies[paths].masked_fill(paths < 0, -torch.inf)
        weights = on_paths.softmax(dim=1).unsqueeze(2)
        pooled = (weights * hidden[paths]).sum(dim=1)
        return self.score(self.value(pooled)).squeeze(1)


class PooledScorer(LmScorer):
    """Score a hypothesis by a layer on a model's hidden states (P3, eq. 10 to 12).

    A causal model reads a begin token before the hypothesis and nothing after it, so
    that the last token is one of the text. A bidirectional model reads its own special
    tokens around the hypothesis. Attention pooling is over all of these tokens. A
    hypothesis without words is scored by the special tokens alone. ``pooling`` is
    "last" (causal models), "cls" (bidirectional models) or "attention"; by default
    "last" or "cls".
    """

    name = "pooled"

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        casing: str = "as-is",
        pooling: str | None = None,
    ):
        both_ways = reads_both_ways(model.config)
        token = "cls" if both_ways else "last"
        if pooling not in (None, token, "attention"):
            raise InputError(
                f"pooling {pooling}: for {model.config.model_type} choose {token} "
                "or attention"
            )
        around: tuple[list[int], list[int]]
        if both_ways:
            around = find_surrounding(tokenizer)
        else:
            begin, _ = find_begin_and_end(tokenizer)
            around = ([begin], [])
        super().__init__(model, tokenizer, casing, around)
        self.pooling = pooling or token
        # Where a token sees those after it, a shared prefix has another state in each
        # hypothesis.
        if both_ways:
            self.as_trees = False
        size = model.config.hidden_size
        self.head: AttentionHead | TokenHead
        if pooling == "attention":
            self.head = AttentionHead(size)
        else:
            self.head = TokenHead(size, place=0 if both_ways else -1)

    def chunks(
        self, lists: Sequence[Sequence[str]], names: Sequence[str] = ()
    ) -> list[Rows]:
        """Return forward passes over the hypotheses of all lists."""
        return to_rows(self.encode(lists, names), self.as_trees, self.budget)

    def terms(self, chunk: Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """Return scores of hypotheses, (n,), and their numbers, (n,)."""
        hidden = compute_hidden_states(self.model, chunk)
        # The model may be in bfloat16.
        hidden = hidden.to(next(self.head.parameters()).dtype)
        scores = self.head(hidden, chunk.paths.to(hidden.device))
        return scores, chunk.hyps.to(hidden.device)

    def settings(self) -> dict[str, str]:
        return super().settings() | {"pooling": self.pooling}

    def save(self, folder: str | Path) -> None:
        super().save(folder)
        save_file(self.head.state_dict(), Path(folder) / HEAD)

    def load_head(self, folder: str | Path) -> None:
        """Load the pooling layer that ``save`` wrote."""
        path = Path(folder) / HEAD
        try:
            self.head.load_state_dict(load_file(path))
        except Exception as error:
            # safetensors' own errors, or RuntimeError if it does not fit
            raise InputError(
                f"{path}: no pooling layer of this model ({take_first_line(error)}): "
                "train it again"
            ) from error
