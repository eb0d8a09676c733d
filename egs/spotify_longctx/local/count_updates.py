#!/usr/bin/env python3
"""Updates, audio of a batch and gradient norms by context, by the rules that are used and by those of before.

Before, a batch was filled by a number of sequences, and the loss was a mean over sequences. Now a batch is filled by
seconds of audio, and the loss is that of a second (P5, section 3.3: an hour a batch at each context). Durations are
drawn (lognormal); the gradient is that of a small model with random weights, on the same random audio in sequences of
several lengths.

Example:
  local/count_updates.py --output results/updates.json
"""

import argparse
import random
import shlex
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean

import torch

import espnet_ext
from espnet_ext.command import run_main
from espnet_ext.longform.chunking import SHORTEST, Schedule, batches
from espnet_ext.tables.kept.facts import write_facts

PODCASTS, MINUTES, SPREAD = 6000, 34.0, 0.5
CONTEXTS = (10, 41, 164, 655, 1311, 2621, 3600)  # seconds
BATCH = 3600.0
TOKENS = ["<blank>", "<unk>", *"abcdefgh", "<sos/eos>"]
SECONDS, RATE, BANDS, TOKENS_A_SECOND = 160, 100, 20, 3  # of the audio for gradients
LENGTHS = (5, 10, 40, 160)  # seconds
ABOUT = (
    "By context in seconds: updates of one pass, and mean seconds of audio in a batch, by number of sequences (before) "
    "and by seconds (now); by length of the sequences: norms of the gradient of the same audio, of the mean over "
    "sequences (before) and of a second (now)"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("results/updates.json"))
    args = parser.parse_args()
    durations = drawn_durations()
    values = {
        "podcasts": PODCASTS,
        "hours": sum(durations.values()) / 3600,
        "updates": [updates(durations, context) for context in CONTEXTS],
        "gradients": gradients(),
    }
    write_facts(args.output, ABOUT, shlex.join(["local/count_updates.py", *sys.argv[1:]]), values)
    print("written:", args.output)


def drawn_durations() -> dict[str, float]:
    """Podcast -> seconds: lognormal, ``MINUTES`` in the mean."""
    generator = random.Random(0)
    drawn = [generator.lognormvariate(0, SPREAD) for _ in range(PODCASTS)]
    scale = 60 * MINUTES / fmean(drawn)
    return {f"podcast{number}": scale * each for number, each in enumerate(drawn)}


def updates(durations: Mapping[str, float], context: float) -> dict[str, float]:
    """Updates of one pass and seconds of a batch in the mean, before and now."""
    schedule = Schedule(batch_seconds=BATCH, max_seconds=context, double_every=0)
    now = [sum(chunk.end - chunk.start for chunk in batch) for batch in batches(durations, schedule)]
    before = list(by_number(durations, context))
    return {
        "context": context,
        "before": len(before),
        "before_seconds": fmean(before),
        "now": len(now),
        "now_seconds": fmean(now),
    }


def by_number(durations: Mapping[str, float], context: float) -> Iterator[float]:
    """Seconds of each batch where it has a chunk of each of so many recordings as would fill it with full chunks."""
    waiting, opened = deque(durations.values()), list[float]()
    number = max(1, int(BATCH // context))
    while waiting or opened:
        while waiting and len(opened) < number:
            opened.append(waiting.popleft())
        yield sum(min(rest, context) for rest in opened)
        opened = [rest - context for rest in opened if rest - context >= SHORTEST]


def gradients() -> list[dict[str, float]]:
    """Norms of the gradient of the same audio in sequences of several lengths, by both losses."""
    models = {"before": small_model("espnet"), "now": small_model("ctc_per_second")}
    return [
        {"seconds": length, **{name: gradient_norm(model, length) for name, model in models.items()}}
        for length in LENGTHS
    ]


def small_model(model: str) -> torch.nn.Module:
    """A FastConformer with CTC of random weights."""
    from espnet2.tasks.asr import ASRTask

    espnet_ext.register()
    torch.manual_seed(0)
    config = argparse.Namespace(
        token_list=TOKENS, input_size=BANDS, model=model, model_conf={"ctc_weight": 1.0}, init=None,
        encoder="long_fastconformer", decoder=None, frontend=None, specaug=None, normalize=None,
        encoder_conf={"output_size": 32, "attention_heads": 2, "num_blocks": 2, "subsampling_channels": 8},
        decoder_conf={}, frontend_conf={}, normalize_conf={}, ctc_conf={},
    )  # fmt: skip
    return ASRTask.build_model(config)


def gradient_norm(model: torch.nn.Module, length: int) -> float:
    """Norm of the gradient of ``SECONDS`` of random audio and text in sequences of ``length`` seconds."""
    generator = torch.Generator().manual_seed(1)
    count = SECONDS // length
    speech = torch.randn(count, length * RATE, BANDS, generator=generator)
    text = torch.randint(2, 10, (count, length * TOKENS_A_SECOND), generator=generator)
    loss, _, _ = model(
        speech=speech,
        speech_lengths=torch.full((count,), length * RATE),
        text=text,
        text_lengths=torch.full((count,), length * TOKENS_A_SECOND),
    )
    gradients = torch.autograd.grad(loss.sum(), [p for p in model.parameters() if p.requires_grad], allow_unused=True)
    return float(torch.linalg.vector_norm(torch.stack([each.norm() for each in gradients if each is not None])))


if __name__ == "__main__":
    run_main(main)
