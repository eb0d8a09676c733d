"""What each recipe costs at full scale: one training step of its model at its real size is counted, and multiplied up.

Counted, on a CPU with random audio: the operations (torch's FlopCounterMode, forward and backward) and the bytes that
the backward pass needs, for two lengths of one utterance; their difference gives what a second of audio costs.
Multiplied up by what the config and the paper say: hours of audio, epochs, the size of a batch. Assumed, and named so:
a GPU's speed, and what an hour of audio takes on a disk. ``--only NAME`` counts one row.
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import yaml
from torch.utils.flop_counter import FlopCounterMode

import espnet_ext
from espnet_ext.rescore.mwer import Example, MwerLoss, backward
from espnet_ext.results.plans.plan import load_scale, system_config
from espnet_ext.results.plans.tables import load_tables
from espnet_ext.upstream.logs import without_warnings

EGS = Path(__file__).parents[2] / "egs"
sys.path[:0] = [str(EGS / recipe / "local") for recipe in ("librispeech_rescore", "spotify_longctx")]
from bench_latency import make_scorers  # noqa: E402 -- of the recipe
from context_cost import LiveBytes  # noqa: E402 -- of the recipe

RATE = 16000
WORD_START = "\u2581"
TOKENS_A_SECOND = 3  # 150 words a minute, some of two tokens
# NVIDIA's data sheet of the A100: 19.5 TFLOP/s in FP32, which is ESPnet's default, and 312 in bfloat16 (--use_amp true)
A100 = {"FP32": 19.5e12, "AMP": 312e12}
REACHED = {"FP32": 0.5, "AMP": 0.2}  # assumed shares of that speed
MIXTURES, MIXTURE_SECONDS = 500_000, 29.4  # mixing.train_sa of conf/full.yaml; P4, section 4.1.1
STITCH_BATCH = 500.0  # batch_bins of sa_asr_lstm in conf/full.yaml
STITCH_TOKENS = 50_000  # batch_bins of stitcher in conf/full.yaml: tokens read and written
STATES = {"adam": 2, "madgrad": 3}  # tensors of the parameters' size that the optimizer keeps
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
        features: Mel bands, where the model takes features; 0 where it takes audio.
        gb_an_hour: of the audio as it lies on the disk.
    """

    make: Callable[[], tuple[torch.nn.Module, dict]]
    hours: float
    passes: float
    batch: float
    lengths: tuple[float, float]
    gb_an_hour: float
    features: int = 0


def asr_model(config: dict, tokens: int, features: int = 0) -> tuple[torch.nn.Module, dict]:
    """The model of a training config, as ESPnet's task builds it, or ours where speakers are told apart."""
    from espnet2.tasks.asr import ASRTask

    from espnet_ext.multitalker.task import SAASRTask

    task = SAASRTask if config.get("model") == "sa_asr" else ASRTask
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


def full_config(recipe: str, system: str) -> dict:
    """The training config of a system at scale full."""
    systems = load_tables(EGS / recipe / "conf" / "tables.yaml").systems
    return system_config(load_scale(EGS / recipe, "full"), systems[system])


def full_section(recipe: str, section: str) -> dict:
    """A section of a recipe's conf/full.yaml."""
    return load_scale(EGS / recipe, "full")[section]


def of_table(recipe: str, system: str, tokens: int) -> Callable[[], tuple[torch.nn.Module, dict]]:
    return lambda: asr_model(full_config(recipe, system), tokens)


def of_context() -> tuple[torch.nn.Module, dict]:
    return asr_model(full_section("spotify_longctx", "train"), 4096, features=80)


def of_recogniser() -> tuple[torch.nn.Module, dict]:
    return asr_model(full_section("libricss_stitch", "sa_asr_lstm"), 16000)


def sem_passes() -> float:
    """Of the 960 h: epochs of a number of batches, padding counted as audio; 20 epochs of pre-training are left out."""
    config = full_config("librispeech_sem", "baseline")
    return config["max_epoch"] * config["num_iters_per_epoch"] * config["batch_bins"] / RATE / 3600 / 960


