"""Train a scorer of any kind by MWER on N-best lists, and choose the model on development lists (P3, section 4.2.2)."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import NBest
from espnet_ext.rescore.interpolation import tune
from espnet_ext.rescore.language_model import HypothesisError
from espnet_ext.rescore.lm_scorer import LmScorer
from espnet_ext.rescore.mwer import Loss, backward, example
from espnet_ext.rescore.scorers import score_lists
from espnet_ext.rescore.second_pass import add_scores
from espnet_ext.rescore.training import Settings, Task, digest, module_digest, train

SCORES = "lm"


def train_mwer(
    scorer: LmScorer,
    lists: Sequence[NBest],
    dev_lists: Sequence[NBest],
    loss: Loss,
    settings: Settings,
    output: Path,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Train on N-best lists; what rescores the development lists best is kept, the initial model included.

    Best is the lowest word error rate where lambda of eq. 1 is tuned on the same lists, as it is afterwards; of equal
    ones, the fewest expected errors at the loss's own lambda.

    Args:
        lists, dev_lists: with references; texts are compared as they are, so normalise them before.
        output: see :func:`espnet_ext.rescore.training.train`.

    Raises:
        InputError: there are no lists; one has no reference, or a hypothesis that the model cannot take; cross-entropy
            is asked of a pooled scorer, whose scores are no log-probabilities; or what ``train`` refuses.
    """
    if loss.ce_weight and scorer.name == "pooled":
        raise InputError("a pooled scorer has no cross-entropy: its scores are no probabilities: leave ce_weight at 0")
    examples, dev = ([example(nbest) for nbest in each] for each in (lists, dev_lists))
    if not dev:
        raise InputError("there are no development lists to choose the model by")
    for item, texts in zip(examples + dev, loss.texts(examples) + Loss().texts(dev), strict=True):
        _check_lengths(scorer, item.utt_id, texts)
    idle = sum(len(set(item.errors)) == 1 for item in examples)
    say(f"{len(examples)} lists to train on; in {idle} of them all hypotheses are as good, which teaches MWER nothing")
    key = {
        "scorer": scorer.settings(),
        "lists": digest(map(repr, examples)),
        "dev_lists": digest(map(repr, dev)),
        "initial_model": module_digest(scorer),
        **asdict(loss),
    }
    return train(
        Task(
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


def evaluate(scorer: LmScorer, lists: Sequence[NBest], loss: Loss) -> dict[str, float]:
    """How well a scorer in evaluation mode rescores lists.

    Returns:
        ``wer`` in percent with lambda tuned on these lists, ``lambda``, ``wer_fixed`` with the loss's lambda, and
        ``mwer``, expected word errors an utterance with the latter.
    """
    scored = scored_lists(scorer, lists)
    tuned, curve = tune(scored, SCORES)
    scores = [torch.tensor([hyp.scores[SCORES] for hyp in nbest.hyps], dtype=torch.float64) for nbest in scored]
    return {
        "wer": 100 * tuned.errors / tuned.words,
        "lambda": tuned.weight,
        "wer_fixed": 100 * curve.at(loss.first_pass_weight) / curve.words,
        "mwer": loss.mwer(scores, [example(nbest) for nbest in lists]).item(),
    }


def tuned_weight(scorer: LmScorer, lists: Sequence[NBest]) -> float:
    """Lambda of eq. 8 and 9 where none is given: what rescores lists best before MWER training.

    P3 does not say which it trained with. A pooled scorer that is new says nothing yet, so that any lambda would do;
    its own layer finds the scale, and lambda is 1.
    """
    return 1.0 if scorer.name == "pooled" else tune(scored_lists(scorer, lists), SCORES)[0].weight


def scored_lists(scorer: LmScorer, lists: Sequence[NBest]) -> list[NBest]:
    """The lists with the scorer's log-probabilities as scores ``lm``."""

    def score(part: Sequence[NBest]) -> list[list[float]]:
        return score_lists(scorer, [[hyp.text for hyp in nbest.hyps] for nbest in part], [n.utt_id for n in part])

    return add_scores(lists, SCORES, score)


def _check_lengths(scorer: LmScorer, utt_id: str, texts: Sequence[str]) -> None:
    """Refuse what the model cannot take before hours of training are spent."""
    try:
        scorer.encode([texts])
    except HypothesisError as error:
        raise InputError(f"{utt_id}: {error}") from None
