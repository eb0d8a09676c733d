"""Decoding by language_transformer against ESPnet's TransformerDecoder: scoring alone, and whole searches with CTC."""

import argparse
import logging
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from espnet2.asr.ctc import CTC
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch
from espnet2.legacy.nets.scorers.ctc import CTCPrefixScorer

from espnet_ext.decoder.language_transformer import MODES, LanguageTransformerDecoder
from espnet_ext.tables.kept.facts import write_facts

# the beam, blocks, heads and vocabulary of P1, section 4.2, with ESPnet's default of units, and 10 s of speech
HYPOTHESES, FRAMES, SIZE, BLOCKS, HEADS, UNITS, VOCABULARY = 10, 250, 512, 6, 4, 2048, 4100
EOS = VOCABULARY - 1
PEER = "ESPnet"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--rounds", type=int, default=2, help="times that each is run; the fastest counts")
    parser.add_argument("--tokens", type=int, default=60, help="length of the hypotheses")
    parser.add_argument("--output", help="file of facts to write: how many times as fast as ESPnet's each decoder is")
    args = parser.parse_args()
    logging.disable(logging.WARNING)  # the search's, about its length
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    decoders = {PEER: make(None), **{mode: make(mode) for mode in MODES}}
    encodings = torch.randn(FRAMES, SIZE)
    print(
        f"cpu, {args.threads} threads: {HYPOTHESES} hypotheses, {FRAMES} frames, {args.tokens} tokens, {BLOCKS} blocks "
        f"of {SIZE} with {UNITS} units, vocabulary {VOCABULARY}; the fastest of {args.rounds} rounds"
    )
    with torch.no_grad():
        ratios = {"batch_score": score_all(decoders, encodings, args.tokens, args.rounds)}
        for margin in (100, 0):
            ratios[f"search_margin{margin}"] = search_all(decoders, encodings, args.tokens, args.rounds, margin)
    if args.output:
        about = "How many times as fast as ESPnet's TransformerDecoder each mode of language_transformer is"
        write_facts(
            args.output,
            about,
            shlex.join([Path(__file__).name, *sys.argv[1:]]),
            {"threads": args.threads, "tokens": args.tokens, "rounds": args.rounds, "ratio": ratios},
        )


def make(mode: str | None) -> TransformerDecoder:
    """A decoder of the size above, with random parameters and languages, that never ends a hypothesis."""
    options = {"attention_heads": HEADS, "linear_units": UNITS, "num_blocks": BLOCKS}
    if mode is None:
        decoder = TransformerDecoder(VOCABULARY, SIZE, **options)
    else:
        decoder = LanguageTransformerDecoder(VOCABULARY, SIZE, mode=mode, **options)
    if mode not in (None, "none"):
        decoder.token_languages.random_(0, 3)
    decoder.output_layer.bias.data[EOS] = -1e4
    return decoder.eval()


def score_all(decoders: dict, encodings: torch.Tensor, tokens: int, rounds: int) -> dict[str, float]:
    """Print the time of ``batch_score`` on hypotheses that share nothing but their first token; return the ratios."""
    ys = torch.randint(1, EOS, (HYPOTHESES, tokens))
    ys[:, 0] = EOS

    def run(decoder: TransformerDecoder) -> None:
        states = [None] * HYPOTHESES
        for length in range(1, tokens + 1):
            _, states = decoder.batch_score(ys[:, :length], states, encodings.expand(HYPOTHESES, -1, -1))

    works = {name: partial(run, decoder) for name, decoder in decoders.items()}
    works["matrix products of none"] = products(tokens, cached=True)
    works[f"matrix products of {PEER}"] = products(tokens, cached=False)
    times = {name: seconds for name, (seconds, _) in fastest(works, rounds).items()}
    print(f"\n{'batch_score':28}{'ms a step':>10}{'times faster':>14}")
    for name, seconds in times.items():
        print(f"{name:28}{1000 * seconds / tokens:10.1f}{times[PEER] / seconds:14.1f}")
    return {name: times[PEER] / times[name] for name in MODES}


