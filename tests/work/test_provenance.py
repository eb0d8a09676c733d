import platform
import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from espnet_ext.work.provenance import collect_meta


def test_meta(tmp_path: Path):
    meta = collect_meta("./run.sh", tmp_path)
    assert meta["command"] == "./run.sh"
    assert meta["versions"]["python"] == platform.python_version()
    assert meta["versions"]["torch"] == version("torch")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", meta["date"])
    assert (
        meta["hardware"]["cores"] >= 1
        and meta["hardware"]["memory_gib"] > 0
        and meta["hardware"]["cpu"]
    )


@pytest.mark.parametrize(
    ("instructions", "command"),
    [("avx2", "./run.sh"), ("all", "CPU_INSTRUCTIONS=all ./run.sh")],
)
def test_a_run_by_other_instructions_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instructions: str, command: str
):
    monkeypatch.setenv("CPU_INSTRUCTIONS", instructions)
    assert collect_meta("./run.sh", tmp_path)["command"] == command


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert collect_meta("", tmp_path)["git"] is None

    def git(*words: str) -> str:
        name = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.run(
            ["git", "-C", tmp_path, *name, *words],
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    git("init")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "first")
    assert collect_meta("", tmp_path)["git"] == {
        "commit": git("rev-parse", "HEAD").strip(),
        "dirty": False,
    }
    (tmp_path / "file").write_text("2")
    assert collect_meta("", tmp_path)["git"]["dirty"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize(
    ("name", "counts"),
    [("rescored/text", False), ("my.yaml", False), ("a/new.py", True)]
    + [("egs/r/conf/mini_own.yaml", True)],
)
def test_new_files_count_where_a_run_reads_them(tmp_path: Path, name: str, counts):
    for words in (
        ["init"],
        ["-c", "user.name=a", "-c", "user.email=a@b"]
        + ["commit", "--allow-empty", "-m", "first"],
    ):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    below = tmp_path / "egs" / "r" / "conf"
    below.mkdir(parents=True)
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    assert collect_meta("", below.parent)["git"]["dirty"] is counts
