"""A small system for each plugin of the papers, with a batch and a search.

Together they have every plugin of :data:`espnet_ext.registry.PLUGINS`.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

TOKENS = ["<blank>", "<unk>", "<sc>", *"ABCDEFGH", "<sos/eos>"]
MT_TOKENS = ["<blank>", "<unk>", *"ABCDEFGH", "<sos/eos>"]
BLOCK = {"attention_heads": 2, "linear_units": 8, "num_blocks": 1}
ENCODER = {**BLOCK, "output_size": 8}
MELS = {"fs": 16000, "n_fft": 256, "hop_length": 160, "n_mels": 20}
ADAM = ({"lr": 1e-3}, None, {})
Batch = dict[str, torch.Tensor]


@dataclass(frozen=True)
class SmallSystem:
    """A config of a task, and what its model is given.

    ``make_batch`` makes a batch to train on; ``search``: the kind of search, a key of
    :data:`SEARCHES`, or None.
    """

    task: str
    config: dict[str, Any]
    make_batch: Callable[[], Batch]
    search: str | None = "beam"

    def build(self, folder: Path) -> Any:
        """Build the model; ``folder`` has what :func:`write_files` writes."""
        import espnet_ext

        espnet_ext.register()
        torch.manual_seed(0)
        config = get_task(self.task).get_default_config() | fill_in(self.config, folder)
        return get_task(self.task).build_model(argparse.Namespace(**config))

    @property
    def plugins(self) -> set[str]:
        """The names in the config that may be plugins, as ``<slot>.<name>``."""
        model = "mt_model" if self.task == "mt" else "model"
        slots = {slot: slot for slot in self.config} | {"model": model}
        named = {
            f"{slots[s]}.{n}" for s, n in self.config.items() if isinstance(n, str)
        }
        speaker = self.config.get("speaker_encoder")
        return named | ({f"encoder.{speaker}"} if speaker else set())


def get_task(name: str) -> Any:
    """Return ESPnet's task of this name, or P4's."""
    from espnet2.tasks.asr import ASRTask
    from espnet2.tasks.mt import MTTask

    from espnet_ext.stitch.recogniser.task import SAASRTask

    return {"asr": ASRTask, "mt": MTTask, "sa_asr": SAASRTask}[name]


def fill_in(config: Any, folder: Path) -> Any:
    """Return a config in which ``FOLDER`` is the folder of its files."""
    if isinstance(config, dict):
        return {key: fill_in(value, folder) for key, value in config.items()}
    if isinstance(config, list):
        return [fill_in(value, folder) for value in config]
    if isinstance(config, str):
        return config.replace("FOLDER", str(folder))
    return config


def write_files(folder: Path) -> Path:
    """Write what configs refer to: statistics of 40 features, and tokens' languages."""
    mean = np.linspace(0.3, 0.7, 40)
    variance = np.linspace(0.1, 0.2, 40) ** 2
    np.savez(
        folder / "stats.npz",
        count=1000,
        sum=1000 * mean,
        sum_square=1000 * (variance + mean**2),
    )
    lines = []
    for number, token in enumerate(TOKENS):
        language = ("en", "zh")[number % 2]
        lines.append(f"{token} {'-' if token[0] == '<' else language}\n")
    (folder / "languages.txt").write_text("".join(lines))
    return folder


def make_text() -> Batch:
    text = torch.tensor([[3, 4, 2, 5, 6], [7, 8, 9, -1, -1]])
    return {"text": text, "text_lengths": torch.tensor([5, 3])}


def make_speech() -> Batch:
    """A second and a half of noise, and a shorter one; both with a loud tone, whose
    power is beyond float16, and with silence, whose power is zero.
    """
    generator = torch.Generator().manual_seed(0)
    speech = 0.1 * torch.randn(2, 24000, generator=generator)
    speech[:, 4000:8000] = torch.sin(0.4 * torch.arange(4000))
    speech[:, 8000:10000] = 0.0
    return {"speech": speech, "speech_lengths": torch.tensor([24000, 16000])}


def make_features(size: int, frames: int = 160) -> Batch:
    generator = torch.Generator().manual_seed(0)
    speech = torch.randn(2, frames, size, generator=generator)
    return {"speech": speech, "speech_lengths": torch.tensor([frames, frames - 40])}


