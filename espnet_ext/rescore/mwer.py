"""Minimum word error rate training of any scorer of N-best lists (P3, eq. 4 to 9, and section 4.2.2).

The log-probability of a hypothesis is a sum of many terms: one per token for a causal model, one per masked copy of the
sentence for a masked model. The loss depends only on the sums. So :func:`backward` computes the sums without a graph
and the derivative of the loss with respect to them; then it computes each chunk of terms again and backpropagates it
with the derivatives of its sums. The gradient is that of the whole graph, but only one chunk's graph is ever in memory.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch

from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import NBest, word_errors
from espnet_ext.nbest.sources import read_lists
from espnet_ext.rescore.interpolation import FIRST_PASS, combined, tune
from espnet_ext.rescore.language_model import HypothesisError, LmScorer
from espnet_ext.rescore.large_models import prepare
from espnet_ext.rescore.processes import device_for, map_shared, rank
from espnet_ext.rescore.scorers import load_lm, score_lists
from espnet_ext.rescore.second_pass import NewScores, add_scores
from espnet_ext.rescore.training import (
    TrainingSettings,
    TrainingTask,
    digest,
    module_digest,
    parse_settings,
    random_state,
    replayed,
    summary,
    train,
)

SCORES = "lm"
CHECKED_TOGETHER = 1000  # lists
WEIGHTS = {SCORES: 1.0, FIRST_PASS: 1.0}  # where the tuning of lambda starts
# What a config may set besides the settings of the training, with defaults.
OPTIONS: dict[str, Any] = {
    "lm": None,
    "scorer": None,
    "pooling": None,
    "casing": None,
    "first_pass_weight": None,
    "posterior_scale": None,
    "ce_weight": 0.0,
    "dtype": None,
    "lora": None,
    "gradient_checkpointing": False,
    "positions": None,
}
CALIBRATED = "dev"  # a value of posterior_scale: calibrated on the development lists
_SCALES = torch.logspace(-2, 1, 61, dtype=torch.float64).tolist()  # that are tried


@dataclass(frozen=True)
class Example:
    """One utterance as MWER training uses it.

    Attributes:
        utt_id: its id, for messages.
        texts: its hypotheses.
        first_pass: log P_AM of each, natural logarithm.
        errors: E(y_i, y*) of each: word errors.
        reference: the transcript.
        context: what the model reads before them.
    """

    utt_id: str
    texts: tuple[str, ...]
    first_pass: tuple[float, ...]
    errors: tuple[int, ...]
    reference: str
    context: str | None = None


def example(nbest: NBest) -> Example:
    """The training example of an N-best list. Texts are compared as they are: normalise them first.

    Raises:
        InputError: the list has no reference.
    """
    return Example(
        utt_id=nbest.utt_id,
        texts=tuple(hyp.text for hyp in nbest.hyps),
        first_pass=tuple(hyp.score for hyp in nbest.hyps),
        errors=tuple(word_errors(nbest)),
        reference=nbest.ref or "",
        context=nbest.context,
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


def effective_hypotheses(scores: torch.Tensor) -> torch.Tensor:
    """How many hypotheses share the posterior of a list: the exponential of its entropy, from 1 to n.

    Near 1 the expected errors have no gradient, whatever the errors are.

    >>> round(float(effective_hypotheses(torch.tensor([0.0, 0.0, -100.0]))), 3)
    2.0
    """
    log_posteriors = scores.log_softmax(dim=0)
    return torch.special.entr(log_posteriors.exp()).sum().exp()


@dataclass(frozen=True)
class MwerLoss:
    """MWER + alpha CE (P3, section 5), both averaged over the utterances.

    Attributes:
        first_pass_weight: lambda of P3, eq. 8 (a likelihood) and of P3, eq. 9 (a pseudo-likelihood).
        posterior_scale: what s_i is multiplied by in P3, eq. 6; the paper's is 1. It changes no ranking.
        ce_weight: alpha; the cross-entropy is the negative log-probability that the scorer gives the whole reference: a
            sum over its tokens, for a masked model its pseudo-log-likelihood.

    Raises:
        InputError: a scale that is not a number above 0.
    """

    first_pass_weight: float = 1.0
    posterior_scale: float = 1.0
    ce_weight: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.posterior_scale < math.inf:
            raise InputError(f"posterior_scale is {self.posterior_scale}: give a number above 0")

    def texts(self, batch: Sequence[Example]) -> list[list[str]]:
        """The texts to score: each utterance's hypotheses, and its reference at the end if the loss needs it."""
        return [[*item.texts, item.reference] if self.ce_weight else list(item.texts) for item in batch]

    def mwer(self, scores: Sequence[torch.Tensor], batch: Sequence[Example]) -> dict[str, torch.Tensor]:
        """``mwer`` and ``effective`` per utterance, see :meth:`__call__`. Ignores the score of the reference."""
        scaled = [
            self.posterior_scale * (lm[: len(item.texts)] + self.first_pass_weight * lm.new_tensor(item.first_pass))
            for lm, item in zip(scores, batch, strict=True)
        ]
        errors = [expected_errors(own, own.new_tensor(item.errors)) for own, item in zip(scaled, batch, strict=True)]
        effective = [effective_hypotheses(own.detach()) for own in scaled]
        return {"mwer": torch.stack(errors).mean(), "effective": torch.stack(effective).mean()}

    def __call__(self, scores: Sequence[torch.Tensor], batch: Sequence[Example]) -> dict[str, torch.Tensor]:
        """The loss and its parts from the scores of :meth:`texts`, in their precision.

        Args:
            scores: for each utterance log P_LM of its texts, (n,), or (n + 1,) with the reference.
            batch: the utterances.

        Returns:
            Means over the utterances: ``loss``, ``mwer`` (expected word errors, P3, eq. 7), ``effective`` (how many
            hypotheses share the posterior, no part of the loss) and, with ``ce_weight``, ``ce``.
        """
        values = self.mwer(scores, batch)
        if not self.ce_weight:
            return {"loss": values["mwer"], **values}
        ce = -torch.stack([lm[-1] for lm in scores]).mean()
        return {"loss": values["mwer"] + self.ce_weight * ce, **values, "ce": ce}


