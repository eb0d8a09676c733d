"""What tests of several folders use."""

import argparse
import gc
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import soundfile
from hypothesis import HealthCheck, settings

from espnet_ext.work.gpus import give_gpus

# Models of tests are tiny: more threads make nothing faster, and on a busy machine they
# wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# On a busy machine an example takes as long as it takes: no test fails because of its
# wall-clock time.
settings.register_profile(
    "any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any speed")

# What is imported stays: the search for garbage leaves it out, here and in what tests
# fork.
gc.disable()

# ESPnet's tasks look into the command line for their defaults, and take pytest's
# --ignore for one of their options.
del sys.argv[1:]

# Bytes that a process with torch and ESPnet may take, and the commands that it starts.
PROCESS_MEMORY = 3 << 30
# Tests that run ESPnet or large libraries, which take seconds to import.
PLUGINS = (
    "codeswitch",
    "fast_search",
    "gpu",
    "integration",
    "longform",
    "nbest",
    "rescore",
    "sem",
    "sharing",
    "stitch",
    "transcription",
    "upstream",
    "whisper",
    "test_registry",
    "test_examples",
    "test_espnet3",
)
FULL_SIZE = "tests/recipes/test_full_configs"
SMALL_TOKENS = ["<blank>", "<unk>", "<space>", "A", "B", "C", "D", "E", "<sos/eos>"]
MODEL = {
    "frontend_conf": {"fs": 16000, "n_fft": 256, "hop_length": 160, "n_mels": 20},
    "normalize": "utterance_mvn",
    "encoder": "transformer",
    "encoder_conf": {
        "output_size": 8,
        "attention_heads": 2,
        "linear_units": 8,
        "num_blocks": 1,
    },
    "decoder": "transformer",
    "decoder_conf": {"attention_heads": 2, "linear_units": 8, "num_blocks": 1},
    "model_conf": {"ctc_weight": 0.3},
}
SMALL_TRAINING = {
    "optim": "adam",
    "optim_conf": {"lr": 0.01},
    "batch_type": "sorted",
    "batch_size": 2,
    "max_epoch": 2,
    "num_workers": 0,
    "num_att_plot": 0,
    "use_tensorboard": False,
    "use_matplotlib": False,
    "keep_nbest_models": 2,
}
SA_ASR_TOKENS = ["<blank>", "<unk>", "<sc>", "A", "B", "C", "<sos/eos>"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process per core with memory for it; for few tests only this one, since each
    process imports everything.
    """
    few = config.option.keyword or all(
        Path(argument.partition("::")[0]).is_file() for argument in config.args
    )
    return (
        0
        if few
        else number_of_processes(
            len(os.sched_getaffinity(0)), psutil.virtual_memory().available
        )
    )


def number_of_processes(cores: int, memory: int) -> int:
    """How many processes run the tests, with so many bytes of memory free."""
    return max(1, min(cores, memory // PROCESS_MEMORY))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log) -> Any:
    """Whole files in the order in which they stand; those of full-size models are one,
    since each takes 4 GB.
    """
    if config.option.dist != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if FULL_SIZE in nodeid:
                return "full-size models"
            return super()._split_scope(nodeid)

    # by default they are ordered by the number of their tests, which says little
    config.option.loadscopereorder = False
    return Files(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Each test is one of the unit tests, of the plugins or of the recipes, as its
    folder says.

    Several processes begin with the recipes, whose tests take longest, so that none is
    left with one at the end.
    """
    for item in items:
        parts = Path(item.nodeid.partition("::")[0]).parts
        room = (
            parts[1] if len(parts) > 2 and parts[0] == "tests" else Path(parts[-1]).stem
        )
        item.add_marker(
            "recipes" if room == "recipes" else "plugins" if room in PLUGINS else "unit"
        )
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: "tests/recipes/" not in item.nodeid)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def restore_visible_gpus():
    """Leave GPUs as they were: commands hide them from the process they run in."""
    with give_gpus(None):
        yield


