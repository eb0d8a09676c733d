"""How long language models take to score one N-best list: the latency column of P3, Table 1."""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
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

# P3, section 5: ten random hypotheses of 64 tokens, on an Nvidia T4, in ms
HYPOTHESES, TOKENS = 10, 64
PAPER_MS = {
    "GPT-2": 49,
    "BERT": 6115,
    "RescoreGPT": 34,
    "RescoreGPT, attention pooling": 35,
    "RescoreBERT": 33,
    "RescoreBERT, attention pooling": None,
}
# of bert-base-cased
BERT_CASED = {"vocab_size": 28996}


@dataclass(frozen=True)
class Latency:
    """Time to score a list.

    Attributes:
        name: the scorer, as in P3.
        device: "cpu" or "cuda".
        milliseconds: the median.
        runs: of how many.
        paper: P3's, on an Nvidia T4; None where it gives none.
    """

    name: str
    device: str
    milliseconds: float
    runs: int
    paper: float | None


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


def make_scorers(**size: Any) -> Iterator[tuple[str, LmScorer]]:
    """The scorers of P3 at the size of GPT-2 and bert-base-cased with random weights, one after the other.

    Args:
        size: other settings of both models' configs, such as ``num_hidden_layers``.
    """
    gpt2, bert = GPT2Config(**size), BertConfig(**(BERT_CASED | size))
    for config, whole, trunk, scorer, names in (
        (gpt2, GPT2LMHeadModel, GPT2Model, CausalScorer, ("GPT-2", "RescoreGPT")),
        (bert, BertForMaskedLM, BertModel, PllScorer, ("BERT", "RescoreBERT")),
    ):
        tokenizer = word_tokenizer(config.vocab_size, config is bert)
        yield names[0], scorer(whole(config), tokenizer).eval()
        yield names[1], PooledScorer(trunk(config), tokenizer).eval()
        yield f"{names[1]}, attention pooling", PooledScorer(trunk(config), tokenizer, pooling="attention").eval()


def measure(scorer: LmScorer, hypotheses: list[str], runs: int, seconds: float) -> tuple[float, int]:
    """Median time to score a list, in ms, of ``runs`` runs, or of as many as start within some seconds; and how many.

    Three runs at least, after one that does not count.
    """
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 4 or (len(times) <= runs and time.perf_counter() - begin < seconds):
        start = time.perf_counter()
        score_lists(scorer, [hypotheses])  # ends with the scores on the CPU, so that a GPU has finished
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times[1:]), len(times) - 1


def survey(device: str, runs: int, seconds: float, **size: Any) -> Iterator[Latency]:
    """Measure every scorer on a device, on random hypotheses that share nothing.

    Args:
        device: "cpu" or "cuda".
        runs: most runs a scorer.
        seconds: after which no run is started.
        size: as of ``make_scorers``.
    """
    generator = torch.Generator().manual_seed(0)
    for name, scorer in make_scorers(**size):
        words = torch.randint(scorer.model.config.vocab_size - 10, (HYPOTHESES, TOKENS), generator=generator)
        hypotheses = [" ".join(f"w{word}" for word in row) for row in words.tolist()]
        median, done = measure(scorer.to(device), hypotheses, runs, seconds)
        yield Latency(name, device, median, done, PAPER_MS[name])
