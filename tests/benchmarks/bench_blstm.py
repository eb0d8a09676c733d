"""Training time of BLSTM against torch's own bidirectional LSTM on packed sequences, with the same weights' shapes.

python tests/benchmarks/bench_blstm.py [--threads N]
"""

import argparse
import statistics
import time

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from espnet_ext.layers.blstm import BLSTM

# batch, longest utterance in frames, input size, cells
SIZES = [(12, 300, 40, 128), (12, 150, 256, 128), (8, 200, 256, 320)]
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, help="threads of torch (default: its own choice)")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"{device}, {torch.get_num_threads()} threads; forward and backward, median (minimum) of {ROUNDS} in ms")
    for size in SIZES:
        compare(*size, device)


def compare(batch: int, frames: int, input_size: int, cells: int, device: str) -> None:
    """Print both times and their ratio; lengths from 80% of the longest up, as in a batch sorted by length."""
    torch.manual_seed(0)
    x = torch.randn(batch, frames, input_size, device=device)
    lengths = torch.linspace(frames, 0.8 * frames, batch).long()
    on_device = lengths.to(device)
    ours = BLSTM(input_size, cells).to(device)
    peer = torch.nn.LSTM(input_size, cells, batch_first=True, bidirectional=True).to(device)

    def run_ours() -> torch.Tensor:
        return ours(x, on_device)

    def run_packed() -> torch.Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        return pad_packed_sequence(peer(packed)[0], batch_first=True)[0]

    times: dict[str, list[float]] = {"packed": [], "ours": []}
    for turn in range(ROUNDS + 1):
        for name, run in (("packed", run_packed), ("ours", run_ours)):
            start = time.perf_counter()
            run().sum().backward()
            if device == "cuda":
                torch.cuda.synchronize()
            if turn:  # the first is to warm up
                times[name].append(time.perf_counter() - start)
    shown = ", ".join(f"{name} {1e3 * statistics.median(t):.1f} ({1e3 * min(t):.1f})" for name, t in times.items())
    ratio = statistics.median(times["packed"]) / statistics.median(times["ours"])
    print(f"{batch} x {frames} x {input_size} -> 2 x {cells}: {shown}; packed / ours {ratio:.1f}", flush=True)


if __name__ == "__main__":
    main()
