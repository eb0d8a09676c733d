"""Load a scorer of N-best lists, and score lists with it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM

from espnet_ext.errors import InputError
from espnet_ext.rescore import POOLINGS, SCORERS
from espnet_ext.rescore.models.causal import CausalScorer
from espnet_ext.rescore.models.language_model import (
    CASINGS,
    SETTINGS,
    LmScorer,
    load,
    read_config,
    reads_both_ways,
)
from espnet_ext.rescore.models.pll import PllScorer
from espnet_ext.rescore.models.pooled import PooledScorer
from espnet_ext.text.nbest import NBest
from espnet_ext.work.settings import StrictMapping, read_settings, require_one_of

# Lists that share forward passes: enough to find hypotheses of similar length, few
# enough for the memory.
LISTS_AT_ONCE = 64


def score_nbest(scorer: LmScorer, lists: Sequence[NBest]) -> list[list[float]]:
    """Return :func:`score_lists` of the texts of N-best lists."""
    texts = [[hyp.text for hyp in nbest.hyps] for nbest in lists]
    return score_lists(scorer, texts, [nbest.utt_id for nbest in lists])


def score_lists(
    scorer: LmScorer, lists: Sequence[Sequence[str]], names: Sequence[str] | None = None
) -> list[list[float]]:
    """Return the log-probability of each hypothesis, in the order of the lists.

    It is computed without gradient. Call the scorer's ``eval`` before, so that there is
    no dropout. ``names``: the lists' utterance ids, for messages.
    """
    names = names or [f"N-best list {number}" for number in range(1, len(lists) + 1)]
    scores: list[list[float]] = []
    for start in range(0, len(lists), LISTS_AT_ONCE):
        block = lists[start : start + LISTS_AT_ONCE]
        own_names = names[start : start + LISTS_AT_ONCE]
        sizes = [len(texts) for texts in block]
        # Many small terms of one sign: in float32 their order would show in a sum.
        sums = torch.zeros(sum(sizes), dtype=torch.float64)
        with torch.no_grad():
            for chunk in scorer.chunks(block, own_names):
                terms, hyps = scorer(chunk)
                sums.index_add_(0, hyps.cpu(), terms.cpu().double())
        for name, own in zip(own_names, sums.split(sizes), strict=True):
            if not own.isfinite().all():
                raise InputError(
                    f"{name}: the language model's score is not a finite number: "
                    "its weights are broken: train it again"
                )
            scores.append(own.tolist())
    return scores


class SavedScorer(StrictMapping):
    """What a scorer's ``save`` wrote beside the model; nothing for others' models."""

    scorer: Annotated[str, require_one_of(SCORERS)] | None = None
    casing: Annotated[str, require_one_of(CASINGS)] | None = None
    pooling: Annotated[str, require_one_of(POOLINGS)] | None = None


def read_saved_scorer(folder_or_name: str | Path) -> SavedScorer:
    """Read what a scorer's ``save`` wrote beside a model; nothing for others' models.

    Raises InputError: the file is damaged.
    """
    path = Path(folder_or_name) / SETTINGS
    if not path.is_file():
        return SavedScorer()
    return read_settings(SavedScorer, path, "save the scorer again")


def load_lm(
    folder_or_name: str | Path,
    scorer: str | None = None,
    pooling: str | None = None,
    casing: str | None = None,
    dtype: str | None = None,
    *,
    new_layer: bool = False,
) -> LmScorer:
    """Load a scorer for evaluation.

    ``folder_or_name`` is a folder of a scorer's ``save`` or of ``transformers``, or a
    name on the hub. By default ``scorer``, ``pooling`` and ``casing`` are as saved,
    otherwise "pll" for bidirectional models and "causal" for others, the pooling of
    :class:`PooledScorer`, and "as-is". ``new_layer`` makes a pooling layer with random
    weights, which has to be trained, for a model that has none.
    """
    saved = read_saved_scorer(folder_or_name)
    both_ways = reads_both_ways(read_config(folder_or_name))
    fitting = "pll" if both_ways else "causal"
    name = scorer or saved.scorer or fitting
    if name not in SCORERS:
        raise InputError(f"scorer {name}: choose one of {', '.join(SCORERS)}")
    if name != "pooled" and both_ways != (name == "pll"):
        kind = "causal, score it by causal"
        if both_ways:
            kind = "bidirectional, score it by pll"
        raise InputError(
            f"{folder_or_name}: scorer {name} does not fit this model: it is "
            f"{kind} or pooled"
        )
    # A pooling layer was trained on one pooling, and its model no longer predicts
    # words.
    trained = saved.scorer == "pooled"
    if trained and (name != "pooled" or pooling not in (None, saved.pooling)):
        raise InputError(
            f"{folder_or_name}: was trained as scorer pooled, pooling "
            f"{saved.pooling}: use it as that"
        )
    if name == "pooled" and not trained and not new_layer:
        raise InputError(
            f"{folder_or_name}: has no trained pooling layer, and a new one would "
            "score at random: train it "
            "(espnet-ext train mwer --scorer pooled), or score by another --scorer"
        )
    casing = casing or saved.casing or "as-is"
    dtype = dtype or "float32"
    made: LmScorer
    if name == "causal":
        made = CausalScorer(*load(AutoModelForCausalLM, folder_or_name, dtype), casing)
    elif name == "pll":
        made = PllScorer(*load(AutoModelForMaskedLM, folder_or_name, dtype), casing)
    else:
        made = PooledScorer(
            *load(AutoModel, folder_or_name, dtype), casing, pooling or saved.pooling
        )
        if trained:
            made.load_head(folder_or_name)
    return made.eval()
