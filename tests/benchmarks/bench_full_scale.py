"""What each recipe costs at full scale: one training step of its model at its real size is counted, and multiplied up.

Counted, on a CPU with random audio: the operations (torch's FlopCounterMode, forward and backward) and the bytes that
the backward pass needs, for two lengths of one utterance; their difference gives what a second of audio costs. P5's
model is counted at its real contexts, by torch's fake tensors.
Multiplied up by what the config and the paper say: hours of audio, epochs, the size of a batch. Assumed, and named so:
a GPU's speed, what an hour of audio takes on a disk, tokens of a word. Measured: loading of audio, and Whisper's first
pass, on one core. ``--only NAME`` counts one row; ``--output``
keeps all of them as facts, from which docs/clusters.md is rendered.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import yaml
from full_scale_counts import (
    A100,
    REACHED,
    STATES,
    WORD_START,
    Attention,
    count,
    count_step,
    ctc_model,
    full_config,
    full_section,
    gpu_hours,
)
from full_scale_first_pass import cost_of_first_pass
from full_scale_text import cost_of_language_model, cost_of_rescoring, cost_of_stitcher

import espnet_ext
from espnet_ext.encoder.long_fastconformer import LongFastConformerEncoder
from espnet_ext.sem import pretraining
from espnet_ext.tables.kept.facts import read_facts, write_facts
from espnet_ext.upstream.logs import without_warnings

RATE = 16000
FEATURES = 80  # Mel bands of P5
TOKENS_A_SECOND = 3  # 150 words a minute, some of two tokens
MIXTURES, MIXTURE_SECONDS = 500_000, 29.4  # mixing.train_sa of conf/full.yaml; P4, section 4.1.1
STITCH_BATCH = 500.0  # batch_bins of sa_asr_lstm in conf/full.yaml
FLAC_GB_AN_HOUR = 0.062  # of LibriSpeech: archives of 6.3, 23 and 30 GB for 960 h, by openslr.org/12
WAV_GB_AN_HOUR = 0.1152  # 16 bits at 16 kHz
OGG_GB_AN_HOUR = 0.034  # of the podcasts: their archive is called podcasts-audio-only-2TB, and has 58,000 h


@dataclass(frozen=True)
class Training:
    """One training at full scale.

    Attributes:
        make: its model and config.
        hours: of training audio; passes: how often each is seen.
        batch: seconds of audio in a batch on one GPU.
        lengths: of the two utterances that are counted, in seconds.
        gb_an_hour: of the audio as it lies on the disk.
    """

    make: Callable[[], tuple[torch.nn.Module, dict]]
    hours: float
    passes: float
    batch: float
    lengths: tuple[float, float]
    gb_an_hour: float


def asr_model(config: dict, tokens: int, features: int = 0) -> tuple[torch.nn.Module, dict]:
    """The model of a training config, as ESPnet's task builds it, or ours for several speakers and for recordings."""
    from espnet2.tasks.asr import ASRTask

    from espnet_ext.longform.training import RecordingsASRTask
    from espnet_ext.multitalker.task import SAASRTask

    task = SAASRTask if config.get("model") == "sa_asr" else RecordingsASRTask if features else ASRTask
    if config.get("model") == "ctc_per_second":
        config = config | {"model_conf": {**config.get("model_conf", {}), "input_seconds": 0.01}}
    names = ["<blank>", "<unk>", "<sc>", *(f"{WORD_START}P{number}" for number in range(tokens - 4)), "<sos/eos>"]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.yaml"
        path.write_text(yaml.safe_dump(config | ({"input_size": features} if features else {})))
        options = ["--config", str(path), "--output_dir", folder, "--token_type", "bpe"]
        if not features:
            bands = config["frontend_conf"]["n_mels"]
            stats = Path(folder) / "stats.npz"
            np.savez(stats, count=100, sum=np.full(bands, 50.0), sum_square=np.full(bands, 30.0))
            options += ["--normalize_conf", f"stats_file={stats}"]
        args = task.get_parser().parse_args(options)
        args.token_list = names
        if args.decoder == "language_transformer":
            languages = Path(folder) / "languages.txt"
            languages.write_text("".join(f"{name} {'en' if name[0] == WORD_START else '-'}\n" for name in names))
            args.decoder_conf["languages_file"] = str(languages)
        return task.build_model(args), config


