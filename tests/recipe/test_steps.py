"""Steps: what is skipped, what is refused, that a failure ends the run, and that
nothing outlives a killed one.
"""

import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import psutil
import pytest

# The functions that steps call, in a module that a script beside it imports.
FUNCTIONS = """
import os, subprocess, sys, time
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.recipe.steps import Step, run_jobs, run_steps


def append(word="x", output=None, nj=1, files=(), status=0):
    with open("ran", "a") as file:
        file.write(word + chr(10))
    if output:
        Path(output).write_text(str(time.time_ns()))


def count():
    append()
    print(len(Path("ran").read_text().split()))
    sys.exit(1)


def append_after(pid_file, word):
    append(word)
    pid = Path(pid_file)
    while not pid.exists() or Path("/proc", pid.read_text()).exists():
        time.sleep(0.01)


def fail(text="", status=7, error=None, pid_file=None):
    if pid_file:
        Path("writing").write_text(str(os.getpid()))
        os.replace("writing", pid_file)
    append()
    print(text)
    if error:
        raise error
    sys.exit(status)


def warn(count):
    for number in range(count):
        print(f"warning: {number} was left out", file=sys.stderr)


def two_processes():
    subprocess.Popen(["sleep", "30.5"])
    append()
    subprocess.run(["sleep", "30.5"])


def wait_for_others(limit):
    append("begin")
    while Path("ran").read_text().split().count("begin") < limit:
        time.sleep(0.05)
    time.sleep(0.3)
    append("end")


def wait_for_end():
    append()
    while not Path("end").exists():
        time.sleep(0.05)


def kill():
    os.kill(os.getpid(), 9)


def see(ngpu=0):
    import heavy
    print(os.environ.get("CUDA_VISIBLE_DEVICES", "all"), heavy.LOADED_BY)


def step(name, function, *, log="log", **settings):
    path = Path(log) / (name + ".log")
    return Step(name=name, log=path, function=function, **settings)
"""


def script(folder: Path, body: str) -> list[str]:
    (folder / "functions.py").write_text(FUNCTIONS)
    path = folder / "script.py"
    head = (
        "from functions import *\nfrom espnet_ext.command import run_main\ndef "
        "main():\n"
    )
    path.write_text(
        head
        + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
        + "\nif __name__ == '__main__':\n    run_main(main)\n"
    )
    return [sys.executable, str(path)]


def run(folder: Path, body: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        script(folder, body),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(),
    )


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONUNBUFFERED": "1"}


def lines(folder: Path) -> list[str]:
    return (folder / "ran").read_text().split()


def test_a_step_runs_again_only_when_what_it_depends_on_changes(tmp_path):
    """The file ``ran`` gets a line for each call that was not done before, under the
    same name.
    """
    files, made = (
        'arguments={"files": [{"a": Path("in.txt")}]}',
        'arguments={"output": "out"}, outputs=[Path("out")]',
    )
    calls = [
        ("", "append", 1),
        ("", 'append, free={"nj": 2}', 1),
        ("", 'append, arguments={"word": "y"}', 2),
        ("", 'append, depends="other files"', 3),
        ("", 'append, arguments={"status": 0}', 4),
        ("", 'fail, arguments={"status": 0}', 5),
        ("", f"append, {files}", 6),
        ("", f"append, {files}", 6),
        ('Path("in.txt").write_text("two")', f"append, {files}", 7),
        ("", 'append, inputs=[Path("in.txt")]', 8),
        ('Path("in.txt").write_text("three")', 'append, inputs=[Path("in.txt")]', 9),
        ("", f"append, {made}", 10),
        ("", f"append, {made}", 10),
        ('Path("out").unlink()', f"append, {made}", 11),
    ]
    show = "print('after it', len(Path('ran').read_text().split()))"
    body = [
        f'{before}\nrun_steps(step("append", {call}))\n{show}'
        for before, call, _ in calls
    ]
    (tmp_path / "in.txt").write_text("one")
    result = run(
        tmp_path,
        "\n".join(
            [*body, 'run_steps(step("append", append, inputs=[Path("none.txt")]))']
        ),
    )
    assert (
        result.returncode == 1
        and "none.txt is missing: run the earlier stages first" in result.stderr
    )
    found = [
        int(line.split()[-1])
        for line in result.stdout.splitlines()
        if line.startswith("after it")
    ]
    assert (
        found == [runs for _, _, runs in calls]
        and "append: done before" in result.stdout
    )


