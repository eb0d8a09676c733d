"""Pseudo-log-likelihoods of a masked language model (P3, eq. 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.language_model import LmScorer, surrounding
from espnet_ext.rescore.models.prefix_trees import in_batches, padded
from espnet_ext.rescore.models.vocabulary import is_plain, log_probs

Copy = tuple[int, tuple[int, ...]]  # masked place, and token ids


@dataclass(frozen=True, eq=False)
class MaskedChunk:
    """Hold masked copies of one forward pass: token ids, padded with -1, (copies,
    positions), and masked positions.

    Of each term, (n,) each: its copy, the token under the mask, and its hypothesis.
    """

    ids: torch.Tensor
    masked: torch.Tensor
    copies: torch.Tensor
    targets: torch.Tensor
    hyps: torch.Tensor


class PllScorer(LmScorer):
    """Score a hypothesis by the sum of each token's log-probability when only that
    token is masked (P3, eq. 3).

    P3 writes eq. 3 and 9 with a minus before that sum. Eq. 1 needs a score where more
    is better, so there is none here. Special tokens are never masked; every sub-token
    of the text is masked once. Hypotheses that differ in one token share one masked
    copy. A hypothesis without words scores 0. ``plain``: the vocabulary can be computed
    in blocks.
    """

    name = "pll"

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        casing: str = "as-is",
    ):
        if tokenizer.mask_token_id is None:
            raise InputError(
                f"{tokenizer.name_or_path}: its tokenizer has no mask token: "
                "score it as a causal model"
            )
        super().__init__(model, tokenizer, casing, surrounding(tokenizer))
        self.known([tokenizer.mask_token_id])
        self.padding = tokenizer.pad_token_id or 0
        if self.padding >= self.size:  # it is masked, so that any token will do
            self.padding = 0
        self.plain = is_plain(model)

    def chunks(
        self, lists: Sequence[Sequence[str]], names: Sequence[str] = ()
    ) -> list[MaskedChunk]:
        """Return forward passes over the masked copies of all lists' hypotheses,
        grouped by length.
        """
        mask = self.tokenizer.mask_token_id
        found: dict[
            Copy, list[tuple[int, int]]
        ] = {}  # copy -> its targets and their hypotheses
        for hypotheses in self.encode(lists, names):
            for hyp, ids in hypotheses:
                tokens = tuple(ids)
                for place in range(len(self.before), len(ids) - len(self.after)):
                    copy = (place, (*tokens[:place], mask, *tokens[place + 1 :]))
                    found.setdefault(copy, []).append((tokens[place], hyp))
        copies = list(found)
        return [
            _chunk([copies[index] for index in batch], found)
            for batch in in_batches([len(ids) for _, ids in copies], self.budget)
        ]

    def terms(self, chunk: MaskedChunk) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-probabilities of tokens under the mask, (n,), and the numbers of
        their hypotheses, (n,).
        """
        device = self.model.device
        ids, masked = chunk.ids.to(device), chunk.masked.to(device)
        real = ids >= 0
        inputs = {
            "input_ids": ids.masked_fill(~real, self.padding),
            "attention_mask": real.long(),
        }
        chosen = torch.zeros_like(real)
        chosen[torch.arange(len(ids), device=device), masked] = True
        terms = log_probs(
            self.model,
            chosen,
            chunk.copies.to(device),
            chunk.targets.to(device),
            self.plain,
            **inputs,
        )
        return terms, chunk.hyps.to(device)


def _chunk(
    copies: Sequence[Copy], terms: Mapping[Copy, Sequence[tuple[int, int]]]
) -> MaskedChunk:
    """Return one forward pass over copies."""
    rows = [(index, *term) for index, copy in enumerate(copies) for term in terms[copy]]
    ids, masked = (
        torch.from_numpy(padded([ids for _, ids in copies])),
        torch.tensor([place for place, _ in copies]),
    )
    return MaskedChunk(ids, masked, *torch.tensor(rows).unbind(dim=1))
