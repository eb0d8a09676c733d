"""Every kept result and fact names the commit that made it, which anybody with a clone can look at."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("egs/*/results/**/*.json", "docs/results/*.json")
    for path in ROOT.glob(pattern)
    if "reproductions" not in path.parts  # those of others may come from a branch of their own
)
# What cannot be made again, and the page that quotes it, which says so.
LOST = {
    "egs/librispeech_sem/results/trainings-clipping-at-5.json": "egs/librispeech_sem/README.md",
    "docs/results/machines.json": "docs/reproducibility.md",
}


def commits_in(value: Any) -> Iterator[str]:
    """All values of keys named ``commit``, however deep."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from [each] if key == "commit" and isinstance(each, str) else commits_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from commits_in(each)


@pytest.fixture(scope="module")
def history() -> set[str]:
    """The commits that HEAD comes from."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    if not (ROOT / ".git").exists() or git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("needs a clone with its whole history (git fetch --unshallow)")
    return set(git("rev-list", "HEAD").split())


def commits_of(name: str) -> set[str]:
    return set(commits_in(json.loads((ROOT / name).read_text(encoding="utf-8"))))


def test_commits_are_found_however_deep():
    assert list(commits_in({"git": {"commit": "a"}, "runs": [{"commit": "b"}, {"commit": None}]})) == ["a", "b"]
    assert len(FILES) > 50 and sum(bool(commits_of(name)) for name in FILES) > 50


def test_the_commits_that_results_name_are_in_the_history(history):
    missing = {name: gone for name in FILES if name not in LOST and (gone := commits_of(name) - history)}
    assert not missing, f"make them again from a clean clone of a commit that is pushed: {missing}"


@pytest.mark.parametrize("name", LOST)
def test_where_it_cannot_be_found_the_page_says_so(name, history):
    assert commits_of(name) - history, "it is in the history: take it from the list and the sentence from the page"
    page = " ".join((ROOT / LOST[name]).read_text(encoding="utf-8").split())
    assert f"commit that `{Path(name).name}` names is not in this history" in page