@pytest.fixture(scope="session")
def random_whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one tiny Whisper of random parameters, twice: ``hf/`` for
    transformers, ``ct2/`` for CTranslate2.

    It has twenty words, and ends after few of them.
    """
    ctranslate2 = pytest.importorskip(
        "ctranslate2", reason="the extra 'whisper' is not installed"
    )
    import torch
    from tokenizers import Tokenizer, decoders, models
    from transformers import (
        GenerationConfig,
        PreTrainedTokenizerFast,
        WhisperConfig,
        WhisperForConditionalGeneration,
    )

    folder = tmp_path_factory.mktemp("whisper")
    marks = (
        "endoftext startoftranscript translate transcribe startoflm startofprev "
        "nospeech notimestamps 0.00"
    )
    special = [f"<|{mark}|>" for mark in marks.split()]
    words = [f" w{number}" for number in range(20)]
    ids = {token: number for number, token in enumerate(words + special)}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=words[0]))
    tokenizer.add_special_tokens(special)
    tokenizer.decoder = decoders.Fuse()
    end, start = ids["<|endoftext|>"], ids["<|startoftranscript|>"]
    sizes = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", 1), ("ffn_dim", 16), ("attention_heads", 2))
    }
    tokens = {"decoder_start_token_id": start, "eos_token_id": end, "pad_token_id": end}
    torch.manual_seed(1)
    model = WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=len(ids),
            d_model=16,
            init_std=0.6,
            bos_token_id=end,
            **sizes,
            **tokens,
        )
    )
    with torch.no_grad():
        row = model.model.decoder.embed_tokens.weight[end]
        torch.nn.init.normal_(row, std=0.6)  # transformers has made it zero, as it pads
        # so that the end is likely
        model.model.decoder.layer_norm.bias.copy_(2.5 * row / row.square().sum())
    suppressed = [number for number in range(len(words), len(ids)) if number != end]
    model.generation_config = GenerationConfig(
        suppress_tokens=suppressed,
        begin_suppress_tokens=[],
        is_multilingual=False,
        **tokens,
    )
    model.save_pretrained(folder / "hf")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|endoftext|>"
    ).save_pretrained(folder / "hf")
    converter = ctranslate2.converters.TransformersConverter(
        str(folder / "hf"), copy_files=["tokenizer.json"]
    )
    converter.convert(str(folder / "ct2"))
    return folder


@pytest.fixture(scope="session")
def espnet_speaker_model(tmp_path_factory: pytest.TempPathFactory, save_model) -> Path:
    """Checkpoint of a tiny speaker model of ESPnet, random, of 6 dimensions; its
    config.yaml is beside it.
    """
    from espnet2.tasks.spk import SpeakerTask

    mels = {
        "n_fft": 512,
        "win_length": 400,
        "hop_length": 160,
        "n_mels": 20,
        "log": True,
        "normalize": "mn",
    }
    settings = {
        "frontend": "melspec_torch",
        "frontend_conf": mels,
        "encoder": "xvector",
        "encoder_conf": {"ndim": 8, "output_size": 12},
        "pooling": "stats",
        "projector": "xvector",
        "projector_conf": {"output_size": 6},
        "spk_num": 4,
    }
    folder = save_model(
        SpeakerTask, tmp_path_factory.mktemp("speaker_model"), **settings
    )
    return (folder / "model.pth").rename(folder / "valid.eer.best.pth")


@pytest.fixture(scope="session")
def build_model():
    """Return a function that builds the model of an ESPnet task from its defaults and
    what differs from them.
    """

    def build(task, seed: int = 0, **settings):
        import torch

        import espnet_ext

        espnet_ext.register()
        torch.manual_seed(seed)
        return task.build_model(
            argparse.Namespace(**task.get_default_config() | settings)
        )

    return build


@pytest.fixture(scope="session")
def save_model(build_model):
    """Return a function that leaves such a model in a folder as ESPnet's training does:
    config.yaml and model.pth.

    ``deviation``: that of its weights, large where hypotheses shall differ.
    """

    def save(
        task, folder: Path, seed: int = 0, deviation: float | None = None, **settings
    ) -> Path:
        import torch
        from espnet2.utils.yaml_no_alias_safe_dump import yaml_no_alias_safe_dump

        network = build_model(task, seed, **settings)
        for parameter in network.parameters():
            if deviation and parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=deviation)
        torch.save(network.state_dict(), folder / "model.pth")
        with (folder / "config.yaml").open("w") as file:
            yaml_no_alias_safe_dump(
                task.get_default_config() | settings, file, sort_keys=False
            )
        return folder

    return save


@pytest.fixture(scope="session")
def sa_asr_config():
    """Return a function that gives the config of a small speaker-attributed model,
    which its arguments change.
    """
    encoder = {
        "output_size": 8,
        "attention_heads": 2,
        "linear_units": 8,
        "num_blocks": 1,
    }

    def config(**options) -> dict[str, Any]:
        import espnet_ext
        from espnet_ext.stitch.recogniser.task import SAASRTask

        espnet_ext.register()
        speakers = {
            "profile_size": 4,
            "speaker_conf": {"query_conf": {"hidden_size": 6}},
        }
        settings = {
            "token_list": SA_ASR_TOKENS,
            "input_size": 12,
            "normalize": None,
            "encoder": "transformer",
            "encoder_conf": encoder,
            "speaker_encoder": "transformer",
            "speaker_encoder_conf": encoder,
            "decoder": "transformer",
            "decoder_conf": {"attention_heads": 2, "linear_units": 8, "num_blocks": 1},
            "model": "sa_asr",
            **options,
            "model_conf": speakers | options.get("model_conf", {}),
        }
        return SAASRTask.get_default_config() | settings

    return config


@pytest.fixture(scope="session")
def build_sa_asr(sa_asr_config):
    """Return a function that builds the model, in evaluation mode, of such a config."""

    def build(**options):
        import torch

        from espnet_ext.stitch.recogniser.task import SAASRTask

        config = sa_asr_config(**options)
        torch.manual_seed(0)
        return SAASRTask.build_model(argparse.Namespace(**config)).eval()

    return build


@pytest.fixture(scope="session")
def stats_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Statistics as ESPnet's collect_stats writes them: 40 channels, mean 0.3 to 0.7,
    standard deviation 0.1 to 0.2.
    """
    mean, std = np.linspace(0.3, 0.7, 40), np.linspace(0.1, 0.2, 40)
    path = tmp_path_factory.mktemp("stats") / "feats_stats.npz"
    np.savez(path, count=1000, sum=1000 * mean, sum_square=1000 * (std**2 + mean**2))
    return path