def products(tokens: int, cached: bool) -> Callable[[], None]:
    """The matrix products that scoring cannot do without (``cached``), or those of ESPnet's decoder, and no more."""

    def weights() -> list[torch.Tensor]:
        """A block's: self-attention's, cross-attention's, feed-forward's."""
        return [torch.randn(SIZE, SIZE) for _ in range(8)] + [torch.randn(UNITS, SIZE), torch.randn(SIZE, UNITS)]

    blocks, output = [weights() for _ in range(BLOCKS)], torch.randn(VOCABULARY, SIZE)
    x, hidden, frames = torch.randn(HYPOTHESES, SIZE), torch.randn(HYPOTHESES, UNITS), torch.randn(FRAMES, SIZE)
    prefixes, copies = torch.randn(HYPOTHESES, tokens, SIZE), frames.repeat(HYPOTHESES, 1, 1)
    width, linear = SIZE // HEADS, torch.nn.functional.linear
    queries = torch.randn(HYPOTHESES, HEADS, 1, width)
    kept = torch.randn(HYPOTHESES, HEADS, tokens, width)
    memory = torch.randn(HEADS, FRAMES, width)

    def run() -> None:
        for length in range(1, tokens + 1):
            prefix = prefixes[:, :length].contiguous()
            for q, k, v, o, cross_q, cross_k, cross_v, cross_o, up, down in blocks:
                for weight in (q, o, cross_q, cross_o, up):
                    linear(x, weight)
                linear(hidden, down)
                for weight in (k, v):
                    linear(x if cached else prefix, weight)
                for weight in (cross_k, cross_v) if length == 1 or not cached else ():
                    linear(frames if cached else copies, weight)
                queries @ kept[:, :, :length].transpose(-2, -1) @ kept[:, :, :length]
                queries[:, :, 0].transpose(0, 1) @ memory.transpose(-2, -1) @ memory
            linear(x, output)

    return run


def search_all(decoders: dict, encodings: torch.Tensor, tokens: int, rounds: int, margin: int) -> dict[str, float]:
    """Print the time of a beam search with CTC, and what part of it each scorer takes; return the ratios."""
    ctc = CTC(VOCABULARY, SIZE).eval()

    def run(decoder: TransformerDecoder) -> dict[str, float]:
        scorer = CTCPrefixScorer(ctc, EOS, margin)
        search = BatchBeamSearch(
            scorers={"decoder": decoder, "ctc": scorer},
            weights={"decoder": 0.7, "ctc": 0.3},
            beam_size=HYPOTHESES,
            vocab_size=VOCABULARY,
            sos=EOS,
            eos=EOS,
            pre_beam_score_key="full",
        )
        taken = {"decoder": 0.0, "ctc": 0.0}
        methods = ["batch_init_state", "batch_score_partial", "batch_select_state", "select_state"]
        with timed(taken, "decoder", decoder, ["batch_score"]), timed(taken, "ctc", scorer, methods):
            search(encodings, maxlenratio=-tokens, minlenratio=1 - tokens)
        return taken

    results = fastest({name: partial(run, decoder) for name, decoder in decoders.items()}, rounds)
    print(f"\n{f'search, CTC window margin {margin}':28}{'s':>10}{'times faster':>14}   decoder     CTC    rest")
    for name, (seconds, taken) in results.items():
        parts = (taken["decoder"], taken["ctc"], seconds - taken["decoder"] - taken["ctc"])
        percent = "".join(f"{100 * part / seconds:8.0f}%" for part in parts)
        print(f"{name:28}{seconds:10.2f}{results[PEER][0] / seconds:14.1f} {percent}")
    return {name: results[PEER][0] / results[name][0] for name in MODES}


@contextmanager
def timed(taken: dict[str, float], name: str, scorer: object, methods: list[str]) -> Iterator[None]:
    """Add up what calls of a scorer's methods take, in seconds."""

    def wrap(method: Callable) -> Callable:
        def call(*args: object, **options: object) -> object:
            start = time.perf_counter()
            result = method(*args, **options)
            taken[name] += time.perf_counter() - start
            return result

        return call

    for method in methods:
        object.__setattr__(scorer, method, wrap(getattr(scorer, method)))
    try:
        yield
    finally:
        for method in methods:
            object.__delattr__(scorer, method)


def fastest(works: dict[str, Callable[[], Any]], rounds: int) -> dict[str, tuple[float, Any]]:
    """The fastest run of each, in seconds, and its result. In turns, so that the machine's other work falls on all."""
    best: dict[str, tuple[float, Any]] = {}
    for _ in range(rounds):
        for name, work in works.items():
            start = time.perf_counter()
            result = work()
            seconds = time.perf_counter() - start
            if name not in best or seconds < best[name][0]:
                best[name] = (seconds, result)
    return best


if __name__ == "__main__":
    main()
