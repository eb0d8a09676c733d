"""utils/recipe.sh, the head of each run.sh, in a recipe that does nothing: folders, paths, and what is refused."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN = """\
#!/usr/bin/env bash
set -euo pipefail
# begin options
. "$(dirname "$0")/../../utils/options.sh"
# Data
librispeech= # <DIR> the corpus
lm_text=     # <FILE> a text
kind=        # <KIND> of recipe
# end options
variant() { echo "$kind"; }
. "$(dirname "$0")/../../utils/recipe.sh" librispeech lm_text -- "$@"
for name in command_line corpus corpus_name lm_text expdir datadir stats_dir lm_dir parallel; do
  echo "$name=${!name}"
done
"""


@pytest.fixture
def root(tmp_path) -> Path:
    """A repository with a single recipe, egs/toy."""
    shutil.copytree(ROOT / "utils", tmp_path / "utils")
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    recipe = tmp_path / "egs" / "toy"
    for scale in ("mini", "full"):
        (recipe / "conf" / "scale" / scale).mkdir(parents=True)
        (recipe / "conf" / "scale" / scale / "settings.sh").touch()
    for name in ("path.sh", "cmd.sh"):
        shutil.copy(ROOT / "egs" / "librispeech_sem" / name, recipe)
    (recipe / "run.sh").write_text(RUN)
    (recipe / "run.sh").chmod(0o755)
    python = tmp_path / "tools" / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return tmp_path


def run(root: Path, *options: str, folder: Path | None = None) -> subprocess.CompletedProcess:
    command = [str(root / "egs" / "toy" / "run.sh"), *options]
    return subprocess.run(command, cwd=folder or root, capture_output=True, text=True, timeout=60, check=False)


def settings(root: Path, *options: str, folder: Path | None = None) -> dict[str, str]:
    done = run(root, *options, folder=folder)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("options", "tag"),
    [
        ((), "mini"),
        (("--kind", "b"), "mini-b"),
        (("--librispeech", "/data/digits"), "mini-digits"),
        (("--kind", "b", "--librispeech", "/data/digits"), "mini-b-digits"),
        (("--scale", "full", "--librispeech", "/data/LibriSpeech"), "full"),
    ],
)
def test_each_scale_variant_and_corpus_has_folders_of_its_own(options, tag, root):
    found = settings(root, *options)
    assert (found["expdir"], found["datadir"]) == (f"exp/{tag}", f"data/{tag}")
    assert (found["stats_dir"], found["lm_dir"]) == (f"exp/{tag}/stats", f"exp/{tag}/lm")
    assert found["command_line"] == " ".join(["./run.sh", *options]).rstrip() + ("" if options else " ")
    own = "--librispeech" in options
    assert found["corpus"] == (options[-1] if own else f"data/{tag}/corpus")
    assert found["corpus_name"] == (Path(options[-1]).name if own else "synthetic")


def test_paths_are_those_of_the_caller(root, tmp_path):
    caller = tmp_path / "caller"
    caller.mkdir()
    (caller / "mine.yaml").touch()
    options = ("--librispeech", "corpus", "--lm_text", "a.txt", "--expdir", "exp", "--datadir", "../data")
    found = settings(root, *options, "--parallel", "mine.yaml", folder=caller)
    assert found["corpus"] == str(caller / "corpus") and found["lm_text"] == str(caller / "a.txt")
    assert found["expdir"] == str(caller / "exp") and found["datadir"] == str(tmp_path / "data")
    assert found["parallel"] == str(caller / "mine.yaml")


def test_a_cluster_is_the_callers_the_recipes_or_that_of_all_recipes(root):
    recipe = root / "egs" / "toy"
    for folder in (root, recipe):
        found = settings(root, "--parallel", "conf/parallel/slurm.yaml", folder=folder)["parallel"]
        assert (recipe / found).resolve() == root / "conf" / "parallel" / "slurm.yaml"
    (recipe / "conf" / "parallel").mkdir()
    (recipe / "conf" / "parallel" / "slurm.yaml").touch()
    found = settings(root, "--parallel", "conf/parallel/slurm.yaml", folder=recipe)["parallel"]
    assert (recipe / found).resolve() == recipe / "conf" / "parallel" / "slurm.yaml"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("extra",), "unexpected argument 'extra' (run.sh --help lists the options)"),
        (("--", "--scale", "mini"), "unexpected argument '--scale'"),
        (("--scale", "full"), "--scale full needs --librispeech DIR"),
        (("--seed", "1;2"), "--seed takes whole numbers separated by commas, not '1;2'"),
        (("--nj", "0"), "--nj must be at least 1"),
        (("--ngpu", "-1"), "--ngpu must be at least 0"),
        (("--parallel", "conf/parallel/none.yaml"), "--parallel: there is no file conf/parallel/none.yaml"),
        (("--rows",), "--rows wants a value"),
    ],
)
def test_what_is_refused(options, message, root):
    done = run(root, *options)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("run.sh: error: ") and message in done.stderr and done.stderr.count("\n") == 1
