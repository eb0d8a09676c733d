"""The examples run as they stand: a model of one's own, and a third party's plugin by
its entry point.
"""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import torch
import yaml

import espnet_ext
from espnet_ext.registry import SLOTS, list_choices

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def own_model():
    """The module; ESPnet's registries are left as they were."""
    tables = [classes for slot in SLOTS for classes, _ in list_choices(slot)]
    before = [dict(table) for table in tables]
    spec = spec_from_file_location("own_model", EXAMPLES / "own_model.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for table, contents in zip(tables, before, strict=True):
        table.clear()
        table.update(contents)


def test_own_model_learns_its_words(own_model, tmp_path, capsys):
    torch.manual_seed(0)
    own_model.main(tmp_path, own_model.CONFIG, [])
    lines = [line for line in capsys.readouterr().out.splitlines() if "heard:" in line]
    assert len(lines) == 5
    pairs = [line.split("said: ")[1].split("  heard: ") for line in lines]
    assert sum(said == heard for said, heard in pairs) >= 3, lines
    config = yaml.safe_load((tmp_path / "model" / "config.yaml").read_text())
    assert (config["frontend"], config["normalize"]) == ("power_mel", "sem_global_mvn")
    assert (
        config["decoder"] == "language_transformer" and config["encoder"] == "conformer"
    )


def test_plugin_is_found_by_its_entry_point(own_model, tmp_path, monkeypatch):
    command = [
        sys.executable,
        "setup.py",
        "--quiet",
        "egg_info",
        "--egg-base",
        str(tmp_path),
    ]
    subprocess.run(
        command, cwd=EXAMPLES / "own_plugin", check=True, capture_output=True
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES / "own_plugin")
    espnet_ext.register()  # as a command of a new process would
    own_model.main(
        tmp_path, EXAMPLES / "own_plugin" / "own_plugin.yaml", ["--max_epoch", "1"]
    )
    config = yaml.safe_load((tmp_path / "model" / "config.yaml").read_text())
    assert config["encoder"] == "stacked_gru"
    assert "encoder.gru.weight_hh_l0" in torch.load(
        tmp_path / "model" / "valid.acc.ave.pth", weights_only=True
    )
