"""tools/: what can be said of the set-up without installing everything again."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BARE_PATH = "/usr/local/bin:/usr/bin:/bin"


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess:
    """Run a command with nothing of this process's environment: neither make's variables nor an active venv."""
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={"PATH": BARE_PATH, "LC_ALL": "C.UTF-8"} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def write_script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def fake_python(path: Path, answer: str) -> Path:
    """A Python that accepts the probe and names ``answer`` as its interpreter, as a pyenv shim that works does."""
    return write_script(path, f"echo {answer}")


def copy_tools(folder: Path) -> Path:
    """The repository's files that an install needs, without an environment."""
    (folder / "tools").mkdir(parents=True)
    for name in ("Makefile", "find_python.sh", "install.sh", "lint.sh", "lock.sh", "requirements.lock"):
        shutil.copy(ROOT / "tools" / name, folder / "tools" / name)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder / "tools"


@pytest.fixture(scope="module")
def bare_path(tmp_path_factory) -> str:
    """A PATH with all that this machine has, but for any Python and uv."""
    folder = tmp_path_factory.mktemp("bare_path")
    for source in BARE_PATH.split(":"):
        for program in Path(source).iterdir():
            if not program.name.startswith(("python", "uv")) and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)


@pytest.fixture
def fake_tools(tmp_path, bare_path):
    """A copy of tools/ with stand-ins for uv and Python that note each call and make an environment in no time."""
    tools = copy_tools(tmp_path / "repo")
    python = tmp_path / "base" / "python3.12"
    write_script(python, f'case "$*" in *probe*|*struct*) echo {python};; *platform*) echo 3.12.9;; esac')
    uv = f"""\
case "$1" in --version|python) exit 0 ;; esac
echo "$UV_TORCH_BACKEND|${{VIRTUAL_ENV-none}}|${{PYTHONPATH-none}}|$UV_CACHE_DIR|$*" >>{tmp_path}/calls
if [ -e {tmp_path}/broken ]; then rm {tmp_path}/broken; echo 'error: connection reset'; exit 2; fi
case "$*" in
  venv*) mkdir -p {tools}/venv/bin && cp {python} {tools}/venv/bin/python ;;
  *--dry-run*) [ -e {tmp_path}/index ] ;;
esac"""
    write_script(tmp_path / "bin" / "uv", uv)
    (tmp_path / "calls").touch()

    def install(*arguments: str, **environment: str) -> tuple[subprocess.CompletedProcess, list[str]]:
        settings = {"PATH": f"{tmp_path}/bin:{tmp_path}/base:{bare_path}", "HOME": str(tmp_path)} | environment
        (tmp_path / "calls").write_text("")
        done = run("make", "-C", tools, "install", *arguments, cwd=tmp_path, **settings)
        return done, (tmp_path / "calls").read_text().splitlines()

    install.tools = tools
    install.folder = tmp_path
    return install


@pytest.mark.parametrize("target", ["install", "demo", "test", "help"])
def test_path_with_a_space_is_refused_at_once(tmp_path, target):
    tools = copy_tools(tmp_path / "my work" / "repo")
    for done in (
        run("make", "-C", tools, target),
        run("make", "-f", tools / "Makefile", target, cwd=tmp_path),
        run("make", "-f", "../tools/Makefile", target, cwd=(tools / ".." / "tools").resolve()),
    ):
        assert done.returncode == 2
        assert "path of this repository has a space in it" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert not (tools / ".bootstrap").exists()


def test_install_script_refuses_a_space_too(tmp_path):
    done = run(copy_tools(tmp_path / "my work") / "install.sh")
    assert done.returncode == 1
    assert "has a space in it" in done.stderr


def test_targets_use_this_repository_from_any_folder(tmp_path):
    (tmp_path / "a b").mkdir()
    by_folder = run("make", "-n", "-C", ROOT / "tools", "test", cwd=tmp_path)
    by_file = run("make", "-n", "-f", ROOT / "tools" / "Makefile", "test", cwd=tmp_path / "a b")
    for done in (by_folder, by_file):
        assert done.returncode == 0, done.stderr
        assert f"'{ROOT}/tools/install.sh'" in done.stdout
        assert f"cd '{ROOT}' && '{ROOT}/tools/venv/bin/python' -m pytest" in done.stdout
    assert "PYTEST-ARGUMENT" in run("make", "-n", "-C", ROOT / "tools", "test", "ARGS=PYTEST-ARGUMENT").stdout


def test_demo_installs_checks_and_runs_in_this_order():
    lines = run("make", "-j4", "-n", "-C", ROOT / "tools", "demo").stdout
    steps = ["tools/install.sh", "espnet-ext' check", "local/demo.py"]
    positions = [lines.index(step) for step in steps]
    assert positions == sorted(positions)


