"""A trained system with plugins in a recipe's layout, and a second of noise."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from espnet_ext.registry import SLOTS, list_choices

TOKENS = ["<blank>", "<unk>", "<space>", "A", "B", "C", "D", "E", "<sos/eos>"]
MODEL = {
    "frontend": "power_mel",
    "frontend_conf": {"fs": 16000},
    "normalize": "sem_global_mvn",
    "encoder": "blstm_maxpool",
    "encoder_conf": {"num_layers": 2, "hidden_size": 8, "pooling": [2]},
    "decoder": "batch_rnn",
    "decoder_conf": {"hidden_size": 8},
    "model_conf": {"ctc_weight": 0.3},
    "specaug": None,
}
SEARCH = {
    "beam_size": 3,
    "ctc_weight": 0.4,
    "lm_weight": 0.3,
    "prior_weight": 0.1,
    "nbest": 2,
    "maxlenratio": 0.3,
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory, monkeypatch):
    """A cache of the test's own; ESPnet's registries are left as they were."""
    monkeypatch.setenv("ESPNET_EXT_CACHE", str(tmp_path_factory.mktemp("cache")))
    tables = [classes for slot in SLOTS for classes, _ in list_choices(slot)]
    before = [dict(table) for table in tables]
    yield
    for table, contents in zip(tables, before, strict=True):
        table.clear()
        table.update(contents)


@pytest.fixture
def training(tmp_path, monkeypatch, language_model) -> Path:
    """The working directory of a training: ``exp/seed1``, ``stats``, ``tokens`` and
    ``lm``; all paths are relative.
    """
    import torch
    from espnet2.tasks.asr import ASRTask

    import espnet_ext

    espnet_ext.register()
    home = tmp_path / "trained here"
    for name in ("exp/seed1", "stats", "tokens"):
        (home / name).mkdir(parents=True)
    monkeypatch.chdir(home)
    np.savez(
        "stats/feats_stats.npz",
        count=100,
        sum=np.full(40, 60.0),
        sum_square=np.full(40, 38.0),
    )
    Path("tokens/prior.txt").write_text(
        "".join(f"{token} {-1 - number}\n" for number, token in enumerate(TOKENS))
    )
    (home / "lm").symlink_to(language_model)
    config = ASRTask.get_default_config() | MODEL
    config |= {
        "normalize_conf": {"stats_file": "stats/feats_stats.npz"},
        "token_list": TOKENS,
        "token_type": "char",
    }
    config |= {
        "train_data_path_and_name_and_type": [
            ["data/secret/wav.scp", "speech", "sound"]
        ],
        "output_dir": "exp",
    }
    Path("exp/seed1/config.yaml").write_text(yaml.safe_dump(config))
    from argparse import Namespace

    torch.manual_seed(5)
    torch.save(
        ASRTask.build_model(Namespace(**config)).state_dict(), "exp/seed1/best1.ave.pth"
    )
    return home


@pytest.fixture(scope="session")
def noise() -> np.ndarray:
    return np.random.default_rng(3).normal(scale=0.1, size=16000).astype(np.float32)
