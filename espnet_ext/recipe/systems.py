"""What several recipes do with each ASR system of a run: train it, decode test sets, score them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.recipe import asr
from espnet_ext.recipe.run import Run
from espnet_ext.recipe.steps import Step
from espnet_ext.recipe.training import average_step, averaged
from espnet_ext.tables.schema import System


def train_and_average(
    run: Run, system: System, seed: int, train: str, valid: str, tokens: Path, *, options: Sequence[str] = ()
) -> Iterator[Step]:
    """Train a system, and average the epochs that are decoded."""
    folder = run.expdir / system.name / f"seed{seed}"
    token_type = run.sections["settings"]["token_type"]
    config = run.system_config(system)
    yield asr.asr_train_step(run, folder, config, train, valid, tokens, token_type, seed, options=options)
    yield average_step(run, folder, run.setting("average"))


def decode_system(
    run: Run, system: System, seed: int, nj: int, sets: Sequence[str], tokens: Path, data: Path | None = None
) -> Iterator[Step]:
    """Decode with a system: one step for decodings with its model alone, one for those with a language model too."""
    folder = run.expdir / system.name / f"seed{seed}"
    model = folder / averaged(run.setting("average"))
    names = list(run.decodings.get(system.name, {}))
    fused = [name for name in names if run.decoding(name).get("lm_weight")]
    for group, lm in (([name for name in names if name not in fused], None), (fused, run.lm)):
        prior = any(run.decoding(name).get("prior_weight") for name in group)
        options = ["--prior_file", str(tokens / "prior.txt")] if prior else []
        if group:
            yield asr.decode_steps(run, folder, model, group, sets, nj, options=options, lm=lm, data=data)


def score_systems(run: Run, sets: Sequence[str], rate: str = "wer", **options: Any) -> Iterator[Step]:
    """Return the error rates of all decodings of all systems and seeds."""
    for system in run.systems:
        for seed in run.seeds_of(system):
            for decoding in run.decodings.get(system.name, {}):
                for part in sets:
                    folder = run.expdir / system.name / f"seed{seed}" / f"decode_{decoding}" / part
                    yield asr.score_step(run, part, folder, rate, **options)
