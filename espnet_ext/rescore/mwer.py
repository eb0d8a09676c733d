"""Minimum word error rate training of any scorer of N-best lists (P3, eq. 5 to 9), at bounded memory.

A hypothesis's log-probability is a sum of many terms: one a token for a causal model, one a masked copy of the sentence
for a masked one. The loss depends on the sums alone. So the sums are computed without a graph, the loss is derived by
them, and then each chunk of terms is computed again and backpropagated by itself with the derivatives of its sums. The
gradient is that of the whole graph, and no more than one chunk's graph is ever in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import NBest, word_errors
from espnet_ext.rescore.random_state import random_state, replayed
from espnet_ext.rescore.scorers import Scorer


@dataclass(frozen=True)
class Example:
    """One utterance as MWER sees it.

    Attributes:
        utt_id: for messages.
        texts: its hypotheses.
        first_pass: log P_AM of each, natural logarithm.
        errors: E(y_i, y*) of each: word errors.
        reference: the transcript.
    """

    utt_id: str
    texts: tuple[str, ...]
    first_pass: tuple[float, ...]
    errors: tuple[int, ...]
    reference: str


def example(nbest: NBest) -> Example:
    """What training needs of an N-best list. Texts are compared as they are: normalise them first.

    Raises:
        InputError: the list has no reference.
    """
    return Example(
        utt_id=nbest.utt_id,
        texts=tuple(hyp.text for hyp in nbest.hyps),
        first_pass=tuple(hyp.score for hyp in nbest.hyps),
        errors=tuple(word_errors(nbest)),
        reference=nbest.ref or "",
    )


def expected_errors(scores: torch.Tensor, errors: torch.Tensor) -> torch.Tensor:
    """The expected number of word errors (P3, eq. 4) over one N-best list (P3, eq. 5), by posteriors (P3, eq. 6).

    Args:
        scores: s_i of eq. 1, log-probabilities up to a constant, (n,).
        errors: E(y_i, y*), (n,).

    >>> expected_errors(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 3.0]))
    tensor(2.)
    """
    return (scores.softmax(dim=0) * errors).sum()


@dataclass(frozen=True)
class Loss:
    """MWER + alpha CE (P3, section 5), each a mean over the utterances.

    Attributes:
        first_pass_weight: lambda of P3, eq. 8 (a likelihood) and of P3, eq. 9 (a pseudo-likelihood).
        ce_weight: alpha; the cross-entropy is the negative log-probability that the scorer gives the reference.
    """

    first_pass_weight: float = 1.0
    ce_weight: float = 0.0

    def texts(self, batch: Sequence[Example]) -> list[list[str]]:
        """What is to be scored: each utterance's hypotheses, and last its reference where the loss needs it."""
        return [[*item.texts, item.reference] if self.ce_weight else list(item.texts) for item in batch]

    def mwer(self, scores: Sequence[torch.Tensor], batch: Sequence[Example]) -> torch.Tensor:
        """Expected word errors an utterance at this lambda (P3, eq. 7). A score of the reference is not looked at."""
        return torch.stack(
            [
                expected_errors(
                    lm[: len(item.texts)] + self.first_pass_weight * lm.new_tensor(item.first_pass),
                    lm.new_tensor(item.errors),
                )
                for lm, item in zip(scores, batch, strict=True)
            ]
        ).mean()

    def __call__(self, scores: Sequence[torch.Tensor], batch: Sequence[Example]) -> dict[str, torch.Tensor]:
        """The loss and its parts from the scores of :meth:`texts`, in their precision.

        Args:
            scores: log P_LM of an utterance's texts, (n,) or with the reference (n + 1,), for each utterance.

        Returns:
            ``loss``, ``mwer`` (expected word errors an utterance) and, with ``ce_weight``, ``ce``.
        """
        mwer = self.mwer(scores, batch)
        if not self.ce_weight:
            return {"loss": mwer, "mwer": mwer}
        ce = -torch.stack([lm[-1] for lm in scores]).mean()
        return {"loss": mwer + self.ce_weight * ce, "mwer": mwer, "ce": ce}


def backward(scorer: Scorer, batch: Sequence[Example], loss: Loss) -> dict[str, float]:
    """Add the gradient of ``loss`` over a batch to the scorer's parameters, one chunk's graph at a time.

    The scores are summed in float64. Dropout draws the same masks when a chunk is computed again. The last chunk keeps
    its graph, so that a batch of one chunk is computed once.

    Returns:
        The loss and its parts.

    Raises:
        InputError: a score is not finite; names the utterance. No gradient has been added.
    """
    lists = loss.texts(batch)
    chunks = scorer.chunks(lists)
    device = next(scorer.parameters()).device
    start = random_state(device)
    with torch.no_grad():
        parts = [scorer.terms(chunk) for chunk in chunks[:-1]]
    parts += [scorer.terms(chunk) for chunk in chunks[-1:]]

    sums = torch.zeros(sum(map(len, lists)), dtype=torch.float64, device=device)
    for terms, index in parts:
        sums.index_add_(0, index, terms.detach().double())
    _check_finite(sums.split([len(texts) for texts in lists]), batch)
    sums.requires_grad_()
    values = loss(sums.split([len(texts) for texts in lists]), batch)
    (slope,) = torch.autograd.grad(values["loss"], sums)

    def add_gradient(terms: torch.Tensor, index: torch.Tensor) -> None:
        if terms.requires_grad:
            (terms * slope[index].to(terms)).sum().backward()

    if parts:
        add_gradient(*parts[-1])
    with replayed(start, device):
        for chunk in chunks[:-1]:
            add_gradient(*scorer.terms(chunk))
    return {name: value.item() for name, value in values.items()}


def _check_finite(scores: Sequence[torch.Tensor], batch: Sequence[Example]) -> None:
    for lm, item in zip(scores, batch, strict=True):
        if not lm.isfinite().all():
            raise InputError(
                f"{item.utt_id}: the language model gives a score that is not finite: training has diverged (a lower "
                "learning rate helps), or its weights are broken"
            )
