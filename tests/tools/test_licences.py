"""docs/licences.md: a row for each package that users install, with the licence that
the package itself states.
"""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
ROWS = r"^\| ([\w.-]+) \| ([\w, -]+) \| (.+) \|$"
PAGE = re.findall(ROWS, (ROOT / "docs" / "licences.md").read_text(), re.MULTILINE)[1:]
# They have neither metadata nor a licence file: the page says what their sources have.
SAY_NOTHING = {"espeakng-loader", "sentencepiece"}


def test_each_package_has_its_row():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {
        name: lines
        for name, lines in project["optional-dependencies"].items()
        if name != "dev"
    }
    needed: dict[str, list[str]] = {}
    for extra, lines in {"core": project["dependencies"], **extras}.items():
        for line in lines:
            needed.setdefault(Requirement(line).name, []).append(extra)
    assert {package: where.split(", ") for package, where, _ in PAGE} == needed
    assert not [
        package
        for package, where, text in PAGE
        if "evaluation" in text and where != package
    ]


@pytest.mark.parametrize(
    ("package", "text"), [(package, text) for package, _, text in PAGE]
)
def test_it_is_what_the_package_states(package, text):
    try:
        found = distribution(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    fields = [
        value
        for name, value in found.metadata.items()
        if name in ("License", "License-Expression", "Classifier")
    ]
    files = [
        path
        for path in found.files or []
        if re.search(r"licen[cs]e|copying", path.name, re.IGNORECASE)
    ]
    stated = " ".join(
        [
            *(field for field in fields if "OSI" in field or "::" not in field),
            *(path.read_text() for path in files),
        ]
    )
    family = re.match(r"[A-Za-z]+", text)[0]
    names = {
        "LGPL": "LGPL|LESSER GENERAL",
        "agreement": "AGREEMENT FOR EVALUATION",
        "BSD": "BSD|Redistribution and use",
    }
    assert package in SAY_NOTHING or re.search(
        names.get(family, family), stated, re.IGNORECASE
    )