def of_table(recipe: str, system: str, tokens: int) -> Callable[[], tuple[torch.nn.Module, dict]]:
    return lambda: asr_model(full_config(recipe, system), tokens)


def of_recogniser() -> tuple[torch.nn.Module, dict]:
    return asr_model(full_section("libricss_stitch", "sa_asr_lstm"), 16000)


def sem_passes(config: dict, epochs: int) -> float:
    """Of the 960 h: epochs of a number of batches, padding counted as audio."""
    return epochs * config["num_iters_per_epoch"] * config["batch_bins"] / RATE / 3600 / 960


def pretraining_steps() -> list[pretraining.PretrainStep]:
    """P2's layer-wise pre-training, each step with a model of its own; the last of the plan is the system itself."""
    settings = pretraining.parse_settings(full_section("librispeech_sem", "pretrain"))
    return pretraining.plan(full_config("librispeech_sem", "sem_m80_0"), settings)[:-1]


def of_sem() -> Training:
    """The training after the pre-training, whose epochs are among its own."""
    config = full_config("librispeech_sem", "sem_m80_0")
    epochs = config["max_epoch"] - sum(step.config["max_epoch"] for step in pretraining_steps())
    passes = sem_passes(config, epochs)
    return Training(of_table("librispeech_sem", "sem_m80_0", 10000), 960, passes, 200.0, (0.64, 1.28), FLAC_GB_AN_HOUR)


TRAININGS = {
    "librispeech_sem": of_sem(),
    "asru2019_cs, CS": Training(
        of_table("asru2019_cs", "separate_cs", 4103), 200, 50, 32 * 10.0, (5.0, 10.0), WAV_GB_AN_HOUR
    ),
    "asru2019_cs, CS+CH+EN": Training(
        of_table("asru2019_cs", "separate_cs", 4103), 1160, 50, 32 * 15.0, (7.5, 15.0), WAV_GB_AN_HOUR
    ),
    "libricss_stitch, recogniser, single utterances": Training(
        of_recogniser, 960, 20, STITCH_BATCH, (1.6, 3.2), FLAC_GB_AN_HOUR
    ),
    "libricss_stitch, recogniser, mixtures": Training(
        of_recogniser, MIXTURES * MIXTURE_SECONDS / 3600, 40, STITCH_BATCH, (1.6, 3.2), FLAC_GB_AN_HOUR
    ),
}
CONTEXTS = (10, 60, 655, 3600)  # seconds, of P5's Figure 1


def of_context() -> Training:
    """P5's training. Its memory is linear in the length, whatever the context."""
    make = partial(asr_model, full_section("spotify_longctx", "train"), 4096, features=FEATURES)
    return Training(make, 58000, 1, 3600.0, (1800.0, 3600.0), OGG_GB_AN_HOUR)


def audio_loss(model: torch.nn.Module, seconds: float) -> torch.Tensor:
    shape = (1, round(seconds * RATE))
    tokens = round(seconds * TOKENS_A_SECOND)
    batch = {
        "speech": torch.randn(shape),
        "speech_lengths": torch.tensor(shape[1:2]),
        "text": torch.randint(2, 1000, (1, tokens)),
        "text_lengths": torch.tensor([tokens]),
    }
    if hasattr(model, "speaker_encoder"):
        batch |= {"profiles": torch.randn(1, 8, model.profile_size), "profiles_lengths": torch.tensor([8])}
        batch |= {"speakers": torch.zeros(1, 1, dtype=torch.long), "speakers_lengths": torch.tensor([1])}
        windows = round(seconds / 0.8)  # of 1.6 s every 0.8 s, computed before the training
        batch |= {"d_vectors": torch.randn(1, windows, 256), "d_vectors_lengths": torch.tensor([windows])}
    return model.train()(**batch)[0]


def cost_of_training(training: Training) -> dict:
    """Operations, GPU hours, memory and disk of a training on audio."""
    torch.manual_seed(0)
    with without_warnings():
        model, config = training.make()
        short, long = (count(lambda seconds=seconds: audio_loss(model, seconds), model) for seconds in training.lengths)
    difference = training.lengths[1] - training.lengths[0]
    flops, memory = (long[0] - short[0]) / difference, (long[1] - short[1]) / difference
    return cost(training, model, config, flops, memory)


