"""tools/: what can be said of the set-up without installing everything again."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BARE_PATH = "/usr/local/bin:/usr/bin:/bin"


def run(
    *command: str | Path, cwd: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess:
    """Run a command with nothing of this process's environment: neither make's
    variables nor an active venv.
    """
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


def copy_tools(folder: Path) -> Path:
    """The repository's files that an install needs, without an environment."""
    (folder / "tools").mkdir(parents=True)
    for name in ("Makefile", "install.sh", "requirements.lock"):
        shutil.copy(ROOT / "tools" / name, folder / "tools" / name)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder / "tools"


@pytest.fixture(scope="module")
def bare_path(tmp_path_factory) -> str:
    """A PATH with all that this machine has, but for any Python and uv."""
    folder = tmp_path_factory.mktemp("bare_path")
    for source in BARE_PATH.split(":"):
        for program in Path(source).iterdir():
            if (
                not program.name.startswith(("python", "uv"))
                and not (folder / program.name).is_symlink()
            ):
                (folder / program.name).symlink_to(program)
    return str(folder)


@pytest.fixture
def fake_tools(tmp_path, bare_path):
    """A copy of tools/ with a stand-in for uv that notes each call and makes an
    environment in no time.
    """
    tools = copy_tools(tmp_path / "repo")
    real = f'exec {sys._base_executable} "$@"'
    write_script(tmp_path / "base" / "python3.12", real)
    uv = f"""\
case "$1" in --version|python) exit 0 ;; esac
echo "${{VIRTUAL_ENV-none}}|${{PYTHONPATH-none}}|$HOME|$*" >>{tmp_path}/calls
if [ -e {tmp_path}/broken ]; then
  rm {tmp_path}/broken
  echo 'error: connection reset' >&2
  exit 2
fi
case "$*" in
  venv*)
    mkdir -p {tools}/venv/bin
    cp {tmp_path}/base/python3.12 {tools}/venv/bin/python ;;
  *--dry-run*) [ -e {tmp_path}/index ] ;;
esac"""
    write_script(tmp_path / "bin" / "uv", uv)

    def install(
        *arguments: str, **environment: str
    ) -> tuple[subprocess.CompletedProcess, list[str]]:
        settings = {
            "PATH": f"{tmp_path}/bin:{tmp_path}/base:{bare_path}",
            "HOME": str(tmp_path),
        } | environment
        (tmp_path / "calls").write_text("")
        done = run("make", "-C", tools, "install", *arguments, cwd=tmp_path, **settings)
        return done, (tmp_path / "calls").read_text().splitlines()

    install.tools = tools
    install.folder = tmp_path
    return install


def commands(calls: list[str]) -> list[str]:
    return [line.split("|")[-1].split()[0] for line in calls]


@pytest.mark.parametrize("target", ["install", "test"])
def test_path_with_a_space_is_refused_at_once(tmp_path, target):
    tools = copy_tools(tmp_path / "my work" / "repo")
    for done in (
        run("make", "-C", tools, target),
        run("make", "-f", tools / "Makefile", target, cwd=tmp_path),
    ):
        assert done.returncode == 2
        assert "space" in done.stderr
    assert run(tools / "install.sh").returncode == 1
    assert not (tools / ".bootstrap").exists()


def test_targets_use_this_repository_from_any_folder(tmp_path):
    (tmp_path / "a b").mkdir()
    by_folder = run("make", "-n", "-C", ROOT / "tools", "test", cwd=tmp_path)
    by_file = run(
        "make", "-n", "-f", ROOT / "tools" / "Makefile", "test", cwd=tmp_path / "a b"
    )
    for done in (by_folder, by_file):
        assert done.returncode == 0, done.stderr
        assert f"'{ROOT}/tools/install.sh'" in done.stdout
        assert f"cd '{ROOT}' && '{ROOT}/tools/venv/bin/python' -m pytest" in done.stdout
    assert (
        "PYTEST-ARGUMENT"
        in run(
            "make", "-n", "-C", ROOT / "tools", "test", "ARGS=PYTEST-ARGUMENT"
        ).stdout
    )


