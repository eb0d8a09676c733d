"""The line of docs/modules.md that changes ESPnet's asr.sh, on lines of its kinds."""

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "modules.md"
CHANGED = (
    "lm_train",
    "lm_calc_perplexity",
    "lightning_train",
    "${asr_task}_train",
    "${asr_task}_inference${inference_bin_tag}",
)
KEPT = ("tokenize_text", "launch", "aggregate_stats_dirs", "pack asr")


@pytest.fixture
def script(tmp_path) -> Path:
    path = tmp_path / "asr.sh"
    names = (*CHANGED, *KEPT)
    lines = (f"    ${{python}} -m espnet2.bin.{name} --x y \\\n" for name in names)
    path.write_text("".join(lines))
    return path


def test_commands_that_build_a_model_are_run_with_plugins(script):
    command = re.search(r"^sed .* asr\.sh$", PAGE.read_text(), re.MULTILINE)[0]
    subprocess.run(["bash", "-c", command], cwd=script.parent, check=True)
    found = script.read_text().splitlines()
    for name, line in zip((*CHANGED, *KEPT), found, strict=True):
        run = "espnet_ext.bin.run " if name in CHANGED else ""
        assert f"-m {run}espnet2.bin.{name} --x y" in line
    # what the names of the shell may stand for is there, in ESPnet's package
    for task, tag in (("asr", "_k2"), ("asr", "_maskctc"), ("asr_transducer", "")):
        assert find_spec(f"espnet2.bin.{task}_inference{tag}")
