#!/usr/bin/env python3
"""Measure the latency column of P3, Table 1: the time that each scorer takes for ten random hypotheses of 64 tokens.

The models have the paper's size and random weights, which do not change the time. Runs on a GPU if there is one.
Scorers take turns, round by round, so that what the machine does besides meets all of them; leave it alone meanwhile.
Writes a file of facts. Stage 8 of the recipe calls `measure_scorer`, once for all systems that have a scorer.

Example:
  local/bench_latency.py --output results/latency.json --threads 1
"""

import argparse
import statistics
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
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

from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.rescore import ScorerKind
from espnet_ext.rescore.models.causal import CausalScorer
from espnet_ext.rescore.models.language_model import LmScorer
from espnet_ext.rescore.models.pll import PllScorer
from espnet_ext.rescore.models.pooled import PooledScorer
from espnet_ext.rescore.models.scorers import score_lists
from espnet_ext.tables.kept.facts import write_facts
from espnet_ext.work.files import write_json
from espnet_ext.work.provenance import hardware, versions

# P3, section 5: ten random hypotheses of 64 tokens
HYPOTHESES, TOKENS = 10, 64
# vocabulary of bert-base-cased
BERT_CASED = {"vocab_size": 28996}
ROUNDS, RUNS, SECONDS = 5, 50, 10.0


# in the order in which they are measured
KINDS = (
    ScorerKind("gpt2", "causal"),
    ScorerKind("gpt2", "pooled", "last"),
    ScorerKind("gpt2", "pooled", "attention"),
    ScorerKind("bert-base-cased", "pll"),
    ScorerKind("bert-base-cased", "pooled", "cls"),
    ScorerKind("bert-base-cased", "pooled", "attention"),
)


@dataclass(frozen=True)
class Latency:
    """Time to score a list.

    Attributes:
        kind: the scorer.
        device: "cpu" or "cuda".
        milliseconds: the median over the runs: on a CPU with one thread, the thread's own time, whatever else the
            machine does; otherwise wall-clock time.
        quartiles: below which a quarter and three quarters of the runs are.
        runs: number of runs.
        rounds: the median of each round.
    """

    kind: ScorerKind
    device: str
    milliseconds: float
    quartiles: tuple[float, float]
    runs: int
    rounds: tuple[float, ...]


def measure_scorer(
    kind: ScorerKind,
    output: Path,
    *,
    runs: int = RUNS,
    seconds: float = SECONDS,
    threads: int = 1,
    layers: int | None = None,
) -> Latency:
    """Measure a scorer and write JSON: the median as ``value``, its unit, quartiles, runs, device, and how it was made.

    Args:
        kind: the scorer.
        output: the JSON file.
        runs, seconds: see :func:`measure`.
        threads: threads of torch.
        layers: layers of the model; 12, as in GPT-2 and BERT, if None.

    Raises:
        InputError: the scorer is not one of P3's.
    """
    if kind not in KINDS:
        raise InputError(f"no scorer '{kind}' is measured: known are {', '.join(map(str, KINDS))}")
    size = {} if layers is None else {"num_hidden_layers": layers}
    (found,) = measured([kind], 1, runs, seconds, threads, **size)
    spread = {"quartiles": [round(value, 1) for value in found.quartiles], "runs": found.runs, "device": found.device}
    meta = {"threads": threads, "layers": layers, "hardware": hardware(), "versions": versions()}
    output.parent.mkdir(parents=True, exist_ok=True)
    write_json(output, {"value": round(found.milliseconds, 1), "unit": "ms", **spread, "meta": meta})
    return found


def measured(
    kinds: Collection[ScorerKind], rounds: int, runs: int, seconds: float, threads: int, **size: Any
) -> list[Latency]:
    """Measure scorers on a GPU if there is one, and print their times; for arguments see :func:`survey`."""
    torch.set_num_threads(threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"{HYPOTHESES} hypotheses of {TOKENS} tokens, on {'a GPU' if device == 'cuda' else f'{threads} CPU threads'}")
    print(f"{'scorer':36}{'ms':>10}{'quartiles':>20}{'runs':>6}")
    found = survey(device, rounds, runs, seconds, kinds, **size)
    for row in found:
        quartiles = " to ".join(f"{value:.1f}" for value in row.quartiles)
        print(f"{row.kind!s:36}{row.milliseconds:10.1f}{quartiles:>20}{row.runs:6}", flush=True)
    return found