@pytest.fixture(scope="session")
def digits() -> Path:
    """LibriSpeech-digits: real recordings, which are not part of this repository."""
    folder = (
        Path(__file__).resolve().parents[2] / "shared" / "data" / "LibriSpeech-digits"
    )
    if not folder.is_dir():
        pytest.skip("the real recordings (shared/data/LibriSpeech-digits) are not here")
    return folder


@pytest.fixture(scope="session")
def make_data_dir():
    """Return a function that writes noise of the given durations in seconds, with
    transcripts of three words.
    """

    def make(folder: Path, durations: dict[str, float], rate: int = 16000) -> Path:
        folder.mkdir(parents=True)
        random = np.random.default_rng(7)
        for utterance, seconds in durations.items():
            samples = random.normal(
                scale=random.uniform(0.02, 0.2), size=round(seconds * rate)
            )
            soundfile.write(folder / f"{utterance}.flac", samples, rate)
        (folder / "wav.scp").write_text(
            "".join(f"{key} {folder / key}.flac\n" for key in durations)
        )
        texts = {
            key: " ".join(random.choice(["AB", "CAD", "E"], size=3))
            for key in durations
        }
        (folder / "text").write_text(
            "".join(f"{key} {text}\n" for key, text in texts.items())
        )
        return folder

    return make


