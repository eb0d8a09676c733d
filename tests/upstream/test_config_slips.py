"""Slips in the YAML of a training: each is one line that names the key, status 1, and
nothing is written.
"""

import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from espnet_ext.upstream.with_plugins import with_plugins

CONFIG = {
    "token_list": ["<blank>", "<unk>", "a", "b", "<sos/eos>"],
    "frontend_conf": {"fs": 16000, "n_fft": 256, "hop_length": 160, "n_mels": 20},
    "normalize": "utterance_mvn",
    "encoder": "conformer",
    "encoder_conf": {"output_size": 16, "attention_heads": 2, "num_blocks": 1},
    "decoder": "transformer",
    "decoder_conf": {"attention_heads": 2, "num_blocks": 1},
    "model_conf": {"ctc_weight": 0.3},
    "optim": "adam",
    "optim_conf": {"lr": 0.001},
    "scheduler": "warmuplr",
    "scheduler_conf": {"warmup_steps": 10},
}
# what is changed -> a part of the line
SLIPS = [
    # of the file
    ("encoder:\tconformer\nx:\n\t- 1\n", "train.yaml: line"),
    ("encoder: conformer\n encoder_conf: {}\n", "train.yaml: line 2"),
    ("encoder_conf: {output_size: 16\n", "train.yaml: line"),
    ("encoder: conformer\nencoder: branchformer\n", "'encoder' stands twice"),
    ("- encoder: conformer\n", "must hold a mapping"),
    ("", "is empty"),
    ("# nothing\n", "is empty"),
    ("encoder conformer\n", "must hold a mapping"),
    ("max_epoch: 3\nseed: [1\n", "train.yaml: line"),
    # of ESPnet's own options
    ({"encoder_conf": None}, "encoder_conf is empty"),
    ({"encoder_conf": [{"output_size": 16}]}, "encoder_conf is [{"),
    ({"encoder_conf": "output_size=16"}, "encoder_conf is 'output_size=16'"),
    ({"max_epohc": 3}, "max_epohc"),
    ({"num_epochs": 3}, "num_epochs"),
    ({"max_epoch": "three"}, "max_epoch is 'three'"),
    ({"max_epoch": 3.5}, "max_epoch is 3.5"),
    ({"max_epoch": None}, "max_epoch is empty"),
    ({"max_epoch": 0}, "max_epoch is 0"),
    ({"use_amp": "nope"}, "use_amp is 'nope'"),
    ({"use_amp": 2}, "use_amp is 2"),
    ({"resume": ["true"]}, "resume is ['true']"),
    ({"log_level": "chatty"}, "log_level is 'chatty'"),
    ({"keep_nbest_models": ["five"]}, "keep_nbest_models is ['five']"),
    ({"patience": "never"}, "patience is 'never'"),
    ({"grad_clip": [5]}, "grad_clip is [5]"),
    ({"batch_size": True}, "batch_size is True"),
    ({"batch_size": -1}, "batch_size is -1"),
    ({"batch_type": "sortd"}, "batch_type is 'sortd'"),
    ({"batch_bins": 1.0e6}, "batch_bins is 1000000.0"),
    ({"accum_grad": 0}, "accum_grad is 0"),
    ({"log_interval": 0}, "log_interval is 0"),
    ({"num_workers": -1}, "num_workers is -1"),
    ({"patience": -3}, "patience is -3"),
    ({"grad_clip": -1}, "grad_clip is -1"),
    ({"seed": -1}, "seed is -1"),
    ({"num_iters_per_epoch": 0}, "num_iters_per_epoch is 0"),
    ({"train_dtype": "half"}, "train_dtype is 'half'"),
    ({"fold_length": 800}, "fold_length is 800"),
    ({"freeze_param": "encoder"}, "freeze_param is 'encoder'"),
    ({"init_param": "model.pth"}, "init_param is 'model.pth'"),
    ({"init_param": ["none.pth"]}, "init_param: none.pth"),
    ({"init_param": ["none.pth:encoder:encoder"]}, "init_param: none.pth"),
    ({"best_model_criterion": ["valid", "acc", "max"]}, "best_model_criterion is"),
    ({"best_model_criterion": [["valid", "acc"]]}, "best_model_criterion is"),
    ({"best_model_criterion": [["valid", "acc", "high"]]}, "best_model_criterion is"),
    ({"early_stopping_criterion": ["valid", "acc"]}, "early_stopping_criterion is"),
    ({"early_stopping_criterion": "valid,acc,max"}, "early_stopping_criterion is"),
    ({"val_scheduler_criterion": ["valid"]}, "val_scheduler_criterion is"),
    ({"token_type": "words"}, "token_type is 'words'"),
    ({"ctc_conf": None}, "ctc_conf is empty"),
    ({"ctc_conf": {"ctc_type": "warpctc"}}, "ctc_type"),
    ({"max_cache_size": "2 loaves"}, "max_cache_size is '2 loaves'"),
    ({"noise_db_range": 1315}, "noise_db_range is 1315"),  # written 13_15
    ({"ngpu": -1}, "ngpu is -1"),
    ({"pretrain_path": "old.pth"}, "--init_param"),
    # of the choice of a module
    ({"encoder": "confomer"}, "encoder is 'confomer'"),
    ({"encoder": {"name": "conformer"}}, "encoder is {"),
    ({"optim": "adamm"}, "optim is 'adamm'"),
    ({"optim": None}, "optim is empty"),
    ({"scheduler": "warmup"}, "scheduler is 'warmup'"),
    ({"init": "xavier"}, "init is 'xavier'"),
    # of the options of a module
    ({"encoder_conf": {"num_blocks": "two"}}, "encoder_conf: conformer: num_blocks"),
    ({"encoder_conf": {"output_size": -16}}, "encoder_conf: conformer: output_size"),
    ({"encoder_conf": {"num_blocks": -2}}, "encoder_conf: conformer: num_blocks"),
    ({"encoder_conf": {"output_size": 16, "attention_heads": 3}}, "encoder_conf: "),
    ({"encoder_conf": {"dropout_rate": 1.5}}, "encoder_conf: conformer: "),
    ({"encoder_conf": {"dropout_rate": "0.1"}}, "conformer: dropout_rate is '0.1'"),
    ({"encoder_conf": {"macaron_style": "no"}}, "conformer: macaron_style is 'no'"),
    ({"encoder_conf": {"input_layer": "conv3d"}}, "encoder_conf: conformer: "),
    ({"encoder_conf": {"num_block": 2}}, "conformer: no option num_block"),
    ({"encoder_conf": {1: 2}}, "conformer: no option 1"),
    ({"decoder_conf": {"attention_heads": 5}}, "decoder_conf: transformer: "),
    ({"model_conf": {"ctc_weight": 1.5}}, "model_conf: espnet: "),
    ({"decoder": None}, "model_conf: espnet: decoder should not be None"),
    ({"model_conf": {"ctc_wieght": 0.3}}, "model_conf: espnet: no option ctc_wieght"),
    ({"frontend_conf": {"fs": 16000, "n_mel": 80}}, "frontend_conf: default: "),
    ({"frontend_conf": {"n_mels": "many"}}, "frontend_conf: default: "),
    ({"normalize": "global_mvn"}, "normalize_conf: global_mvn: needs 'stats_file'"),
    (
        {"normalize": "global_mvn", "normalize_conf": {"stats_file": "none.npz"}},
        "none.npz",
    ),
    ({"normalize": "sem_global_mvn"}, "sem_global_mvn: needs 'stats_file'"),
    (
        {"specaug": "specaug", "specaug_conf": {"freq_mask_width": 27}},
        "specaug_conf: specaug: no option freq_mask_width",
    ),
    (
        {"specaug": "specaug", "specaug_conf": {"time_mask_width_range": "10"}},
        "specaug_conf: specaug: ",
    ),
    ({"optim_conf": {"lr": "0.001"}}, "optim_conf: adam: lr is '0.001'"),
    ({"optim_conf": {"lr": "1e-3"}}, "optim_conf: lr is '1e-3'"),
    ({"optim_conf": {"lr": -0.1}}, "optim_conf: adam: Invalid learning rate"),
    ({"optim_conf": {"lr": [0.1]}}, "optim_conf: adam: lr is [0.1]"),
    ({"optim_conf": {"lr": None}}, "optim_conf: adam: lr is None"),
    ({"optim_conf": {"betas": 0.9}}, "optim_conf: adam: betas is 0.9"),
    ({"optim_conf": {"betas": [0.9]}}, "optim_conf: adam: betas is [0.9]"),
    ({"optim_conf": {"amsgrad": "no"}}, "optim_conf: adam: amsgrad is 'no'"),
    ({"optim_conf": {"momentum": 0.9}}, "optim_conf: adam: no option momentum"),
    ({"scheduler_conf": {"warmup": 10}}, "scheduler_conf: warmuplr: no option warmup"),
    ({"scheduler_conf": {"warmup_steps": "many"}}, "warmuplr: warmup_steps"),
    ({"scheduler_conf": {"warmup_steps": -5}}, "scheduler_conf: warmuplr: "),
    ({"scheduler": "steplr", "scheduler_conf": {}}, "steplr: needs 'step_size'"),
    (
        {"scheduler": "multisteplr", "scheduler_conf": {"milestones": 8}},
        "scheduler_conf: multisteplr: ",
    ),
    ({"scheduler": "warmup_cosine", "scheduler_conf": {}}, "warmup_cosine: needs"),
    ({"token_list": "none.txt"}, "none.txt"),
]
# of other commands: the command, what is added to its config, a part of the line
OTHER_COMMANDS = [
    ("lm_train", {"lm": "lstm"}, "lm is 'lstm'"),
    ("lm_train", {"lm_conf": None}, "lm_conf is empty"),
    ("lm_train", {"lm_conf": {"units": 8}}, "lm_conf: seq_rnn: no option units"),
    ("lm_train", {"lm_conf": {"unit": "8"}}, "lm_conf: seq_rnn: unit is '8'"),
    ("lm_train", {"lm_conf": {"nlayers": -1}}, "lm_conf: seq_rnn: nlayers is -1"),
    ("lm_train", {"lm_conf": {"dropout_rate": 3}}, "lm_conf: seq_rnn: "),
    ("lm_train", {"encoder": "rnn"}, "encoder"),
    ("growing_asr_train", {"stages": 3}, "stages is 3"),
    ("growing_asr_train", {"stages": [{"epochs": 1}]}, "stages[0]"),
    ("asr_train_long", {"chunk_conf": None}, "chunk_conf is empty"),
    ("asr_train_long", {"features_conf": {"n_mels": "20"}}, "features_conf: n_mels"),
    ("asr_train_long", {"input_size": 21}, "input_size is 21"),
    ("sa_asr_train", {"profiles": "x.scp"}, "profiles is 'x.scp'"),
    ("sa_asr_train", {"speaker_encoder": "x"}, "speaker_encoder is 'x'"),
    (
        "sa_asr_train",
        {"speaker_encoder": "rnn", "speaker_encoder_conf": {"hidden": 1}},
        "speaker_encoder_conf: rnn: no option hidden",
    ),
    ("mt_train", {"src_token_list": "none.txt"}, "none.txt"),
    (
        "mt_train",
        {"src_token_list": CONFIG["token_list"], "model": "stitchr"},
        "model is 'stitchr'",
    ),
]


