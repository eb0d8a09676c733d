"""The command that makes N-best lists with Whisper."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_ext.bin import first_pass
from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import read_nbest


def test_two_data_dirs(random_whisper: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    options = ["--model", str(random_whisper / "hf"), "--beam", "4", "--nbest", "4", "--window", "1", "--data"]
    for name in "ab":
        folder = tmp_path / name
        folder.mkdir()
        soundfile.write(folder / "u.flac", np.random.default_rng(1).normal(scale=0.1, size=8000), 16000)
        (folder / "wav.scp").write_text(f"{name} {folder / 'u.flac'}\n")
    outputs = [str(tmp_path / "lists" / name) for name in "ab"]
    first_pass.main([*options, str(tmp_path / "a"), str(tmp_path / "b"), "--output", *outputs])
    lists = [read_nbest(Path(output) / "nbest.jsonl") for output in outputs]
    assert [nbest.utt_id for part in lists for nbest in part] == ["a", "b"]
    assert lists[0][0].hyps == lists[1][0].hyps
    short = int(len(lists[0][0].hyps) < 4)
    assert capsys.readouterr().out.splitlines() == [
        f"1 lists, {short} of them shorter than 4 -> {output}/nbest.jsonl" for output in outputs
    ]
    with pytest.raises(InputError, match="2 data dirs, but --output names 1 folders: give one each"):
        first_pass.main([*options, str(tmp_path / "a"), str(tmp_path / "b"), "--output", outputs[0]])


def test_help_is_quick() -> None:
    command = "import sys, espnet_ext.bin.first_pass; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command]).returncode == 0
