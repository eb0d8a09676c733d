"""The source archive: what is in it, and its description, whose links are absolute."""

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CITATION.cff",
    "espnet_ext/__init__.py",
)


def test_source_archive(tmp_path):
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_one.py").touch()
    build = "from setuptools.build_meta import build_sdist as build; build('.')"
    command = [sys.executable, "-c", build]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        folder = path.name.removesuffix(".tar.gz")
        text = archive.extractfile(f"{folder}/PKG-INFO").read().decode()
    assert set(FILES) <= names
    assert not any(name.startswith("tests") for name in names)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(links) > 20
    assert [each for each in links if not each.startswith(("https://", "#"))] == []