def cost_of_context(seconds: float) -> dict:
    """The same of P5's training, in bfloat16 with flash attention, by tensors without contents."""
    training = of_context()
    with without_warnings():
        model, config = training.make()
        half, options = config["use_amp"], config["encoder_conf"]
        operations, short, long = (
            count_step(lambda: ctc_model(LongFastConformerEncoder(FEATURES, **options)), length, half, Attention(True))
            for length in (seconds, *training.lengths)
        )
    memory = (long.peak - short.peak) / (training.lengths[1] - training.lengths[0])
    return cost(training, model, config, operations.operations / seconds, memory)


def cost(training: Training, model: torch.nn.Module, config: dict, flops: float, memory: float) -> dict:
    """What a training costs.

    Args:
        training, model, config: the training, its model and its config.
        flops: operations for a second of audio.
        memory: bytes for a second of audio in a batch.
    """
    size = sum(parameter.numel() for parameter in model.parameters())
    fixed = (2 + STATES[config["optim"]]) * 4 * size  # parameters, their gradients, and the optimizer's state
    operations = flops * training.hours * 3600 * training.passes
    epochs = config.get("keep_nbest_models", 1) * len(config.get("best_model_criterion", [1]))
    return {
        "parameters": size,
        "flops_per_second": flops,
        "hours": training.hours,
        "passes": training.passes,
        "operations": operations,
        "gpu_hours": gpu_hours(operations),
        "precision": "AMP" if config.get("use_amp") else "FP32",
        "memory_fixed_gb": fixed / 1e9,
        "memory_mb_per_second": memory / 1e6,
        "batch_seconds": training.batch,
        "memory_gb": (fixed + memory * training.batch) / 1e9,
        "audio_gb": training.hours * training.gb_an_hour,
        "kept_epochs": epochs,
        "checkpoints_gb": size * 4 * (epochs + 1 + STATES[config["optim"]]) / 1e9,
    }


def cost_of_pretraining() -> dict:
    """The steps of P2's pre-training, and their sums. A step's checkpoints go when the next one has been trained."""
    steps = {}
    for step in pretraining_steps():
        make = partial(asr_model, step.config, 10000)
        passes = sem_passes(step.config, step.config["max_epoch"])
        training = Training(make, 960, passes, 200.0, (0.32, 0.64), FLAC_GB_AN_HOUR)
        steps[step.name] = cost_of_training(training) | {"epochs": step.config["max_epoch"]}
    operations = sum(step["operations"] for step in steps.values())
    return {
        "steps": steps,
        "epochs": sum(step["epochs"] for step in steps.values()),
        "passes": sum(step["passes"] for step in steps.values()),
        "operations": operations,
        "gpu_hours": gpu_hours(operations),
        "checkpoints_gb": max(step["checkpoints_gb"] for step in steps.values()),
    }


ROWS: dict[str, Callable[[], dict]] = {
    **{name: partial(cost_of_training, training) for name, training in TRAININGS.items()},
    **{f"spotify_longctx, context of {seconds:,} s": partial(cost_of_context, seconds) for seconds in CONTEXTS},
    "librispeech_sem, pre-training": cost_of_pretraining,
    "librispeech_sem, language model": cost_of_language_model,
    "librispeech_sem, large language model": partial(cost_of_language_model, "lm_large"),
    "librispeech_rescore": cost_of_rescoring,
    "librispeech_rescore, first pass": cost_of_first_pass,
    "libricss_stitch, stitcher": cost_of_stitcher,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(ROWS), action="append", help="a row; repeat it for several")
    parser.add_argument("--output", type=Path, metavar="FILE", help="keep the rows as facts, beside the others there")
    args = parser.parse_args()
    torch.set_num_threads(1)
    espnet_ext.register()
    speeds = {kind: {"operations_per_second": A100[kind], "reached": REACHED[kind]} for kind in A100}
    print(f"Assumed of an A100: {json.dumps(speeds)}")
    rows = read_facts(args.output)["values"]["rows"] if args.output and args.output.is_file() else {}
    for name in args.only or ROWS:
        rows[name] = ROWS[name]()
        print(f"\n{name}: {json.dumps(rows[name], indent=1)}", flush=True)
    if args.output:
        about = "Cost of each recipe at full scale, one system and seed; computed from counted operations"
        command = "python tests/benchmarks/bench_full_scale.py --output docs/results/costs.json"
        write_facts(args.output, about, command, {"assumed": speeds, "rows": rows})


if __name__ == "__main__":
    main()
