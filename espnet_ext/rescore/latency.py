"""How long language models take to score one N-best list: the latency column of P3, Table 1."""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from espnet_ext.rescore.causal import CausalScorer
from espnet_ext.rescore.lm_scorer import LmScorer
from espnet_ext.rescore.pll import PllScorer
from espnet_ext.rescore.pooled import PooledScorer
from espnet_ext.rescore.scorers import score_lists

# P3, section 5: ten random hypotheses of 64 tokens
HYPOTHESES, TOKENS = 10, 64
# of bert-base-cased
BERT_CASED = {"vocab_size": 28996}


@dataclass(frozen=True)
class Kind:
    """A scorer of P3: the language model that it is made of, and its score."""

    lm: str
    scorer: str
    pooling: str | None = None

    def __str__(self) -> str:
        return " ".join(part for part in (self.lm, self.scorer, self.pooling) if part)


@dataclass(frozen=True)
class Latency:
    """Time to score a list.

    Attributes:
        kind: the scorer.
        device: "cpu" or "cuda".
        milliseconds: the median.
        runs: of how many.
    """

    kind: Kind
    device: str
    milliseconds: float
    runs: int


def word_tokenizer(size: int, bert: bool) -> PreTrainedTokenizerBase:
    """A tokenizer of ``size`` words w0, w1 ..., a token each, with the special tokens of BERT or GPT-2."""
    special = ["[CLS]", "[SEP]", "[MASK]", "[PAD]"] if bert else ["<|endoftext|>"]
    words = [*special, *(f"w{n}" for n in range(size - len(special)))]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token=special[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if not bert:
        return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=special[0], eos_token=special[0])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="[MASK]", pad_token="[PAD]")


def configs(**size: Any) -> tuple[GPT2Config, BertConfig]:
    """GPT-2's config and that of bert-base-cased, with other settings where ``size`` has them."""
    return GPT2Config(**size), BertConfig(**(BERT_CASED | size))


def make_scorers(**size: Any) -> Iterator[tuple[Kind, LmScorer]]:
    """The scorers of P3 at the size of GPT-2 and bert-base-cased with random weights, one after the other.

    Args:
        size: other settings of both models' configs, such as ``num_hidden_layers``.
    """
    gpt2, bert = configs(**size)
    for lm, config, whole, trunk, scorer, pooling in (
        ("gpt2", gpt2, GPT2LMHeadModel, GPT2Model, CausalScorer, "last"),
        ("bert-base-cased", bert, BertForMaskedLM, partial(BertModel, add_pooling_layer=False), PllScorer, "cls"),
    ):
        tokenizer = word_tokenizer(config.vocab_size, config is bert)
        yield Kind(lm, scorer.name), scorer(whole(config), tokenizer).eval()
        for pool in (pooling, "attention"):
            yield Kind(lm, "pooled", pool), PooledScorer(trunk(config), tokenizer, pooling=pool).eval()


def measure(scorer: LmScorer, hypotheses: list[str], runs: int, seconds: float) -> tuple[float, int]:
    """Median time to score a list, in ms, of ``runs`` runs, or of as many as start within some seconds; and how many.

    One run before these does not count, unless it alone takes that long.
    """
    times: list[float] = []
    begin = time.perf_counter()
    while not times or (len(times) <= runs and time.perf_counter() - begin < seconds):
        start = time.perf_counter()
        score_lists(scorer, [hypotheses])  # ends with the scores on the CPU, so that a GPU has finished
        times.append(1000 * (time.perf_counter() - start))
    counted = times[1:] or times
    return statistics.median(counted), len(counted)


def survey(device: str, runs: int, seconds: float, **size: Any) -> Iterator[Latency]:
    """Measure every scorer on a device, on random hypotheses that share nothing.

    Args:
        device: "cpu" or "cuda".
        runs: most runs a scorer.
        seconds: after which no run is started.
        size: as of ``make_scorers``.
    """
    generator = torch.Generator().manual_seed(0)
    for kind, scorer in make_scorers(**size):
        words = torch.randint(scorer.model.config.vocab_size - 10, (HYPOTHESES, TOKENS), generator=generator)
        hypotheses = [" ".join(f"w{word}" for word in row) for row in words.tolist()]
        median, done = measure(scorer.to(device), hypotheses, runs, seconds)
        yield Latency(kind, device, median, done)
