"""Train language models on text: small ones from scratch, or to adapt them (P3, 4.2.2).

A causal model learns each next token, the first one and the end included, as its scorer
counts them (P3, eq. 2). A masked one learns 15 %, drawn again each time: 80 % masked,
10 % replaced, 10 % unchanged (BERT's objective, P3's [22]).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from transformers import DataCollatorForLanguageModeling

from espnet_ext.errors import InputError
from espnet_ext.rescore.devices import choose_process_device, launch, mute_unless_main
from espnet_ext.rescore.models.causal import CausalScorer
from espnet_ext.rescore.models.language_model import CASINGS, LmScorer
from espnet_ext.rescore.models.pll import PllScorer
from espnet_ext.rescore.models.prefix_trees import pad_rows
from espnet_ext.rescore.models.scorers import load_lm
from espnet_ext.rescore.models.vocabulary import compute_log_probs
from espnet_ext.rescore.training.settings import ModelSettings, TrainingSettings
from espnet_ext.rescore.training.trainer import (
    TrainingTask,
    compute_digest,
    compute_module_digest,
    describe_result,
    refuse_foreign,
    train,
)
from espnet_ext.text.lm_text import read_sentences, sample_lines
from espnet_ext.work.settings import Between, Count, check_settings, require_one_of

DEV_BATCH = 64  # sentences of a forward pass
MASK_PROBABILITY = 0.15


class LmSettings(ModelSettings):
    """Set a training on text: ``sentences`` of it are drawn at random, None for all.

    See :func:`train_lm`.
    """

    scorer: Annotated[str, require_one_of(("causal", "pll"))] | None = None
    sentences: Count | None = None
    mask_probability: Between = MASK_PROBABILITY


@dataclass(frozen=True)
class TextFiles:
    """Name files of sentences."""

    text: tuple[Path, ...] = ()  # a sentence per line, plain or .gz
    transcripts: tuple[Path, ...] = ()  # Kaldi's text


def adapt_language_model(
    values: Mapping[str, Any],
    texts: TextFiles,
    dev_texts: TextFiles,
    output: Path,
    *,
    source: str = "training on text",
    ngpu: int = 0,
    log: Callable[[str], None] = print,
) -> None:
    """Load a language model and train it on text files, as ``values`` say.

    ``values`` are those of :class:`LmSettings`, from ``source``. The best model is
    chosen by ``dev_texts``; :func:`espnet_ext.rescore.training.trainer.train` describes
    ``output``. With several GPUs, each has a process.
    """
    config = check_settings(LmSettings, values, source)
    if ngpu > 1:
        return launch(
            adapt_language_model,
            ngpu,
            values,
            texts,
            dev_texts,
            output,
            source=source,
            ngpu=1,
            log=log,
        )
    log = mute_unless_main(log)
    refuse_foreign(output, config.lm)
    device = choose_process_device(ngpu)
    sentences = read_sentences(texts.text, texts.transcripts)
    lines = sample_lines(sentences, config.sentences, config.seed)
    dev_lines = list(read_sentences(dev_texts.text, dev_texts.transcripts))
    scorer = load_lm(config.lm, config.scorer, casing=config.casing).to(device)
    scorer.prepare_training(config.gradient_checkpointing, config.amp, config.use_tf32)
    report = train_lm(
        scorer,
        lines,
        dev_lines,
        config.select_training(),
        output,
        log,
        config.mask_probability,
    )
    log(describe_result(output, report))


def train_lm(
    scorer: LmScorer,
    texts: Sequence[str],
    dev_texts: Sequence[str],
    settings: TrainingSettings,
    output: Path,
    log: Callable[[str], None] = print,
    mask_probability: float = MASK_PROBABILITY,
) -> dict[str, Any]:
    """Train a ``causal`` or ``pll`` scorer on sentences in its casing.

    The model that is best on ``dev_texts`` stays.

    The loss is in nats per predicted token. A sentence that is too long for the model
    is cut at its end. A masked model has to predict a token with ``mask_probability``:
    a small model from scratch learns faster with more than BERT's 0.15. The loss on
    ``dev_texts`` always masks 0.15.
    """
    if not isinstance(scorer, CausalScorer | PllScorer):
        raise InputError(
            "a language model is trained on text as causal or pll, not as "
            f"{scorer.name}"
        )
    if not texts or not dev_texts:
        raise InputError(
            f"there is no text to {'evaluate on' if texts else 'train on'}: give "
            "more sentences"
        )
    if warning := scorer.check_casing(dev_texts):
        log(warning)
    task = LmTask(scorer, mask_probability)
    examples = [task.encode(text) for text in texts]
    dev = [task.encode(text) for text in dev_texts]
    key = {
        "objective": scorer.name,
        "casing": scorer.casing,
        "mask_probability": mask_probability,
        "texts": compute_digest(texts),
        "dev_texts": compute_digest(dev_texts),
        "initial_model": compute_module_digest(scorer),
    }
    if scorer.amp:
        key["amp"] = True
    training = TrainingTask(
        module=scorer,
        examples=examples,
        backward=task.backward,
        evaluate=lambda: task.evaluate(dev),
        best_by=("loss",),
        save=scorer.save,
        measure=len,
    )
    return train(training, settings, output, key, log)


class LmTask:
    """Hold the training objective of a causal or masked language model."""

    def __init__(
        self,
        scorer: CausalScorer | PllScorer,
        mask_probability: float = MASK_PROBABILITY,
    ):
        self.scorer = scorer
        self.device = next(scorer.parameters()).device
        self.mask: DataCollatorForLanguageModeling | None = None
        if isinstance(scorer, PllScorer):
            # Any token may stand in for a masked one.
            scorer.require_known([len(scorer.tokenizer) - 1])
            self.mask = DataCollatorForLanguageModeling(
                scorer.tokenizer, mlm_probability=mask_probability
            )

    def encode(self, text: str) -> list[int]:
        """Return a sentence's tokens as the scorer's input, cut to what fits.

        For a causal model the end token is included.
        """
        scorer = self.scorer
        written = CASINGS[scorer.casing](" ".join(text.split()))
        tokens = scorer.tokenizer(written, add_special_tokens=False)
        ids = scorer.require_known(tokens.input_ids)
        if isinstance(scorer, CausalScorer):
            ids = [*scorer.before, *ids, scorer.end]
            # One more than fits: nothing is predicted from the last one.
            kept = int(min(len(ids), scorer.longest + 1))
            return ids[:kept]
        room = scorer.longest - len(scorer.before) - len(scorer.after)
        kept = int(min(len(ids), room))
        return [*scorer.before, *ids[:kept], *scorer.after]

    def loss(
        self, batch: Sequence[list[int]], mask: DataCollatorForLanguageModeling | None
    ) -> tuple[torch.Tensor, int]:
        """Return the sum of the predicted tokens' negative log-probabilities.

        Their number comes with it. ``batch``: :meth:`encode` of sentences; ``mask``
        draws what a masked model predicts, None for a causal model.
        """
        if mask is None:
            # Each position predicts the token after it; padding is -1, and masked.
            tokens = torch.from_numpy(pad_rows(batch))
            inputs = tokens[:, :-1].clamp(min=0)
            following = tokens[:, 1:]
            chosen = following >= 0
            real = chosen
            targets = following[chosen]
        else:
            examples = [
                {"input_ids": ids, "special_tokens_mask": self._mark_special(ids)}
                for ids in batch
            ]
            masked = mask(examples)
            inputs = masked["input_ids"]
            real = masked["attention_mask"]
            chosen = masked["labels"] != -100  # what torch's losses leave out
            targets = masked["labels"][chosen]
        if not len(targets):
            return torch.zeros((), device=self.device), 0
        with self.scorer.use_precision():
            logp = compute_log_probs(
                self.scorer.model,
                chosen.to(self.device),
                torch.arange(len(targets), device=self.device),
                targets.to(self.device),
                self.scorer.plain,
                input_ids=inputs.to(self.device),
                attention_mask=real.long().to(self.device),
            )
        return -logp.sum(), len(targets)

    def _mark_special(self, ids: Sequence[int]) -> list[int]:
        """Return 1 for each token around the text, and 0 for those of the text.

        Unknown words are part of the text, and predicted like others.
        """
        before = len(self.scorer.before)
        after = len(self.scorer.after)
        return [1] * before + [0] * (len(ids) - before - after) + [1] * after

    def backward(self, batch: Sequence[list[int]]) -> dict[str, float]:
        """Add the gradient of the mean over the batch's predicted tokens."""
        total, count = self.loss(batch, self.mask)
        # A batch of few short sentences may have no masked token.
        if not count:
            return {"loss": 0.0}
        mean = total / count
        mean.backward()
        return {"loss": mean.item()}

    def evaluate(self, texts: Sequence[list[int]]) -> dict[str, float]:
        """Return loss and perplexity per token, with the same masks every time."""
        total = 0.0
        count = 0
        mask = None
        if self.mask is not None:
            mask = replace(self.mask, mlm_probability=MASK_PROBABILITY)
            # Not a seed, which is refused in processes that another has started.
            mask.generator = torch.Generator().manual_seed(0)
        else:
            # Long texts beside short ones are mostly padding. A masked model's stay in
            # their order, in which masks are drawn.
            texts = sorted(texts, key=len)
        for start in range(0, len(texts), DEV_BATCH):
            part, predicted = self.loss(texts[start : start + DEV_BATCH], mask)
            total += part.item()
            count += predicted
        mean = total / max(count, 1)
        # exp of more than 709 is no float64.
        return {"loss": mean, "perplexity": math.exp(min(mean, 700.0))}
