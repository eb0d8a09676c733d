"""The plan of P2's pre-training at its full size, and parameters carried through a real encoder's growth."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from espnet_ext.encoder.blstm_maxpool import BLSTMMaxPoolEncoder
from espnet_ext.errors import InputError
from espnet_ext.optim.continued_adam import ContinuedAdam
from espnet_ext.sem.curriculum import Selection
from espnet_ext.sem.pretraining import (
    WHAT,
    PretrainSettings,
    carry,
    carry_parameters,
    plan,
    remove_checkpoints,
    write_plan,
)
from espnet_ext.work.settings import checked

CONFIG = {
    "encoder": "blstm_maxpool",
    "encoder_conf": {"num_layers": 6, "hidden_size": 1024, "pooling": [2, 2, 2], "dropout_rate": 0.3},
    "decoder_conf": {"dropout": 0.3},
    "model_conf": {"lsm_weight": 0.1, "ctc_weight": 0.5},
    "scheduler": "newbob_multi_epoch",
    "scheduler_conf": {"warmup_epochs": 10, "start_lr": 0.0003},
    "num_iters_per_epoch": 100,
    "max_epoch": 250,
}
PAPER = {"first_max_tokens": 60, "short_epochs": 5, "short_mean_chars": 75, "short_parts": ["clean-100", "clean-360"]}


def test_the_plan_of_the_paper():
    *steps, final = plan(CONFIG, PretrainSettings(**PAPER), max_tokens=75)
    shapes = [step.config["encoder_conf"] for step in steps]
    assert [shape["num_layers"] for shape in shapes] == [2, 2, 2, 3, 4, 5, 6, 6]
    pooling = [shape["pooling"] for shape in shapes]
    assert pooling == [[32], [32], [32], [2, 16], [2, 2, 8], [2, 2, 2, 4], [2, 2, 2, 2, 2], [2, 2, 2]]
    assert [math.prod(factors) for factors in pooling] == [32] * 7 + [8]
    dropout = [(step.config["encoder_conf"]["dropout_rate"], step.config["decoder_conf"]["dropout"]) for step in steps]
    assert dropout == [(0.0, 0.3)] * 2 + [(0.3, 0.3)] * 6
    assert all(step.config["model_conf"] == {"lsm_weight": 0.0, "ctc_weight": 0.5} for step in steps)
    assert [step.config["max_epoch"] for step in steps] == [5, 5] + [5] * 6
    short = Selection(60, 75, ("clean-100", "clean-360"))
    assert [step.selection for step in steps] == [short, Selection(60)] + [Selection(75)] * 6
    # 250 epochs, with the 40 of the pre-training among them
    assert (final.name, final.selection, final.config) == ("final", Selection(75), CONFIG | {"max_epoch": 210})


def test_without_a_curriculum_nothing_is_selected():
    steps = plan(CONFIG, PretrainSettings())
    assert [step.config["max_epoch"] for step in steps] == [10] + [5] * 6 + [210]
    assert {step.selection for step in steps} == {Selection()} and Selection().name == ""


def test_the_schedule_continues_and_updates_follow_the_audio(tmp_path):
    """In each config but the first: the history of the steps before it. Half of the audio has half of the updates."""
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(CONFIG))
    written = write_plan(
        tmp_path / "train.yaml", PAPER, tmp_path, 75, lambda selection: {75: 0.9, 60: 0.5}[selection.max_tokens]
    )
    configs = [yaml.safe_load(path.read_text()) for _, path in written]
    histories = [config["scheduler_conf"].get("history") for config in configs]
    assert histories == [None, *(str(tmp_path / f"{step.name}.history.json") for step, _ in written[1:])]
    assert [config["num_iters_per_epoch"] for config in configs] == [50, 50] + [90] * 7


def test_another_schedule_starts_anew_in_each_step(tmp_path):
    config = CONFIG | {"scheduler": "warmuplr", "scheduler_conf": {"warmup_steps": 100}}
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(config))
    for _, path in write_plan(tmp_path / "train.yaml", {}, tmp_path):
        assert yaml.safe_load(path.read_text())["scheduler_conf"] == {"warmup_steps": 100}


@pytest.mark.parametrize(
    ("config", "settings", "message"),
    [
        ({"encoder": "rnn"}, {}, "needs encoder: blstm_maxpool"),
        ({}, {"start_layers": 7}, "7 layers, but the encoder has only 6"),
        ({}, {"time_reduction": 24}, "a time reduction of 24 is impossible with 6 layers"),
        ({}, {"start_layers": 1}, "is impossible with 1 layers"),
        ({}, {"epochs": 0}, "epochs: must be a whole number of at least 1, is 0"),
        ({}, {"layers": 2}, "unknown key 'layers'"),
        ({}, {"short_epochs": 10}, r"short_epochs \(10\) must be fewer than first_epochs \(10\)"),
        ({}, {"short_epochs": -1}, "short_epochs: must be a whole number of at least 0, is -1"),
        ({}, {"first_max_tokens": 2.5}, "first_max_tokens: must be a whole number of at least 1, is 2.5"),
        ({"max_epoch": 40}, {}, r"takes all of the 40 epochs \(max_epoch\)"),
    ],
)
def test_what_cannot_be_planned_is_refused(config, settings, message):
    with pytest.raises(InputError, match=message):
        plan(CONFIG | config, checked(PretrainSettings, settings, WHAT))


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
        "scheduler": "newbob_multi_epoch",
        "scheduler_conf": {"start_lr": 0.001},
        "optim": "continued_adam",
        "max_epoch": 17,
    }
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(config))
    settings = {"start_layers": 2, "time_reduction": 16, "first_epochs": 2, "epochs": 1}
    written = write_plan(tmp_path / "train.yaml", settings, tmp_path / "configs")
    assert [step.name for step, _ in written] == [
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
    configs = {step.name: path for step, path in written}
    trained = yaml.safe_load(configs["layers2_reduction16"].read_text()) | {
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
    before = tmp_path / "before"
    before.mkdir()
    (tmp_path / "config.yaml").rename(before / "config.yaml")
    past = [[0.001, 5.5], [0.0012, 4.5]]
    adam = torch.optim.Adam(model.parameters())
    sum((parameter**2).sum() for parameter in model.parameters()).backward()
    adam.step()
    torch.save(model.state_dict(), before / "latest.pth")
    state = {"optimizers": [adam.state_dict()], "schedulers": [{"past": past}]}
    torch.save(state, before / "checkpoint.pth")
    read = {name: yaml.safe_load(path.read_text()) for name, path in configs.items()}
    history = read["layers3_reduction16"]["scheduler_conf"]["history"]
    output = str(tmp_path / "init.pth")
    moments = {name: values["optim_conf"]["moments"] for name, values in read.items() if "optim_conf" in values}
    assert list(moments) == [step.name for step, _ in written][1:]
    same = [str(before), configs["layers2_reduction16"], 0, output, history, moments["layers2_reduction16"]]
    assert carry_parameters(*same) == []
    continued = ContinuedAdam(model.parameters(), lr=0.5, moments=moments["layers2_reduction16"])
    assert all(continued.state[each]["exp_avg"].equal(adam.state[each]["exp_avg"]) for each in model.parameters())
    none = moments["layers3_reduction16"]
    fresh = carry_parameters(str(before), configs["layers3_reduction16"], 0, output, history, none)
    assert not Path(none).exists()
    assert json.loads(Path(history).read_text()) == past
    assert len(fresh) == 8 and all(name.startswith("encoder.layers.1.") for name in fresh)

    grown = trained | {"encoder_conf": {"num_layers": 3, "hidden_size": 6, "pooling": [2, 8], "dropout_rate": 0.1}}
    next_model = ASRTask.build_model(Namespace(**grown))
    next_model.load_state_dict(torch.load(tmp_path / "init.pth", weights_only=True), strict=True)
    assert torch.equal(next_model.encoder.layers[2].forwards.bias_hh_l0, model.encoder.layers[1].forwards.bias_hh_l0)
    assert torch.equal(next_model.decoder.output.weight, model.decoder.output.weight)
    remove_checkpoints(str(before))
    assert [path.name for path in before.iterdir()] == ["config.yaml"]
