"""RescoreGPT and RescoreBERT: a score from a model's hidden states, without its
vocabulary (P3, eq. 10 to 12).
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.language_model import (
    LmScorer,
    begin_and_end,
    first_line,
    reads_both_ways,
    surrounding,
)
from espnet_ext.rescore.models.prefix_trees import Rows, hidden_states, to_rows

HEAD = "pooling.safetensors"


class TokenHead(torch.nn.Module):
    """Apply a linear layer to the hidden state of the token at ``place``, 0 (P3, eq.
    10) or -1 (P3, eq. 11).
    """

    def __init__(self, size: int, place: int):
        super().__init__()
        self.place = place
        self.score = torch.nn.Linear(size, 1)

    def forward(self, hidden: torch.Tensor, paths: torch.Tensor) -> torch.Tensor:
        """Return scores, (n,), of hidden states, (nodes, size), on paths padded with
        -1, (n, longest).
        """
        last = (paths >= 0).sum(dim=1) - 1
        chosen = (
            paths[:, 0]
            if self.place == 0
            else paths.gather(1, last.unsqueeze(1)).squeeze(1)
        )
        return self.score(hidden[chosen]).squeeze(1)


class AttentionHead(torch.nn.Module):
    """Attend with one learnt query to all tokens, then apply a linear layer (P3, eq.
    12).
    """

    def __init__(self, size: int):
        super().__init__()
        self.origin = torch.nn.Parameter(torch.randn(size) / size**0.5)
        self.query = torch.nn.Linear(size, size, bias=False)
        self.key = torch.nn.Linear(size, size, bias=False)
        self.value = torch.nn.Linear(size, size, bias=False)
        self.score = torch.nn.Linear(size, 1)

    def forward(self, hidden: torch.Tensor, paths: torch.Tensor) -> torch.Tensor:
        """Return scores, (n,), of hidden states, (nodes, size), on paths padded with
        -1, (n, longest).
        """
        # The query is the same for all hypotheses, and W_V may be applied after the
        # weighted sum. So neither W_K nor W_V is multiplied with the state of every
        # token.
        query = self.query(self.origin) @ self.key.weight
        energies = (hidden @ query / hidden.size(1) ** 0.5)[paths].masked_fill(
            paths < 0, -torch.inf
        )
        pooled = (energies.softmax(dim=1).unsqueeze(2) * hidden[paths]).sum(dim=1)
        return self.score(self.value(pooled)).squeeze(1)


class PooledScorer(LmScorer):
    """Score a hypothesis by a layer on a language model's hidden states (P3, eq. 10 to
    12).

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
        around = (
            surrounding(tokenizer) if both_ways else ([begin_and_end(tokenizer)[0]], [])
        )
        super().__init__(model, tokenizer, casing, around)
        self.pooling = pooling or token
        if both_ways:
            self.as_trees = False
        size = model.config.hidden_size
        self.head = (
            AttentionHead(size)
            if pooling == "attention"
            else TokenHead(size, 0 if both_ways else -1)
        )

    def chunks(
        self, lists: Sequence[Sequence[str]], names: Sequence[str] = ()
    ) -> list[Rows]:
        """Return forward passes over the hypotheses of all lists."""
        return to_rows(self.encode(lists, names), self.as_trees, self.budget)

    def terms(self, chunk: Rows) -> tuple[torch.Tensor, torch.Tensor]:
        """Return scores of hypotheses, (n,), and their numbers, (n,)."""
        hidden = hidden_states(self.model, chunk)
        hidden = hidden.to(
            next(self.head.parameters()).dtype
        )  # the model may be in bfloat16
        return self.head(hidden, chunk.paths.to(hidden.device)), chunk.hyps.to(
            hidden.device
        )

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
        except (
            Exception
        ) as error:  # safetensors' own errors, or RuntimeError if it does not fit
            raise InputError(
                f"{path}: no pooling layer of this model ({first_line(error)}): "
                "train it again"
            ) from error
