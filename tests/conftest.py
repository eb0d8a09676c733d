"""What tests of several folders use."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

# Models of tests are tiny: more threads make nothing faster, and on a busy machine they wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# ESPnet's tasks look into the command line for their defaults, and take pytest's --ignore for one of their options.
del sys.argv[1:]

PROCESS_MEMORY = 3 << 30  # bytes: what a process with torch and ESPnet may take, and the commands that it starts
FULL_SIZE = "tests/recipes/test_full_configs"
SA_ASR_TOKENS = ["<blank>", "<unk>", "<sc>", "A", "B", "C", "<sos/eos>"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process for each core that has its memory; for few tests none besides this one, as each imports all anew."""
    few = config.option.keyword or all(Path(argument.partition("::")[0]).is_file() for argument in config.args)
    return 0 if few else number_of_processes(len(os.sched_getaffinity(0)), psutil.virtual_memory().available)


def number_of_processes(cores: int, memory: int) -> int:
    """How many processes run the tests, with so many bytes of memory free."""
    return max(1, min(cores, memory // PROCESS_MEMORY))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log) -> Any:
    """Whole files in the order in which they stand; those of full-size models are one, since each takes 4 GB."""
    if config.option.dist != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "full-size models" if FULL_SIZE in nodeid else super()._split_scope(nodeid)

    config.option.loadscopereorder = False  # by the number of their tests, which says little
    return Files(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Several processes begin with the recipes, whose tests take longest, so that none is left with one at the end."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: "tests/recipes/" not in item.nodeid)


@pytest.fixture(scope="session")
def random_whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one tiny Whisper of random parameters, twice: ``hf/`` for transformers, ``ct2/`` for CTranslate2.

    It has twenty words, and ends after few of them.
    """
    ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra 'rescore' is not installed")
    import torch
    from tokenizers import Tokenizer, decoders, models
    from transformers import GenerationConfig, PreTrainedTokenizerFast, WhisperConfig, WhisperForConditionalGeneration

    folder = tmp_path_factory.mktemp("whisper")
    marks = "endoftext startoftranscript translate transcribe startoflm startofprev nospeech notimestamps 0.00"
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
        WhisperConfig(vocab_size=len(ids), d_model=16, init_std=0.6, bos_token_id=end, **sizes, **tokens)
    )
    with torch.no_grad():
        row = model.model.decoder.embed_tokens.weight[end]
        torch.nn.init.normal_(row, std=0.6)  # transformers has made it zero, as it pads
        model.model.decoder.layer_norm.bias.copy_(2.5 * row / row.square().sum())  # so that the end is likely
    suppressed = [number for number in range(len(words), len(ids)) if number != end]
    model.generation_config = GenerationConfig(
        suppress_tokens=suppressed, begin_suppress_tokens=[], is_multilingual=False, **tokens
    )
    model.save_pretrained(folder / "hf")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>").save_pretrained(folder / "hf")
    converter = ctranslate2.converters.TransformersConverter(str(folder / "hf"), copy_files=["tokenizer.json"])
    converter.convert(str(folder / "ct2"))
    return folder


@pytest.fixture(scope="session")
def espnet_speaker_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoint of a tiny speaker model of ESPnet, random, of 6 dimensions; its config.yaml is beside it."""
    import torch
    import yaml
    from espnet2.tasks.spk import SpeakerTask

    folder = tmp_path_factory.mktemp("speaker_model")
    mels = {"n_fft": 512, "win_length": 400, "hop_length": 160, "n_mels": 20, "log": True, "normalize": "mn"}
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
    config = SpeakerTask.get_default_config() | settings
    torch.manual_seed(0)
    model = SpeakerTask.build_model(argparse.Namespace(**config))
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    torch.save(model.state_dict(), folder / "valid.eer.best.pth")
    return folder / "valid.eer.best.pth"


@pytest.fixture(scope="session")
def build_sa_asr():
    """Return a function that builds the model, in evaluation mode, from a config that its arguments change."""
    encoder = {"output_size": 8, "attention_heads": 2, "linear_units": 8, "num_blocks": 1}

    def build(**options):
        import torch

        import espnet_ext
        from espnet_ext.task.sa_asr import SAASRTask

        espnet_ext.register()
        torch.manual_seed(0)
        speakers = {"profile_size": 4, "speaker_conf": {"query_conf": {"hidden_size": 6}}}
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
        return SAASRTask.build_model(argparse.Namespace(**SAASRTask.get_default_config() | settings)).eval()

    return build
