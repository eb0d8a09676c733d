"""Train a language model by MWER on files of N-best lists.

What is trained is here, how it is evaluated, and where it begins.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import torch

from espnet_ext.errors import InputError
from espnet_ext.nbest.selection import Selection, select_hypotheses
from espnet_ext.nbest.sources import find_oddities, read_lists
from espnet_ext.rescore import POOLINGS
from espnet_ext.rescore.devices import (
    choose_process_device,
    launch,
    map_shared,
    mute_unless_main,
)
from espnet_ext.rescore.models.language_model import LmScorer
from espnet_ext.rescore.models.scorers import load_lm, score_nbest
from espnet_ext.rescore.second_pass import add_scores
from espnet_ext.rescore.training.mwer import Example, MwerLoss, backward, make_examples
from espnet_ext.rescore.training.settings import ModelSettings, TrainingSettings
from espnet_ext.rescore.training.trainer import (
    TrainingTask,
    compute_digest,
    compute_module_digest,
    describe_result,
    refuse_foreign,
    train,
)
from espnet_ext.rescore.weights import (
    FIRST_PASS,
    FLAT,
    keep_choosable,
    measure_spread,
    tune,
)
from espnet_ext.text.nbest import NBest, find_shared_lists, require_references
from espnet_ext.work.settings import (
    Count,
    Positive,
    Weight,
    check_settings,
    require_one_of,
)

SCORES = "lm"
FROM_SPREAD = "first_pass"  # a posterior scale
ENOUGH_EFFECTIVE = 1.5  # hypotheses that share a posterior
# Lists of a file whose spelling is compared with that of their references: all would
# take minutes.
LOOKED_AT = 2000
# Lists: the tokenizers of transformers share them among the cores.
CHECKED_TOGETHER = 1000


class MwerSettings(ModelSettings):
    """Set a MWER training."""

    pooling: Annotated[str, require_one_of(POOLINGS)] | None = None
    # lambda of P3, eq. 8 and 9; None: find_tuned_weight
    first_pass_weight: Weight | None = None
    # see MwerLoss; None: find_scale, "first_pass": find_scale_by_spread
    posterior_scale: Positive | Literal["first_pass"] | None = None
    ce_weight: Weight = 0.0  # alpha of MWER + alpha CE
    positions: Count | None = None  # most tokens of a forward pass
    depth: Count | None = None  # most texts of a list, None for all


def train_rescorer(
    values: Mapping[str, Any],
    lists: Sequence[Path],
    dev_lists: Sequence[Path],
    output: Path,
    *,
    source: str = "MWER training",
    ngpu: int = 0,
    log: Callable[[str], None] = print,
) -> None:
    """Load a language model and train it by MWER on N-best lists with references.

    ``values`` are those of :class:`MwerSettings`. The lists are as
    :func:`espnet_ext.nbest.sources.read_lists` takes them; ``source`` is where the
    values come from;
    :func:`espnet_ext.rescore.training.trainer.train` describes ``output``. With several
        GPUs, each has a process.
    """
    config = check_settings(MwerSettings, values, source)
    if ngpu > 1:
        return launch(
            train_rescorer,
            ngpu,
            values,
            lists,
            dev_lists,
            output,
            source=source,
            ngpu=1,
            log=log,
        )
    log = mute_unless_main(log)
    refuse_foreign(output, config.lm)
    device = choose_process_device(ngpu)
    selection = Selection(depth=config.depth)
    train_on = _read(lists, selection, log)
    dev = _read(dev_lists, selection, log)
    if shared := find_shared_lists(dev, train_on):
        log(
            f"warning: {len(shared)} of {len(dev)} development lists, which choose the "
            "model that is kept, are trained on too"
        )
    torch.manual_seed(config.seed)  # for a new pooling layer
    scorer = load_lm(
        config.lm, config.scorer, config.pooling, config.casing, new_layer=True
    ).to(device)
    scorer.budget = config.positions or scorer.budget
    weight = config.first_pass_weight
    if weight is None:
        weight = find_tuned_weight(scorer, dev)
    scale = choose_scale(config.posterior_scale, weight, train_on)
    loss = MwerLoss(weight, scale, config.ce_weight)
    scorer.prepare_training(config.gradient_checkpointing, config.amp, config.use_tf32)
    report = train_mwer(
        scorer, train_on, dev, loss, config.select_training(), output, log
    )
    log(describe_result(output, report))


def train_mwer(
    scorer: LmScorer,
    lists: Sequence[NBest],
    dev_lists: Sequence[NBest],
    loss: MwerLoss,
    settings: TrainingSettings,
    output: Path,
    log: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Train on N-best lists.

    Keep the model that rescores the development lists best, which may be the initial
    one.

    The best model has the lowest word error rate with lambda of eq. 1 tuned on the same
    lists, as it is tuned afterwards; of equals, the fewest expected errors at the
    lambda of the loss. Texts are compared as they are. Hypotheses without words, which
    no second pass chooses, are left out where there are others.
    """
    if loss.ce_weight and scorer.name == "pooled":
        raise InputError(
            "a pooled scorer has no cross-entropy, its scores are no "
            "probabilities: leave ce_weight at 0"
        )
    examples = make_examples([keep_choosable(nbest) for nbest in lists])
    dev = make_examples([keep_choosable(nbest) for nbest in dev_lists])
    if not dev:
        raise InputError("there are no development lists to choose the model by")
    check_lengths(scorer, examples, loss)
    check_lengths(scorer, dev, MwerLoss())
    idle = sum(len(set(item.errors)) == 1 for item in examples)
    if warning := scorer.check_casing(text for item in dev for text in item.texts):
        log(warning)
    log(
        f"{len(examples)} lists to train on; {idle} of them teach MWER nothing: "
        "their hypotheses are equally good"
    )
    log(
        f"lambda {loss.first_pass_weight:.4g}, posterior scale "
        f"{loss.posterior_scale:.4g}, alpha {loss.ce_weight:g}"
    )
    key: dict[str, Any] = {
        "scorer": scorer.settings(),
        "lists": compute_digest(map(repr, examples)),
        "dev_lists": compute_digest(map(repr, dev)),
        "initial_model": compute_module_digest(scorer),
    }
    if scorer.amp:
        key["amp"] = True
    # What is tuned on dev differs in the last digits on another type of CPU.
    for name, value in asdict(loss).items():
        key[name] = float(f"{value:.5g}")
    watch = Watch(loss, dev, log)
    task = TrainingTask(
        module=scorer,
        examples=examples,
        backward=lambda batch: backward(scorer, batch, loss),
        evaluate=lambda: watch.note(evaluate(scorer, dev, loss)),
        best_by=("wer", "mwer"),
        save=scorer.save,
        measure=lambda item: sum(map(len, item.texts)),
    )
    report = train(task, settings, output, key, log)
    watch.warn_of_flat_scores(report)
    return report


