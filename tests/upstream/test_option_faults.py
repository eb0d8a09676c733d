"""Options in YAML that a module does not take: one line names the module and the
option.
"""

import sys
from argparse import Namespace

import numpy as np
import pytest
import yaml
from espnet2.tasks.asr import ASRTask

from espnet_ext.errors import InputError
from espnet_ext.upstream.option_faults import find_option_fault
from espnet_ext.upstream.with_plugins import with_plugins

CONFIG = {
    "token_list": ["<blank>", "<unk>", "a", "<sos/eos>"],
    "frontend": None,
    "input_size": 8,
    "normalize": None,
    "encoder": "long_fastconformer",
    "encoder_conf": {"output_size": 8, "attention_heads": 2, "num_blocks": 1},
    "decoder": "batch_rnn",
    "decoder_conf": {"num_layers": 1, "hidden_size": 8},
    "model_conf": {"ctc_weight": 0.5},
}


def run(tmp_path, monkeypatch, changes: dict) -> None:
    """``python -m espnet_ext.bin.asr_train`` with a config."""
    (tmp_path / "train.yaml").write_text(yaml.safe_dump({**CONFIG, **changes}))
    words = ["asr_train", "--config", str(tmp_path / "train.yaml")]
    words += ["--dry_run", "true", "--output_dir", str(tmp_path / "exp")]
    monkeypatch.setattr(sys, "argv", words)
    with_plugins(ASRTask.main, "__main__")


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        (
            {"encoder_conf": {"num_blcks": 3}},
            "encoder_conf: long_fastconformer: no option num_blcks: is num_blocks",
        ),
        (
            {"encoder_conf": {"attention_heads": "two"}},
            "encoder_conf: long_fastconformer: attention_heads",
        ),
        (
            {"encoder_conf": {"rotary_base": "1e4"}},
            "encoder_conf: rotary_base is '1e4', which YAML reads as text",
        ),
        (
            {"optim_conf": {"lr": "1e-3"}},
            "optim_conf: lr is '1e-3', which YAML reads as text",
        ),
        (
            {"scheduler": "warmuplr", "scheduler_conf": {"warmup_steps": "1e4"}},
            "scheduler_conf: warmup_steps is '1e4'",
        ),
        ({"model_conf": {"a": {"b": "1E-5"}}}, "model_conf: a: b is '1E-5'"),
        ({"accum_grad": 0}, "accum_grad is 0, but must be at least 1"),
        ({"batch_size": -1}, "batch_size is -1"),
        ({"max_epohc": 3}, "max_epohc (from "),
        ({"max_epohc": 3}, "is max_epoch meant?"),
        ({"encoder": "long_fastconformr"}, "long_fastconformr"),
        (
            {"encoder": "their_package:best"},
            "their_package:best is of a package that is not installed",
        ),
        ({"decoder": "espnet_ext:newest"}, "espnet_ext has no decoder newest"),
        (
            {"decoder_conf": {"qqq": 3}},
            "decoder_conf: batch_rnn: no option qqq: its options are vocab_size, ",
        ),
        (
            {"normalize": "sem_global_mvn", "normalize_conf": {"eta_min": "low"}},
            "sem_global_mvn: eta_min is 'low'",
        ),
        (
            {"encoder": "transformer", "encoder_conf": {"num_bloks": 2}},
            "transformer: no option num_bloks: is num_",
        ),
        (
            {"decoder": "transducer", "joint_net_conf": {"joint_space_size": 8}},
            "warprnnt_pytorch",
        ),
        (
            {"optim": "madgrad", "optim_conf": {"lr": "fast"}},
            "optim_conf: madgrad: lr is 'fast'",
        ),
    ],
)
def test_one_line_names_module_and_option(
    tmp_path, monkeypatch, capsys, changes, place
):
    if "normalize" in changes:
        np.savez(tmp_path / "stats.npz", count=1, sum=np.ones(8), sum_square=np.ones(8))
        changes["normalize_conf"]["stats_file"] = str(tmp_path / "stats.npz")
    with pytest.raises(SystemExit) as ended:
        run(tmp_path, monkeypatch, changes)
    err = [
        line
        for line in capsys.readouterr().err.splitlines()
        if line.startswith("error: ")
    ]
    assert ended.value.code == 1 and len(err) == 1 and place in err[0]


def test_a_config_that_fits_builds(tmp_path, monkeypatch):
    with pytest.raises(SystemExit) as ended:
        run(tmp_path, monkeypatch, {})
    assert ended.value.code == 0


def test_an_error_elsewhere_keeps_its_traceback():
    """An option of another type than annotated is no fault of a bug in a module that
    does not read it.
    """

    def build_model(args):
        raise TypeError("a bug")

    with pytest.raises(TypeError) as caught:
        build_model(
            Namespace(encoder="long_fastconformer", encoder_conf={"num_blocks": "3"})
        )
    assert find_option_fault(caught.value) is None
    assert find_option_fault(InputError("elsewhere")) is None
