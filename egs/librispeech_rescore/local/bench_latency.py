"""The latency column of P3, Table 1: the time that each scorer takes for a list.

A list has ten random hypotheses of 64 tokens. The models have the paper's size and
random weights, which do not change the time. Runs on a GPU if there is one. Leave the
machine alone meanwhile.
"""

import statistics
import time
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
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

from espnet_ext.errors import InputError
from espnet_ext.rescore import ScorerKind
from espnet_ext.rescore.models.causal import CausalScorer
from espnet_ext.rescore.models.language_model import LmScorer
from espnet_ext.rescore.models.pll import PllScorer
from espnet_ext.rescore.models.pooled import PooledScorer
from espnet_ext.rescore.models.scorers import score_lists
from espnet_ext.work.files import write_json
from espnet_ext.work.provenance import describe_hardware, list_versions

# P3, section 5: ten random hypotheses of 64 tokens
HYPOTHESES = 10
TOKENS = 64
# vocabulary of bert-base-cased
BERT_CASED = {"vocab_size": 28996}
KINDS = (
    ScorerKind("gpt2", "causal"),
    ScorerKind("gpt2", "pooled", "last"),
    ScorerKind("gpt2", "pooled", "attention"),
    ScorerKind("bert-base-cased", "pll"),
    ScorerKind("bert-base-cased", "pooled", "cls"),
    ScorerKind("bert-base-cased", "pooled", "attention"),
)


def measure_scorer(
    kind: ScorerKind, output: Path, options: Mapping[str, Any], device: str = "cpu"
) -> None:
    """Measure a scorer and write JSON: the median as ``value``, and how it was made.

    Beside it are its unit, quartiles, runs and device. ``options`` are ``runs`` and
    ``seconds`` of :func:`measure_times`, ``layers`` (None: 12, as GPT-2 and BERT), and
    ``units`` where there are not as many as theirs. Raises InputError: P3 has no such
    scorer.
    """
    if kind not in KINDS:
        raise InputError(
            f"no scorer '{kind}' is measured: known are {', '.join(map(str, KINDS))}"
        )
    # the time of a process, which is measured, is the sum over its threads
    torch.set_num_threads(1)
    layers = options["layers"]
    size = {"num_hidden_layers": layers, "hidden_size": options.get("units")}
    ((_, scorer),) = make_scorers(
        [kind], **{name: value for name, value in size.items() if value}
    )
    words = torch.randint(
        scorer.model.config.vocab_size - 10,
        (HYPOTHESES, TOKENS),
        generator=torch.Generator().manual_seed(0),
    )
    hypotheses = [" ".join(f"w{word}" for word in row) for row in words.tolist()]
    times = measure_times(
        scorer.to(device), hypotheses, options["runs"], options["seconds"]
    )
    low, middle, high = (
        statistics.quantiles(times, n=4) if len(times) > 1 else times * 3
    )
    print(
        f"{kind}: {middle:.1f} ms ({low:.1f} to {high:.1f}) for {HYPOTHESES} "
        f"hypotheses of {TOKENS} tokens, {device}"
    )
    spread = {
        "quartiles": [round(low, 1), round(high, 1)],
        "runs": len(times),
        "device": device,
    }
    meta = {
        "threads": 1,
        "layers": layers,
        "hardware": describe_hardware(),
        "versions": list_versions(),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    write_json(
        output,
        {
            "value": round(statistics.median(times), 1),
            "unit": "ms",
            **spread,
            "meta": meta,
        },
    )


def measure_times(
    scorer: LmScorer, hypotheses: list[str], runs: int, seconds: float
) -> list[float]:
    """Measure the times to score a list, in milliseconds.

    On a CPU it is the process's own time, whatever else the machine does. One run
    before the others does not count, unless it alone takes ``seconds``.

    Args:
        scorer: the scorer, on its device.
        hypotheses: the list.
        runs: most runs.
        seconds: time after which no further run starts.
    """
    clock = (
        time.process_time if scorer.model.device.type == "cpu" else time.perf_counter
    )
    times: list[float] = []
    begin = clock()
    while not times or (len(times) <= runs and clock() - begin < seconds):
        start = clock()
        # the scores end on the CPU, so a GPU has finished
        score_lists(scorer, [hypotheses])
        times.append(1000 * (clock() - start))
    return times[1:] or times


def make_scorers(
    kinds: Collection[ScorerKind] = KINDS, **size: Any
) -> Iterator[tuple[ScorerKind, LmScorer]]:
    """Make scorers of P3 at full size with random weights, one after the other.

    The size is that of GPT-2 and bert-base-cased. ``size`` are other settings of both
    models' configs, such as ``num_hidden_layers``.
    """
    gpt2, bert = make_configs(**size)
    networks: dict[str, tuple[Any, Any, Any, Any]] = {
        "gpt2": (gpt2, GPT2LMHeadModel, GPT2Model, CausalScorer),
        "bert-base-cased": (
            bert,
            BertForMaskedLM,
            partial(BertModel, add_pooling_layer=False),
            PllScorer,
        ),
    }
    for kind in KINDS:
        if kind not in kinds:
            continue
        config, whole, trunk, scorer = networks[kind.lm]
        tokenizer = make_word_tokenizer(config.vocab_size, config is bert)
        if kind.pooling is None:
            yield kind, scorer(whole(config), tokenizer).eval()
        else:
            yield (
                kind,
                PooledScorer(trunk(config), tokenizer, pooling=kind.pooling).eval(),
            )


def make_configs(**size: Any) -> tuple[GPT2Config, BertConfig]:
    """Make the configs of GPT-2 and bert-base-cased, overridden by ``size``."""
    return GPT2Config(**size), BertConfig(**(BERT_CASED | size))


def make_word_tokenizer(size: int, bert: bool) -> PreTrainedTokenizerBase:
    """Make a tokenizer of ``size`` tokens, with the special ones of BERT or GPT-2.

    The others are words w0, w1 ... Each word is one token, so that a hypothesis has as
    many tokens as words.
    """
    special = ["[CLS]", "[SEP]", "[MASK]", "[PAD]"] if bert else ["<|endoftext|>"]
    words = [*special, *(f"w{n}" for n in range(size - len(special)))]
    tokenizer = Tokenizer(
        models.WordLevel(
            {word: n for n, word in enumerate(words)}, unk_token=special[0]
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if not bert:
        return PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, bos_token=special[0], eos_token=special[0]
        )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, mask_token="[MASK]", pad_token="[PAD]"
    )
