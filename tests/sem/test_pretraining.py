"""The plan of P2's pre-training at its full size, and parameters carried through a real encoder's growth."""

import math

import numpy as np
import pytest
import torch
import yaml

from espnet_ext.encoder.blstm_maxpool import BLSTMMaxPoolEncoder
from espnet_ext.errors import InputError
from espnet_ext.sem.pretraining import (
    PretrainSettings,
    carry,
    carry_parameters,
    final_config,
    parse_settings,
    plan,
    write_plan,
)

CONFIG = {
    "encoder": "blstm_maxpool",
    "encoder_conf": {"num_layers": 6, "hidden_size": 1024, "pooling": [2, 2, 2], "dropout_rate": 0.3},
    "decoder_conf": {"dropout": 0.3, "num_layers": 1},
    "model_conf": {"lsm_weight": 0.1, "ctc_weight": 0.5},
    "scheduler": "warmup_plateau",
    "scheduler_conf": {"warmup_steps": 1500, "start_lr": 0.0003},
    "num_iters_per_epoch": 100,
    "max_epoch": 250,
}


def test_the_plan_of_the_paper():
    steps = plan(CONFIG, PretrainSettings())
    assert [step.layers for step in steps] == [2, 2, 3, 4, 5, 6, 6]
    pooling = [step.config["encoder_conf"]["pooling"] for step in steps]
    assert pooling == [[32], [32], [2, 16], [2, 2, 8], [2, 2, 2, 4], [2, 2, 2, 2, 2], [2, 2, 2]]
    assert [math.prod(factors) for factors in pooling] == [32] * 6 + [8]
    dropout = [(step.config["encoder_conf"]["dropout_rate"], step.config["decoder_conf"]["dropout"]) for step in steps]
    assert dropout == [(0.0, 0.3)] + [(0.3, 0.3)] * 6
    assert all(step.config["model_conf"] == {"lsm_weight": 0.0, "ctc_weight": 0.5} for step in steps)
    assert [step.config["max_epoch"] for step in steps] == [10] + [5] * 6
    # one warm-up over all steps and the training that they lead to
    starts = [step.config["scheduler_conf"].get("start_step", 0) for step in steps]
    assert starts == [0, 1000, 1500, 2000, 2500, 3000, 3500]
    final = final_config(CONFIG, PretrainSettings())
    assert final["scheduler_conf"] == CONFIG["scheduler_conf"] | {"start_step": 4000}
    assert {key: final[key] for key in final if key != "scheduler_conf"} == {
        key: CONFIG[key] for key in CONFIG if key != "scheduler_conf"
    }


def test_another_schedule_starts_anew_in_each_step():
    config = CONFIG | {"scheduler": "warmuplr", "scheduler_conf": {"warmup_steps": 100}}
    assert all(step.config["scheduler_conf"] == {"warmup_steps": 100} for step in plan(config, PretrainSettings()))
    assert final_config(config, PretrainSettings()) == config


@pytest.mark.parametrize(
    ("config", "settings", "message"),
    [
        ({"encoder": "rnn"}, {}, "needs encoder: blstm_maxpool"),
        ({}, {"start_layers": 7}, "7 layers, but the encoder has only 6"),
        ({}, {"time_reduction": 24}, "a time reduction of 24 is impossible with 6 layers"),
        ({}, {"start_layers": 1}, "is impossible with 1 layers"),
        ({}, {"epochs": 0}, "epochs must be a whole number of at least 1, not 0"),
        ({}, {"layers": 2}, "unknown setting layers"),
    ],
)
def test_what_cannot_be_planned_is_refused(config, settings, message):
    with pytest.raises(InputError, match=message):
        plan(CONFIG | config, parse_settings(settings))


def encoder(layers: int, pooling: list[int], seed: int) -> BLSTMMaxPoolEncoder:
    torch.manual_seed(seed)
    return BLSTMMaxPoolEncoder(5, num_layers=layers, hidden_size=4, pooling=pooling)


def state_of(module: BLSTMMaxPoolEncoder) -> dict[str, torch.Tensor]:
    return {f"encoder.{name}": value for name, value in module.state_dict().items()}


