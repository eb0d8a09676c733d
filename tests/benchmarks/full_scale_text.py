"""What the models of text cost at full scale: language models, rescoring and the stitcher."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import yaml
from full_scale_counts import STATES, WORD_START, count, full_section, gpu_hours, make_scorers
from torch.utils.flop_counter import FlopCounterMode

from espnet_ext.rescore.training.mwer import Example, MwerLoss, backward
from espnet_ext.work.yaml_files import deep_merge

STITCH_TOKENS = 50_000  # batch_bins of stitcher in conf/full.yaml: tokens read and written
LM_WORDS, LM_SENTENCES = 803_000_000, 40_400_000  # of LibriSpeech's text for language models
LM_PIECES_A_WORD = 1.3  # of 10,000 word pieces; assumed


def model_of(task: Any, config: dict, tokens: int, *options: str) -> torch.nn.Module:
    """The model of a training config with so many tokens, on both sides if the task reads text."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.yaml"
        path.write_text(yaml.safe_dump(config))
        own = ["--config", str(path), "--output_dir", folder, "--token_type", "bpe", *options]
        args = task.get_parser().parse_args(own)
    names = [f"{WORD_START}P{number}" for number in range(tokens - 3)]
    args.token_list = args.src_token_list = ["<blank>", "<unk>", *names, "<sos/eos>"]
    return task.build_model(args).train()


def cost_of_language_model(*overlays: str) -> dict:
    """The Transformer of P2's Table 5: a sentence of 64 tokens is counted, and multiplied by all tokens and passes."""
    from espnet2.tasks.lm import LMTask

    config = full_section("librispeech_sem", "lm")
    for name in overlays:
        config = deep_merge(config, full_section("librispeech_sem", name))
    model = model_of(LMTask, config, 10000)
    text = torch.randint(2, 9000, (1, 64))
    flops, _ = count(lambda: model(text=text, text_lengths=torch.tensor([64]))[0], model)
    tokens = LM_WORDS * LM_PIECES_A_WORD
    passes = config["max_epoch"] * config["num_iters_per_epoch"] * config["batch_size"] / LM_SENTENCES
    operations = flops / 65 * tokens * passes  # the end token counts too
    size = sum(parameter.numel() for parameter in model.parameters())
    return {
        "parameters": size,
        "flops_per_token": flops / 65,
        "tokens": tokens,
        "passes": passes,
        "operations": operations,
        "gpu_hours": gpu_hours(operations),
        "checkpoints_gb": size * 4 * (config["keep_nbest_models"] + 1 + STATES[config["optim"]]) / 1e9,
    }


UTTERANCES, WORDS = 281_241, 9_400_000  # LibriSpeech's 960 h
PIECES_A_WORD = 1.3  # of GPT-2 and BERT, for LibriSpeech's English; assumed
HYPOTHESES, COUNTED_HYPOTHESES, COUNTED_TOKENS = 10, 2, 8


def cost_of_rescoring() -> dict:
    """MWER on lists of ten hypotheses. Counted on a list of two short ones: a PLL takes a copy of the text a token."""
    tokens = round(WORDS * PIECES_A_WORD / UTTERANCES)
    found = {}
    for kind, scorer in make_scorers():
        if kind.pooling == "attention":
            continue  # the same model under another small layer
        texts = tuple(
            " ".join(f"w{number}" for number in range(place, place + COUNTED_TOKENS))
            for place in range(0, 100 * COUNTED_HYPOTHESES, 100)
        )
        batch = [Example("u", texts, (-1.0, -2.0), (0, 1), texts[0])]
        backward(scorer.train(), batch, MwerLoss(ce_weight=0.0))  # the first call also tries what the model can take
        with FlopCounterMode(display=False) as counter:
            backward(scorer, batch, MwerLoss(ce_weight=0.0))
        flops = counter.get_total_flops()
        power = 2 if kind.scorer == "pll" else 1
        scale = HYPOTHESES / COUNTED_HYPOTHESES * (tokens / COUNTED_TOKENS) ** power
        found[str(kind)] = {
            "parameters": sum(parameter.numel() for parameter in scorer.parameters()),
            "flops_counted": flops,
            "power": power,
            "tokens": tokens,
            "lists": UTTERANCES,
            "operations": flops * scale * UTTERANCES,
            "gpu_hours": gpu_hours(flops * scale * UTTERANCES),
        }
    return found


STITCHED, STITCHED_WORDS = 50_083, 193  # P4, Table 1: training recordings, words of each


def cost_of_stitcher() -> dict:
    """One epoch, with one recording a batch; windows that overlap by half hear each word twice."""
    from espnet2.tasks.mt import MTTask

    tokens = round(STITCHED_WORDS * PIECES_A_WORD)
    model = model_of(MTTask, full_section("libricss_stitch", "stitcher"), 16000, "--src_token_type", "bpe")
    source, target = torch.randint(2, 1000, (1, 2 * tokens)), torch.randint(2, 1000, (1, tokens))
    lengths = {"src_text_lengths": torch.tensor([2 * tokens]), "text_lengths": torch.tensor([tokens])}
    flops, kept = count(lambda: model(src_text=source, text=target, **lengths)[0], model)
    size = sum(parameter.numel() for parameter in model.parameters())
    return {
        "parameters": size,
        "flops_per_recording": flops,
        "tokens_read": 2 * tokens,
        "tokens_written": tokens,
        "recordings": STITCHED,
        "operations": flops * STITCHED,
        "gpu_hours": gpu_hours(flops * STITCHED),
        "memory_fixed_gb": 16 * size / 1e9,
        "memory_mb_per_recording": kept / 1e6,
        "batch_tokens": STITCH_TOKENS,
        "memory_gb": (16 * size + kept * STITCH_TOKENS / (3 * tokens)) / 1e9,
    }
