"""Checkpoints that do not fit their model are refused by the names of parameters."""

import argparse
import math
import pickle

import pytest
import torch
import yaml

from espnet_ext.errors import InputError
from espnet_ext.upstream.checkpoint import check_checkpoint, check_model, check_values


def make(width: int = 3, layers: int = 1) -> torch.nn.Module:
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))
    model.register_buffer("mean", torch.zeros(width))
    return model


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.pth"


@pytest.mark.parametrize("wrap", [lambda state: state, lambda s: {"module": s}, lambda s: {"state_dict": s}])
def test_a_checkpoint_that_fits(path, wrap):
    torch.save(wrap(make().state_dict()), path)
    check_checkpoint(path, make())


def test_missing_and_unexpected_and_other_shapes_are_counted_and_named(path):
    state = make(layers=6).state_dict()
    torch.save(state, path)
    with pytest.raises(InputError) as caught:
        check_checkpoint(path, make(layers=4))
    assert "4 unexpected (4.weight, 4.bias, 5.weight, ...)" in str(caught.value)
    assert str(caught.value).startswith(f"{path}: does not fit its config (9 parameters and buffers): ")
    with pytest.raises(InputError, match=r"2 missing \(6.weight, 6.bias\): "):
        check_checkpoint(path, make(layers=7))
    torch.save(make(width=4).state_dict(), path)
    message = r"3 of another shape \(mean \(4,\) instead of \(3,\), 0.weight \(4, 4\) instead of \(3, 3\), "
    with pytest.raises(InputError, match=message):
        check_checkpoint(path, make())


class Evil:
    def __reduce__(self):
        return print, ("run by unpickling",)


def test_files_that_are_no_safe_checkpoint(path, capsys):
    with pytest.raises(InputError, match="model.pth: no such file"):
        check_checkpoint(path, make())
    torch.save(make().state_dict(), path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match="model.pth: not a checkpoint that loads safely"):
        check_checkpoint(path, make())
    path.write_bytes(b"")
    with pytest.raises(InputError, match="model.pth: not a checkpoint that loads safely"):
        check_checkpoint(path, make())
    for content in (pickle.dumps(Evil()), None):
        if content:
            path.write_bytes(content)
        else:
            torch.save({"model": Evil()}, path)
        with pytest.raises(InputError, match="model.pth: not a checkpoint that loads safely"):
            check_checkpoint(path, make())
    assert "run by unpickling" not in capsys.readouterr().out
    torch.save({"model": make().state_dict(), "optimizer": {}, "epoch": 3}, path)
    with pytest.raises(InputError, match="model.pth: does not hold the parameters of a model"):
        check_checkpoint(path, make())


class Task:
    """Stands for an ESPnet task."""

    @staticmethod
    def build_model(args: argparse.Namespace) -> torch.nn.Module:
        assert args.init is None
        return make(args.width)


def test_a_model_from_its_config(tmp_path, path):
    config = tmp_path / "config.yaml"
    torch.save(make(5).state_dict(), path)
    config.write_text("width: 5\ninit: xavier_uniform\n")
    check_model(Task, config, path)
    config.write_text("width: 6\n")
    with pytest.raises(InputError, match="model.pth: does not fit its config"):
        check_model(Task, config, path)
    config.write_text("width: 6\nuse_adapter: true\n")
    check_model(Task, config, path)
    for text, message in (("- 1\n", "must hold a mapping"), ("a: [\n", "line 2, column 1")):
        config.write_text(text)
        with pytest.raises(InputError, match=f"config.yaml:.* {message}"):
            check_model(Task, config, path)
    config.unlink()
    with pytest.raises(InputError, match="config.yaml: no such file"):
        check_model(Task, config, path)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_parameters_that_are_not_finite_are_refused_before_anything_is_decoded(model, tmp_path, value):
    from espnet2.tasks.asr import ASRTask

    from espnet_ext.upstream.checkpoint import load_strictly

    load_strictly()
    state = torch.load(model / "model.pth", weights_only=True)
    state["ctc.ctc_lo.bias"][1] = value
    torch.save(state, tmp_path / "bad.pth")
    with pytest.raises(InputError, match="bad.pth: values of ctc.ctc_lo.bias are NaN or infinite"):
        ASRTask.build_model_from_file(model / "config.yaml", tmp_path / "bad.pth")


def test_buffers_may_be_infinite_but_not_nan(path):
    masked = make()
    masked.mean.fill_(-math.inf)
    check_values(path, masked)
    masked.mean[0] = math.nan
    with pytest.raises(InputError, match="model.pth: values of mean are NaN"):
        check_values(path, masked)


def test_statistics_of_another_folder_are_said_to_be(tmp_path, monkeypatch):
    from espnet2.tasks.asr import ASRTask

    from espnet_ext.upstream.checkpoint import load_strictly

    load_strictly()
    settings = {"token_list": ["<blank>", "<unk>", "<sos/eos>"], "normalize": "global_mvn"}
    settings["normalize_conf"] = {"stats_file": "exp/stats.npz"}
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(ASRTask.get_default_config() | settings))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="exp/stats.npz: no such file: .*config.yaml names it.* run the command there"):
        ASRTask.build_model_from_file(config)
