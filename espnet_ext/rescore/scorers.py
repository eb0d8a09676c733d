"""Load a scorer of N-best lists, and score lists with it."""

import json
from collections.abc import Sequence
from itertools import accumulate, batched
from pathlib import Path

import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM

from espnet_ext.errors import InputError
from espnet_ext.rescore.causal import CausalScorer
from espnet_ext.rescore.language_model import SETTINGS, HypothesisError, LmScorer, config_of, load, reads_both_ways
from espnet_ext.rescore.pll import PllScorer
from espnet_ext.rescore.pooled import PooledScorer

SCORERS = ("causal", "pll", "pooled")
# Lists that share forward passes: enough to find hypotheses of similar length, few enough for the memory.
TOGETHER = 64


def score_lists(
    scorer: LmScorer, lists: Sequence[Sequence[str]], names: Sequence[str] | None = None
) -> list[list[float]]:
    """Log-probability of each hypothesis, without gradient, in the order of the lists.

    Call the scorer's ``eval`` before, so that there is no dropout.

    Args:
        scorer: a scorer.
        lists: texts of hypotheses; a list may be empty.
        names: the lists' utterance ids, for messages.

    Raises:
        InputError: a hypothesis cannot be scored, or its score is not finite.
    """
    scores: list[list[float]] = []
    for block in batched(lists, TOGETHER):
        sizes = [len(texts) for texts in block]
        try:
            sums = _sums(scorer, block).split(sizes)
        except HypothesisError as error:
            index = next(index for index, total in enumerate(accumulate(sizes)) if error.number < total)
            raise InputError(f"{_name(names, len(scores) + index)}: {error}") from None
        for own in sums:
            if not own.isfinite().all():
                raise InputError(
                    f"{_name(names, len(scores))}: the language model's score is not a finite number: its weights are "
                    "broken: train it again"
                )
            scores.append(own.tolist())
    return scores


def _sums(scorer: LmScorer, lists: Sequence[Sequence[str]]) -> torch.Tensor:
    """Log-probabilities of all lists' hypotheses, one list after the other, (n,) float64."""
    sums = torch.zeros(sum(map(len, lists)), dtype=torch.float64)
    with torch.no_grad():
        for chunk in scorer.chunks(lists):
            terms, hyps = scorer.terms(chunk)
            sums.index_add_(0, hyps.cpu(), terms.double().cpu())
    return sums


def _name(names: Sequence[str] | None, index: int) -> str:
    return f"N-best list {index + 1}" if names is None else names[index]


def load_lm(
    folder_or_name: str | Path, scorer: str | None = None, pooling: str | None = None, casing: str | None = None
) -> LmScorer:
    """Load a language model as a scorer in evaluation mode.

    Args:
        folder_or_name: a folder written by a scorer's ``save`` or by ``transformers``, or a name on the hub.
        scorer: one of ``SCORERS``; by default as saved, otherwise "pll" for bidirectional models, "causal" for others.
        pooling: "last", "cls" or "attention", for scorer "pooled"; by default as saved, otherwise "last" for causal and
            "cls" for bidirectional models. A pooling layer that was not saved is new and must be trained.
        casing: a key of ``CASINGS``; by default as saved, otherwise "as-is".

    Raises:
        InputError: there is no such model, it cannot be this scorer, or it was trained as another one.
    """
    saved = _settings(folder_or_name)
    both_ways = reads_both_ways(config_of(folder_or_name))
    name = scorer or saved.get("scorer") or ("pll" if both_ways else "causal")
    if name not in SCORERS:
        raise InputError(f"scorer {name}: choose one of {', '.join(SCORERS)}")
    if name != "pooled" and both_ways != (name == "pll"):
        kind = "bidirectional, score it by pll" if both_ways else "causal, score it by causal"
        raise InputError(f"{folder_or_name}: scorer {name} does not fit this model: it is {kind} or pooled")
    trained = saved.get("scorer") == "pooled"
    if trained and (name != "pooled" or pooling not in (None, saved.get("pooling"))):
        raise InputError(
            f"{folder_or_name}: was trained as scorer pooled, pooling {saved.get('pooling')}: use it as that"
        )
    casing = casing or saved.get("casing") or "as-is"
    if name == "causal":
        return CausalScorer(*load(AutoModelForCausalLM, folder_or_name), casing).eval()
    if name == "pll":
        return PllScorer(*load(AutoModelForMaskedLM, folder_or_name), casing).eval()
    model, tokenizer = load(AutoModel, folder_or_name)
    made = PooledScorer(model, tokenizer, casing, pooling or saved.get("pooling")).eval()
    if trained:
        made.load_head(folder_or_name)
    return made


def _settings(folder: str | Path) -> dict[str, str]:
    """The settings that ``save`` wrote beside a model; empty for a model from elsewhere."""
    path = Path(folder) / SETTINGS
    if not path.is_file():
        return {}
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error}): save the scorer again") from None
    if not isinstance(settings, dict):
        raise InputError(f"{path}: not a scorer's settings: save the scorer again")
    return settings
