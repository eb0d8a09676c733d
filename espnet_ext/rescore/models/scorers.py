"""Load a scorer of N-best lists, and score lists with it."""

import json
import math
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM

from espnet_ext.errors import InputError
from espnet_ext.rescore import SCORERS
from espnet_ext.rescore.models.causal import CausalScorer
from espnet_ext.rescore.models.language_model import (
    SETTINGS,
    Contexts,
    HypothesisError,
    LmScorer,
    config_of,
    load,
    reads_both_ways,
)
from espnet_ext.rescore.models.pll import PllScorer
from espnet_ext.rescore.models.pooled import PooledScorer

# Lists that share forward passes: enough to find hypotheses of similar length, few enough for the memory.
TOGETHER = 64


class Score(NamedTuple):
    """The log-probability of a hypothesis, and the part of its end token (None: the score has none)."""

    total: float
    end: float | None


def score_lists(
    scorer: LmScorer, lists: Sequence[Sequence[str]], names: Sequence[str] | None = None, contexts: Contexts = None
) -> list[list[float]]:
    """The totals of :func:`score_hypotheses`, none of which may be too long."""
    found = score_hypotheses(scorer, lists, names, contexts=contexts)
    return [[score.total for score in own if score is not None] for own in found]


def score_hypotheses(
    scorer: LmScorer,
    lists: Sequence[Sequence[str]],
    names: Sequence[str] | None = None,
    *,
    contexts: Contexts = None,
    skip_long: bool = False,
) -> list[list[Score | None]]:
    """Log-probability of each hypothesis, without gradient, in the order of the lists.

    Call the scorer's ``eval`` before, so that there is no dropout.

    Args:
        scorer: a scorer.
        lists: texts of hypotheses; a list may be empty.
        names: the lists' utterance ids, for messages.
        contexts: texts that the model reads before the hypotheses of each list.
        skip_long: give None to a hypothesis with more tokens than the model takes; otherwise it is refused.

    Raises:
        InputError: a hypothesis cannot be scored, or its score is not finite.
    """
    scores: list[list[Score | None]] = []
    for start in range(0, len(lists), TOGETHER):
        block = lists[start : start + TOGETHER]
        own_contexts = None if contexts is None or not any(contexts) else contexts[start : start + TOGETHER]
        fits = fitting(scorer, block, own_contexts) if skip_long else [[True] * len(texts) for texts in block]
        kept = [[text for text, fit in zip(*each, strict=True) if fit] for each in zip(block, fits, strict=True)]
        sizes = [len(texts) for texts in kept]
        try:
            totals, ends = (each.split(sizes) for each in _sums(scorer, kept, own_contexts))
        except HypothesisError as error:
            index = next(index for index, total in enumerate(accumulate(sizes)) if error.number < total)
            raise InputError(f"{_name(names, len(scores) + index)}: {error}") from None
        for own, own_ends, own_fits in zip(totals, ends, fits, strict=True):
            if not own.isfinite().all():
                raise InputError(
                    f"{_name(names, len(scores))}: the language model's score is not a finite number: its weights are "
                    "broken: train it again"
                )
            found = (
                Score(total, None if math.isnan(end) else end)
                for total, end in zip(own.tolist(), own_ends.tolist(), strict=True)
            )
            scores.append([next(found) if fit else None for fit in own_fits])
    return scores


def fitting(scorer: LmScorer, lists: Sequence[Sequence[str]], contexts: Contexts) -> list[list[bool]]:
    """Whether the model takes as many tokens as each hypothesis has."""
    sizes = iter([len(ids) for ids in scorer.tokens(lists, contexts)])
    return [[next(sizes) <= scorer.longest for _ in texts] for texts in lists]


def _sums(scorer: LmScorer, lists: Sequence[Sequence[str]], contexts: Contexts) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of all lists' hypotheses and of their end tokens (NaN: none), (n,) float64."""
    sums = torch.zeros(sum(map(len, lists)), dtype=torch.float64)
    ends = torch.full_like(sums, math.nan)
    with torch.no_grad():
        for chunk in scorer.chunks(lists, contexts):
            terms, hyps = (each.cpu() for each in scorer(chunk))
            sums.index_add_(0, hyps, terms.double())
            if (last := scorer.end_terms(chunk)) is not None:
                ends[hyps[last]] = terms[last].double()
    return sums, ends


def _name(names: Sequence[str] | None, index: int) -> str:
    return f"N-best list {index + 1}" if names is None else names[index]


def load_lm(
    folder_or_name: str | Path,
    scorer: str | None = None,
    pooling: str | None = None,
    casing: str | None = None,
    dtype: str | None = None,
    prompt: str | None = None,
    *,
    new_layer: bool = False,
) -> LmScorer:
    """Load a language model as a scorer in evaluation mode.

    Args:
        folder_or_name: a folder written by a scorer's ``save`` or by ``transformers``, or a name on the hub.
        scorer: one of ``SCORERS``; by default as saved, otherwise "pll" for bidirectional models, "causal" for others.
        pooling: "last", "cls" or "attention", for scorer "pooled"; by default as saved, otherwise "last" for causal and
            "cls" for bidirectional models.
        casing: a key of ``CASINGS``; by default as saved, otherwise "as-is".
        dtype: a key of ``DTYPES``; by default "float32".
        prompt: text that the model reads before the context of each list; by default as saved, otherwise none.
        new_layer: make a pooling layer with random weights, which has to be trained, for a model that has none.

    Raises:
        InputError: there is no such model, it cannot be this scorer, it was trained as another one, or it has no
            pooling layer.
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
    if name == "pooled" and not trained and not new_layer:
        raise InputError(
            f"{folder_or_name}: has no trained pooling layer, and a new one would score at random: train it "
            "(espnet-ext train mwer --scorer pooled), or score by another --scorer"
        )
    casing, dtype = casing or saved.get("casing") or "as-is", dtype or "float32"
    made: LmScorer
    if name == "causal":
        made = CausalScorer(*load(AutoModelForCausalLM, folder_or_name, dtype), casing)
    elif name == "pll":
        made = PllScorer(*load(AutoModelForMaskedLM, folder_or_name, dtype), casing)
    else:
        made = PooledScorer(*load(AutoModel, folder_or_name, dtype), casing, pooling or saved.get("pooling"))
        if trained:
            made.load_head(folder_or_name)
    made.prompt = saved.get("prompt", "") if prompt is None else prompt
    return made.eval()


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
