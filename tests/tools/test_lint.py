"""The repository is clean, by the checks that `make -C tools lint` runs."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "check", ["ruff", "format", "shellcheck", "hadolint", "deptry", "mypy"]
)
def test_repository_is_clean(check):
    done = subprocess.run(
        [ROOT / "tools" / "lint.sh", check], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_lint_finds_a_fault_of_each_kind(tmp_path):
    """In an archive without git, in a script without a suffix and in a module."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "lint.sh", tmp_path / "tools")
    (tmp_path / "containers").mkdir()
    (tmp_path / "containers" / "Dockerfile").write_text("FROM debian\n")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tools" / "venv").symlink_to(ROOT / "tools" / "venv")
    (tmp_path / "go").write_text("#!/usr/bin/env bash\ncd $1\n")
    (tmp_path / "espnet_ext").mkdir()
    (tmp_path / "espnet_ext" / "bad.py").write_text(
        "import os\nimport no_such_package\nlength: int = 'a'\n"
    )
    local = tmp_path / "egs" / "recipe" / "local"
    local.mkdir(parents=True)
    (local / "helper.py").write_text("")
    (local / "plot.py").write_text(
        "import helper\n\nimport no_such_plots\n\nprint(helper, no_such_plots)\n"
    )
    done = subprocess.run(
        [tmp_path / "tools" / "lint.sh"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1
    printed = done.stdout + done.stderr
    for fault in (
        "F401",
        "DL3006",
        "would be reformatted",
        "SC2086",
        "'no_such_package'",
        "'no_such_plots'",
        "[assignment]",
    ):
        assert fault in printed
    assert "'helper'" not in printed
    assert "failed: ruff format shellcheck hadolint deptry mypy" in printed