def run(
    folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, command: str = "asr_train"
) -> int:
    """``python -m espnet_ext.bin.asr_train --config train.yaml``, without training."""
    (folder / "train.yaml").write_text(text)
    words = ["--config", str(folder / "train.yaml"), "--dry_run", "true"]
    words += ["--output_dir", str(folder / "exp"), "--token_type", "char"]
    main = import_module(f"espnet_ext.bin.{command}").main
    monkeypatch.setattr(sys, "argv", [command, *words])
    with pytest.raises(SystemExit) as ended:
        with_plugins(main, "__main__")
    return ended.value.code


@pytest.mark.parametrize(("slip", "place"), SLIPS)
def test_a_slip_is_one_line(slip, place, tmp_path, monkeypatch, capsys):
    text = slip if isinstance(slip, str) else yaml.safe_dump(CONFIG | slip)
    assert run(tmp_path, text, monkeypatch) == 1
    said = capsys.readouterr().err.splitlines()
    errors = [line for line in said if line.startswith("error: ")]
    assert len(errors) == 1 and place in errors[0]
    assert not (tmp_path / "exp" / "config.yaml").exists()


@pytest.mark.parametrize(("command", "slip", "place"), OTHER_COMMANDS)
def test_a_slip_for_another_command_is_one_line(
    command, slip, place, tmp_path, monkeypatch, capsys
):
    text = yaml.safe_dump({"token_list": CONFIG["token_list"]} | slip)
    assert run(tmp_path, text, monkeypatch, command) == 1
    said = capsys.readouterr().err.splitlines()
    errors = [line for line in said if line.startswith("error: ")]
    assert len(errors) == 1 and place in errors[0]


def test_what_is_no_slip_builds(tmp_path, monkeypatch):
    changes = {
        "keep_nbest_models": 3,
        "use_amp": "no",  # argparse reads text as on the command line
        "batch_size": "20",
        "log_level": "info",
        "encoder": "Conformer",
        "preencoder": "none",
        "patience": None,
        "num_iters_per_epoch": None,
        "best_model_criterion": [["valid", "acc", "max"]],
        "val_scheduler_criterion": ["valid", "loss"],
        "grad_clip": 1,
        "max_cache_size": 0,
        "specaug": None,
        "freeze_param": ["encoder.embed"],
        "optim_conf": {"lr": 1, "betas": [0.9, 0.98], "weight_decay": 0.01},
        "encoder_conf": CONFIG["encoder_conf"] | {"stochastic_depth_rate": 0.0},
    }
    assert run(tmp_path, yaml.safe_dump(CONFIG | changes), monkeypatch) == 0
