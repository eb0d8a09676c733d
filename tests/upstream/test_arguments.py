"""Trainings of ESPnet that would go on with random parameters, or lose their config:
one line instead.
"""

from argparse import Namespace

import pytest
import torch
from espnet2.utils.config_argparse import ArgumentParser

from espnet_ext.errors import InputError
from espnet_ext.upstream.arguments import (
    check_arguments,
    check_init_param,
    checked_arguments,
)
from espnet_ext.upstream.inference import get_parser
from espnet_ext.upstream.whole_checkpoints import resume


def network(size: int = 2) -> torch.nn.ModuleDict:
    return torch.nn.ModuleDict(
        {"encoder": torch.nn.Linear(2, size), "decoder": torch.nn.Linear(size, 2)}
    )


@pytest.mark.parametrize(
    ("given", "ignore", "message"),
    [
        ("", False, None),
        (":encoder:encoder", False, None),
        (
            ":encodr:encoder",
            False,
            "no parameters of 'encodr': it has encoder, decoder",
        ),
        (":enc:encoder", False, "no parameters of 'enc'"),
        (
            ":encoder:encodr",
            False,
            "the model has no module 'encodr': it has encoder, decoder",
        ),
        (":encoder:decoder", False, None),
        ("::decoder", False, "does not fit the model"),
        ("::decoder", True, "does not fit the model"),
        (":::encoder,decoder", False, "no parameters"),
        (":::encoder", False, None),
    ],
)
def test_init_param(tmp_path, given, ignore, message):
    torch.save(network().state_dict(), tmp_path / "model.pth")
    asked = f"{tmp_path / 'model.pth'}{given}"
    if message is None:
        check_init_param(asked, network(), ignore)
        return
    with pytest.raises(InputError, match=message):
        check_init_param(asked, network(), ignore)


def test_init_param_of_another_size(tmp_path):
    torch.save(network(3).state_dict(), tmp_path / "model.pth")
    with pytest.raises(InputError, match="encoder.weight .3, 2. instead of .2, 2."):
        check_init_param(str(tmp_path / "model.pth"), network(), False)
    check_init_param(str(tmp_path / "model.pth"), network(), True)  # decoder.bias fits
    with pytest.raises(InputError, match="no such file"):
        check_init_param(str(tmp_path / "none.pth"), network(), False)


def test_statistics_need_no_normalisation():
    args = Namespace(
        collect_stats=True,
        normalize="sem_global_mvn",
        normalize_conf={"eta_min": -10.0},
    )
    check_arguments(args)
    assert args.normalize is None and args.normalize_conf == {}


def test_a_training_that_cannot_resume_leaves_its_config(tmp_path):
    config, checkpoint = tmp_path / "config.yaml", tmp_path / "checkpoint.pth"
    config.write_text("as: it was\n")
    state = {
        "model": network(3).state_dict(),
        "reporter": {"epoch": 1},
        "optimizers": [],
        "schedulers": [],
    }
    torch.save(state, checkpoint)
    parser = ArgumentParser()
    parser.add_argument("--resume", type=bool)
    parser.add_argument("--output_dir")
    with (
        pytest.raises(
            InputError, match="checkpoint.pth: cannot be resumed .*encoder.weight"
        ),
        checked_arguments(),
    ):
        parser.parse_args(["--resume", "true", "--output_dir", str(tmp_path)])
        config.write_text("as: it would be\n")  # by ESPnet
        resume(checkpoint, network(), None, [], [], None)
    assert config.read_text() == "as: it was\n"
    with pytest.raises(KeyboardInterrupt), checked_arguments():
        parser.parse_args(["--resume", "true", "--output_dir", str(tmp_path)])
        config.write_text("as: it is\n")
        torch.save(state | {"epoch": 2}, checkpoint)  # an epoch has ended
        raise KeyboardInterrupt
    assert config.read_text() == "as: it is\n"


def test_help_of_the_search_is_shown():
    """ESPnet 202611 has a percent sign in a help text, at which its own fails."""
    text = get_parser().format_help()
    assert "--fast_decoder" in text and "(default: " in text and "%%" not in text
