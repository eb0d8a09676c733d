"""Checkpoints that do not fit their model are refused by the names of parameters."""

import argparse
import math
import pickle

import pytest
import torch
import yaml
from espnet2.tasks.asr import ASRTask

from espnet_ext.errors import InputError
from espnet_ext.upstream.checkpoint import (
    check_checkpoint,
    check_model,
    check_values,
    strict_loading,
)


def make(width: int = 3, layers: int = 1) -> torch.nn.Module:
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))
    model.register_buffer("mean", torch.zeros(width))
    return model


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.pth"


@pytest.mark.parametrize(
    "wrap", [lambda state: state, lambda s: {"module": s}, lambda s: {"state_dict": s}]
)
def test_a_checkpoint_that_fits_and_names_of_what_does_not(path, wrap):
    torch.save(wrap(make(layers=6).state_dict()), path)
    check_checkpoint(path, make(layers=6))
    for model, named in (
        (make(layers=4), r"4 unexpected \(4.weight, 4.bias, 5.weight, ...\)"),
        (make(layers=7), r"2 missing \(6.weight, 6.bias\)"),
        (make(4, 6), r"13 of another shape \(mean \(3,\) instead of \(4,\), 0.weight"),
    ):
        with pytest.raises(InputError, match=f"^{path}: .*{named}"):
            check_checkpoint(path, model)


class Evil:
    def __reduce__(self):
        return print, ("run by unpickling",)


def test_files_that_are_no_safe_checkpoint(path, capsys):
    def saved(content: dict) -> bytes:
        torch.save(content, path)
        return path.read_bytes()

    whole = {"model": make().state_dict(), "optimizer": {}, "epoch": 3}
    unsafe = (
        saved(make().state_dict())[:-200],
        b"",
        pickle.dumps(Evil()),
        saved({"model": Evil()}),
        saved(whole),
    )
    for content in unsafe:
        path.write_bytes(content)
        with pytest.raises(
            InputError,
            match="model.pth: (not a checkpoint that loads safely|does not hold)",
        ):
            check_checkpoint(path, make())
    assert "run by unpickling" not in capsys.readouterr().out
    path.unlink()
    with pytest.raises(InputError, match="model.pth: no such file"):
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
    for text in ("width: 5\ninit: xavier_uniform\n", "width: 6\nuse_adapter: true\n"):
        config.write_text(text)
        check_model(Task, config, path)
    for text, place in (
        ("width: 6\n", "model.pth"),
        ("- 1\n", "config.yaml"),
        ("a: [\n", "config.yaml:.* line 2"),
    ):
        config.write_text(text)
        with pytest.raises(InputError, match=place):
            check_model(Task, config, path)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_parameters_that_are_not_finite_are_refused_before_anything_is_decoded(
    model, tmp_path, value
):
    state = torch.load(model / "model.pth", weights_only=True)
    state["ctc.ctc_lo.bias"][1] = value
    torch.save(state, tmp_path / "bad.pth")
    with (
        strict_loading(),
        pytest.raises(
            InputError, match="bad.pth: values of ctc.ctc_lo.bias are NaN or infinite"
        ),
    ):
        ASRTask.build_model_from_file(model / "config.yaml", tmp_path / "bad.pth")


def test_buffers_may_be_infinite_but_not_nan(path):
    masked = make()
    masked.mean.fill_(-math.inf)
    check_values(path, masked)
    masked.mean[0] = math.nan
    with pytest.raises(InputError, match="model.pth: values of mean are NaN"):
        check_values(path, masked)


def test_statistics_of_another_folder_are_said_to_be(tmp_path, monkeypatch):
    settings = {
        "token_list": ["<blank>", "<unk>", "<sos/eos>"],
        "normalize": "global_mvn",
    }
    settings["normalize_conf"] = {"stats_file": "exp/stats.npz"}
    (tmp_path / "config.yaml").write_text(
        yaml.safe_dump(ASRTask.get_default_config() | settings)
    )
    monkeypatch.chdir(tmp_path)
    with (
        strict_loading(),
        pytest.raises(InputError, match="exp/stats.npz: no such file: .*config.yaml"),
    ):
        ASRTask.build_model_from_file(tmp_path / "config.yaml")


def test_a_config_without_a_checkpoint_is_refused(model):
    with strict_loading(), pytest.raises(InputError, match="no checkpoint is given"):
        ASRTask.build_model_from_file(model / "config.yaml")


def test_loading_is_strict_only_in_its_block_and_passes_on_arguments(monkeypatch):
    from espnet2.tasks.abs_task import AbsTask

    given = []

    def load(task, config_file=None, model_file=None, device="cpu", **of_the_lab):
        given.append((device, of_the_lab))
        raise InputError("far enough")

    monkeypatch.setattr(AbsTask, "build_model_from_file", classmethod(load))
    before = vars(AbsTask)["build_model_from_file"]
    with strict_loading(), pytest.raises(InputError, match="far enough"):
        ASRTask.build_model_from_file("config.yaml", None, "meta", adapter="mine")
    assert vars(AbsTask)["build_model_from_file"] is before
    assert given == [("meta", {"adapter": "mine"})]
