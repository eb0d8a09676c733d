"""Commands that ``train_cmd`` starts: by prefixes, and by stand-ins of Kaldi's
wrappers, whose log is whatever comes first.
"""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from kaldi_stand_in import read_calls, write_wrapper

from espnet_ext.errors import InputError
from espnet_ext.recipe.call import launch_call
from espnet_ext.work import supervise
from espnet_ext.work.launch import (
    check_launcher,
    is_kaldi_wrapper,
    quote_word,
    run_launched,
    split_words,
)

ODD = [
    "a b",
    "it's",
    '"x"',
    "$HOME",
    "`id`",
    "$(id)",
    "é+",
    "a\tb",
    "",
    "*",
    "JOB",
    "\\",
]
ECHO = "import sys; print(sys.argv[1:])"
KALDI = ("run.pl", "queue.pl", "slurm.pl", "pbs.pl", "ssh.pl")


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["run.pl", "queue.pl"])
def test_a_wrapper_gets_a_log_and_the_command_all_its_words(name, here, capfd):
    wrapper = write_wrapper(here / "utils", name)
    launch = [str(wrapper), "--gpu", "1", "-V", "-pe", "smp", "2"]
    log = here / "exp" / "log" / "train.launched.log"
    check_launcher(launch, "train_cmd", here / "exp")
    run_launched(launch, log, ["-c", ECHO, *ODD])
    (call,) = read_calls(wrapper)
    assert call.startswith("=1:1 exp/log/train.launched.log exp/log/python -c ")
    assert str(ODD) in log.read_text(), "each word as it was"
    assert str(ODD) in capfd.readouterr().out, "the step's log has it, too"


@pytest.mark.parametrize(
    "launch", [["env", "X=a b"], ["nice", "-n", "1", "env", "X=a b"]]
)
def test_a_prefix_runs_the_command(launch, here, capfd):
    check_launcher(launch, "train_cmd", here)
    code = "import os, sys; print(os.environ['X'], sys.argv[1:])"
    run_launched(launch, here / "train.launched.log", ["-c", code, *ODD])
    assert f"a b {ODD}" in capfd.readouterr().out
    assert not (here / "train.launched.log").exists()


def test_a_prefix_before_a_wrapper_has_a_log(here):
    wrapper = write_wrapper(here)
    launch = ["env", "X=1", str(wrapper), "--mem", "2G"]
    check_launcher(launch, "train_cmd", here)
    run_launched(launch, here / "a.log", ["-c", "print(1)"])
    assert "\n1\n" in (here / "a.log").read_text()


@pytest.mark.parametrize("launch", [["queue.pl", "--gpu", "1"], ["env", "X=1"]])
def test_a_command_that_fails_is_an_error_with_its_output(launch, here, capfd):
    write_wrapper(here)
    launch = [str(here / launch[0]) if launch[0] == "queue.pl" else "env", *launch[1:]]
    with pytest.raises(InputError, match="status"):
        run_launched(launch, here / "a.log", ["-c", "raise SystemExit('no memory')"])
    shown = capfd.readouterr()
    assert "no memory" in shown.out + shown.err


def test_a_wrapper_of_another_name_overwrites_no_interpreter(here):
    """It is taken for a prefix, so it takes the program for its log."""
    wrapper = write_wrapper(here, "my_queue")
    before = Path(sys.executable).resolve().stat().st_size
    with pytest.raises(InputError, match="my_queue"):
        run_launched([str(wrapper)], here / "log" / "a.log", ["-c", "print(1)"])
    assert Path(sys.executable).resolve().stat().st_size == before
    assert "# Started" in (here / "log" / "python").read_text()


