"""``espnet-ext data`` on data dirs, and Kaldi's names of it in utils/ with Kaldi's
order of arguments.
"""

import os
import subprocess
from pathlib import Path

import pytest

from espnet_ext.cli.program import call
from espnet_ext.kaldi.data_dir import DataDir, read_data_dir, write_data_dir
from espnet_ext.kaldi.parts import keep_utterances

UTILS = Path(__file__).resolve().parents[2] / "utils"
IDS = [f"{speaker}-{number}" for speaker in "abc" for number in range(4)]


@pytest.fixture
def train(tmp_path, monkeypatch):
    """data/train in an empty working directory: twelve utterances of three speakers."""
    monkeypatch.chdir(tmp_path)
    for key in IDS:
        (tmp_path / f"{key}.wav").write_bytes(b"x")
    data = DataDir(
        wav_scp={key: f"{key}.wav" for key in IDS},
        utt2spk={key: key[0] for key in IDS},
        text={key: f"TEXT {key}" for key in IDS},
    )
    write_data_dir(data, "data/train")
    return Path("data/train")


def utils(script, *arguments):
    # as a user has it: no environment is active
    return subprocess.run(
        [UTILS / script, *arguments],
        capture_output=True,
        text=True,
        env={"PATH": os.defpath},
    )


def test_kaldis_names(train):
    assert (
        "12 utterances, 3 speakers"
        in utils("validate_data_dir.sh", "--no-feats", "data/train").stdout
    )
    for name, chosen in (("a", IDS[:4]), ("b", IDS[4:])):
        write_data_dir(
            keep_utterances(read_data_dir("data/train"), chosen), f"data/{name}"
        )
    assert utils("combine_data.sh", "data/all", "data/b", "data/a").returncode == 0
    assert read_data_dir("data/all") == read_data_dir("data/train")
    Path("data/all/text").write_text("b-1 B\na-1 A\nc-1\n")
    assert utils("validate_data_dir.sh", "data/all").returncode == 1
    fixed = utils("fix_data_dir.sh", "data/all")
    assert "kept 2 utterances, dropped 10" in fixed.stdout
    assert (
        "dropped 9: text: no transcript for a-0, a-2, a-3 ... and 6 more\n"
        in fixed.stdout
    )
    assert read_data_dir("data/all").utterances == ["a-1", "b-1"]
    failed = utils("validate_data_dir.sh", "data/none")
    assert failed.returncode == 1
    assert failed.stderr == (
        "error: data/none: no such data dir: check the path, or run the stage "
        "that writes it\n"
    )
    unknown = utils("validate_data_dir.sh", "--what", "data/train")
    assert unknown.returncode == 2
    assert (
        unknown.stderr.startswith("error: no such option '--what'.")
        and unknown.stderr.count("\n") == 1
    )


def test_validate_options(train, capsys):
    Path("data/train/text").unlink()
    Path("b-2.wav").unlink()
    assert call(["data", "validate", "data/train"]) == 1
    assert call(["data", "validate", "--no-text", "data/train"]) == 1
    assert call(["data", "validate", "--no-text", "--no-wav", "data/train"]) == 0
    assert (
        call(["data", "validate", "--no-text", "--no-wav", "--audio", "data/train"])
        == 1
    )
    assert (
        "no audio file for b-2" in capsys.readouterr().err
    )  # before any file is decoded
    Path("b-2.wav").write_bytes(b"no audio")
    assert call(["data", "validate", "--no-text", "--audio", "data/train"]) == 1
    assert (
        "corrupt audio (it cannot be decoded) of a-0, a-1, a-2 ... and 9 more"
        in capsys.readouterr().err
    )