def backward(scorer: LmScorer, batch: Sequence[Example], loss: MwerLoss) -> dict[str, float]:
    """Add the gradient of ``loss`` over a batch to the scorer's parameters, one chunk's graph at a time.

    Scores are summed in float64. When a chunk is computed again, dropout draws the same masks. The last chunk keeps its
    graph, so that a batch of one chunk is computed only once.

    Returns:
        The loss and its parts.

    Raises:
        InputError: a score is not finite; names the utterance. No gradient is added then.
    """
    lists = loss.texts(batch)
    contexts = [item.context for item in batch]
    chunks = scorer.chunks(lists, contexts if any(contexts) else None)
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
                f"{item.utt_id}: the language model gives a score that is not finite: training has diverged (lower the "
                "learning rate), or its weights are broken"
            )


def train_mwer(
    scorer: LmScorer,
    lists: Sequence[NBest],
    dev_lists: Sequence[NBest],
    loss: MwerLoss,
    settings: TrainingSettings,
    output: Path,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Train on N-best lists; keep the model that rescores the development lists best, which may be the initial one.

    The best model has the lowest word error rate with lambda of eq. 1 tuned on the same lists, as it is tuned
    afterwards; of equals, the fewest expected errors at the lambda of the loss.

    Args:
        scorer: the model, on its device.
        lists, dev_lists: with references; texts are compared as they are, so normalise them before.
        loss: the loss and its weights.
        settings: the hyperparameters.
        output: see :func:`espnet_ext.rescore.training.train`.
        say: prints progress.

    Raises:
        InputError: there are no lists; a list has no reference, or a hypothesis too long for the model; a cross-entropy
            weight for a pooled scorer, whose scores are not log-probabilities; or what ``train`` refuses.
    """
    if loss.ce_weight and scorer.name == "pooled":
        raise InputError(
            "a pooled scorer has no cross-entropy, since its scores are not probabilities: leave ce_weight at 0"
        )
    examples, dev = ([example(nbest) for nbest in each] for each in (lists, dev_lists))
    if not dev:
        raise InputError("there are no development lists to choose the model by")
    _check_lengths(scorer, examples + dev, loss.texts(examples) + MwerLoss().texts(dev))
    idle = sum(len(set(item.errors)) == 1 for item in examples)
    if warning := scorer.casing_warning(text for item in dev for text in item.texts):
        say(warning)
    say(f"{len(examples)} lists to train on; {idle} of them teach MWER nothing: their hypotheses are equally good")
    say(f"lambda {loss.first_pass_weight:.4g}, posterior scale {loss.posterior_scale:.4g}, alpha {loss.ce_weight:g}")
    key = {
        "scorer": scorer.settings(),
        "lists": digest(map(repr, examples)),
        "dev_lists": digest(map(repr, dev)),
        "initial_model": module_digest(scorer),
        **asdict(loss),
    }
    return train(
        TrainingTask(
            module=scorer,
            examples=examples,
            backward=lambda batch: backward(scorer, batch, loss),
            evaluate=lambda: evaluate(scorer, dev_lists, loss),
            best_by=("wer", "mwer"),
            save=scorer.save,
        ),
        settings,
        output,
        key,
        say,
    )


def train_rescorer(
    values: Mapping[str, Any],
    lists: Sequence[Path],
    dev_lists: Sequence[Path],
    output: Path,
    *,
    seed: int = 0,
    ngpu: int = 0,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Load a language model and train it by MWER on files of N-best lists, as a config says.

    Args:
        values: the config: the names in ``OPTIONS`` (``lm`` is needed), and the settings of the training.
        lists, dev_lists: as :func:`espnet_ext.nbest.sources.read_lists` takes them, with references.
        output: see :func:`espnet_ext.rescore.training.train`.
        seed: for all random numbers.
        ngpu: 1 to train on a GPU.
        say: prints progress and the result.

    Raises:
        InputError: as :func:`train_mwer`; a file, a setting or the model is missing or bad.
    """
    chosen = {name: values.get(name, default) for name, default in OPTIONS.items()}
    settings = parse_settings({name: value for name, value in values.items() if name not in OPTIONS}, seed=seed)
    device = device_for(ngpu)
    if chosen["lm"] is None:
        raise InputError("MWER training: lm is missing: give the folder or hub name of a language model")
    train_on, dev = ([nbest for path in paths for nbest in read_lists(path)] for paths in (lists, dev_lists))
    torch.manual_seed(seed)  # for a new pooling layer
    scorer = load_lm(*(chosen[name] for name in ("lm", "scorer", "pooling", "casing", "dtype"))).to(device)
    scorer.budget = chosen["positions"] or scorer.budget
    loss = loss_for(chosen, scorer, dev)
    prepare(scorer, chosen["lora"], chosen["gradient_checkpointing"])
    report = train_mwer(scorer, train_on, dev, loss, settings, output, say)
    if rank():
        return report
    from espnet_ext.rescore.figures import draw_training  # matplotlib takes a second to import
    from espnet_ext.results.pages.plot_style import save_png

    save_png(draw_training(report, f"{scorer.name} scores, MWER"), output / "training.png")
    say(summary(output, report))
    return report


def loss_for(values: Mapping[str, Any], scorer: LmScorer, dev: Sequence[NBest]) -> MwerLoss:
    """The loss that a config asks for; what the config leaves open comes from the development lists.

    Args:
        values: ``first_pass_weight`` (None: :func:`tuned_weight`), ``posterior_scale`` (None: :func:`scale_of`,
            "dev": :func:`calibrated_scale`) and ``ce_weight``.
        scorer: the model before training.
        dev: development lists.

    Raises:
        InputError: a posterior scale that is neither.
    """
    weight, scale = values["first_pass_weight"], values["posterior_scale"]
    if weight is None:
        weight = tuned_weight(scorer, dev)
    if scale is None:
        scale = scale_of(weight)
    elif scale == CALIBRATED:
        scale = calibrated_scale(scored_lists(scorer, dev), weight)
    elif isinstance(scale, str):
        raise InputError(f"posterior_scale is {scale!r}: give a number above 0, or {CALIBRATED} to calibrate it")
    return MwerLoss(weight, float(scale), values["ce_weight"])


def scale_of(weight: float) -> float:
    """The default posterior scale: the first pass counts at most once, however large its weight lambda is.

    A language model whose log-probabilities are larger than the first pass's gets a large lambda. Posteriors of the sum
    are then nearly one-hot, and expected errors have no gradient.

    >>> scale_of(0.5), scale_of(4.0)
    (1.0, 0.25)
    """
    return 1.0 / max(1.0, weight)


def calibrated_scale(scored: Sequence[NBest], weight: float) -> float:
    """The scale at which posteriors say best which hypotheses of development lists have the fewest errors.

    That is temperature scaling (Guo et al., "On calibration of modern neural networks", ICML 2017): the largest mean
    log-probability of the best hypotheses, over 61 scales from 0.01 to 10.

    Args:
        scored: lists with references and scores named ``lm``.
        weight: lambda.
    """
    lists = []
    for nbest in scored:
        errors = torch.tensor(word_errors(nbest))
        lists.append((torch.from_numpy(combined(nbest, {SCORES: 1.0, FIRST_PASS: weight})), errors == errors.min()))

    def surprise(scale: float) -> float:
        return -sum((scale * scores).log_softmax(dim=0)[best].logsumexp(dim=0).item() for scores, best in lists)

    return min(_SCALES, key=surprise)


def evaluate(scorer: LmScorer, lists: Sequence[NBest], loss: MwerLoss) -> dict[str, float]:
    """How well a scorer in evaluation mode rescores lists.

    Returns:
        ``wer`` in percent with lambda tuned on these lists, ``lambda``, ``wer_fixed`` with the lambda of the loss, and
        with the posteriors of the loss ``mwer``, the expected word errors per utterance, and ``effective``, the
        hypotheses that share them.
    """
    scored = scored_lists(scorer, lists)
    tuned, curves = tune(scored, WEIGHTS)
    scores = [torch.tensor([hyp.scores[SCORES] for hyp in nbest.hyps], dtype=torch.float64) for nbest in scored]
    return {
        "wer": 100 * tuned.errors / tuned.words,
        "lambda": tuned.weights[FIRST_PASS],
        "wer_fixed": 100 * curves[FIRST_PASS].at(loss.first_pass_weight) / tuned.words,
        **{name: value.item() for name, value in loss.mwer(scores, [example(nbest) for nbest in lists]).items()},
    }


def tuned_weight(scorer: LmScorer, lists: Sequence[NBest]) -> float:
    """The lambda of eq. 8 and 9 that rescores lists best before MWER training, the default.

    P3 does not say which lambda it trained with. For a pooled scorer lambda is 1: its new layer has learnt nothing yet
    that could be tuned, and finds the scale of its scores itself.
    """
    return 1.0 if scorer.name == "pooled" else tune(scored_lists(scorer, lists), WEIGHTS)[0].weights[FIRST_PASS]


def scored_lists(scorer: LmScorer, lists: Sequence[NBest]) -> list[NBest]:
    """The lists with the scorer's log-probabilities as scores named ``lm``."""

    def score(part: Sequence[NBest]) -> list[list[NewScores]]:
        return map_shared(own_scores, part)

    def own_scores(part: Sequence[NBest]) -> list[list[NewScores]]:
        texts, names = [[hyp.text for hyp in nbest.hyps] for nbest in part], [nbest.utt_id for nbest in part]
        found = score_lists(scorer, texts, names, [nbest.context for nbest in part])
        return [[{SCORES: each} for each in own] for own in found]

    return add_scores(lists, score)


def _check_lengths(scorer: LmScorer, items: Sequence[Example], lists: Sequence[Sequence[str]]) -> None:
    """Refuse texts that are too long for the model, before hours of training are spent.

    Many lists at a time: the tokenizers of ``transformers`` then use all cores.
    """
    for start in range(0, len(items), CHECKED_TOGETHER):
        block = lists[start : start + CHECKED_TOGETHER]
        contexts = [item.context for item in items[start : start + CHECKED_TOGETHER]]
        try:
            scorer.encode(block, contexts)
        except HypothesisError as error:
            sizes = accumulate(len(texts) for texts in block)
            index = next(index for index, total in enumerate(sizes) if error.number < total)
            raise InputError(f"{items[start + index].utt_id}: {error}") from None