def test_the_top_layer_stays_on_top_and_the_new_one_comes_below_it():
    old, new = encoder(2, [4], seed=0), encoder(3, [2, 2], seed=1)
    state, fresh = carry(state_of(old), state_of(new), 2, 3)
    assert set(fresh) == {f"encoder.layers.1.{name}" for name, _ in old.layers[1].named_parameters()}
    assert state.keys() == state_of(new).keys()
    for name, value in old.layers[0].state_dict().items():
        assert torch.equal(state[f"encoder.layers.0.{name}"], value)
    for name, value in old.layers[1].state_dict().items():
        assert torch.equal(state[f"encoder.layers.2.{name}"], value)
    for name, value in new.layers[1].state_dict().items():
        assert torch.equal(state[f"encoder.layers.1.{name}"], value)


def test_a_step_without_a_new_layer_changes_nothing():
    old, new = encoder(3, [2, 2], seed=0), encoder(3, [2, 2, 2], seed=1)
    state, fresh = carry(state_of(old), state_of(new), 3, 3)
    assert not fresh and all(torch.equal(state[name], value) for name, value in state_of(old).items())


def test_every_key_is_accounted_for():
    old, new = state_of(encoder(2, [4], seed=0)), state_of(encoder(3, [2, 2], seed=1))
    with pytest.raises(InputError, match="ctc.weight of the step before has no place"):
        carry(old | {"ctc.weight": torch.zeros(2)}, new, 2, 3)
    with pytest.raises(InputError, match="ctc.weight of the next model is in no new layer"):
        carry(old, new | {"ctc.weight": torch.zeros(2)}, 2, 3)
    with pytest.raises(InputError, match=r"ctc.weight is \(2,\) in the step before, \(3,\) in the next"):
        carry(old | {"ctc.weight": torch.zeros(2)}, new | {"ctc.weight": torch.zeros(3)}, 2, 3)


def test_from_the_plans_files_to_initial_parameters(tmp_path):
    """ESPnet's model takes them whole."""
    np.savez(tmp_path / "stats.npz", count=100, sum=np.full(40, 50.0), sum_square=np.full(40, 30.0))
    config = {
        "frontend": "power_mel",
        "normalize": "global_mvn",
        "encoder": "blstm_maxpool",
        "encoder_conf": {"num_layers": 3, "hidden_size": 6, "pooling": [2, 2, 2], "dropout_rate": 0.1},
        "decoder": "weight_feedback_rnn",
        "decoder_conf": {"hidden_size": 6, "embed_size": 4, "attention_size": 5, "readout_size": 6, "dropout": 0.1},
        "model_conf": {"lsm_weight": 0.1},
    }
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(config))
    settings = {"start_layers": 2, "time_reduction": 16, "first_epochs": 2, "epochs": 1}
    written = write_plan(tmp_path / "train.yaml", settings, tmp_path / "configs")
    assert [name for name, _ in written] == [
        "layers2_reduction16_nodropout",
        "layers2_reduction16",
        "layers3_reduction16",
        "layers3_reduction8",
        "final",
    ]

    from argparse import Namespace

    from espnet2.tasks.asr import ASRTask

    import espnet_ext

    espnet_ext.register()
    token_list = ["<blank>", "<unk>", "A", "<sos/eos>"]
    trained = yaml.safe_load(dict(written)["layers2_reduction16"].read_text()) | {
        "token_list": token_list,
        "normalize_conf": {"stats_file": str(tmp_path / "stats.npz")},
        "frontend_conf": {},
        "ctc_conf": {},
        "specaug": None,
        "input_size": None,
        "model": "espnet",
        "init": None,
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(trained))
    model = ASRTask.build_model(Namespace(**trained))
    torch.save(model.state_dict(), tmp_path / "model.pth")
    model_files = tmp_path / "model.pth", tmp_path / "config.yaml"
    fresh = carry_parameters(*model_files, dict(written)["layers3_reduction16"], 0, tmp_path / "init.pth")
    assert len(fresh) == 8 and all(name.startswith("encoder.layers.1.") for name in fresh)

    grown = trained | {"encoder_conf": {"num_layers": 3, "hidden_size": 6, "pooling": [2, 8], "dropout_rate": 0.1}}
    next_model = ASRTask.build_model(Namespace(**grown))
    next_model.load_state_dict(torch.load(tmp_path / "init.pth", weights_only=True), strict=True)
    assert torch.equal(next_model.encoder.layers[2].forwards.bias_hh_l0, model.encoder.layers[1].forwards.bias_hh_l0)
    assert torch.equal(next_model.decoder.output.weight, model.decoder.output.weight)