def make_speakers(size: int) -> Batch:
    generator = torch.Generator().manual_seed(1)
    profiles = torch.randn(2, 3, size, generator=generator)
    profiles[1, 2] = 0.0  # padding
    return {
        "profiles": profiles,
        "profiles_lengths": torch.tensor([3, 2]),
        "speakers": torch.tensor([[0, 2], [1, -1]]),
    }


def make_texts_to_merge() -> Batch:
    source = torch.tensor([[2, 2, 3, 4, 5, 5], [6, 7, 8, 8, -1, -1]])
    target = torch.tensor([[2, 3, 5], [6, 8, -1]])
    return {
        "src_text": source,
        "src_text_lengths": torch.tensor([6, 4]),
        "text": target,
        "text_lengths": torch.tensor([3, 2]),
    }


SEM = {
    "token_list": TOKENS,
    "frontend": "power_mel",
    "frontend_conf": {"n_mels": 40},
    "normalize": "sem_global_mvn",
    "normalize_conf": {"stats_file": "FOLDER/stats.npz", "eta_min": -60.0},
    "encoder": "blstm_maxpool",
    "encoder_conf": {"num_layers": 3, "hidden_size": 8, "pooling": [2, 2, 2]},
    "model": "espnet_layer_stats",
    "model_conf": {"ctc_weight": 0.5},
    "optim": "adam",
    "scheduler": "newbob_multi_epoch",
}
CODE_SWITCHING = {
    "token_list": TOKENS,
    "frontend_conf": MELS,
    "normalize": "utterance_mvn",
    "encoder": "conformer",
    "encoder_conf": {**ENCODER, "cnn_module_kernel": 7},
    "decoder": "language_transformer",
    "model_conf": {"ctc_weight": 0.3},
}
LONG = {
    "token_list": TOKENS,
    "input_size": 20,
    "frontend": None,
    "normalize": None,
    "encoder": "long_fastconformer",
    "encoder_conf": {
        "output_size": 16,
        "attention_heads": 2,
        "num_blocks": 2,
        "subsampling_channels": 8,
        "norm": "batch_renorm",
    },
    "decoder": None,
    "model": "ctc_per_second",
    "model_conf": {"ctc_weight": 1.0},
    "optim": "madgrad",
    "scheduler": "warmup_cosine",
}
SPEAKERS = {
    "token_list": TOKENS,
    "frontend_conf": MELS,
    "normalize": "utterance_mvn",
    "encoder": "transformer",
    "encoder_conf": ENCODER,
    "model": "sa_asr",
}
STITCHER = {
    "token_list": MT_TOKENS,
    "src_token_list": MT_TOKENS,
    "frontend": "embed",
    "frontend_conf": {"embed_dim": 6},
    "encoder": "aligned_pairs",
    "encoder_conf": {**ENCODER, "output_size": 12},
    "decoder": "transformer",
    "decoder_conf": BLOCK,
    "model": "stitcher",
    "model_conf": {"patch_size": 2, "report_bleu": False},
}


def make_language_decoder(mode: str) -> dict[str, Any]:
    more = {"mode": mode, "languages_file": "FOLDER/languages.txt"}
    return {"decoder_conf": BLOCK | (more if mode != "none" else {"mode": mode})}