def test_help_lists_every_target():
    listed = run("make", "-C", ROOT / "tools", "help").stdout
    makefile = (ROOT / "tools" / "Makefile").read_text().replace("\\\n", "")
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    assert "install" in targets and all(
        re.search(rf"\b{target}\b", listed) for target in targets
    )


def test_install_is_done_once_with_the_tested_versions(fake_tools):
    active = {
        "VIRTUAL_ENV": "/some/venv",
        "PYTHONPATH": "/some/path",
        "CONDA_PREFIX": "/conda",
    }
    done, calls = fake_tools(**active)
    assert done.returncode == 0, done.stderr
    assert commands(calls) == ["venv", "pip"]
    assert all(line.split("|")[:2] == ["none", "none"] for line in calls)
    assert (
        "--compile-bytecode" in calls[1]
        and f"--constraint {fake_tools.tools}/requirements.lock" in calls[1]
    )
    assert fake_tools()[1] == []


def test_what_the_environment_was_made_from_decides(fake_tools):
    """A changed file updates it; LATEST and CPU stay what they were until they are
    given again.
    """
    fake_tools()
    with (fake_tools.tools / "requirements.lock").open("a") as file:
        file.write("some-package==1.0\n")
    assert commands(fake_tools()[1]) == ["pip"]
    _, calls = fake_tools("LATEST=1")
    assert commands(calls) == ["pip"] and "--constraint" not in calls[0]
    assert fake_tools()[1] == []
    assert len(fake_tools("LATEST=0")[1]) == 1
    (fake_tools.tools / "venv" / "bin" / "python").unlink()
    assert commands(fake_tools()[1]) == ["venv", "pip"]
    assert "'yes'" in fake_tools("CPU=yes")[0].stderr


@pytest.mark.parametrize("linked", ["venv", "venv/bin"])
def test_an_environment_of_another_clone_is_left_alone(fake_tools, linked):
    other = fake_tools.folder / "other"
    (other / "bin").mkdir(parents=True)
    path = fake_tools.tools / linked
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(other if linked == "venv" else other / "bin")
    done, calls = fake_tools()
    assert done.returncode != 0 and calls == [] and str(other) in done.stderr
    assert list(other.iterdir()) == [other / "bin"] and not list(
        (other / "bin").iterdir()
    )


def clone(folder: Path) -> Path:
    """A clone with this environment by a link, and a package that can be told apart."""
    shutil.copytree(ROOT / "utils", folder / "utils")
    (folder / "tools").mkdir()
    (folder / "tools" / "venv").symlink_to(ROOT / "tools" / "venv")
    (folder / "espnet_ext").mkdir()
    (folder / "espnet_ext" / "__init__.py").write_text("")
    (folder / "espnet_ext" / "cli.py").write_text(
        "def main():\n    print('of the clone')\n"
    )
    return folder


def test_a_clone_with_a_linked_environment_imports_its_own_package(tmp_path):
    folder = clone(tmp_path / "clone")
    call = f". {folder}/utils/path.sh; espnet-ext"
    assert run("bash", "-c", call, cwd=tmp_path).stdout == "of the clone\n"
    done = run(folder / "utils" / "validate_data_dir.sh", tmp_path, cwd=tmp_path)
    assert done.stdout == "of the clone\n"
    here = f'. {ROOT}/utils/path.sh; echo "${{PYTHONPATH-none}}"'
    assert run("bash", "-c", here, cwd=tmp_path).stdout == "none\n"


def test_cdpath_leads_no_script_astray(tmp_path):
    """With it, a relative ``cd`` prints where it went, or goes to a namesake."""
    (tmp_path / "utils").mkdir()
    call = ". utils/path.sh && which espnet-ext"
    for path in (f"{tmp_path}:.", "."):
        done = run("bash", "-c", call, CDPATH=path)
        assert done.stdout == f"{ROOT}/tools/venv/bin/espnet-ext\n", done.stderr
    scripts = [*ROOT.glob("*/*.sh"), *ROOT.glob("egs/*/*.sh"), ROOT / ".ci" / "run"]
    relative = re.compile(r'\bcd "?\$\(|\$\(cd ')
    for script in scripts:
        lines = script.read_text().splitlines()
        going = [number for number, line in enumerate(lines) if relative.search(line)]
        if going:
            before = lines[: going[0]]
            assert any(line.startswith("unset CDPATH") for line in before), script