@pytest.mark.parametrize("part", ["unit", "plugins", "recipes"])
def test_parts_of_the_tests_leave_out_what_has_a_target_of_its_own(part):
    selection = f"{part} and not slurm and not kill and not disk"
    printed = run("make", "-n", "-C", ROOT / "tools", part, "WORKERS=2").stdout
    assert f"-m pytest -n 2 --dist loadfile --durations=5 -m '{selection}'" in printed


def test_help_lists_every_target():
    listed = run("make", "-C", ROOT / "tools", "help").stdout
    makefile = (ROOT / "tools" / "Makefile").read_text().replace("\\\n", "")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    assert len(phony) == 19
    for target in phony:
        assert re.search(rf"\b{target}\b", listed), target


def test_ci_runs_the_test_command_of_the_readme(tmp_path):
    write_script(tmp_path / "make", 'pwd; echo "make $*"')
    done = run(ROOT / ".ci" / "run", cwd=tmp_path, PATH=f"{tmp_path}:{BARE_PATH}")
    assert done.stdout.splitlines() == [str(ROOT), "make -C tools test"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def find_python(bare_path: str, *folders: Path, **environment: str) -> subprocess.CompletedProcess:
    """Call find_python.sh with ``folders`` in front of a PATH that has no Python."""
    return run(ROOT / "tools" / "find_python.sh", PATH=":".join([*map(str, folders), bare_path]), **environment)


def test_broken_shim_on_the_path_is_passed_over(tmp_path, bare_path):
    write_script(tmp_path / "shims" / "python3.12", 'echo "pyenv: python3.12: command not found" >&2; exit 127')
    write_script(tmp_path / "shims" / "python3", "exit 1")
    fake_python(tmp_path / "second" / "python3.12", "/bin/sh")
    done = find_python(bare_path, tmp_path / "shims", tmp_path / "second")
    assert (done.returncode, done.stdout, done.stderr) == (0, "/bin/sh\n", "")


def test_newest_3_12_of_pyenv_is_taken_when_the_path_has_none(tmp_path, bare_path):
    versions = tmp_path / ".pyenv" / "versions"
    for version in ("3.12.9", "3.12.10", "3.13.2", "3.11.7"):
        python = versions / version / "bin" / "python"
        fake_python(python, str(python))
    for expected in ("3.12.10", "3.12.9", "3.13.2"):
        assert find_python(bare_path, HOME=str(tmp_path)).stdout == f"{versions}/{expected}/bin/python\n"
        shutil.rmtree(versions / expected)
    done = find_python(bare_path, HOME=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_pyenv_may_lie_elsewhere(tmp_path, bare_path):
    fake_python(tmp_path / "its root" / "versions" / "3.13.0" / "bin" / "python", "/bin/sh")
    assert find_python(bare_path, PYENV_ROOT=str(tmp_path / "its root")).stdout == "/bin/sh\n"


def test_named_python_is_the_only_candidate(tmp_path, bare_path):
    fake_python(tmp_path / "bin" / "python3.12", "/bin/sh")
    broken = write_script(tmp_path / "other", "exit 1")
    done = find_python(bare_path, tmp_path / "bin", PYTHON=str(broken))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"PYTHON={broken} is not a working Python 3.12 or 3.13" in done.stderr


def test_probe_takes_this_interpreter_and_names_the_base(bare_path):
    done = find_python(bare_path, PYTHON=sys.executable)
    found = Path(done.stdout.strip())
    assert found.is_file()
    assert not found.is_relative_to(sys.prefix) or sys.prefix == sys.base_prefix
    assert run(found, "--version").stdout.startswith(("Python 3.12", "Python 3.13"))


def test_install_is_done_once(fake_tools):
    done, calls = fake_tools()
    assert done.returncode == 0, done.stderr
    assert [line.split("|")[-1].split()[0] for line in calls] == ["venv", "pip"]
    assert "--compile-bytecode" in calls[1] and "--constraint" not in calls[1]
    assert f"{fake_tools.tools.parent}[recipes,llm,whisper,longform,stitch,dvectors,mini,report,docs,dev]" in calls[1]
    done, calls = fake_tools()
    assert calls == []
    assert "The environment is complete" in done.stdout


def test_active_environments_do_not_leak_in(fake_tools):
    _, calls = fake_tools(VIRTUAL_ENV="/some/venv", PYTHONPATH="/some/path", CONDA_PREFIX="/conda")
    assert all(line.split("|")[1:3] == ["none", "none"] for line in calls) and len(calls) == 2


def test_changed_metadata_updates_and_unfinished_install_starts_over(fake_tools):
    fake_tools()
    with (fake_tools.tools.parent / "pyproject.toml").open("a") as metadata:
        metadata.write("# changed\n")
    _, calls = fake_tools()
    assert [line.split("|")[-1].split()[0] for line in calls] == ["pip"]
    (fake_tools.tools / "venv" / ".installed").unlink()
    (fake_tools.tools / "venv" / "half-installed").touch()
    _, calls = fake_tools()
    assert [line.split("|")[-1].split()[0] for line in calls] == ["venv", "pip"]
    assert not (fake_tools.tools / "venv" / "half-installed").exists()


def test_moved_repository_or_lost_interpreter_starts_over(fake_tools):
    fake_tools()
    stamp = fake_tools.tools / "venv" / ".installed"
    stamp.write_text(stamp.read_text().replace("place /", "place /elsewhere/"))
    assert len(fake_tools()[1]) == 2
    (fake_tools.tools / "venv" / "bin" / "python").unlink()
    assert len(fake_tools()[1]) == 2


def test_what_takes_long_is_named(fake_tools):
    """One package is built long after another is done."""
    lines = ["Resolved 3 packages", "   Building slow==1", "   Building fast==2", "      Built fast==2"]
    command = "; ".join([*(f"echo '{line}'" for line in lines), "sleep 6"])
    with (fake_tools.folder / "bin" / "uv").open("a") as uv:
        uv.write(f'case "$*" in *--editable*) {command} ;; esac\n')
    done, _ = fake_tools()
    assert done.returncode == 0, done.stderr
    assert re.search(r"^  packages: \d+ s, building slow==1$", done.stdout, re.MULTILINE), done.stdout


def test_failed_download_is_tried_again(fake_tools):
    fake_tools()
    (fake_tools.tools.parent / "pyproject.toml").write_text("# changed\n")
    (fake_tools.folder / "broken").touch()
    done, calls = fake_tools()
    assert done.returncode == 0
    assert len(calls) == 2
    assert "error: connection reset" in done.stderr and "attempt 2 of 3" in done.stdout


def test_cpu_build_where_its_index_answers(fake_tools):
    (fake_tools.folder / "index").touch()
    done, calls = fake_tools("CPU=1")
    assert done.returncode == 0, done.stderr
    assert calls[-1].startswith("cpu|")
    assert fake_tools()[1] == []  # left open, it stays what it is
    assert len(fake_tools("CPU=0")[1]) == 2


def test_cpu_build_falls_back_and_says_so(fake_tools):
    done, calls = fake_tools("CPU=1")
    assert done.returncode == 0, done.stderr
    assert calls[-1].startswith("|") and "--dry-run" not in calls[-1]
    assert "its index cannot be reached from here" in done.stdout
    assert fake_tools("CPU=1")[1] == []
    assert "CPU takes 0 or 1, not 'yes'" in fake_tools("CPU=yes")[0].stderr


def test_locked_versions_are_constraints(fake_tools):
    done, calls = fake_tools("LOCKED=1")
    assert done.returncode == 0, done.stderr
    lock = fake_tools.tools / "requirements.lock"
    assert f"--constraint {lock}" in calls[1]
    assert fake_tools()[1] == []  # left open, it stays what it is
    with lock.open("a") as file:
        file.write("some-package==1.0\n")
    _, calls = fake_tools()
    assert len(calls) == 1 and "--constraint" in calls[0]
    _, calls = fake_tools("LOCKED=0")
    assert len(calls) == 1 and "--constraint" not in calls[0]
    assert "LOCKED takes 0 or 1, not 'yes'" in fake_tools("LOCKED=yes")[0].stderr


def test_environment_of_an_older_stamp_is_updated(fake_tools):
    fake_tools()
    stamp = fake_tools.tools / "venv" / ".installed"
    stamp.write_text("".join(line for line in stamp.open() if not line.startswith("locked ")))
    _, calls = fake_tools()
    assert [line.split("|")[-1].split()[0] for line in calls] == ["pip"]


def test_old_uv_on_the_path_is_passed_over(fake_tools):
    """It cannot read [tool.uv] of pyproject.toml, as `uv python dir` tells."""
    uv = fake_tools.folder / "bin" / "uv"
    good = fake_tools.tools / ".bootstrap" / "uv" / "bin" / "uv"
    good.parent.mkdir(parents=True)
    shutil.move(uv, good)
    write_script(uv, '[ "$1" = --version ]')
    done, calls = fake_tools()
    assert done.returncode == 0, done.stderr
    assert len(calls) == 2


def test_cache_goes_where_it_can_be_written(fake_tools):
    _, calls = fake_tools()
    assert calls[0].split("|")[3] == f"{fake_tools.folder}/.cache/uv"
    shutil.rmtree(fake_tools.tools / "venv")
    (fake_tools.folder / "a-file").touch()
    _, calls = fake_tools(HOME=str(fake_tools.folder / "a-file"))
    assert calls[0].split("|")[3] == f"{fake_tools.tools}/.bootstrap/cache/uv"


def test_no_python_is_a_clear_error(fake_tools):
    write_script(fake_tools.folder / "base" / "python3.12", "exit 1")
    (fake_tools.folder / "broken").touch()
    done, calls = fake_tools()
    assert done.returncode == 2
    assert "--python 3.12" in calls[0]
    assert "error: there is no Python 3.12 or 3.13 on PATH or in pyenv's versions" in done.stderr
    assert not (fake_tools.tools / "venv" / ".installed").exists()