class Watch:
    """Warn of trainings by MWER that can learn nothing, or have not."""

    def __init__(
        self, loss: MwerLoss, dev: Sequence[Example], log: Callable[[str], None]
    ):
        self.log = log
        self.has_warned = False
        spread = measure_spread([item.nbest for item in dev], FIRST_PASS)
        self.of_first_pass = loss.first_pass_weight * spread

    def note(self, values: dict[str, float]) -> dict[str, float]:
        """Return the numbers of an evaluation; warn once of one-hot posteriors."""
        if values["effective"] < ENOUGH_EFFECTIVE and not self.has_warned:
            self.has_warned = True
            self.log(
                f"warning: {values['effective']:.2f} effective hypotheses share the "
                "posterior of a list, so that expected errors have hardly a gradient: "
                f"soften it by posterior_scale: {FROM_SPREAD}, or by a number"
            )
        return values

    def warn_of_flat_scores(self, report: Mapping[str, Any]) -> None:
        """Warn if the model that was kept scores all hypotheses of a list alike."""
        best = report["best_step"]
        kept = next(each for each in report["history"] if each["step"] == best)
        spread = kept.get("dev_spread", math.inf)  # older reports have none
        if spread < FLAT * self.of_first_pass:
            self.log(
                "warning: the scores of the trained model hardly differ within a list "
                f"({spread:.2g} in the mean, the first pass {self.of_first_pass:.2g}): "
                "it has learnt next to nothing"
            )


