"""Beam search with `decoder: batch_rnn` against ESPnet's `rnn`, with the same weights, at the full size of P2.

    python tests/benchmarks/bench_rnn_decoder.py [--threads N] [--beam 36] [--steps 12]

Utterances of 20 s are 250 frames after a time reduction of 8. Weights and encodings are random, and the searches take
the same number of steps. What bounds a step in which n hypotheses continue u different ones:

- Weights. 67 MB of the LSTM's and 41 MB of the output layer's are read once a step, and by ESPnet once a hypothesis,
  3.9 GB a step at beam 36: memory bandwidth bounds ESPnet's products.
- Products. 33.6 MFLOP of the LSTM and 20.5 MFLOP of the output layer for a hypothesis, 1.9 GFLOP a step at beam 36:
  computing bounds ours. Three quarters of the LSTM's belong to the context vector and the previous state, which
  hypotheses of one origin share: they are done u times, not n. With so few rows MKL's own packing of the weights takes
  a quarter of the time or more, less so in blocks (`layers/blocked_linear.py`).
- Energies of the attention. 250 x 1024 hyperbolic tangents for a hypothesis, 9.2 million a step at beam 36, some
  3 ns each with AVX2: computing bounds them too. They are done u times, and as sigmoids, which take a third of that;
  in blocks that stay in the cache, as the argument for all hypotheses is 37 MB. ESPnet adds, bends and sums up in
  separate journeys to memory, and makes two more with the encodings (250 x 2048) for the context vector.

u depends on the model. With random weights it is printed; a model of 300 tokens trained on the synthetic corpus had 18
for 33 hypotheses on average. `one step` gives each hypothesis an origin of its own, the worst case, or each two one.
CTC's prefix scores are ESPnet's own code on both sides; the batched search batches them, and they then bound its step.
"""

import argparse
import copy
import logging
import statistics
import time
from collections.abc import Callable

import torch
from espnet2.asr.ctc import CTC
from espnet2.asr.decoder.rnn_decoder import RNNDecoder
from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch
from espnet2.legacy.nets.beam_search import BeamSearch
from espnet2.legacy.nets.scorers.ctc import CTCPrefixScorer

from espnet_ext.decoder.batch_rnn import BatchRNNDecoder, from_rnn

FRAMES, ENCODER_SIZE, CELLS, VOCABULARY = 250, 2048, 1024, 10000
ATTENTION = {"atype": "location", "adim": 1024, "aconv_chans": 10, "aconv_filts": 100}
UTTERANCES = 4
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, help="threads of torch (default: its own choice)")
    parser.add_argument("--beam", type=int, default=36)
    parser.add_argument("--steps", type=int, default=12, help="tokens of each hypothesis")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    peer = RNNDecoder(VOCABULARY, ENCODER_SIZE, hidden_size=CELLS, att_conf=ATTENTION).eval()
    ctc = CTC(VOCABULARY, ENCODER_SIZE).eval()
    for layer in (peer.output, ctc.ctc_lo):
        layer.weight.data.mul_(10)  # choices far from uniform, so that no two hypotheses are equal to rounding
    print(f"{torch.get_num_threads()} threads, beam {args.beam}; ms a step and utterance, median (minimum) of {ROUNDS}")
    with torch.no_grad():
        for origins in (args.beam, args.beam // 2):
            one_step(peer, args.beam, origins)
        for ctc_weight in (0.0, 0.3):
            whole_search(peer, ctc, ctc_weight, args.beam, args.steps)


def one_step(peer: RNNDecoder, beam: int, origins: int) -> None:
    """Print the time of scoring one token after ``beam`` hypotheses that continue ``origins`` different ones."""
    ours = from_rnn(peer)
    x = torch.randn(FRAMES, ENCODER_SIZE)
    tokens = torch.randint(VOCABULARY, (beam, 1))
    start = [copy.copy(ours.init_state(x)) for _ in range(origins)]
    _, states = ours.batch_score(tokens[:origins], start, x.expand(origins, -1, -1))
    states = [states[number % origins] for number in range(beam)]
    _, peer_state = peer.score(tokens[0], peer.init_state(x), x)
    report(
        f"one step, {origins} origins",
        lambda: [peer.score(prefix, peer_state, x) for prefix in tokens],
        lambda: ours.batch_score(tokens, states, x.expand(beam, -1, -1)),
    )


def whole_search(peer: RNNDecoder, ctc: CTC, ctc_weight: float, beam: int, steps: int) -> None:
    """Print the times of the search, and check that both find the same hypotheses."""
    ours = from_rnn(peer)
    x = torch.randn(UTTERANCES, FRAMES, ENCODER_SIZE)

    def make(search: type[BeamSearch], decoder: RNNDecoder) -> Callable[[torch.Tensor], list]:
        scorers = {"decoder": decoder, "ctc": CTCPrefixScorer(ctc, VOCABULARY - 1)}
        weights = {"decoder": 1.0 - ctc_weight, "ctc": ctc_weight}
        made = search(scorers, weights, beam, VOCABULARY, VOCABULARY - 1, VOCABULARY - 1, pre_beam_score_key="full")
        return lambda x: made(x, maxlenratio=-steps, minlenratio=1 - steps)

    plain, batched = make(BeamSearch, peer), make(BatchBeamSearch, ours)
    name = f"search with CTC {ctc_weight}" if ctc_weight else "search"
    found = report(name, lambda: plain(x[0]), lambda: batched(x[0]), steps)
    same = [a.yseq.tolist() for a in found[0]] == [b.yseq.tolist() for b in found[1]]
    counts = count_origins(ours, lambda: batched(x[0]))
    hypotheses, origins = (statistics.mean(count) for count in zip(*counts, strict=True))
    print(
        f"    on average {hypotheses:.0f} hypotheses continue {origins:.0f} different ones;"
        f" found {'the same' if same else 'OTHERS THAN ESPNET'}"
    )
    report(f"{name}, {UTTERANCES} at once", None, lambda: batched(x), steps * UTTERANCES)


def count_origins(decoder: BatchRNNDecoder, run: Callable) -> list[tuple[int, int]]:
    """How many hypotheses are continued at each step of ``run``, and from how many different ones."""
    score, counts = decoder.batch_score, []

    def counting(ys: torch.Tensor, states: list, xs: torch.Tensor) -> tuple:
        counts.append((len(states), len({id(state) for state in states})))
        return score(ys, states, xs)

    decoder.batch_score = counting
    run()
    decoder.batch_score = score
    return counts


def report(name: str, run_peer: Callable | None, run_ours: Callable, steps: int = 1) -> tuple:
    """Time both in turn, print, and return what they gave."""
    times: dict[str, list[float]] = {"espnet": [], "ours": []}
    runs = {"espnet": run_peer, "ours": run_ours}
    found = {}
    for turn in range(ROUNDS + 1):
        for side, run in runs.items():
            if run is not None:
                start = time.perf_counter()
                found[side] = run()
                if turn:  # the first is to warm up
                    times[side].append(1e3 * (time.perf_counter() - start) / steps)
    shown = [f"{side} {statistics.median(t):.1f} ({min(t):.1f})" for side, t in times.items() if t]
    if times["espnet"]:
        shown.append(f"espnet / ours {statistics.median(times['espnet']) / statistics.median(times['ours']):.1f}")
    print(f"{name}: {', '.join(shown)}", flush=True)
    return tuple(found.values())


if __name__ == "__main__":
    main()
