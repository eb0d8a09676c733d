"""Steps that train and decode: how far they are, which epochs are averaged, what a
launcher and a decoding get.
"""

import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from espnet_ext.errors import InputError
from espnet_ext.recipe.asr import decode_system
from espnet_ext.recipe.training import (
    list_data_options,
    list_token_options,
    name_average,
    read_progress,
    run_command,
)

DECODINGS = {
    "default": {},
    "prior": {"prior_weight": 0.003},
    "lm": {"lm_weight": 0.4, "prior_weight": 0.003},
}
TIMES = "iter_time=0.205, forward_time=0.153"


@pytest.mark.parametrize(
    ("losses", "shown"),
    [
        ("loss_ctc=294.826, loss=294.826, backward_time=0.122", "loss=294.826"),
        (
            "loss_ctc=9.1, loss_att=8e-05, acc=0.315, loss=1.2e-04, optim0_lr0=1e-05",
            "acc=0.315, loss=1.2e-04",
        ),
        (
            "loss_att=87.342, acc=0.013loss=99.175, backward_time=0.062",
            "acc=0.013, loss=99.175",
        ),
    ],
)
def test_the_last_batch_is_shown(losses, shown, tmp_path):
    log = tmp_path / "train.log"
    lines = [
        "[host] 2026-01-01 00:00:00,1 (trainer:816) INFO: "
        f"{n}epoch:train:1-{5 * n}batch: {TIMES}, {losses}\n"
        for n in (2, 13)
    ]
    log.write_text("# a command\n" + "x" * 30000 + "\n" + "".join(lines) + "saved\n")
    assert read_progress(log) == f"epoch 13, batch 65, {shown}"
    log.write_text("# a command\nloading\n")
    assert read_progress(log) == ""


def test_epochs_to_average():
    assert (
        name_average("best:5") == "best5.ave.pth"
        and name_average("last:10") == "last10.ave.pth"
    )
    for which in ("best", "best:0", "all:3", "best:5:6", "best:-1", ""):
        with pytest.raises(InputError, match="--average takes best:N or last:N"):
            name_average(which)


def test_options_of_espnet():
    folder = Path("tokens")
    for kind in ("bpe", "unigram", "mixed"):
        assert list_token_options(folder, kind)[2:] == [
            "--token_type",
            "bpe",
            "--bpemodel",
            "tokens/bpe.model",
        ]
    assert list_token_options(folder, "char") == [
        "--token_list",
        "tokens/tokens.txt",
        "--token_type",
        "char",
    ]
    assert list_data_options("valid", [(Path("a/text"), "text", "text")]) == [
        "--valid_data_path_and_name_and_type",
        "a/text,text,text",
    ]


def test_a_launcher_starts_the_command_with_all_its_options(
    tmp_path, monkeypatch, capfd
):
    """As ``train_cmd="srun --nodes 2"`` would; each word reaches it, and the log begins
    with all of them.
    """
    launcher = tmp_path / "launch.py"
    launcher.write_text(
        "import sys\nfrom pathlib import "
        "Path\nPath('words').write_text('|'.join(sys.argv[1:]))\n"
    )
    monkeypatch.chdir(tmp_path)
    program = [sys.executable, str(launcher), "--nodes", "a b"]
    log = Path("log", "train.launched.log")
    options = {"more": ["--dist", "true"], "ngpu": 2, "log": log}
    run_command("asr_train", ["--seed", "1"], launch=program, **options)
    expected = [
        "--nodes",
        "a b",
        "log/python",
        "-m",
        "espnet_ext.bin.asr_train",
        "--dist",
        "true",
        "--ngpu",
        "2",
    ]
    assert (tmp_path / "words").read_text().split("|") == [*expected, "--seed", "1"]
    expected[2] = "python"
    assert shlex.split(capfd.readouterr().out)[3:] == [*expected, "--seed", "1"]
    with pytest.raises(InputError, match="has ended with status 1"):
        run_command("asr_train", [], launch=["false"], log=log)


def test_a_prior_needs_no_language_model(tmp_path: Path) -> None:
    def steps(*names: str) -> dict[str, tuple[bool, bool]]:
        run = SimpleNamespace(
            expdir=tmp_path,
            locate_training=lambda system, seed: tmp_path / system.name / f"seed{seed}",
            decoding_tag="",
            datadir=tmp_path,
            lm=tmp_path / "lm",
            decodings={"base": dict.fromkeys(names, ["test"])},
            decoding=DECODINGS.get,
            write_decode_config=lambda name: tmp_path / f"{name}.yaml",
            setting=lambda name: "best:3",
            nj=1,
            gpu=0,
            ngpu=0,
            parallel=None,
        )
        made = decode_system(
            run, SimpleNamespace(name="base"), 1, 1, ["test"], tmp_path / "tokens"
        )
        return {
            step.name.partition("(")[2].rstrip(")"): (
                "--prior_file" in step.arguments["jobs"][0].options,
                step.arguments["jobs"][0].lm_file is not None,
            )
            for step in made
        }

    assert steps("default") == {"default": (False, False)}
    assert steps("prior") == {"prior": (True, False)}
    assert steps("default", "prior", "lm") == {
        "default prior": (True, False),
        "lm": (True, True),
    }


@pytest.mark.parametrize(("ending", "status"), [("exit 3", 3), ("kill -9 $$", None)])
def test_a_training_on_gpus_is_the_printed_command(
    ending, status, tmp_path, monkeypatch, capfd
):
    """A new program, whose end is that of the step."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "python $*"\n{ending}\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises((SystemExit, InputError)) as ended:
        run_command("asr_train", ["--seed", "1"], ngpu=2)
    printed, ran = capfd.readouterr().out.splitlines()
    assert printed == f"# {ran}" and "espnet_ext.bin.asr_train" in ran
    if status is None:
        assert "signal 9" in str(ended.value)
    else:
        assert ended.value.code == status
