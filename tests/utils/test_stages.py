"""utils/stages.sh: what is skipped, what is refused, and that nothing outlives a killed script."""

import os
import signal
import subprocess
import time
from itertools import accumulate
from pathlib import Path

import pytest

STAGES = Path(__file__).parents[2] / "utils" / "stages.sh"


def script(folder: Path, body: str) -> list[str]:
    path = folder / "script.sh"
    path.write_text(f"set -euo pipefail\nstage=1 stop_stage=9\n. {STAGES}\ncd {folder}\n{body}\n")
    return ["bash", str(path)]


def run(folder: Path, body: str) -> subprocess.CompletedProcess:
    return subprocess.run(script(folder, body), capture_output=True, text=True, timeout=60, check=False)


def lines(folder: Path) -> list[str]:
    return (folder / "ran").read_text().split()


APPEND = """step --name append --log log/append.log --input in.txt --nokey "$1" -- bash -c 'echo x >>ran' {}"""


def test_a_step_runs_again_only_when_what_it_depends_on_changes(tmp_path):
    (tmp_path / "in.txt").write_text("one")
    for jobs, content, runs in (("2", "one", 1), ("4", "one", 1), ("4", "two", 2), ("4", "two", 2)):
        (tmp_path / "in.txt").write_text(content)
        result = run(tmp_path, f"set -- {jobs}\n{APPEND}")
        assert result.returncode == 0, result.stderr
        assert len(lines(tmp_path)) == runs
    assert "append: done before" in result.stdout


def test_a_missing_output_is_made_again_and_a_missing_input_refused(tmp_path):
    body = "step --name make --log log/make.log --output out -- bash -c 'echo x >>ran; touch out'"
    for expected in (1, 1):
        run(tmp_path, body)
        assert len(lines(tmp_path)) == expected
    (tmp_path / "out").unlink()
    assert run(tmp_path, body).returncode == 0 and len(lines(tmp_path)) == 2
    result = run(tmp_path, f"set -- 2\n{APPEND}")
    assert result.returncode == 1 and "in.txt is missing: run the earlier stages first" in result.stderr


def test_what_a_step_writes_itself_is_nothing_it_depends_on(tmp_path):
    body = """step --name make --log log/make.log --output out -- bash -c 'echo x >>ran; date +%N >"$1"' _ out"""
    for _ in range(2):
        assert run(tmp_path, body).returncode == 0 and len(lines(tmp_path)) == 1


def test_all_of_an_error_is_shown_and_the_beginning_of_other_long_lines(tmp_path):
    printed = f"{'x' * 400} lost\nerror: {'/long' * 100}: no such file"
    (tmp_path / "printed").write_text(printed)
    result = run(tmp_path, "step --name fail --log log/fail.log -- bash -c 'cat printed; exit 1'")
    assert result.returncode == 1
    assert f"   | {'x' * 300}\n" in result.stderr and f"{'/long' * 100}: no such file\n" in result.stderr
    assert "lost" not in result.stderr


def test_half_done_work_of_another_config_is_refused(tmp_path):
    body = "step --name train --log log/train.log --input conf --resumes exp -- bash -c 'echo x >>ran; exit 1'"
    (tmp_path / "conf").write_text("a")
    assert run(tmp_path, body).returncode == 1
    assert run(tmp_path, body).returncode == 1 and len(lines(tmp_path)) == 2
    (tmp_path / "conf").write_text("b")
    result = run(tmp_path, body)
    assert result.returncode == 1 and "rm -r exp" in result.stderr and len(lines(tmp_path)) == 2


def test_what_a_killed_run_has_logged_is_kept(tmp_path):
    body = "step --name train --log log/train.log --resumes exp -- bash -c 'echo start >>ran; wc -l <ran; exit 1'"
    for _ in range(3):
        run(tmp_path, body)
    said = [line for line in (tmp_path / "log" / "train.earlier.log").read_text().splitlines() if line[0] != "#"]
    assert said == ["1", "2"]
    assert (tmp_path / "log" / "train.log").read_text().splitlines()[-1] == "3"


