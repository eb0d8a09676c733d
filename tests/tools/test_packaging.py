"""pyproject.toml, the lock file, CITATION.cff and the configuration of CI agree with
each other.
"""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import espnet_ext
from espnet_ext.environment import ESPNET_TESTED

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "tools" / "requirements.lock"
UNASKED = {
    "kaldiio"
}  # extras whose licence allows an evaluation alone: only who asks for them gets them


@pytest.fixture(scope="module")
def pyproject() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def requirements(pyproject) -> list[Requirement]:
    project = pyproject["project"]
    extras = [
        lines
        for name, lines in project["optional-dependencies"].items()
        if name not in UNASKED
    ]
    lines = [*project["dependencies"], *sum(extras, [])]
    found = [Requirement(line) for line in lines]
    return [
        line
        for line in found
        if line.marker is None or line.marker.evaluate({"python_version": "3.12"})
    ]


@pytest.fixture(scope="module")
def locked() -> dict[str, str]:
    lines = [line for line in LOCK.read_text().splitlines() if not line.startswith("#")]
    for line in lines:
        assert re.fullmatch(r"[\w.-]+==[\w.!]+", line), f"not NAME==VERSION: {line}"
    return {
        _normal(name): version
        for name, _, version in (line.partition("==") for line in lines)
    }


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_lock_file_holds_every_requirement_in_its_range(requirements, locked):
    for requirement in requirements:
        version = locked.get(_normal(requirement.name))
        assert version, f"{requirement.name} is missing: make -C tools lock"
        assert requirement.specifier.contains(version, prereleases=True), (
            f"{requirement} is locked at {version}"
        )


def test_all_requirements_but_stubs_have_a_range(requirements):
    bare = [
        str(requirement) for requirement in requirements if not requirement.specifier
    ]
    assert all(name.startswith("types-") for name in bare), bare


def test_install_takes_every_extra(pyproject):
    command = (ROOT / "tools" / "install.sh").read_text()
    extras = ",".join(re.findall(r"extras\+?=,?([\w,-]+)", command)).split(",")
    assert {*extras} == pyproject["project"]["optional-dependencies"].keys() - UNASKED


def test_every_file_of_the_package_that_is_no_module_is_packaged(pyproject):
    patterns = pyproject["tool"]["setuptools"]["package-data"]["*"]
    root = ROOT / "espnet_ext"
    others = {
        path
        for path in root.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    packaged = {
        path
        for folder in (root, *root.glob("**/"))
        for pattern in patterns
        for path in folder.glob(pattern)
    }
    # a README is for who reads the source: no program opens it
    assert {path.name for path in others - packaged} <= {"README.md"}
    assert any(path.parent.name == "resources" for path in others)


def test_citation_names_this_version_and_each_recipe():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == espnet_ext.__version__
    titles = {reference["title"].lower() for reference in citation["references"]}
    notes = {reference.get("notes") for reference in citation["references"]}
    for path in ROOT.glob("egs/*/conf/tables.yaml"):
        paper = yaml.safe_load(path.read_text())["paper"]
        assert paper["title"].lower() in titles
        assert f"recipe egs/{path.parent.parent.name}" in notes


def test_ci_runs_targets_on_supported_versions(pyproject):
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    allowed = SpecifierSet(pyproject["project"]["requires-python"])
    jobs = workflow["jobs"]
    for name in ("lint-and-unit", "core"):
        assert jobs[name]["strategy"]["matrix"]["python"] == ["3.12", "3.13"]
        assert all(
            allowed.contains(version)
            for version in jobs[name]["strategy"]["matrix"]["python"]
        )
    assert [
        release[:6] for release in jobs["core"]["strategy"]["matrix"]["espnet"]
    ] == list(ESPNET_TESTED)
    makefile = (ROOT / "tools" / "Makefile").read_text()
    steps = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    targets = {
        target for run in steps for target in re.findall(r"make -C tools (\S+)", run)
    }
    assert targets == {"install", "lint", "unit", "docs"}
    assert all(
        re.search(rf"^{target}\b.*: ", makefile, re.MULTILINE) for target in targets
    )
