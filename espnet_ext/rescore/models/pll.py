"""Pseudo-log-likelihoods of a masked language model (P3, eq. 3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.language_model import LmScorer, find_surrounding
from espnet_ext.rescore.models.prefix_trees import group_by_size, pad_rows
from espnet_ext.rescore.models.vocabulary import compute_log_probs, is_plain

Copy = tuple[int, tuple[int, ...]]  # masked place, and token ids


@dataclass(frozen=True, eq=False)
class MaskedChunk:
    """The masked copies of one forward pass.

    ``ids``: token ids, padded with -1, (copies, positions); ``masked``: the masked
    position of each copy. Of each term, (n,) each: its copy, the token under the mask,
    and its hypothesis.
    """

    ids: torch.Tensor
    masked: torch.Tensor
    copies: torch.Tensor
    targets: torch.Tensor
    hyps: torch.Tensor


class PllScorer(LmScorer):
    """Score a hypothesis by the pseudo-log-likelihood of its tokens (P3, eq. 3).

    That is the sum of each token's log-probability when only that token is masked. P3
    writes eq. 3 and 9 with a minus before that sum. Eq. 1 needs a score where more is
    better, so there is none here. Special tokens are never masked; every sub-token of
    the text is masked once. Hypotheses that differ in one token share one masked copy.
    A hypothesis without words scores 0. ``plain``: the vocabulary can be computed in
    blocks.
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
        super().__init__(model, tokenizer, casing, find_surrounding(tokenizer))
        self.require_known([tokenizer.mask_token_id])
        # Padding is hidden by the attention mask, so that any token will do.
        self.padding = tokenizer.pad_token_id or 0
        if self.padding >= self.size:
            self.padding = 0
        self.plain = is_plain(model)

    def chunks(
        self, lists: Sequence[Sequence[str]], names: Sequence[str] = ()
    ) -> list[MaskedChunk]:
        """Return forward passes over masked copies, grouped by length."""
        mask = self.tokenizer.mask_token_id
        # Copy -> its targets and their hypotheses. Hypotheses of a list differ in a few
        # places: where that place is masked, they are one copy with several targets.
        found: dict[Copy, list[tuple[int, int]]] = {}
        for hypotheses in self.encode(lists, names):
            for hyp, ids in hypotheses:
                tokens = tuple(ids)
                for place in range(len(self.before), len(ids) - len(self.after)):
                    copy = (place, (*tokens[:place], mask, *tokens[place + 1 :]))
                    found.setdefault(copy, []).append((tokens[place], hyp))
        copies = list(found)
        sizes = [len(ids) for _, ids in copies]
        chunks = []
        for batch in group_by_size(sizes, self.budget):
            own = [copies[index] for index in batch]
            chunks.append(_make_chunk(own, found))
        return chunks

    def terms(self, chunk: MaskedChunk) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-probabilities of tokens under the mask, and their hypotheses.

        Both are (n,); hypotheses are numbers.
        """
        device = self.model.device
        ids = chunk.ids.to(device)
        masked = chunk.masked.to(device)
        real = ids >= 0
        inputs = {
            "input_ids": ids.masked_fill(~real, self.padding),
            "attention_mask": real.long(),
        }
        # One position a row, so that rows are counted as copies are.
        chosen = torch.zeros_like(real)
        chosen[torch.arange(len(ids), device=device), masked] = True
        terms = compute_log_probs(
            self.model,
            chosen,
            chunk.copies.to(device),
            chunk.targets.to(device),
            self.plain,
            **inputs,
        )
        return terms, chunk.hyps.to(device)


def _make_chunk(
    copies: Sequence[Copy], terms: Mapping[Copy, Sequence[tuple[int, int]]]
) -> MaskedChunk:
    """Return one forward pass over copies."""
    rows = []
    for index, copy in enumerate(copies):
        rows += [(index, target, hyp) for target, hyp in terms[copy]]
    of_copies, targets, hyps = torch.tensor(rows).unbind(dim=1)
    return MaskedChunk(
        ids=torch.from_numpy(pad_rows([ids for _, ids in copies])),
        masked=torch.tensor([place for place, _ in copies]),
        copies=of_copies,
        targets=targets,
        hyps=hyps,
    )
