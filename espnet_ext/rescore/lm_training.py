"""Train a language model on text: pre-training of small ones, and domain adaptation of any (P3, section 4.2.2).

A causal model learns each next token, the first and the end included, as its scorer counts them (eq. 2). A masked one
learns 15% of the tokens, drawn anew each time: of these 80% are masked, 10% replaced, 10% left (BERT's own objective,
P3's [22]).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import DataCollatorForLanguageModeling

from espnet_ext.errors import InputError
from espnet_ext.rescore.language_model import CASINGS
from espnet_ext.rescore.lm_scorer import LmScorer
from espnet_ext.rescore.prefix_trees import padded
from espnet_ext.rescore.training import Settings, Task, digest, module_digest, train
from espnet_ext.rescore.vocabulary import log_probs

DEV_BATCH = 64
MASK_PROBABILITY = 0.15
# Tells that a model is trained as its scorer, by the scorer's name.
OBJECTIVES = ("causal", "pll")


def train_lm(
    scorer: LmScorer,
    texts: Sequence[str],
    dev_texts: Sequence[str],
    settings: Settings,
    output: Path,
    say: Callable[[str], None] = print,
    mask_probability: float = MASK_PROBABILITY,
) -> dict[str, Any]:
    """Train the model of a scorer on sentences; the model with the lowest loss on ``dev_texts`` is kept.

    The loss is in nats a predicted token. A sentence that is longer than the model takes loses its end.

    Args:
        scorer: ``causal`` or ``pll``; its casing is that of training.
        texts, dev_texts: sentences.
        output: see :func:`espnet_ext.rescore.training.train`.
        mask_probability: of a masked model, for each token; a small model that begins at random learns faster with more
            than BERT's own 0.15, and what it is judged by has these alone.

    Raises:
        InputError: a scorer of another kind, no text to train on or to judge by, or what ``train`` refuses.
    """
    if scorer.name not in OBJECTIVES:
        raise InputError(f"a language model is trained on text as {' or '.join(OBJECTIVES)}, not as {scorer.name}")
    if not texts or not dev_texts:
        raise InputError(f"there is no text to {'judge by' if texts else 'train on'}: give more sentences")
    if not 0 < mask_probability < 1:
        raise InputError(f"mask_probability is {mask_probability}: give a number between 0 and 1")
    task = LmTask(scorer, mask_probability)
    examples = [task.encode(text) for text in texts]
    dev = [task.encode(text) for text in dev_texts]
    key = {
        "objective": scorer.name,
        "casing": scorer.casing,
        "mask_probability": mask_probability,
        "texts": digest(texts),
        "dev_texts": digest(dev_texts),
        "initial_model": module_digest(scorer),
    }
    return train(
        Task(scorer, examples, task.backward, lambda: task.evaluate(dev), ("loss",), scorer.save),
        settings,
        output,
        key,
        say,
    )


class LmTask:
    """The objective that belongs to a scorer."""

    def __init__(self, scorer: LmScorer, mask_probability: float = MASK_PROBABILITY):
        self.scorer = scorer
        self.causal = scorer.name == "causal"
        self.device = next(scorer.parameters()).device
        self.mask = None
        if not self.causal:
            self.mask = DataCollatorForLanguageModeling(scorer.tokenizer, mlm_probability=mask_probability)

    def encode(self, text: str) -> list[int]:
        """A sentence's tokens as its scorer puts them, for a causal model with the end; cut to what the model takes."""
        scorer = self.scorer
        ids = scorer.tokenizer(CASINGS[scorer.casing](" ".join(text.split())), add_special_tokens=False).input_ids
        if self.causal:
            ids = [*scorer.before, *ids, scorer.end]
            return ids[: min(len(ids), scorer.longest + 1)]  # nothing is predicted from the last one
        room = scorer.longest - len(scorer.before) - len(scorer.after)
        return [*scorer.before, *ids[: min(len(ids), room)], *scorer.after]

    def loss(
        self, batch: Sequence[list[int]], mask: DataCollatorForLanguageModeling | None
    ) -> tuple[torch.Tensor, int]:
        """Sum of negative log-probabilities over the predicted tokens, and how many there are.

        Args:
            mask: draws the tokens that a masked model predicts; None for a causal one.
        """
        if mask is None:
            tokens = torch.from_numpy(padded(batch))
            inputs, following = tokens[:, :-1], tokens[:, 1:]
            chosen = following >= 0
            inputs, real, targets = inputs.clamp(min=0), chosen, following[chosen]
        else:
            masked = mask([{"input_ids": ids, "special_tokens_mask": self._special(ids)} for ids in batch])
            inputs, real, chosen = masked["input_ids"], masked["attention_mask"], masked["labels"] != -100
            targets = masked["labels"][chosen]
        if not len(targets):
            return torch.zeros((), device=self.device), 0
        logp = log_probs(
            self.scorer.model,
            chosen.to(self.device),
            torch.arange(len(targets), device=self.device),
            targets.to(self.device),
            self.scorer.plain,
            input_ids=inputs.to(self.device),
            attention_mask=real.long().to(self.device),
        )
        return -logp.sum(), len(targets)

    def _special(self, ids: Sequence[int]) -> list[int]:
        """1 for each token that is not of the text; those of unknown words are, and are predicted like any."""
        before, after = len(self.scorer.before), len(self.scorer.after)
        return [1] * before + [0] * (len(ids) - before - after) + [1] * after

    def backward(self, batch: Sequence[list[int]]) -> dict[str, float]:
        """Add the gradient of the mean over the batch's predicted tokens."""
        total, count = self.loss(batch, self.mask)
        if not count:  # of a few short sentences no token may be drawn
            return {"loss": 0.0}
        mean = total / count
        mean.backward()
        return {"loss": mean.item()}

    def evaluate(self, texts: Sequence[list[int]]) -> dict[str, float]:
        """Loss and perplexity a token; which tokens are masked is always the same."""
        total, count = 0.0, 0
        mask = self.mask and replace(self.mask, mlm_probability=MASK_PROBABILITY, seed=0)
        for start in range(0, len(texts), DEV_BATCH):
            part, predicted = self.loss(texts[start : start + DEV_BATCH], mask)
            total += part.item()
            count += predicted
        mean = total / max(count, 1)
        return {"loss": mean, "perplexity": math.exp(min(mean, 700.0))}
