from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.results.config import load_tables
from espnet_ext.results.plan import decode_config, decodings_needed, select, systems_needed, train_config


@pytest.fixture
def configs(toy: Path) -> Path:
    conf = toy.parent
    (conf / "train.yaml").write_text("encoder: old\nencoder_conf: {size: 4, depth: 2}\noptim_conf: {lr: 1, eps: 2}\n")
    (conf / "mini.yaml").write_text("encoder_conf: {size: 2}\noptim_conf: {lr: 3}\nspecaug: null\n")
    (conf / "more.yaml").write_text("optim_conf: {lr: 4}\n")
    (conf / "decode.yaml").write_text("lm_weight: 0.0\nbeam_size: 10\n")
    return conf


def test_selection(toy: Path):
    tables = load_tables(toy)
    both = select(tables, None)
    assert [system.name for system in systems_needed(tables, both)] == ["new", "base"]
    assert decodings_needed(both) == [("new", "default"), ("base", "default"), ("new", "lm")]
    (only,) = select(tables, ["1"], ["base row"])
    assert [row.name for row in only.rows] == ["base row"]
    assert [table.id for table in select(tables, None, ["lm", "-1dB"])] == ["1", "2"]
    assert [table.id for table in select(tables, ["1", "2"], ["lm"])] == ["2"]


def test_unknown_names_are_refused_with_those_there_are(toy: Path):
    tables = load_tables(toy)
    with pytest.raises(InputError, match=r"no table '7'; known are 1, 2$"):
        select(tables, ["1", "7"])
    with pytest.raises(InputError, match=r"no row 'lm' in table 1; known are -1dB, base row$"):
        select(tables, ["1"], ["lm"])
    with pytest.raises(InputError, match=r"no system 'x'; known are base, new$"):
        train_config(tables, "x")
    with pytest.raises(InputError, match=r"no decoding 'x'; known are default, lm$"):
        decode_config(tables, "x", toy)


def test_train_config_is_config_then_overlays_then_overrides(toy: Path, configs: Path):
    tables = load_tables(toy)
    overlays = [configs / "mini.yaml", configs / "more.yaml"]
    assert train_config(tables, "base", overlays) == {
        "encoder": "old",
        "encoder_conf": {"size": 2, "depth": 2},
        "optim_conf": {"lr": 4, "eps": 2},
        "specaug": None,
    }
    # The system names another encoder, so the options of the old one go; its own win over the scale's.
    assert train_config(tables, "new", overlays)["encoder_conf"] == {"size": 8}
    assert train_config(tables, "base")["optim_conf"] == {"lr": 1, "eps": 2}


def test_decode_config(toy: Path, configs: Path):
    tables = load_tables(toy)
    (configs / "beam.yaml").write_text("lm_weight: 0.9\nbeam_size: 2\n")
    overlays = [configs / "beam.yaml"]
    assert decode_config(tables, "default", configs / "decode.yaml", overlays) == {"lm_weight": 0.9, "beam_size": 2}
    assert decode_config(tables, "lm", configs / "decode.yaml", overlays) == {"lm_weight": 0.5, "beam_size": 2}