TRAININGS = {
    "librispeech_sem": Training(
        of_table("librispeech_sem", "sem_m80_0", 10000), 960, sem_passes(), 200.0, (2.0, 4.0), FLAC_GB_AN_HOUR
    ),
    "asru2019_cs, CS": Training(
        of_table("asru2019_cs", "separate_cs", 4103), 200, 50, 32 * 10.0, (5.0, 10.0), WAV_GB_AN_HOUR
    ),
    "asru2019_cs, CS+CH+EN": Training(
        of_table("asru2019_cs", "separate_cs", 4103), 1160, 50, 32 * 15.0, (7.5, 15.0), WAV_GB_AN_HOUR
    ),
    "libricss_stitch, recogniser, utterances": Training(
        of_recogniser, 960, 20, STITCH_BATCH, (1.6, 3.2), FLAC_GB_AN_HOUR
    ),
    "libricss_stitch, recogniser, mixtures": Training(
        of_recogniser, MIXTURES * MIXTURE_SECONDS / 3600, 40, STITCH_BATCH, (1.6, 3.2), FLAC_GB_AN_HOUR
    ),
    "spotify_longctx, 60 s": Training(of_context, 58000, 1, 3600.0, (30.0, 60.0), OGG_GB_AN_HOUR, features=80),
}


def count(forward: Callable[[], torch.Tensor], model: torch.nn.Module) -> tuple[int, int]:
    """Operations of a training step, and the bytes that are alive between its two halves, the model's own left out."""
    # fused recurrent layers are not seen by torch's counter; without oneDNN they are products, which are
    with FlopCounterMode(display=False) as flops, LiveBytes() as live, torch.backends.mkldnn.flags(enabled=False):
        for parameter in model.parameters():
            live.add(parameter)
        before = live.now
        loss = forward()
        kept = live.now - before
        loss.backward()
    model.zero_grad(set_to_none=True)
    return flops.get_total_flops(), kept


def audio_loss(model: torch.nn.Module, seconds: float, features: int) -> torch.Tensor:
    shape = (1, round(seconds * 100), features) if features else (1, round(seconds * RATE))
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


def print_training(name: str, training: Training) -> None:
    torch.manual_seed(0)
    with without_warnings():
        model, config = training.make()
        short, long = (
            count(lambda seconds=seconds: audio_loss(model, seconds, training.features), model)
            for seconds in training.lengths
        )
    difference = training.lengths[1] - training.lengths[0]
    flops, memory = (long[0] - short[0]) / difference, (long[1] - short[1]) / difference
    size = sum(parameter.numel() for parameter in model.parameters())
    states = 2 + STATES[config["optim"]]  # with the parameters and their gradients
    seconds = training.hours * 3600 * training.passes
    total = flops * seconds
    hours = {kind: total / (A100[kind] * REACHED[kind]) / 3600 for kind in A100}
    epochs = config.get("keep_nbest_models", 1) * len(config.get("best_model_criterion", [1]))
    kept = size * 4 * (epochs + 1 + STATES[config["optim"]]) / 1e9
    print(f"\n{name}: {size / 1e6:.1f} million parameters")
    print(
        f"  operations: {flops / 1e9:.1f} GFLOP a second of audio (utterances of {training.lengths[0]:g} and "
        f"{training.lengths[1]:g} s), times {training.hours:g} h x 3600 x {training.passes:.1f} passes = {total:.2e}"
    )
    print(
        "  GPU hours:  "
        + "; ".join(
            f"{kind} {hours[kind]:.1f} ({total:.2e} / ({A100[kind]:.3g} x {REACHED[kind]} x 3600))" for kind in A100
        )
    )
    print(
        f"  GPU memory: {states} x 4 bytes x {size / 1e6:.1f} million + {memory / 1e6:.1f} MB x {training.batch:g} s "
        f"of audio = {(states * 4 * size + memory * training.batch) / 1e9:.0f} GB"
    )
    print(
        f"  disk:       {training.hours:g} h x {training.gb_an_hour} GB = "
        f"{training.hours * training.gb_an_hour:.0f} GB of audio; {kept:.1f} GB of checkpoints a system and seed "
        f"({epochs} kept epochs, and the last with the optimizer's state)"
    )


UTTERANCES, WORDS = 281_241, 9_400_000  # LibriSpeech's 960 h
PIECES_A_WORD = 1.3  # of GPT-2 and BERT, for LibriSpeech's English; assumed
HYPOTHESES, COUNTED_HYPOTHESES, COUNTED_TOKENS = 10, 2, 8