TRAIN = """run_steps(step("train", fail, arguments={"text": "--lr"},
    inputs=[Path("exp/conf.yaml"), Path("exp/data")], resumes=Path("exp/train")))"""


def begin_training(folder: Path) -> None:
    """Leave a training that has failed after its first epoch."""
    (folder / "exp").mkdir()
    (folder / "exp" / "conf.yaml").write_text("optim_conf: {lr: 0.5, eps: 1}")
    (folder / "exp" / "data").write_text("a")
    assert run(folder, TRAIN).returncode == 1
    (folder / "exp" / "train" / "checkpoint.pth").touch()
    assert run(folder, TRAIN).returncode == 1 and len(lines(folder)) == 2


def refusal(folder: Path) -> str:
    """Return the last line of a run that must not call the step's function."""
    before = lines(folder)
    result = run(folder, TRAIN)
    assert result.returncode == 1 and lines(folder) == before
    return result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("file", "content", "named", "not_named"),
    [
        (
            "exp/conf.yaml",
            "optim_conf: {lr: 0.25, eps: 1}",
            ("exp/conf.yaml: optim_conf.lr 0.5, now 0.25", "rm -r exp/train"),
            ("eps",),
        ),
        ("exp/data", "b", ("exp/data has changed", "rm -r exp/train"), ("conf.yaml",)),
    ],
)
def test_what_differs_is_named_before_a_training_is_given_up(
    file, content, named, not_named, tmp_path
):
    begin_training(tmp_path)
    (tmp_path / file).write_text(content)
    said = refusal(tmp_path)
    assert all(text in said for text in named)
    assert not any(text in said for text in not_named)


def test_a_training_without_a_checkpoint_begins_again_with_another_config(tmp_path):
    begin_training(tmp_path)
    (tmp_path / "exp" / "train" / "checkpoint.pth").unlink()
    (tmp_path / "exp" / "conf.yaml").write_text("optim_conf: {lr: 0.25}")
    assert run(tmp_path, TRAIN).returncode == 1 and len(lines(tmp_path)) == 3


def test_a_note_of_an_earlier_version_is_named(tmp_path):
    begin_training(tmp_path)
    note = tmp_path / "exp" / "train" / ".begun.json"
    note.write_text('{"key": "0"}')
    assert "rm exp/train/.begun.json" in refusal(tmp_path)
    note.unlink()
    assert run(tmp_path, TRAIN).returncode == 1 and len(lines(tmp_path)) == 3


def test_a_folder_by_another_name_is_the_same(tmp_path):
    body = """
    folder = Path(FOLDER)
    with named_folders({"EXPDIR": [*list_spellings(folder), *OLD]}):
        run_steps(step(
            "train", append,
            log=folder / "log",
            arguments={"word": str(folder / "x"), "files": [f"--config={folder}/x"]},
            inputs=[folder / "conf.yaml"],
        ))
    """
    (tmp_path / "exp" / "a").mkdir(parents=True)
    conf = tmp_path / "exp" / "a" / "conf.yaml"
    conf.write_text("stats_file: exp/a/stats/x.npz\nother: exp/a.b/x")
    head = "from espnet_ext.recipe.step_keys import list_spellings, named_folders\n"

    def call(name: object, old: object = ()) -> str:
        values = f"FOLDER, OLD = {str(name)!r}, {old!r}\n"
        result = run(tmp_path, head + values + textwrap.dedent(body))
        assert result.returncode == 0, result.stderr
        return result.stdout

    assert "done before" not in call("exp/a")
    for same in ("exp/a", tmp_path / "exp" / "a", f"{tmp_path}/exp/../exp/a"):
        assert "done before" in call(same)
    (tmp_path / "exp" / "a").rename(tmp_path / "exp" / "b")
    assert "done before" in call("exp/b", ("exp/a",))
    (tmp_path / "exp" / "b" / "conf.yaml").write_text("other: exp/a/x")
    assert "done before" not in call("exp/b", ("exp/a",))