@pytest.fixture(scope="session")
def make_training_data():
    """Return a function that writes what ESPnet's training reads of utterances: tables,
    shapes and tokens.

    Speech is float32, (frames, features) or samples at 16 kHz; texts have words, or are
    characters.
    """

    def make(
        folder: Path,
        speech: list[np.ndarray],
        texts: list[str],
        tokens: list[str],
        words: bool = True,
    ) -> Path:
        lines: dict[str, list[str]] = {
            name: [] for name in ("speech.scp", "text", "speech_shape", "text_shape")
        }
        for number, (signal, text) in enumerate(zip(speech, texts, strict=True)):
            path = folder / f"u{number}{'.flac' if signal.ndim == 1 else '.npy'}"
            soundfile.write(path, signal, 16000) if signal.ndim == 1 else np.save(
                path, signal
            )
            lines["speech.scp"].append(f"u{number} {path}")
            lines["text"].append(f"u{number} {text}")
            lines["speech_shape"].append(
                f"u{number} {','.join(map(str, signal.shape))}"
            )
            lines["text_shape"].append(
                f"u{number} {len(text.split() if words else text)},{len(tokens)}"
            )
        for name, rows in {**lines, "tokens.txt": tokens}.items():
            (folder / name).write_text("".join(f"{row}\n" for row in rows))
        return folder

    return make


@pytest.fixture(scope="session")
def train_small():
    """Return a function that trains on data by one of our commands, or of ESPnet's by
    our ``run``, for a few updates.

    It gives the saved config.

    ``tables`` are those of the folder, with the names and types that ESPnet has for
    them; as ``make_training_data`` writes them unless they are given.
    """

    def train(
        data: Path,
        output: Path,
        config: dict[str, Any],
        *options: str,
        command: str = "asr_train",
        tables: tuple[str, ...] = (),
        shapes: tuple[str, ...] = ("speech_shape", "text_shape"),
    ) -> dict[str, Any]:
        import yaml

        output.mkdir(parents=True, exist_ok=True)
        (output / "train.yaml").write_text(yaml.safe_dump(SMALL_TRAINING | config))
        words = [
            "--config",
            str(output / "train.yaml"),
            "--output_dir",
            str(output),
            "--ngpu",
            "0",
        ]
        words += ["--token_list", str(data / "tokens.txt"), *options]
        kind = "sound" if list(data.glob("*.flac")) else "npy"
        for part in ("train", "valid"):
            for table in tables or (f"speech.scp,speech,{kind}", "text,text,text"):
                words += [f"--{part}_data_path_and_name_and_type", str(data / table)]
            for shape in shapes:
                words += [f"--{part}_shape_file", str(data / shape)]
        if "." in command:
            importlib.import_module("espnet_ext.bin.run").main([command, *words])
        else:
            importlib.import_module(f"espnet_ext.bin.{command}").main(words)
        return yaml.safe_load((output / "config.yaml").read_text())

    return train


@pytest.fixture(scope="session")
def token_list(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "tokens.txt"
    path.write_text("".join(f"{token}\n" for token in SMALL_TOKENS))
    return path


@pytest.fixture(scope="session")
def model(tmp_path_factory, save_model) -> Path:
    """A folder with config.yaml and model.pth, as ESPnet's training leaves them."""
    from espnet2.tasks.asr import ASRTask

    tokens = {"token_list": SMALL_TOKENS, "token_type": "char"}
    return save_model(
        ASRTask, tmp_path_factory.mktemp("model"), seed=3, **MODEL, **tokens
    )


@pytest.fixture(scope="session")
def language_model(tmp_path_factory, save_model) -> Path:
    from espnet2.tasks.lm import LMTask

    settings = {
        "token_list": SMALL_TOKENS,
        "token_type": "char",
        "lm_conf": {"unit": 8, "nlayers": 1},
    }
    return save_model(LMTask, tmp_path_factory.mktemp("lm"), seed=3, **settings)
