"""Steps that train: how far they are, which epochs are averaged, what a launcher gets."""

import shlex
import sys
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.recipe.training import averaged, data_options, run_command, token_options, train_progress

TIMES = "iter_time=0.205, forward_time=0.153"


@pytest.mark.parametrize(
    ("losses", "shown"),
    [
        ("loss_ctc=294.826, loss=294.826, backward_time=0.122", "loss=294.826"),
        ("loss_ctc=9.1, loss_att=8e-05, acc=0.315, loss=1.2e-04, optim0_lr0=1e-05", "acc=0.315, loss=1.2e-04"),
        ("loss_att=87.342, acc=0.013loss=99.175, backward_time=0.062", "acc=0.013, loss=99.175"),
    ],
)
def test_the_last_batch_is_shown(losses, shown, tmp_path):
    log = tmp_path / "train.log"
    lines = [
        f"[host] 2026-01-01 00:00:00,1 (trainer:816) INFO: {n}epoch:train:1-{5 * n}batch: {TIMES}, {losses}\n"
        for n in (2, 13)
    ]
    log.write_text("# a command\n" + "x" * 30000 + "\n" + "".join(lines) + "saved\n")
    assert train_progress(log) == f"epoch 13, batch 65, {shown}"
    log.write_text("# a command\nloading\n")
    assert train_progress(log) == ""


def test_epochs_to_average():
    assert averaged("best:5") == "best5.ave.pth" and averaged("last:10") == "last10.ave.pth"
    for which in ("best", "best:0", "all:3", "best:5:6", "best:-1", ""):
        with pytest.raises(InputError, match="--average takes best:N or last:N"):
            averaged(which)


def test_options_of_espnet():
    folder = Path("tokens")
    for kind in ("bpe", "unigram", "mixed"):
        assert token_options(folder, kind)[2:] == ["--token_type", "bpe", "--bpemodel", "tokens/bpe.model"]
    assert token_options(folder, "char") == ["--token_list", "tokens/tokens.txt", "--token_type", "char"]
    assert data_options("valid", [(Path("a/text"), "text", "text")]) == [
        "--valid_data_path_and_name_and_type",
        "a/text,text,text",
    ]


@pytest.mark.parametrize("status", [0, 3])
def test_a_launcher_starts_the_command_with_all_its_options(status, tmp_path, capfd):
    """As ``train_cmd="srun --nodes 2"`` would; each word reaches it, and the log begins with all of them."""
    launcher = tmp_path / "launch.py"
    launcher.write_text(
        f"import sys, pathlib\npathlib.Path('words').write_text('|'.join(sys.argv[1:]))\nsys.exit({status})\n"
    )
    words = tmp_path / "words"
    program = [sys.executable, str(launcher), "--nodes", "a b"]

    def run() -> None:
        run_command("asr_train", ["--seed", "1"], launch=program, more=["--dist", "true"], ngpu=2)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        if status:
            with pytest.raises(InputError, match="has ended with status 3"):
                run()
        else:
            run()
    expected = ["--nodes", "a b", sys.executable, "-m", "espnet_ext.bin.asr_train", "--dist", "true", "--ngpu", "2"]
    assert words.read_text().split("|") == [*expected, "--seed", "1"]
    expected[2] = "python"
    assert shlex.split(capfd.readouterr().out)[3:] == [*expected, "--seed", "1"]