def test_a_failure_shows_the_end_of_the_log_and_the_way_on(tmp_path):
    result = run(tmp_path, "step --name bad --log log/bad.log -- bash -c 'echo reason; exit 7' || exit $?")
    assert result.returncode == 7
    for text in ("bad: failed with status 7", "| reason", "log/bad.log", "run the same command again"):
        assert text in result.stderr
    assert not (tmp_path / "log" / "bad.done").exists()


def test_a_command_that_met_a_full_disk_says_so(tmp_path):
    body = """step --name write --log log/write.log -- bash -c 'echo "error: No space left on device"; exit 1'"""
    result = run(tmp_path, body)
    assert result.returncode == 1
    assert "   the disk of log is full: make room first\n" in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts a small disk")
def test_a_full_disk_is_named_before_any_work(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    try:
        body = f"""step --name append --log {disk}/log/append.log -- bash -c 'echo x >>ran'"""
        (disk / "ballast").write_bytes(bytes(1 << 20))
        result = run(tmp_path, body)
        assert result.returncode == 1 and not (tmp_path / "ran").exists()
        assert f"the disk of {disk}/log is full: make room and run the same command again" in result.stderr
        (disk / "ballast").unlink()
        assert run(tmp_path, body).returncode == 0
        assert lines(tmp_path) == ["x"]
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


@pytest.mark.parametrize("limit", [1, 2])
def test_a_failed_job_fails_the_run_and_starts_no_other(limit, tmp_path):
    body = f"""
    job() {{ step --name "$1" --log "log/$1.log" -- bash -c "echo $1 >>ran; exit $2" || return 1; }}
    run_jobs {limit} job <<<"$(printf 'a\\t1\\nb\\t0\\nc\\t0\\nd\\t0')"
    echo reached"""
    result = run(tmp_path, body)
    assert result.returncode == 1 and "reached" not in result.stdout
    assert len(lines(tmp_path)) <= limit + 1


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_all_jobs_are_over_when_run_jobs_returns(limit, tmp_path):
    # a job goes on once as many have begun as may be at work at a time
    others = f"until (( \\$(grep -c begin ran) >= {limit} )); do sleep 0.1; done"
    work = f"echo begin >>ran; {others}; sleep 0.5; echo end >>ran"
    body = f"""
    job() {{ step --name "$1" --log "log/$1.log" -- bash -c "{work}" || return 1; }}
    step --name before --log log/before.log -- true
    run_jobs {limit} job <<<"$(printf 'a\\nb\\nc')"
    wc -w <ran"""
    result = run(tmp_path, body)
    assert result.returncode == 0 and result.stdout.split()[-1] == "6"
    at_work = list(accumulate(1 if line == "begin" else -1 for line in lines(tmp_path)))
    assert max(at_work) == limit and at_work[-1] == 0


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_killed_script(limit, how, tmp_path):
    body = f"""
    job() {{ step --name "$1" --log "log/$1.log" -- bash -c "echo $1 >>ran; sleep 30.5 & sleep 30.5" || return 1; }}
    run_jobs {limit} job <<<"$(printf 'a\\nb\\nc')"\n"""
    process = subprocess.Popen(script(tmp_path, body), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not ((tmp_path / "ran").exists() and len(lines(tmp_path)) == limit) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(lines(tmp_path)) == limit
    process.send_signal(how)
    process.wait(60)
    deadline = time.monotonic() + 20  # a job that has just ended is not over at once where much is going on
    while left := [pid for pid in os.listdir("/proc") if pid.isdigit() and _works_in(pid, tmp_path)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    assert len(lines(tmp_path)) == limit


def _works_in(pid: str, folder: Path) -> bool:
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd")) == folder
    except OSError:
        return False


def test_a_second_run_waits_for_the_first_and_repeats_nothing(tmp_path):
    body = "step --name slow --log log/slow.log -- bash -c 'echo x >>ran; until [[ -e end ]]; do sleep 0.1; done'"
    first = subprocess.Popen(script(tmp_path, body), stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (tmp_path / "ran").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    second = subprocess.Popen(script(tmp_path, body), stdout=subprocess.PIPE, text=True)
    assert "another process is at work on it" in second.stdout.readline()
    (tmp_path / "end").touch()
    output, _ = second.communicate(timeout=60)
    assert first.wait(60) == 0 and second.returncode == 0
    assert "done by another run" in output
    assert len(lines(tmp_path)) == 1
