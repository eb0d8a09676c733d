"""The first pages run as they stand on examples/: README's block, first_steps.md,
other_toolkits.md and the notebooks.

All in one process, in a folder with a space in its name: importing ESPnet takes longer
than most of the commands.
"""

import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from espnet_ext.cli.program import call

ROOT = Path(__file__).resolve().parents[2]
SPEECH = "examples/speech"
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.fixture
def clone(tmp_path) -> Path:
    """What the pages use of the repository, in a folder with a space in its name; of
    the recordings a quarter.
    """
    folder = tmp_path / "first pages" / "a clone"
    shutil.copytree(
        ROOT / SPEECH,
        folder / SPEECH,
        ignore=shutil.ignore_patterns("build", "spk2utt", "*000[023].flac"),
    )
    for table in ("text", "utt2spk", "wav.scp"):
        lines = (folder / SPEECH / "test" / table).read_text().splitlines(keepends=True)
        (folder / SPEECH / "test" / table).write_text(
            "".join(line for line in lines if line.split()[0][-1] == "1")
        )
    shutil.copytree(ROOT / "examples/phrases", folder / "examples/phrases")
    (folder / "egs").symlink_to(ROOT / "egs")
    return folder


@pytest.fixture(autouse=True)
def surroundings(clone, tmp_path, monkeypatch):
    monkeypatch.chdir(clone)
    monkeypatch.setenv("ESPNET_EXT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.setenv("PATH", os.environ["PATH"])  # notebooks change it
    yield
    logging.disable(logging.NOTSET)


def run(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command line of a page in this process, or in a shell where it is not one
    of ours.
    """
    words = shlex.split(command)
    if words[0] == "espnet-ext":
        assert call(words[1:]) == 0
    elif words[:3] == ["python", "-m", "espnet_ext.bin.asr_inference"]:
        from espnet_ext.bin import asr_inference

        monkeypatch.setattr(sys, "argv", words[2:])
        asr_inference.main(words[3:])
    elif words[:2] == ["python", "-c"]:
        exec(words[2], {})
    else:
        raise AssertionError(f"how is this run? {command}")


def commands(page: Path) -> list[str]:
    """The command lines of a page's blocks that are about these files, and what follows
    from them.
    """
    blocks = re.findall(
        r"^```\w*\n(.*?)^```",
        page.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    joined = (re.sub(r"\\\n\s*", "", block) for block in blocks if "examples/" in block)
    return [line.split("  #")[0] for block in joined for line in block.splitlines()]


def list_names() -> set[str]:
    """Return the names in this folder, those of folders with a slash, as git has it."""
    return {f"{path.name}{'/' * path.is_dir()}" for path in Path().iterdir()}


def list_seen_by_git(names: set[str]) -> set[str]:
    """Return those of some names in the repository's folder that git does not ignore;
    none outside of a checkout.
    """
    if not (ROOT / ".git").exists():
        return set()
    ignored = subprocess.run(
        ["git", "-C", ROOT, "check-ignore", *names],
        check=False,
        capture_output=True,
        text=True,
    )
    return names - set(ignored.stdout.split())


@pytest.mark.parametrize(
    "page", ["README.md", "docs/first_steps.md", "docs/other_toolkits.md"]
)
def test_commands_run_on_these_files(page, monkeypatch):
    lines = commands(ROOT / page)
    assert lines
    there = list_names()
    for line in lines:
        run(line, monkeypatch)
    written = list_names() - there
    assert written and not list_seen_by_git(written)


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        *((path, "a clone/examples") for path in NOTEBOOKS),
        (ROOT / "examples/transcribe.ipynb", "."),
    ],
    ids=lambda value: getattr(value, "stem", value),
)
def test_a_notebook_runs(path, folder, clone, monkeypatch):
    """Also if Jupyter is started in the folder that holds the clone."""
    monkeypatch.chdir(clone.parent / folder)
    names: dict[str, object] = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = (
            re.sub(r"\\\n\s*", "", "".join(cell["source"]))
            if cell["cell_type"] == "code"
            else ""
        )
        for part in re.split(r"(^!.*\n?)", source, flags=re.MULTILINE):
            if part.startswith("!"):
                run(part[1:].partition(" | ")[0], monkeypatch)
            elif part.strip():
                exec(part, names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_of_notebooks_are_of_no_one_machine(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert outputs and "error" not in {output["output_type"] for output in outputs}
    assert not re.search(r"/(home|root|work|tmp|usr)/", json.dumps(outputs))


def test_the_model_is_small_and_its_card_has_its_error_rates():
    sizes = {
        path: path.stat().st_size
        for path in (ROOT / SPEECH).rglob("*")
        if "build" not in path.parts
    }
    assert (
        sizes[ROOT / SPEECH / "model.zip"] < 2_000_000
        and sum(sizes.values()) < 5_000_000
    )
    assert (
        sum(size for path, size in sizes.items() if path.suffix == ".flac") < 3_000_000
    )
    with zipfile.ZipFile(ROOT / SPEECH / "model.zip") as archive:
        header = yaml.safe_load(archive.read("README.md").decode().split("---\n")[1])
    results = header["model-index"][0]["results"]
    assert {each["dataset"]["type"] for each in results} == {"test-clean", "test-other"}
    assert header["license"] == "cc-by-sa-4.0"
