"""What Small Energy Masking costs: against one training step of P2's system at full size, and against ESPnet's SpecAug.

    python tests/benchmarks/bench_sem.py [--no-step]

The batch is 32 utterances of 1,500 frames of 40 channels. The training step (forward, backward, gradient clipping,
Adam) needs 15 GB and many minutes on a CPU; it runs on a GPU if there is one.
"""

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from espnet2.asr.specaug.specaug import SpecAug
from espnet2.layers.global_mvn import GlobalMVN
from espnet2.tasks.asr import ASRTask

import espnet_ext
from espnet_ext.normalize.sem_global_mvn import SEMGlobalMVN

BATCH, FRAMES, CHANNELS = 32, 1500, 40
TOKENS, TARGET_LENGTH = 10_000, 50
ROUNDS = 15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-step", action="store_true", help="leave the training step out")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(f"{device}; {BATCH} x {FRAMES} x {CHANNELS}; {ROUNDS} rounds in turns", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        stats_file = write_statistics(Path(folder))
        # several threads wait for each other where other processes want the cores too; one does not
        for threads in sorted({1, torch.get_num_threads()}):
            torch.set_num_threads(threads)
            for name, shortest in (("1200 to 1500 frames", 1200), ("equal lengths", FRAMES)):
                cost = compare_with_specaug(f"{name}, threads: {threads}", shortest, stats_file, device)
        if not args.no_step:
            compare_with_step(cost, stats_file, device)


def compare_with_specaug(name: str, shortest: int, stats_file: Path, device: str) -> float:
    """Print what each layer costs. Returns SEM's median in seconds."""
    x, lengths = features(device), torch.linspace(FRAMES, shortest, BATCH).long().to(device)
    layers = {
        # the time mask's width has no default in ESPnet; the rest is at its defaults
        "SpecAug": SpecAug(time_mask_width_range=(0, 40)).train(),
        "global_mvn": GlobalMVN(stats_file).train(),
        "sem_global_mvn": SEMGlobalMVN(stats_file).train(),
    }
    print(f"\n{name}: median (minimum) in ms")
    # in turns, so that what else the machine does falls on all alike; each works in place, so each gets its own copy
    times: dict[str, list[float]] = {layer: [] for layer in layers}
    for _ in range(ROUNDS):
        for layer, module in layers.items():
            copy = x.clone()
            times[layer].append(seconds(lambda module=module, copy=copy: module.to(device)(copy, lengths), device))
    for layer, values in times.items():
        print(f"  {layer:15} {1e3 * statistics.median(values):8.2f} ({1e3 * min(values):.2f})")
    medians = {layer: statistics.median(values) for layer, values in times.items()}
    added = medians["sem_global_mvn"] - medians["global_mvn"]
    print(f"  SEM with its normalisation / SpecAug: {medians['sem_global_mvn'] / medians['SpecAug']:.2f} (at most 1)")
    print(f"  what SEM adds to global_mvn / SpecAug: {added / medians['SpecAug']:.2f}", flush=True)
    return medians["sem_global_mvn"]


def compare_with_step(cost: float, stats_file: Path, device: str) -> None:
    """Print SEM's share of one training step of P2's system on the same batch."""
    torch.manual_seed(0)
    model = full_size_model(stats_file).to(device).train()
    optimizer = torch.optim.Adam(model.parameters())
    batch = {
        "speech": features("cpu").to(device),
        "speech_lengths": torch.full((BATCH,), FRAMES, device=device),
        "text": torch.randint(2, TOKENS - 1, (BATCH, TARGET_LENGTH), device=device),
        "text_lengths": torch.full((BATCH,), TARGET_LENGTH, device=device),
    }

    def step() -> None:
        optimizer.zero_grad()
        model(**batch)[0].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()

    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    if device == "cpu":
        duration = seconds(step, device)
    else:
        step()
        duration = statistics.median(seconds(step, device) for _ in range(5))
    print(f"\ntraining step, {millions:.1f} M parameters: {duration:.2f} s")
    print(f"  peak memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")
    print(f"  SEM with its normalisation / training step: {100 * cost / duration:.4f}% (at most 1%)", flush=True)


def full_size_model(stats_file: Path) -> torch.nn.Module:
    """P2, section 4, from features on: 6 BLSTM layers of 1024, LSTM decoder of 1024 with location attention, CTC."""
    espnet_ext.register()
    return ASRTask.build_model(
        argparse.Namespace(
            token_list=["<blank>", "<unk>", *(f"t{number}" for number in range(TOKENS - 3)), "<sos/eos>"],
            input_size=CHANNELS,
            specaug=None,
            normalize="sem_global_mvn",
            normalize_conf={"stats_file": str(stats_file)},
            encoder="blstm_maxpool",
            encoder_conf={},
            decoder="rnn",
            decoder_conf={"hidden_size": 1024, "att_conf": {"atype": "location", "adim": 1024}},
            ctc_conf={},
            model="espnet",
            model_conf={"ctc_weight": 0.5},
            init=None,
        )
    )


def features(device: str) -> torch.Tensor:
    """Power-mel features of energies over some 100 dB, (32, 1500, 40)."""
    energies = 10.0 ** np.random.default_rng(0).normal(-4.0, 2.0, (BATCH, FRAMES, CHANNELS))
    return torch.from_numpy(energies ** (1 / 15)).float().to(device)


def write_statistics(folder: Path) -> Path:
    mean, variance = np.full(CHANNELS, 0.55), np.full(CHANNELS, 0.03)
    np.savez(folder / "feats_stats.npz", count=100, sum=100 * mean, sum_square=100 * (variance + mean**2))
    return folder / "feats_stats.npz"


def seconds(work: Callable[[], object], device: str) -> float:
    """How long ``work`` takes, the accelerator's part included."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