@pytest.mark.parametrize("name", KALDI)
def test_what_a_wrapper_would_take_for_its_log_is_refused(name, here):
    """Each of these makes the real ones write over the program, or another file."""
    wrapper = str(write_wrapper(here, name))
    for words in (
        [wrapper, "--gpu"],
        [wrapper, "-pe", "smp"],
        [wrapper, "--mem", "2G", "my.log"],
        [wrapper, "JOB=1:4"],
        [wrapper, "1"],
    ):
        with pytest.raises(InputError, match="train_cmd"):
            check_launcher(words, "train_cmd", here)
    for words in ([wrapper], [wrapper, "-V"], [wrapper, "-l", "a=1", "--gpu", "0"]):
        check_launcher(words, "train_cmd", here)


def test_what_cannot_be_started_is_refused(here):
    (here / "queue.pl").write_text("no program")
    (here / "data.yaml").write_text("env: slurm")
    for words in (
        ["nosuchprogram", "-x"],
        ["./queue.pl"],
        ["none/queue.pl", "--gpu", "1"],
        ["./data.yaml"],
        ["env", "X=1", "./queue.pl"],
        ["X=1", "env"],
        [str(here)],
    ):
        with pytest.raises(InputError, match="train_cmd"):
            check_launcher(words, "train_cmd", here)
    with pytest.raises(InputError, match="train_cmd"):
        split_words("srun 'a", "train_cmd")
    assert not is_kaldi_wrapper(["srun", "--mem", "2G"])


def test_paths_that_bash_would_cut_are_refused(here, monkeypatch):
    queue, run = str(write_wrapper(here)), str(write_wrapper(here, "run.pl"))
    with pytest.raises(InputError, match="a b"):
        check_launcher([run], "train_cmd", here / "a b")
    odd = here / "a b"
    odd.mkdir()
    monkeypatch.chdir(odd)
    check_launcher([run], "train_cmd", odd / "exp")
    run_launched([run], odd / "exp" / "a.log", ["-c", ECHO, *ODD])
    assert str(ODD) in (odd / "exp" / "a.log").read_text()
    with pytest.raises(InputError, match="a b"):
        check_launcher([queue], "train_cmd", odd / "exp")


def test_words_are_read_back_by_bash_and_not_run_by_a_here_document(tmp_path):
    for word in ODD:
        quoted = quote_word(word)
        assert not set(quoted) & set(" \t`") and "$(" not in quoted
        read = subprocess.run(
            ["bash", "-c", f"printf %s {quoted}"], capture_output=True, check=True
        )
        assert read.stdout.decode() == word


def test_what_a_launcher_has_started_ends_with_the_step(here):
    """A killed step cannot end it, so its supervisor does, after cancelling jobs."""
    (here / "train.pl").write_text(
        f"#!/bin/bash\ntrap 'touch {here}/cancelled; exit 1' TERM\n"
        f"touch {here}/begun\nwhile :; do sleep 0.1; done\n"
    )
    (here / "train.pl").chmod(0o755)
    code = (
        "from pathlib import Path; from espnet_ext.work.launch import run_launched; "
        f"run_launched(['{here}/train.pl'], Path('a.log'), ['-c', ''])"
    )
    step = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    wait_for(here / "begun")
    os.killpg(step.pid, signal.SIGKILL)
    step.wait()
    wait_for(here / "cancelled")


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.05)


def test_a_supervised_command_has_its_status():
    command = [sys.executable, "-I", supervise.__file__, "sh", "-c"]
    for shell, status in (("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)):
        assert subprocess.run([*command, shell], check=False).returncode == status


def fail(text: str) -> None:
    raise InputError(f"{text}: bad input")


@pytest.mark.parametrize("name", ["run.pl", "env"])
def test_a_call_is_made_in_a_process_of_the_launcher(name, here, capfd):
    launch = [name] if name == "env" else [str(write_wrapper(here, name))]
    launch_call(partial(print, "it's", "done"), launch, here / "a.log")
    assert "it's done" in capfd.readouterr().out
    with pytest.raises(InputError, match="status 1"):
        launch_call(partial(int, "x"), launch, here / "b.log")
    shown = capfd.readouterr()
    assert "ValueError" in shown.out + shown.err
