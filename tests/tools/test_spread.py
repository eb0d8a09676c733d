"""How `make test` spreads the tests over processes: the hooks in tests/conftest.py."""

import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "bin/test_a",
    "recipes/test_full_configs",
    "recipes/test_full_configs_cs",
    "recipes/test_run",
    "task/test_b",
)
TESTS = """
import os
from pathlib import Path

def note(name):
    with open(Path(__file__).parents[2] / "ran", "a") as file:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "none")
        print(worker, Path(__file__).stem, name, file=file)

def test_one():
    note("one")

def test_two():
    note("two")
"""


@pytest.fixture
def tree(tmp_path) -> Path:
    """A repository with small tests, and our settings and conftest.py."""
    for name in FILES:
        path = tmp_path / "tests" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TESTS)
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "espnet_ext").mkdir()
    return tmp_path


def run(tree: Path, *options: str) -> tuple[str, list[list[str]]]:
    """What pytest prints, and who ran what, in this order."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_")
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--dist",
        "loadfile",
        *options,
    ]
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, [
        line.split() for line in (tree / "ran").read_text().splitlines()
    ]


def test_files_stay_whole_and_recipes_come_first(tree):
    printed, ran = run(tree, "-n", "2", "--durations=1")
    assert "10 passed" in printed and "slowest 1 durations" in printed
    workers: dict[str, set[str]] = {}
    for worker, file, _ in ran:
        workers.setdefault(file, set()).add(worker)
    assert len(workers) == 5 and all(len(some) == 1 for some in workers.values())
    assert workers["test_full_configs"] == workers["test_full_configs_cs"]  # 4 GB each
    for worker in {"gw0", "gw1"}:
        recipes = [
            file in ("test_full_configs", "test_full_configs_cs", "test_run")
            for who, file, _ in ran
            if who == worker
        ]
        assert recipes == sorted(recipes, reverse=True)


@pytest.mark.parametrize(
    "options",
    [("tests/bin/test_a.py",), ("tests/bin/test_a.py::test_one",), ("-k", "test_a")],
)
def test_few_tests_need_no_process_of_their_own(tree, options):
    _, ran = run(tree, "-n", "auto", *options)
    assert ran and {worker for worker, _, _ in ran} == {"none"}


def test_memory_bounds_the_number_of_processes():
    spec = spec_from_file_location("conftest_of_tests", ROOT / "tests" / "conftest.py")
    conftest, argv = module_from_spec(spec), sys.argv[:]
    spec.loader.exec_module(conftest)
    sys.argv[:] = argv
    gigabytes = {
        memory: conftest.number_of_processes(4, memory << 30)
        for memory in (1, 4, 7, 12, 64)
    }
    assert gigabytes == {1: 1, 4: 1, 7: 2, 12: 4, 64: 4}