def check_lengths(scorer: LmScorer, items: Sequence[Example], loss: MwerLoss) -> None:
    """Refuse texts that are too long for the model, and name the utterance."""
    # Before hours of training are spent: the longest may be in the last batch.
    lists = loss.list_texts(items)
    names = [item.nbest.utt_id for item in items]
    for start in range(0, len(items), CHECKED_TOGETHER):
        block = slice(start, start + CHECKED_TOGETHER)
        scorer.encode(lists[block], names[block])


def _read(
    paths: Sequence[Path], selection: Selection, log: Callable[[str], None]
) -> list[NBest]:
    """Return what is used of the lists of several files; what is odd is printed."""
    found = []
    for path in paths:
        own, notes = select_hypotheses(read_lists(path), selection, path)
        require_references(own, path, "--ref to nbest convert")
        for line in (*notes, *find_oddities(own[:LOOKED_AT], path)):
            log(line)
        found += own
    return found


def choose_scale(
    given: float | str | None, weight: float, lists: Sequence[NBest]
) -> float:
    """Return the posterior scale that a config asks for."""
    if given is None:
        return find_scale(weight)
    if given == FROM_SPREAD:
        return find_scale_by_spread(weight, lists)
    return float(given)


def find_scale_by_spread(weight: float, lists: Sequence[NBest]) -> float:
    """Return the scale at which the weighted first pass differs by 1 within a list.

    That is the mean of standard deviations; the scale is at most 1.

    The default leaves a first pass as it is whose own posteriors are nearly one-hot.
    """
    return 1.0 / max(1.0, weight * measure_spread(lists, FIRST_PASS))


def find_scale(weight: float) -> float:
    """Return the default posterior scale, by which the first pass counts at most once.

    With a large lambda posteriors of the sum are nearly one-hot, and expected errors
    have no gradient.

    >>> find_scale(0.5), find_scale(4.0)
    (1.0, 0.25)
    """
    return 1.0 / max(1.0, weight)


def find_tuned_weight(scorer: LmScorer, lists: Sequence[NBest]) -> float:
    """Return the default lambda of eq. 8 and 9, which rescores best before training.

    P3 does not say which lambda it trained with. For a pooled scorer it is 1: its new
    layer has learnt nothing yet that could be tuned, and finds the scale of its scores
    itself.
    """
    if scorer.name == "pooled":
        return 1.0
    tuned = tune(score_own_lists(scorer, lists), [SCORES])
    return tuned.weights[FIRST_PASS]


def evaluate(
    scorer: LmScorer, examples: Sequence[Example], loss: MwerLoss
) -> dict[str, float]:
    """Return how well a scorer in evaluation mode rescores lists.

    ``wer`` is in percent with ``lambda`` tuned on these lists; ``mwer``, the expected
    word errors per utterance, and ``effective``, the hypotheses that share the
    posterior, are by the loss; ``spread`` is how much the scores differ in a list.
    """
    scored = score_own_lists(scorer, [item.nbest for item in examples])
    tuned = tune(scored, [SCORES])
    scores = []
    for nbest in scored:
        own = [hyp.scores[SCORES] for hyp in nbest.hyps]
        scores.append(torch.tensor(own, dtype=torch.float64))
    found = {
        "wer": 100 * tuned.errors / tuned.words,
        "lambda": tuned.weights[FIRST_PASS],
        "spread": measure_spread(scored, SCORES),
    }
    for name, value in loss.compute_mwer(scores, examples).items():
        found[name] = value.item()
    return found


def score_own_lists(scorer: LmScorer, lists: Sequence[NBest]) -> list[NBest]:
    """Return the lists with the scorer's log-probabilities as scores named ``lm``."""

    def score(every: Sequence[NBest]) -> list[list[float]]:
        return map_shared(lambda own: score_nbest(scorer, own), every)

    return add_scores(lists, score, SCORES)
