"""MWER training of a language model on files of N-best lists: what is trained, how it is evaluated, where it begins.

:mod:`espnet_ext.rescore.training.mwer` has the loss and its gradient,
:mod:`espnet_ext.rescore.training.loop` the updates.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BeforeValidator

from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import NBest, word_errors
from espnet_ext.nbest.sources import read_lists, warnings_of
from espnet_ext.rescore import POOLINGS
from espnet_ext.rescore.interpolation import FIRST_PASS, combined, tune, with_words
from espnet_ext.rescore.models.language_model import LmScorer
from espnet_ext.rescore.models.large_models import adaptation, prepare
from espnet_ext.rescore.models.scorers import load_lm, score_lists
from espnet_ext.rescore.processes import device_for, launch, map_shared, rank
from espnet_ext.rescore.second_pass import NewScores, add_scores
from espnet_ext.rescore.training.examples import check_lengths, make_examples, without_long
from espnet_ext.rescore.training.loop import (
    TrainingTask,
    digest,
    module_digest,
    refuse_foreign,
    summary,
    train,
)
from espnet_ext.rescore.training.mwer import MwerLoss, backward, example
from espnet_ext.rescore.training.settings import ModelSettings, TrainingSettings
from espnet_ext.work.settings import Count, Flag, Weight, checked, one_of

SCORES = "lm"
CACHE = "counts"  # folder in a training's folder
LOOKED_AT = 2000  # lists of a file whose spelling is compared with that of their references: all would take minutes
WEIGHTS = {SCORES: 1.0, FIRST_PASS: 1.0}  # where the tuning of lambda starts
CALIBRATED = "dev"  # a value of posterior_scale: calibrated on the development lists
_SCALES = torch.logspace(-2, 1, 61, dtype=torch.float64).tolist()  # that are tried


def _scale(value: Any) -> Any:
    """The posterior scale of a config."""
    if value is None or value == CALIBRATED:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"must be a number above 0, or {CALIBRATED} to calibrate it, is {value!r}")
    return float(value)


class MwerSettings(ModelSettings):
    """What a config of MWER training may set.

    Attributes:
        pooling: see :func:`espnet_ext.rescore.models.scorers.load_lm`.
        first_pass_weight: lambda of P3, eq. 8 and 9; None: :func:`tuned_weight`.
        posterior_scale: see :class:`MwerLoss`; None: :func:`scale_of`, "dev": :func:`calibrated_scale`.
        ce_weight: alpha of MWER + alpha CE.
        positions: most tokens of a forward pass; None for the default.
        prompt: text that the model reads before the context of each list and its hypotheses; it is kept with the model.
            None: what the model was trained with.
        skip_long: leave out hypotheses with more tokens than the model takes; otherwise they are refused.
    """

    pooling: Annotated[str, one_of(POOLINGS)] | None = None
    first_pass_weight: Weight | None = None
    posterior_scale: Annotated[float | str | None, BeforeValidator(_scale)] = None
    ce_weight: Weight = 0.0
    positions: Count | None = None
    prompt: str | None = None
    skip_long: Flag = False


def train_mwer(
    scorer: LmScorer,
    lists: Sequence[NBest],
    dev_lists: Sequence[NBest],
    loss: MwerLoss,
    settings: TrainingSettings,
    output: Path,
    say: Callable[[str], None] = print,
    cache: Path | None = None,
) -> dict[str, Any]:
    """Train on N-best lists; keep the model that rescores the development lists best, which may be the initial one.

    The best model has the lowest word error rate with lambda of eq. 1 tuned on the same lists, as it is tuned
    afterwards; of equals, the fewest expected errors at the lambda of the loss.

    Args:
        scorer: the model, on its device.
        lists, dev_lists: with references; texts are compared as they are, so normalise them before. Hypotheses without
            words, which no second pass chooses, are left out where there are others.
        loss: the loss and its weights.
        settings: the hyperparameters.
        output: see :func:`espnet_ext.rescore.training.loop.train`.
        say: prints progress.
        cache: folder for what is counted once, see :mod:`espnet_ext.rescore.training.examples`; None: in ``output``.

    Raises:
        InputError: there are no lists; a list has no reference, or a hypothesis too long for the model; a cross-entropy
            weight for a pooled scorer, whose scores are not log-probabilities; or what ``train`` refuses.
    """
    if loss.ce_weight and scorer.name == "pooled":
        raise InputError(
            "a pooled scorer has no cross-entropy, since its scores are not probabilities: leave ce_weight at 0"
        )
    cache = cache or output / CACHE
    lists, dev_lists = ([with_words(nbest) for nbest in each] for each in (lists, dev_lists))
    examples, dev = (make_examples(each, cache) for each in (lists, dev_lists))
    if not dev:
        raise InputError("there are no development lists to choose the model by")
    check_lengths(scorer, examples, loss, cache)
    check_lengths(scorer, dev, MwerLoss(), cache)
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
        **adaptation(scorer),
        # what is tuned on dev differs in the last digits on another type of CPU
        **{name: float(f"{value:.5g}") for name, value in asdict(loss).items()},
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
    ngpu: int = 0,
    cache: Path | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Load a language model and train it by MWER on files of N-best lists, as a config says.

    Args:
        values: the config, see :class:`MwerSettings`.
        lists, dev_lists: as :func:`espnet_ext.nbest.sources.read_lists` takes them, with references.
        output: see :func:`espnet_ext.rescore.training.loop.train`.
        ngpu: GPUs to train on, with a process for each.
        cache: see :func:`train_mwer`.
        say: prints progress and the result.

    Raises:
        InputError: as :func:`train_mwer`; a file, a setting or the model is missing or bad.
    """
    config = checked(MwerSettings, values, "MWER training")
    if ngpu > 1:
        return launch(train_rescorer, ngpu, values, lists, dev_lists, output, ngpu=1, cache=cache, say=say)
    refuse_foreign(output, config.lm)
    if set(lists) & set(dev_lists) and not rank():
        say("warning: lists that are trained on are development lists too, which then choose the model that is kept")
    device = device_for(ngpu)
    train_on, dev = (_read(paths, say) for paths in (lists, dev_lists))
    torch.manual_seed(config.seed)  # for a new pooling layer
    how = config.scorer, config.pooling, config.casing, config.dtype, config.prompt
    scorer = load_lm(config.lm, *how, new_layer=True).to(device)
    scorer.budget = config.positions or scorer.budget
    if config.skip_long:
        shown = (lambda _line: None) if rank() else say
        train_on = without_long(scorer, train_on, "lists", shown, references=config.ce_weight > 0)
        dev = without_long(scorer, dev, "dev lists", shown)
    loss = loss_for(config, scorer, dev)
    prepare(scorer, config.lora, config.gradient_checkpointing, config.amp)
    report = train_mwer(scorer, train_on, dev, loss, config.training(), output, say, cache)
    if rank():
        return report
    from espnet_ext.rescore.figures import draw_training  # matplotlib takes a second to import
    from espnet_ext.work.plot_style import save_png

    save_png(draw_training(report, f"{scorer.name} scores, MWER"), output / "training.png")
    say(summary(output, report))
    return report


def _read(paths: Sequence[Path], say: Callable[[str], None]) -> list[NBest]:
    """The lists of several files; the first process says what must be wrong with those of a file."""
    found = []
    for path in paths:
        own = read_lists(path)
        for warning in warnings_of(own[:LOOKED_AT], path) if not rank() else ():
            say(warning)
        found += own
    return found


def loss_for(config: MwerSettings, scorer: LmScorer, dev: Sequence[NBest]) -> MwerLoss:
    """The loss that a config asks for; what the config leaves open comes from the development lists.

    Args:
        config: the config.
        scorer: the model before training.
        dev: development lists.
    """
    weight, scale = config.first_pass_weight, config.posterior_scale
    if weight is None:
        weight = tuned_weight(scorer, dev)
    if scale is None:
        scale = scale_of(weight)
    elif scale == CALIBRATED:
        scale = calibrated_scale(scored_lists(scorer, [with_words(nbest) for nbest in dev]), weight)
    return MwerLoss(weight, float(scale), config.ce_weight)


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