def test_failed_download_is_tried_again_and_a_failed_install_is_not_complete(
    fake_tools,
):
    fake_tools()
    (fake_tools.tools.parent / "pyproject.toml").write_text("# changed\n")
    (fake_tools.folder / "broken").touch()
    done, calls = fake_tools()
    assert (done.returncode, len(calls)) == (0, 2)
    shutil.rmtree(fake_tools.tools / "venv")
    (fake_tools.folder / "broken").touch()
    assert fake_tools()[0].returncode == 2
    assert not (fake_tools.tools / "venv" / ".installed").exists()


@pytest.mark.parametrize("reached", [True, False])
def test_cpu_build_where_its_index_answers(fake_tools, reached):
    if reached:
        (fake_tools.folder / "index").touch()
    done, calls = fake_tools("CPU=1")
    assert done.returncode == 0, done.stderr
    assert ("--torch-backend cpu" in calls[-1]) == reached and "--dry-run" not in calls[
        -1
    ]
    assert ("cannot be reached" in done.stdout) == (not reached)
    assert fake_tools()[1] == []


def test_python_is_found_behind_broken_shims_and_in_pyenv(fake_tools):
    base, versions = (
        fake_tools.folder / "base",
        fake_tools.folder / ".pyenv" / "versions",
    )
    (base / "python3.12").rename(base / "real")
    write_script(
        base / "python3.12", 'echo "pyenv: python3.12: command not found" >&2; exit 127'
    )
    _, calls = fake_tools()
    assert "--python 3.12 " in calls[0]  # uv downloads it
    shutil.rmtree(fake_tools.tools / "venv")
    (versions / "3.12.9" / "bin").mkdir(parents=True)
    shutil.copy(base / "real", versions / "3.12.9" / "bin" / "python")
    _, calls = fake_tools()
    assert f"--python {versions}/3.12.9/bin/python " in calls[0]
    shutil.rmtree(fake_tools.tools / "venv")
    done, calls = fake_tools(f"PYTHON={base}/python3.12")
    assert (done.returncode, calls) == (
        2,
        [],
    ) and f"PYTHON={base}/python3.12 is not" in done.stderr


def test_old_uv_on_the_path_is_passed_over(fake_tools):
    """It cannot read [tool.uv] of pyproject.toml, as `uv python dir` tells."""
    uv = fake_tools.folder / "bin" / "uv"
    good = fake_tools.tools / ".bootstrap" / "uv" / "bin" / "uv"
    good.parent.mkdir(parents=True)
    shutil.move(uv, good)
    write_script(uv, '[ "$1" = --version ]')
    done, calls = fake_tools()
    assert done.returncode == 0, done.stderr
    assert commands(calls) == ["venv", "pip"]


def test_downloads_go_where_they_can_be_written(fake_tools):
    assert fake_tools()[1][0].split("|")[2] == str(fake_tools.folder)
    shutil.rmtree(fake_tools.tools / "venv")
    _, calls = fake_tools(HOME=str(fake_tools.folder / "not-there"))
    assert calls[0].split("|")[2] == f"{fake_tools.tools}/.bootstrap"


def test_package_is_found_from_the_folder_that_holds_the_clone(tmp_path):
    """There, Python first finds the clone: a folder without `__init__.py`."""
    shutil.copytree(
        ROOT / "espnet_ext",
        tmp_path / "espnet_ext/espnet_ext",
        ignore=shutil.ignore_patterns("*.pyc"),
    )
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / "espnet_ext")
    build = "from setuptools.build_meta import build_editable as build; build('..')"
    assert run(sys.executable, "-c", build, cwd=tmp_path / "espnet_ext").returncode == 0
    shutil.unpack_archive(next(tmp_path.glob("*.whl")), tmp_path / "site", "zip")
    find = (
        f"import site; site.addsitedir({str(tmp_path / 'site')!r}); import "
        "espnet_ext; print(espnet_ext.__file__)"
    )
    assert run(sys.executable, "-S", "-c", find, cwd=tmp_path).stdout.endswith(
        "espnet_ext/espnet_ext/__init__.py\n"
    )
