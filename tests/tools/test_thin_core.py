"""The core needs none of the packages of the extras: a process in which they cannot be
imported does its work.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from espnet_ext.packages import MODULES

ROOT = Path(__file__).resolve().parents[2]
BLOCK = """
import sys
from importlib.machinery import PathFinder

class Rest(PathFinder):
    '''The finder of installed packages, without those that are blocked.'''

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            return None
        return super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Rest
"""


@pytest.fixture(scope="module")
def blocked() -> list[str]:
    """The modules that only extras bring. ESPnet and its own dependencies are the
    core's.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = {Requirement(line).name for line in project["dependencies"]} | {"librosa"}
    extras = [
        Requirement(line).name
        for lines in project["optional-dependencies"].values()
        for line in lines
    ]
    names = {
        MODULES.get(name, name.replace("-", "_")) for name in extras if name not in core
    }
    assert {
        "dask",
        "matplotlib",
        "zhplot",
        "lhotse",
        "jinja2",
        "meeteval",
        "whisper_normalizer",
    } <= names
    return sorted(names | {"ctc_segmentation", "editdistance", "wandb", "tensorboard"})


def run(blocked: list[str], code: str) -> str:
    program = f"BLOCKED = {json.dumps(blocked)}\n{BLOCK}\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_plugins_scoring_and_rescoring(blocked, tmp_path):
    (tmp_path / "ref").write_text("u1 A B C\nu2 D\n")
    (tmp_path / "hyp").write_text("u1 A X C\nu2 D\n")
    lists = [
        {
            "utt_id": "u1",
            "hyps": [
                {"text": "A X C", "score": -1.0},
                {"text": "A B C", "score": -1.5},
            ],
        }
    ]
    (tmp_path / "lists.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lists)
    )
    code = f"""
import espnet_ext
espnet_ext.register()
from espnet2.tasks.asr import encoder_choices
assert "blstm_maxpool" in encoder_choices.classes
import espnet_ext.rescore.models.scorers
import espnet_ext.sharing.load, espnet_ext.sharing.pack
import espnet_ext.bin.asr_train, espnet_ext.bin.asr_inference, espnet_ext.bin.lm_train
from espnet_ext.cli.program import call
folder = {str(tmp_path)!r}
call(["score", "wer", "--ref", folder + "/ref", "--hyp", folder + "/hyp"])
lists = ["--nbest", folder + "/lists.jsonl", "--output", folder + "/out.jsonl"]
call(["nbest", "convert", *lists])
"""
    assert "WER 25.00" in run(blocked, code)