def test_what_a_killed_run_has_logged_is_kept(tmp_path):
    for _ in range(3):
        run(tmp_path, 'run_steps(step("train", count, resumes=Path("exp")))')
    said = [
        line
        for line in (tmp_path / "log" / "train.earlier.log").read_text().splitlines()
        if line[0] != "#"
    ]
    assert [line for line in said if line.isdigit()] == ["1", "2"]
    assert [
        line
        for line in (tmp_path / "log" / "train.log").read_text().splitlines()
        if line.isdigit()
    ] == ["3"]


@pytest.mark.parametrize(
    ("call", "how", "reason"),
    [
        ('fail, arguments={"text": "reason"}', "failed with status 1", "reason"),
        (
            'fail, arguments={"error": ValueError("reason")}',
            "failed with status 1",
            "error: ValueError: reason",
        ),
        (
            'fail, arguments={"error": OSError(2, "reason", "file")}',
            "failed with status 1",
            "error: reason: file",
        ),
        ("kill", "killed by signal 9", ""),
    ],
)
def test_a_failure_shows_the_end_of_the_log_and_the_way_on(call, how, reason, tmp_path):
    result = run(
        tmp_path,
        f'run_steps(step("bad", {call}), step("next", append, arguments={{"word": '
        f'"next"}}))',
    )
    assert result.returncode == 1
    for text in (
        f"bad: {how}",
        f"| {reason}" if reason else "",
        "log/bad.log",
        "run the same command again",
    ):
        assert text in result.stderr
    assert result.stderr.endswith("error: bad: failed\n")
    assert (
        not (tmp_path / "log" / "bad.done").exists()
        and not (tmp_path / "log" / "next.log").exists()
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts a small disk")
def test_a_full_disk_is_named_before_any_work(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True
    ).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    try:
        body = f'run_steps(step("append", append, log="{disk}/log"))'
        (disk / "ballast").write_bytes(bytes(1 << 20))
        result = run(tmp_path, body)
        assert result.returncode == 1 and not (tmp_path / "ran").exists(), result.stderr
        assert (
            f"the disk of {disk}/log is full: make room and run the same command again"
            in result.stderr
        )
        (disk / "ballast").unlink()
        assert run(tmp_path, body).returncode == 0
        assert lines(tmp_path) == ["x"]
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.parametrize(
    ("visible", "settings", "lanes", "seen", "new"),
    [
        ("", "", "", "", False),
        ("", "free={'ngpu': 1}", "", "", False),
        ("3,5", "free={'ngpu': 1}", "", "3,5", True),
        ("3,5", "free={'ngpu': 1}", "('5',)", "5", True),
        ("3,5", "arguments={'ngpu': 1}", "('5',)", "5", True),
        ("3,5", "", "('5',)", "", True),
        (None, "", "", "", True),
        (None, "free={'ngpu': 1}", "", "all", True),
    ],
)
def test_where_gpus_are_seen_steps_are_new_processes_that_see_their_own(
    visible, settings, lanes, seen, new, tmp_path
):
    """``heavy`` stands for ESPnet, which starts CUDA in the process that loads it."""
    (tmp_path / "heavy.py").write_text("import os\nLOADED_BY = os.getpid()\n")
    given = "" if visible is None else f"os.environ[name] = {visible!r}"
    body = f"""
    name = "CUDA_VISIBLE_DEVICES"
    os.environ.pop(name, None)
    {given}
    run_jobs([[step("a", see, preload=["heavy"], {settings})]], lanes=[{lanes}])
    print("heavy" in sys.modules, os.environ.get(name))"""
    result = run(tmp_path, body)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == f"{not new} {visible}"
    said = (tmp_path / "log" / "a.log").read_text().splitlines()[-1]
    assert said.rpartition(" ")[0] == seen


@pytest.mark.parametrize("limit", [1, 2])
def test_a_failed_job_fails_the_run_and_starts_no_other(limit, tmp_path):
    body = f"""
    bad = [step("a", fail, arguments={{"pid_file": "a.pid"}})]
    def good_job(name):
        arguments = {{"word": name, "pid_file": "a.pid"}}
        return [step(name, append_after, arguments=arguments)]

    good = map(good_job, "bcd")
    run_jobs([bad, *good], {limit})
    print("reached")"""
    result = run(tmp_path, body)
    assert (
        result.returncode == 1
        and "reached" not in result.stdout
        and "a: failed" in result.stderr
    )
    assert len(lines(tmp_path)) == limit, (
        "the job beside the one that failed was waited for, and no other started"
    )


def test_an_exception_between_the_steps_of_a_job_ends_the_run(tmp_path):
    body = """
    def chain(name):
        yield step(name, append, arguments={"word": name})
        if name == "b":
            raise InputError("this config is wrong")
        yield step(name + "2", append, arguments={"word": name})
    run_jobs([chain("a"), chain("b"), chain("c")], 1)
    print("reached")"""
    result = run(tmp_path, body)
    assert result.returncode == 1 and result.stderr.endswith(
        "error: this config is wrong\n"
    )
    assert "reached" not in result.stdout and "c" not in lines(tmp_path)


@pytest.mark.parametrize("limit", [1, 2])
def test_all_jobs_are_over_when_run_jobs_returns(limit, tmp_path):
    # a job continues once as many have started as may run at the same time
    body = f"""
    limit = {{"limit": {limit}}}
    jobs = [[step(name, wait_for_others, arguments=limit)] for name in "abcd"]
    run_jobs(jobs, {limit})
    print(len(Path("ran").read_text().split()))"""
    result = run(tmp_path, body)
    assert result.returncode == 0 and int(result.stdout.split()[-1]) == 8, result.stderr
    at_work = list(accumulate(1 if line == "begin" else -1 for line in lines(tmp_path)))
    assert max(at_work) == limit and at_work[-1] == 0


@pytest.mark.parametrize(
    ("how", "limit", "shell"),
    [
        (signal.SIGKILL, 1, False),
        (signal.SIGKILL, 2, True),
        (signal.SIGTERM, 2, False),
        (signal.SIGINT, 2, False),
    ],
)
def test_nothing_outlives_a_killed_run_or_its_shell(how, limit, shell, tmp_path):
    body = f"run_jobs([[step(name, two_processes)] for name in 'abc'], {limit})"
    command = script(tmp_path, body)
    process = subprocess.Popen(
        ["bash", "-c", f"{shlex.join(command)}; true"] if shell else command,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # the background processes of a shell, as these tests may be, ignore SIGINT
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    wait_until(lambda: (tmp_path / "ran").exists() and len(lines(tmp_path)) == limit)
    process.send_signal(how)
    process.wait(60)
    wait_until(
        lambda: (
            not any(
                _works_in(pid, tmp_path) for pid in os.listdir("/proc") if pid.isdigit()
            )
        )
    )
    assert len(lines(tmp_path)) == limit


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _works_in(pid: str, folder: Path) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd")) == folder
    except OSError:
        return False


def test_a_second_run_waits_for_the_first_and_repeats_nothing(tmp_path):
    command = script(tmp_path, 'run_steps(step("slow", wait_for_end))')
    first = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    wait_until((tmp_path / "ran").exists)
    second = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert second.stdout is not None
    assert "another process is running it" in second.stdout.readline()
    (tmp_path / "end").touch()
    output, _ = second.communicate(timeout=60)
    assert first.wait(60) == 0 and second.returncode == 0
    assert "done by another run" in output
    assert len(lines(tmp_path)) == 1


def test_a_stage_ends_at_once_with_its_shell(tmp_path):
    """Even while it does nothing that looks at its parent, such as a long import."""
    (tmp_path / "stage.py").write_text(
        "import time\n"
        "from espnet_ext.recipe.guard import end_at_once_with_parent\n"
        "end_at_once_with_parent()\n"
        "print('begun', flush=True)\n"
        "time.sleep(60)\n"
    )
    command = f"{sys.executable} {tmp_path / 'stage.py'} & echo $!; wait"
    shell = subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, text=True)
    stage = psutil.Process(int(shell.stdout.readline()))
    assert shell.stdout.readline() == "begun\n"
    shell.kill()
    shell.wait()
    stage.wait(10)


def test_a_stage_whose_shell_was_killed_before_it_could_look_does_nothing(tmp_path):
    command = [
        sys.executable,
        "-m",
        "espnet_ext.cli",
        "run",
        "data",
        f"--recipe={tmp_path}",
    ]
    shell = subprocess.Popen(["true"])
    shell.wait()
    gone = environment() | {"ESPNET_EXT_SHELL": str(shell.pid)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=gone
    )
    assert done.returncode == 1
    assert "the command that started this stage was killed" in done.stderr
