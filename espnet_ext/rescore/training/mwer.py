"""Train any scorer of N-best lists for the minimum word error rate.

It is P3's, eq. 4 to 9 and section 4.2.2. The loss depends only on sums of terms, one
term per token or masked copy. So
:func:`backward` computes the sums without a graph and the derivative of the loss by
them, then each chunk of terms again, and backpropagates it with the derivatives of its
sums: the gradient of the whole graph, with at most one chunk's positions in memory.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate

import torch

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.language_model import LmScorer
from espnet_ext.text.nbest import NBest, count_errors_of_lists

# State of random numbers: of the CPU, and of the GPU if there is one.
RandomState = tuple[torch.Tensor, torch.Tensor | None]


@dataclass(frozen=True)
class Example:
    """An N-best list, and E(y_i, y*) of each hypothesis: its word errors."""

    nbest: NBest
    errors: tuple[int, ...]

    @property
    def texts(self) -> list[str]:
        return [hyp.text for hyp in self.nbest.hyps]


def make_examples(lists: Sequence[NBest]) -> list[Example]:
    """Return training examples of N-best lists.

    Texts are compared as they are: normalise them first.
    """
    errors = count_errors_of_lists(lists)
    pairs = zip(lists, errors, strict=True)
    return [Example(nbest, tuple(own)) for nbest, own in pairs]


def compute_expected_errors(scores: torch.Tensor, errors: torch.Tensor) -> torch.Tensor:
    """Return the expected word errors (P3, eq. 4) of one N-best list.

    Errors are expected over the list in place of all texts (P3, eq. 5), by posteriors
    (P3, eq. 6): the softmax of the scores. ``scores``: s_i of eq. 1, log-probabilities
    up to a constant, (n,); ``errors``: E(y_i, y*), (n,).

    >>> compute_expected_errors(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 3.0]))
    tensor(2.)
    """
    posteriors = scores.softmax(dim=0)
    return (posteriors * errors).sum()


def count_effective_hypotheses(scores: torch.Tensor) -> torch.Tensor:
    """Return how many hypotheses share the posterior of a list, from 1 to n.

    The number is the exponential of the entropy. Near 1 the expected errors have no
    gradient, whatever the errors are.

    >>> round(float(count_effective_hypotheses(torch.tensor([0.0, 0.0, -100.0]))), 3)
    2.0
    """
    log_posteriors = scores.log_softmax(dim=0)
    return torch.special.entr(log_posteriors.exp()).sum().exp()


@dataclass(frozen=True)
class MwerLoss:
    """Compute MWER + alpha CE (P3, section 5), both averaged over the utterances."""

    # lambda of P3, eq. 8 (likelihood) and P3, eq. 9 (pseudo-likelihood)
    first_pass_weight: float = 1.0
    # what s_i is multiplied by in P3, eq. 6; the paper's is 1; it changes no ranking
    posterior_scale: float = 1.0
    # alpha; CE is the scorer's negative (pseudo-)log-likelihood of the reference
    ce_weight: float = 0.0

    def list_texts(self, batch: Sequence[Example]) -> list[list[str]]:
        """Return the texts to score, those of each utterance's hypotheses.

        Its reference is at the end if the loss needs it.
        """
        lists = [item.texts for item in batch]
        if self.ce_weight:
            for texts, item in zip(lists, batch, strict=True):
                texts.append(item.nbest.ref or "")
        return lists

    def compute_mwer(
        self, scores: Sequence[torch.Tensor], batch: Sequence[Example]
    ) -> dict[str, torch.Tensor]:
        """Return ``mwer`` and ``effective`` per utterance, see :meth:`__call__`.

        The score of the reference is ignored.
        """
        errors = []
        effective = []
        for lm, item in zip(scores, batch, strict=True):
            first_pass = lm.new_tensor([hyp.score for hyp in item.nbest.hyps])
            own = lm[: len(first_pass)]  # without that of the reference
            total = own + self.first_pass_weight * first_pass
            scaled = self.posterior_scale * total
            own_errors = scaled.new_tensor(item.errors)
            errors.append(compute_expected_errors(scaled, own_errors))
            effective.append(count_effective_hypotheses(scaled.detach()))
        return {
            "mwer": torch.stack(errors).mean(),
            "effective": torch.stack(effective).mean(),
        }

    def __call__(
        self, scores: Sequence[torch.Tensor], batch: Sequence[Example]
    ) -> dict[str, torch.Tensor]:
        """Return means over the utterances: ``loss``, ``mwer``, ``effective``, ``ce``.

        ``mwer`` are the expected errors (P3, eq. 7). ``scores``: for each utterance log
        P_LM of its :meth:`list_texts`, (n,), or (n + 1,) with the reference.
        ``effective``, the hypotheses that share the posterior, is no part of the loss;
        ``ce`` is there with ``ce_weight``.
        """
        values = self.compute_mwer(scores, batch)
        if not self.ce_weight:
            return {"loss": values["mwer"], **values}
        references = torch.stack([lm[-1] for lm in scores])
        ce = -references.mean()
        loss = values["mwer"] + self.ce_weight * ce
        return {"loss": loss, **values, "ce": ce}


def backward(
    scorer: LmScorer, batch: Sequence[Example], loss: MwerLoss
) -> dict[str, float]:
    """Add the gradient of ``loss`` over a batch to the parameters; return its parts.

    There is one chunk's graph at a time. Scores are summed in float64. When a chunk is
    computed again, dropout draws the same masks. The last chunks that
    :func:`count_kept_graphs` counts keep their graphs, so that they are computed only
    once.
    """
    lists = loss.list_texts(batch)
    chunks = scorer.chunks(lists)
    device = next(scorer.parameters()).device
    positions = [chunk.ids.numel() for chunk in chunks]
    # This many chunks are computed twice: here without, later with a graph.
    again = len(chunks) - count_kept_graphs(positions, scorer.budget)
    start = get_random_state(device)
    with torch.no_grad():
        parts = [scorer(chunk) for chunk in chunks[:again]]
    for chunk in chunks[again:]:
        parts.append(scorer(chunk))

    sizes = [len(texts) for texts in lists]
    # Chunks group texts by length: the terms of a hypothesis come from several places.
    sums = torch.zeros(sum(sizes), dtype=torch.float64, device=device)
    for terms, index in parts:
        sums.index_add_(0, index, terms.detach().double())
    _check_finite(sums.split(sizes), batch)
    # The loss is differentiated by the sums alone; a term's derivative is its sum's.
    sums.requires_grad_()
    values = loss(sums.split(sizes), batch)
    (slope,) = torch.autograd.grad(values["loss"], sums)

    def add_gradient(terms: torch.Tensor, index: torch.Tensor) -> None:
        if not terms.requires_grad:
            return
        # d loss / d parameter is the sum over terms of d loss / d its sum, a constant
        # here, times d term / d parameter.
        weighted = terms * slope[index].to(terms)
        weighted.sum().backward()

    # Popped, so that each graph is freed before the next one is used.
    while len(parts) > again:
        terms, index = parts.pop()
        add_gradient(terms, index)
    with replay_random(start, device):
        for chunk in chunks[:again]:
            terms, index = scorer(chunk)
            add_gradient(terms, index)
    return {name: value.item() for name, value in values.items()}


def count_kept_graphs(positions: Sequence[int], budget: int) -> int:
    """Return how many chunks at the end keep their graphs.

    As many as the budget has room for, at least the last one.

    >>> count_kept_graphs([1000, 900, 60, 40], 1000)
    3
    >>> count_kept_graphs([60, 1040], 1000), count_kept_graphs([], 1000)
    (1, 0)
    """
    fitting = 0
    for total in accumulate(reversed(positions)):
        if total <= budget:
            fitting += 1
    at_least = min(1, len(positions))
    return max(fitting, at_least)


def _check_finite(scores: Sequence[torch.Tensor], batch: Sequence[Example]) -> None:
    for lm, item in zip(scores, batch, strict=True):
        if not lm.isfinite().all():
            raise InputError(
                f"{item.nbest.utt_id}: the language model gives a score that is "
                "not finite: training has diverged "
                "(lower the learning rate), or its weights are broken"
            )


def get_random_state(device: torch.device) -> RandomState:
    """Return the states of random numbers, of the CPU and of ``device``, a GPU."""
    on_gpu = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    return torch.get_rng_state(), on_gpu


@contextmanager
def replay_random(state: RandomState, device: torch.device) -> Iterator[None]:
    """Draw random numbers from ``state`` inside the block.

    Afterwards they continue as if nothing had been drawn.
    """
    cpu, cuda = state
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state(cuda, device)
        yield
