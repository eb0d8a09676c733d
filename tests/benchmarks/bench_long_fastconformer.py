"""A training step of long_fastconformer against ESPnet's conformer (rel_pos, 4x) of the
same depth, width and kernel.

Both in ESPnet's model with CTC. Time: on inputs of 60 s, processor time of this
process, the two by turns. Peak memory: on an input of 10 minutes, counted on tensors
without contents (egs/spotify_longctx/local/context_cost.py); ESPnet's would take over
100 GB at the paper's size.

python tests/benchmarks/bench_long_fastconformer.py [--threads N] [--rounds N]
[--paper-size]
"""

import argparse
import logging
import statistics
import sys
import time
from functools import partial
from pathlib import Path

import torch
from espnet2.asr.encoder.conformer_encoder import ConformerEncoder

from espnet_ext.longform.long_fastconformer import LongFastConformerEncoder

sys.path.insert(0, str(Path(__file__).parents[2] / "egs" / "spotify_longctx" / "local"))
from context_cost import BANDS, count_peak, make_ctc_model, take_step  # noqa: E402 -- of the recipe

# layers, width, heads
SMALL, PAPER = (6, 256, 4), (6, 768, 6)
KERNEL = 9


def ours(layers: int, width: int, heads: int):
    return make_ctc_model(
        LongFastConformerEncoder(
            BANDS, width, heads, num_blocks=layers, cnn_module_kernel=KERNEL
        )
    )


def espnets(layers: int, width: int, heads: int):
    return make_ctc_model(
        ConformerEncoder(
            BANDS,
            width,
            heads,
            4 * width,
            layers,
            macaron_style=True,
            rel_pos_type="latest",
            cnn_module_kernel=KERNEL,
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--threads", type=int, help="threads of torch (default: its own choice)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--paper-size", action="store_true", help="time the 90M model too (some 4 GB)"
    )
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    if args.threads:
        torch.set_num_threads(args.threads)
    print(
        f"CPU, {torch.get_num_threads()} threads; ESPnet's conformer / "
        "long_fastconformer",
        flush=True,
    )
    for size in (SMALL, PAPER):
        label = "{} layers of {}, {} heads".format(*size)
        peaks = [
            count_peak(partial(make, *size), 600, False, True)
            for make in (espnets, ours)
        ]
        print(
            f"{label}: peak on 600 s {peaks[0] / 1e9:.1f} / {peaks[1] / 1e9:.1f} "
            f"GB = {peaks[0] / peaks[1]:.1f}"
        )
        if size == SMALL or args.paper_size:
            time_steps(size, args.rounds, label)


def time_steps(size: tuple[int, int, int], rounds: int, label: str) -> None:
    """Print the medians of both models' steps on 60 s and their ratio."""
    models = {"espnet": espnets(*size), "ours": ours(*size)}
    times: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(rounds + 1):
        for name, model in models.items():
            start = time.process_time()
            take_step(model, 60, False)
            if turn:  # the first is to warm up
                times[name].append(time.process_time() - start)
            model.zero_grad(set_to_none=True)
    medians = [statistics.median(times[name]) for name in ("espnet", "ours")]
    print(
        f"{label}: step on 60 s {medians[0]:.2f} / {medians[1]:.2f} s = "
        f"{medians[0] / medians[1]:.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