LOCATION = {"hidden_size": 8, "att_conf": {"adim": 8, "aconv_filts": 3}}
SYSTEMS = {
    "P2, weight feedback": SmallSystem(
        "asr",
        SEM | {"decoder": "weight_feedback_rnn", "decoder_conf": {"hidden_size": 8}},
        lambda: make_speech() | make_text(),
    ),
    "P2, input dropout": SmallSystem(
        "asr",
        SEM
        | {
            "normalize": "dropout_global_mvn",
            "normalize_conf": {"stats_file": "FOLDER/stats.npz"},
            "decoder": "batch_rnn",
            "decoder_conf": LOCATION,
        },
        lambda: make_speech() | make_text(),
    ),
    **{
        f"P1, {mode}": SmallSystem(
            "asr",
            CODE_SWITCHING | make_language_decoder(mode),
            lambda: make_speech() | make_text(),
        )
        for mode in ("none", "reweight", "bias", "shared", "separate")
    },
    "P5": SmallSystem(
        "asr", LONG, lambda: make_features(20) | make_text(), search="windows"
    ),
    "P4, recogniser, transformer": SmallSystem(
        "sa_asr",
        SPEAKERS
        | {
            "speaker_encoder": "transformer",
            "speaker_encoder_conf": ENCODER,
            "decoder": "transformer",
            "decoder_conf": BLOCK,
            "model_conf": {"ctc_weight": 0.3, "profile_size": 4},
        },
        lambda: make_speech() | make_text() | make_speakers(4),
        search="speakers",
    ),
    "P4, recogniser, d-vectors": SmallSystem(
        "sa_asr",
        SPEAKERS
        | {
            "speaker_encoder": "d_vectors",
            "speaker_encoder_conf": {"window": 0.8, "shift": 0.4},
            "decoder": "rnn",
            "decoder_conf": LOCATION,
            "model_conf": {"profile_size": 256},
        },
        lambda: make_speech() | make_text() | make_speakers(256),
        search="speakers",
    ),
    "P4, stitcher": SmallSystem("mt", STITCHER, make_texts_to_merge, search="rewrite"),
    "decoder on stored encodings": SmallSystem(
        "asr",
        {
            "token_list": TOKENS,
            "input_size": 8,
            "frontend": None,
            "normalize": None,
            "encoder": "stored_encodings",
            "encoder_conf": {},
            "decoder": "transformer",
            "decoder_conf": BLOCK,
        },
        lambda: make_features(8, frames=60) | make_text(),
    ),
}


def search_beams(model: Any, batch: Batch) -> list[list[list[int]]]:
    """Search a batch fast, with CTC and a prior; return its N-best tokens."""
    from espnet2.legacy.nets.batch_beam_search import BatchBeamSearch
    from espnet2.legacy.nets.scorers.ctc import CTCPrefixScorer

    from espnet_ext.fast_search.beam_search import make_fast
    from espnet_ext.fast_search.decoders import FAST, FAST_ALREADY
    from espnet_ext.upstream.prior import PriorScorer

    x, lengths = model.encode(batch["speech"], batch["speech_lengths"])
    count = len(model.token_list)
    decoder = model.decoder
    if not isinstance(decoder, FAST_ALREADY):
        decoder = FAST[type(decoder)](decoder)
    search = BatchBeamSearch(
        scorers={
            "decoder": decoder,
            "ctc": CTCPrefixScorer(model.ctc, model.eos),
            "prior": PriorScorer(np.linspace(-2.0, -1.0, count)),
        },
        weights={"decoder": 0.7, "ctc": 0.3, "prior": -0.1},
        beam_size=3,
        vocab_size=count,
        sos=model.sos,
        eos=model.eos,
        pre_beam_score_key="full",
    )
    assert make_fast(search)
    found = search(x, x_lengths=lengths, maxlenratio=-8.0, minlenratio=-4.0)
    return [[each.yseq.tolist() for each in nbest] for nbest in found]


def search_windows(model: Any, batch: Batch) -> list[list[int]]:
    """Return the best path of CTC."""
    x, _ = model.encode(batch["speech"], batch["speech_lengths"])
    x = x[0] if isinstance(x, tuple) else x
    return model.ctc.log_softmax(x).argmax(-1).tolist()


def search_speakers(model: Any, batch: Batch) -> list[list[tuple[int, ...]]]:
    """Search with speakers; return the tokens of the hypotheses."""
    from espnet_ext.stitch.recogniser.search import recognise_together
    from espnet_ext.stitch.recogniser.search_settings import SearchOptions

    ctc_weight = 0.3 if model.ctc is not None and model.ctc_weight else 0.0
    options = SearchOptions(
        beam_size=3, maxlenratio=-8.0, minlenratio=-4.0, ctc_weight=ctc_weight
    )
    found = recognise_together(
        model, list(batch["speech"]), list(batch["profiles"]), list, options
    )
    return [[each.tokens for each in nbest] for nbest in found]


def search_rewriting(model: Any, batch: Batch) -> list[list[int]]:
    """Rewrite the sources."""
    from espnet_ext.stitch.stitcher.rewriting_search import (
        make_rewriting_search,
        rewrite,
    )

    sources = [
        ids[:length]
        for ids, length in zip(
            batch["src_text"], batch["src_text_lengths"].tolist(), strict=True
        )
    ]
    return rewrite(model, make_rewriting_search(model, beam_size=2), sources)


SEARCHES: dict[str, Callable[[Any, Batch], Any]] = {
    "beam": search_beams,
    "windows": search_windows,
    "speakers": search_speakers,
    "rewrite": search_rewriting,
}
