"""All Python and all shell of the repository is clean, by the command that `make -C tools lint` runs."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_repository_is_clean():
    done = subprocess.run([ROOT / "tools" / "lint.sh"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "shell files are clean" in done.stdout


def test_lint_finds_a_fault_in_each_language(tmp_path):
    """In an archive without git, in a script without a suffix and in a module."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "lint.sh", tmp_path / "tools")
    (tmp_path / "tools" / "venv").symlink_to(ROOT / "tools" / "venv")
    (tmp_path / "go").write_text("#!/usr/bin/env bash\ncd $1\n")
    (tmp_path / "bad.py").write_text("import os\n")
    done = subprocess.run([tmp_path / "tools" / "lint.sh"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "SC2086" in done.stdout and "F401" in done.stdout
