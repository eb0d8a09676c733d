"""The container definitions: what they copy is there, and both install the same.
Building them is CI's work.
"""

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKER = (ROOT / "containers" / "Dockerfile").read_text()
APPTAINER = (ROOT / "containers" / "espnet_ext.def").read_text()


def section(name: str) -> str:
    """A section of the Apptainer definition."""
    return re.search(rf"^%{name}\n(.*?)(?=^%|\Z)", APPTAINER, re.MULTILINE | re.DOTALL)[
        1
    ]


def test_apptainers_files_are_there_and_go_where_the_script_looks():
    pairs = [line.split() for line in section("files").splitlines() if line.strip()]
    folder = re.search(r"^\s*cd (\S+)$", section("post"), re.MULTILINE)[1]
    for source, target in pairs:
        assert (ROOT / source).exists() and target == f"{folder}/{source}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    copied = {source for source, _ in pairs}
    assert {
        "pyproject.toml",
        "setup.py",
        "README.md",  # setup.py reads it
        *project["license-files"],
        "espnet_ext",
    } <= copied
    lock = re.search(r"--constraint (\S+)", section("post"))[1]
    assert lock in copied and lock in DOCKER


def installed(text: str) -> set[str]:
    return set(re.search(r'"\.\[([\w,]+)\]"', text)[1].split(","))


def test_both_install_the_same_on_the_same_system():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert installed(DOCKER) == installed(APPTAINER) <= extras.keys()
    for each in (
        r"^From: (\S+)|^FROM (\S+)",
        r"install --yes --no-install-recommends (.*?)(?: \\)?$",
        r'("uv[^"]*")',
    ):
        found = [re.search(each, text, re.MULTILINE) for text in (DOCKER, APPTAINER)]
        first, second = (
            next(group for group in match.groups() if group) for match in found
        )
        assert first == second
    assert DOCKER.count("python:3.12") == 1


def test_no_environment_and_no_experiments_go_into_the_image():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {"tools/venv", ".git"} <= {line.strip("/") for line in ignored}
    assert any(line.startswith("egs/*/exp") for line in ignored)


def test_apptainers_script_is_one():
    for torch in ("", "cpu"):
        script = re.sub(r"\{\{ *torch *\}\}", torch, section("post"))
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)