def survey(
    device: str, rounds: int, runs: int, seconds: float, kinds: Collection[ScorerKind] = KINDS, **size: Any
) -> list[Latency]:
    """Measure scorers on a device, on random hypotheses that share no prefix.

    Args:
        device: "cpu" or "cuda".
        rounds: how often each scorer has its turn.
        runs, seconds: of a turn, see :func:`measure`.
        kinds: which of ``KINDS``.
        size: see :func:`make_scorers`.
    """
    generator = torch.Generator().manual_seed(0)
    scorers = []
    for kind, scorer in make_scorers(kinds, **size):
        words = torch.randint(scorer.model.config.vocab_size - 10, (HYPOTHESES, TOKENS), generator=generator)
        scorers.append((kind, scorer.to(device), [" ".join(f"w{word}" for word in row) for row in words.tolist()]))
    turns: dict[ScorerKind, list[list[float]]] = {kind: [] for kind, _, _ in scorers}
    for _ in range(rounds):
        for kind, scorer, hypotheses in scorers:
            turns[kind].append(measure(scorer, hypotheses, runs, seconds))
    return [_latency(kind, device, own) for kind, own in turns.items()]


def _latency(kind: ScorerKind, device: str, turns: Sequence[Sequence[float]]) -> Latency:
    times = [time for own in turns for time in own]
    low, _, high = statistics.quantiles(times, n=4) if len(times) > 1 else (times[0],) * 3
    medians = tuple(statistics.median(own) for own in turns)
    return Latency(kind, device, statistics.median(times), (low, high), len(times), medians)


def measure(scorer: LmScorer, hypotheses: list[str], runs: int, seconds: float) -> list[float]:
    """Times to score a list, in milliseconds.

    One run before the others does not count, unless it alone takes ``seconds``.

    Args:
        scorer: the scorer, on its device.
        hypotheses: the list.
        runs: most runs.
        seconds: wall-clock time after which no further run starts.
    """
    on_one_thread = scorer.model.device.type == "cpu" and torch.get_num_threads() == 1
    clock = time.process_time if on_one_thread else time.perf_counter
    times: list[float] = []
    begin = clock()
    while not times or (len(times) <= runs and clock() - begin < seconds):
        start = clock()
        score_lists(scorer, [hypotheses])  # the scores end on the CPU, so a GPU has finished
        times.append(1000 * (clock() - start))
    return times[1:] or times


def make_scorers(kinds: Collection[ScorerKind] = KINDS, **size: Any) -> Iterator[tuple[ScorerKind, LmScorer]]:
    """Scorers of P3 at the size of GPT-2 and bert-base-cased with random weights, one after the other.

    Args:
        kinds: which of ``KINDS``.
        size: other settings of both models' configs, such as ``num_hidden_layers``.
    """
    gpt2, bert = configs(**size)
    networks: dict[str, tuple[Any, Any, Any, Any]] = {
        "gpt2": (gpt2, GPT2LMHeadModel, GPT2Model, CausalScorer),
        "bert-base-cased": (bert, BertForMaskedLM, partial(BertModel, add_pooling_layer=False), PllScorer),
    }
    for kind in KINDS:
        if kind not in kinds:
            continue
        config, whole, trunk, scorer = networks[kind.lm]
        tokenizer = word_tokenizer(config.vocab_size, config is bert)
        if kind.pooling is None:
            yield kind, scorer(whole(config), tokenizer).eval()
        else:
            yield kind, PooledScorer(trunk(config), tokenizer, pooling=kind.pooling).eval()


def configs(**size: Any) -> tuple[GPT2Config, BertConfig]:
    """The configs of GPT-2 and bert-base-cased, overridden by ``size``."""
    return GPT2Config(**size), BertConfig(**(BERT_CASED | size))


def word_tokenizer(size: int, bert: bool) -> PreTrainedTokenizerBase:
    """A tokenizer of ``size`` words w0, w1 ..., one token each, with the special tokens of BERT or GPT-2."""
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


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="JSON file for the results")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"turns of each scorer (default: {ROUNDS})")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"most runs of a turn (default: {RUNS})")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"of a turn, then no further run (default: {SECONDS:.0f})"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: 1)")
    parser.add_argument("--layers", type=int, help="layers of both models (default: 12, as in GPT-2 and BERT)")
    args = parser.parse_args(argv)
    size = {} if args.layers is None else {"num_hidden_layers": args.layers}
    found = measured(KINDS, args.rounds, args.runs, args.seconds, args.threads, **size)
    rows = {str(row.kind): {key: value for key, value in asdict(row).items() if key != "kind"} for row in found}
    clock = "the thread's own time" if args.threads == 1 and found[0].device == "cpu" else "wall-clock time"
    about = f"Milliseconds ({clock}) to rescore {HYPOTHESES} hypotheses of {TOKENS} tokens: median and quartiles"
    given = [f"--{name} {value}" for name, value in vars(args).items() if name != "output" and value is not None]
    values = {"threads": args.threads, "layers": args.layers, "rows": rows}
    write_facts(args.output, about, " ".join(["local/bench_latency.py", *given]), values)
    print("written:", args.output)


if __name__ == "__main__":
    run_main(main)
