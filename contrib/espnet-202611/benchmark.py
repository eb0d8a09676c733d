"""Time of a step of the search with ESPnet's code and with the patched code, in turns
in one process.

python contrib/espnet-202611/benchmark.py [--output contrib.json]
"""

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from espnet2.asr.decoder.rnn_decoder import RNNDecoder
from espnet2.asr.decoder.transformer_decoder import TransformerDecoder
from espnet2.legacy.nets.ctc_prefix_score import CTCPrefixScoreTH
from patched import CTC, RNN, TRANSFORMER, apply

from espnet_ext.work.provenance import write_record

BEAM, REPEATS = 10, 7


def ratio(
    name: str, before: Callable[[], object], after: Callable[[], object]
) -> float:
    """Print the medians of both, after one run that is not counted, and return their
    ratio.
    """
    times: dict[Callable[[], object], list[float]] = {before: [], after: []}
    for repeat in range(REPEATS + 1):
        for work in (before, after):
            start = time.perf_counter()
            work()
            if repeat:
                times[work].append(time.perf_counter() - start)
    old, new = (1000 * statistics.median(times[work]) for work in (before, after))
    print(
        f"{name}: ESPnet {old:.1f} ms, patched {new:.1f} ms, {old / new:.1f} "
        "times as fast",
        flush=True,
    )
    return old / new


def prefix_scores(kind: type, frames: int, labels: int) -> Callable[[], object]:
    """Ten labels of a beam of hypotheses, with the labels that a search pre-selects."""
    x = torch.randn(
        1, frames, labels, generator=torch.Generator().manual_seed(0)
    ).log_softmax(-1)
    lengths = torch.tensor([frames])
    ids = torch.arange(1, 1 + 3 * BEAM // 2).expand(BEAM, -1)
    best = (ids[:, 0] + labels * torch.arange(BEAM)).unsqueeze(0)

    def work() -> None:
        scorer, state = kind(x.clone(), lengths, 0, labels - 1), None
        ys = torch.full((BEAM, 1), labels - 1)
        for _ in range(10):
            _, state = scorer(ys, state, ids)
            state = scorer.index_select_state(state, best)
            ys = torch.cat((ys, ids[:, :1]), 1)

    return work


def decoder_steps(
    kind: type, batched: bool, frames: int, cells: int
) -> Callable[[], object]:
    """Ten labels of a beam of hypotheses of one utterance, one by one or together."""
    torch.manual_seed(0)
    decoder = kind(
        1000, 512, hidden_size=cells, att_conf={"atype": "location", "adim": 320}
    ).eval()
    encodings = torch.randn(frames, 512)
    ys = torch.randint(0, 999, (BEAM, 11))

    def one_by_one() -> None:
        states = [decoder.init_state(encodings)] * BEAM
        for length in range(1, 11):
            states = [
                decoder.score(y[:length], state, encodings)[1]
                for y, state in zip(ys, states, strict=True)
            ]

    def together() -> None:
        states = [decoder.batch_init_state(encodings)] * BEAM
        for length in range(1, 11):
            _, states = decoder.batch_score(
                ys[:, :length], states, encodings.expand(BEAM, -1, -1)
            )

    return torch.no_grad()(together if batched else one_by_one)


def transformer_search(
    kind: type, frames: int, size: int, tokens: int = 30
) -> Callable[[], object]:
    """Labels of a beam of hypotheses of one utterance, as the batched search asks for
    them.
    """
    torch.manual_seed(0)
    decoder = kind(1000, size, linear_units=4 * size).eval()
    encodings = torch.randn(frames, size)
    ys = torch.randint(0, 999, (BEAM, tokens))

    def work() -> None:
        states = [None] * BEAM
        for length in range(1, tokens + 1):
            _, states = decoder.batch_score(
                ys[:, :length], states, encodings.expand(BEAM, -1, -1)
            )

    return torch.no_grad()(work)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="keep the ratios as facts"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)  # the attention's, one at each step
    with tempfile.TemporaryDirectory() as folder:
        load = apply(Path(folder))
        scan, batched = load(CTC).CTCPrefixScoreTH, load(RNN).RNNDecoder
        cached = load(TRANSFORMER).TransformerDecoder
    print(
        f"one thread, {BEAM} hypotheses of ten labels, with the transformer of thirty"
    )
    found: dict[str, dict[str, float]] = {"ctc": {}, "rnn": {}, "transformer": {}}
    for frames in (100, 400, 1000):
        found["ctc"][str(frames)] = ratio(
            f"CTC prefix scores, {frames} frames",
            prefix_scores(CTCPrefixScoreTH, frames, 1000),
            prefix_scores(scan, frames, 1000),
        )
    for cells in (320, 1024):
        found["rnn"][str(cells)] = ratio(
            f"RNN decoder, {cells} cells, 200 frames",
            decoder_steps(RNNDecoder, False, 200, cells),
            decoder_steps(batched, True, 200, cells),
        )
    for size in (256, 512):
        found["transformer"][str(size)] = ratio(
            f"transformer decoder, 6 layers of {size}, 200 frames",
            transformer_search(TransformerDecoder, 200, size),
            transformer_search(cached, 200, size),
        )
    if args.output:
        about = (
            "How many times as fast a step of the search is with each patch, one "
            "thread: by frames, cells and size"
        )
        command = "python contrib/espnet-202611/benchmark.py --output contrib.json"
        write_record(args.output, about, command, {"hypotheses": BEAM, "ratio": found})


if __name__ == "__main__":
    main()