def print_rescoring() -> None:
    """MWER on lists of ten hypotheses. Counted on a list of two short ones: a PLL takes a copy of the text a token."""
    tokens = round(WORDS * PIECES_A_WORD / UTTERANCES)
    print(f"\nlibrispeech_rescore: MWER, {UTTERANCES:,} lists of {HYPOTHESES} hypotheses of {tokens} tokens, one epoch")
    for kind, scorer in make_scorers():
        if kind.pooling == "attention":
            continue  # the same model under another small layer
        texts = tuple(
            " ".join(f"w{number}" for number in range(place, place + COUNTED_TOKENS))
            for place in range(0, 100 * COUNTED_HYPOTHESES, 100)
        )
        batch = [Example("u", texts, (-1.0, -2.0), (0, 1), texts[0])]
        with FlopCounterMode(display=False) as counter:
            backward(scorer.train(), batch, MwerLoss(ce_weight=0.0))
        flops = counter.get_total_flops()
        power = 2 if kind.scorer == "pll" else 1
        scale = HYPOTHESES / COUNTED_HYPOTHESES * (tokens / COUNTED_TOKENS) ** power
        total = flops * scale * UTTERANCES
        size = sum(parameter.numel() for parameter in scorer.parameters())
        hours = "; ".join(f"{kind} {total / (A100[kind] * REACHED[kind]) / 3600:.1f}" for kind in A100)
        print(
            f"  {kind}: {size / 1e6:.0f} million parameters; {flops / 1e9:.0f} GFLOP for {COUNTED_HYPOTHESES} x "
            f"{COUNTED_TOKENS} tokens, times {HYPOTHESES / COUNTED_HYPOTHESES:g} x ({tokens}/{COUNTED_TOKENS})^{power} "
            f"x {UTTERANCES:,} = {total:.2e}; GPU hours: {hours}; GPU memory: {16 * size / 1e9:.1f} GB and a chunk's "
            "graph"
        )


STITCHED, STITCHED_WORDS = 50_083, 193  # P4, Table 1: training recordings, words of each


def print_stitcher() -> None:
    """One recording a batch; windows that overlap by half hear each word twice."""
    from espnet2.tasks.mt import MTTask

    tokens = round(STITCHED_WORDS * PIECES_A_WORD)
    names = ["<blank>", "<unk>", *(f"{WORD_START}P{number}" for number in range(16000 - 3)), "<sos/eos>"]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.yaml"
        path.write_text(yaml.safe_dump(full_section("libricss_stitch", "stitcher")))
        options = ["--config", str(path), "--output_dir", folder, "--token_type", "bpe", "--src_token_type", "bpe"]
        args = MTTask.get_parser().parse_args(options)
    args.token_list = args.src_token_list = names
    model = MTTask.build_model(args).train()
    source, target = torch.randint(2, 1000, (1, 2 * tokens)), torch.randint(2, 1000, (1, tokens))
    lengths = {"src_text_lengths": torch.tensor([2 * tokens]), "text_lengths": torch.tensor([tokens])}
    flops, kept = count(lambda: model(src_text=source, text=target, **lengths)[0], model)
    total = flops * STITCHED
    size = sum(parameter.numel() for parameter in model.parameters())
    hours = "; ".join(f"{kind} {total / (A100[kind] * REACHED[kind]) / 3600:.1f}" for kind in A100)
    memory = (16 * size + kept * STITCH_TOKENS / (3 * tokens)) / 1e9
    print(
        f"\nlibricss_stitch, stitcher: {size / 1e6:.1f} million parameters; {flops / 1e9:.0f} GFLOP for {2 * tokens} "
        f"tokens read and {tokens} written, times {STITCHED:,} = {total:.2e} an epoch; GPU hours an epoch: {hours}; "
        f"GPU memory: {16 * size / 1e9:.1f} GB + {kept / 1e6:.0f} MB x {STITCH_TOKENS:,}/{3 * tokens} = {memory:.0f} GB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[*TRAININGS, "librispeech_rescore", "libricss_stitch, stitcher"])
    only = parser.parse_args().only
    torch.set_num_threads(1)
    espnet_ext.register()
    print(
        "Assumed: an A100 reaches "
        + ", ".join(f"{REACHED[kind]:.0%} of {A100[kind] / 1e12:g} TFLOP/s in {kind}" for kind in A100)
    )
    for name, training in TRAININGS.items():
        if only in (None, name):
            print_training(name, training)
    if only in (None, "librispeech_rescore"):
        print_rescoring()
    if only in (None, "libricss_stitch, stitcher"):
        print_stitcher()


if __name__ == "__main__":
    main()
