"""How the benchmark of full scale counts: the configs of the recipes, operations, memory, and hours of a GPU."""

import sys
from collections.abc import Callable
from pathlib import Path

import torch

from espnet_ext.tables.plans.plan import load_scale, system_config
from espnet_ext.tables.plans.reading import load_tables

EGS = Path(__file__).parents[2] / "egs"
sys.path[:0] = [str(EGS / recipe / "local") for recipe in ("librispeech_rescore", "spotify_longctx")]
from bench_latency import make_scorers  # noqa: E402, F401 -- of the recipe
from context_cost import Attention, LiveBytes, count_step, ctc_model, operation_counter  # noqa: E402, F401 -- of the recipe

WORD_START = "\u2581"
# NVIDIA's data sheet of the A100: 19.5 TFLOP/s in FP32, which is ESPnet's default, and 312 in bfloat16 (--use_amp true)
A100 = {"FP32": 19.5e12, "AMP": 312e12}
REACHED = {"FP32": 0.5, "AMP": 0.2}  # assumed shares of that speed
STATES = {"adam": 2, "madgrad": 3}  # tensors of the parameters' size that the optimizer keeps


def full_config(recipe: str, system: str) -> dict:
    """The training config of a system at scale full."""
    systems = load_tables(EGS / recipe / "conf" / "tables.yaml").systems
    return system_config(load_scale(EGS / recipe, "full"), systems[system])


def full_section(recipe: str, section: str) -> dict:
    """A section of a recipe's conf/full.yaml."""
    return load_scale(EGS / recipe, "full")[section]


def count(forward: Callable[[], torch.Tensor], model: torch.nn.Module) -> tuple[int, int]:
    """Operations of a training step, and the bytes that are alive between its two halves, the model's own left out."""
    # fused recurrent layers are not seen by torch's counter; without oneDNN they are products, which are
    with operation_counter() as flops, LiveBytes() as live, torch.backends.mkldnn.flags(enabled=False):
        for parameter in model.parameters():
            live.add(parameter)
        before = live.now
        loss = forward()
        kept = live.now - before
        loss.backward()
    model.zero_grad(set_to_none=True)
    return flops.get_total_flops(), kept


def gpu_hours(operations: float) -> dict[str, float]:
    """Hours of an A100 by precision."""
    return {kind: operations / (A100[kind] * REACHED[kind]) / 3600 for kind in A100}
