"""The line of docs/espnet_recipes.md that changes ESPnet's asr.sh and its kin."""

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "espnet_recipes.md"
# as the scripts of release 202611 have them
CHANGED = (
    "espnet2.bin.lm_train",
    "espnet2.bin.lm_calc_perplexity",
    "espnet2.bin.lightning_train",
    "espnet2.bin.${asr_task}_train",
    "espnet2.bin.${asr_task}_inference${inference_bin_tag}",
    "espnet2.bin.s2t_train${train_bin_tag}",
    "${st_inference_tool}",
    "${slu_inference_tool}",
)
KEPT = ("tokenize_text", "launch", "aggregate_stats_dirs", "split_scps", "pack asr")
# what the names of the shell may stand for
NAMES = (
    *("asr_train", "asr_inference", "asr_inference_streaming", "asr_inference_k2"),
    *("asr_inference_maskctc", "asr_transducer_train", "asr_transducer_inference"),
    *("lightning_train", "lm_train", "lm_calc_perplexity"),
    *("s2t_train", "s2t_train_ctc", "s2t_inference", "s2t_inference_ctc"),
    *("st_train", "st_inference", "st_inference_streaming"),
    *("slu_train", "slu_inference", "mt_train", "mt_inference"),
)


@pytest.fixture
def script(tmp_path) -> Path:
    path = tmp_path / "asr.sh"
    names = (*CHANGED, *(f"espnet2.bin.{name}" for name in KEPT))
    lines = (f"    ${{python}} -m {name} --x y \\\n" for name in names)
    path.write_text("".join(lines))
    return path


def test_commands_that_build_a_model_are_run_with_plugins(script):
    command = re.search(r"^sed .* asr\.sh$", PAGE.read_text(), re.MULTILINE)[0]
    subprocess.run(["bash", "-c", command], cwd=script.parent, check=True)
    found = script.read_text().splitlines()
    for name, line in zip(CHANGED, found, strict=False):
        assert f"-m espnet_ext.bin.run {name} --x y" in line
    for name, line in zip(KEPT, found[len(CHANGED) :], strict=True):
        assert f"-m espnet2.bin.{name} --x y" in line


@pytest.mark.parametrize("name", NAMES)
def test_what_the_scripts_call_is_in_espnet(name):
    assert find_spec(f"espnet2.bin.{name}")
