"""``espnet-ext data`` on data dirs, and Kaldi's names of it in utils/ with Kaldi's order of arguments."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from espnet_ext.cli.program import call
from espnet_ext.corpora.manifests import from_data_dir, write_manifests
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir, read_data_dir, write_data_dir

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
    return subprocess.run([UTILS / script, *arguments], capture_output=True, text=True, env={"PATH": os.defpath})


def test_kaldis_names(train):
    assert "12 utterances, 3 speakers" in utils("validate_data_dir.sh", "--no-feats", "data/train").stdout
    assert utils("subset_data_dir.sh", "data/train", "6", "data/six").returncode == 0
    assert read_data_dir("data/six").utterances == IDS[::2]
    assert utils("subset_data_dir.sh", "--per-spk", "data/train", "1", "data/one").returncode == 0
    assert read_data_dir("data/one").utterances == ["a-0", "b-0", "c-0"]
    assert utils("split_data.sh", "data/train", "3").returncode == 0
    assert read_data_dir("data/train/split3/2").utterances == IDS[4:8]
    parts = [f"data/train/split3/{part}" for part in (3, 1, 2)]
    assert utils("combine_data.sh", "data/all", *parts).returncode == 0
    assert read_data_dir("data/all") == read_data_dir("data/train")
    Path("data/all/text").write_text("b-1 B\na-1 A\nc-1\n")
    assert utils("validate_data_dir.sh", "data/all").returncode == 1
    fixed = utils("fix_data_dir.sh", "data/all")
    assert "kept 2 utterances, dropped 10" in fixed.stdout
    assert "dropped 9: text: no transcript for a-0, a-2, a-3 ... and 6 more\n" in fixed.stdout
    assert read_data_dir("data/all").utterances == ["a-1", "b-1"]


def test_validate_lists_each_kind_on_one_line(train, capsys):
    Path("data/train/text").write_text("".join(f"{key} X\n" for key in IDS[1:]) + "z-1\n")
    Path("b-2.wav").unlink()
    assert call(["data", "validate", "data/train"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ", 3)[1:3] for line in lines] == [
        ["data/train/text", "no transcript for a-0"],
        ["data/train/wav.scp", "no audio for z-1"],
        ["data/train/utt2spk", "no line for z-1"],
        ["data/train/text", "empty transcript of z-1"],
        ["data/train/wav.scp", "no audio file of b-2 (b-2.wav)"],
    ]


def test_validate_options(train, capsys):
    Path("data/train/text").unlink()
    Path("b-2.wav").unlink()
    assert call(["data", "validate", "data/train"]) == 1
    assert call(["data", "validate", "--no-text", "data/train"]) == 1
    assert call(["data", "validate", "--no-text", "--no-wav", "data/train"]) == 0
    assert call(["data", "validate", "--no-text", "--no-wav", "--audio", "data/train"]) == 1
    assert "no audio file for b-2" in capsys.readouterr().err  # before any file is decoded
    Path("b-2.wav").write_bytes(b"no audio")
    assert call(["data", "validate", "--no-text", "--audio", "data/train"]) == 1
    assert "corrupt audio (it cannot be decoded) of a-0, a-1, a-2 ... and 9 more" in capsys.readouterr().err


def test_speaker_warning(train, capsys):
    Path("data/train/utt2spk").write_text("".join(f"{key} x\n" for key in IDS))
    Path("data/train/spk2utt").write_text(f"x {' '.join(IDS)}\n")
    assert call(["data", "validate", "data/train"]) == 0
    assert "warning: data/train/utt2spk: the speaker is not a prefix of a-0" in capsys.readouterr().err
    assert call(["data", "validate", "--no-spk-sort", "data/train"]) == 0
    assert capsys.readouterr().err == ""


def test_subsets(train):
    Path("ids").write_text("c-3\na-0 ignored\n")
    Path("speakers").write_text("b\n")
    Path("data/train/utt2dur").write_text("".join(f"{key} {9 - int(key[-1])}\n" for key in IDS))
    for options, expected in (
        (["--first", "data/train", "2"], ["a-0", "a-1"]),
        (["--last", "data/train", "2"], ["c-2", "c-3"]),
        (["--shortest", "data/train", "3"], ["a-3", "b-3", "c-3"]),
        (["--utt-list", "ids", "data/train"], ["a-0", "c-3"]),
        (["--spk-list", "speakers", "data/train"], IDS[4:8]),
    ):
        call(["data", "subset", *options, "data/part"])
        assert read_data_dir("data/part").utterances == expected
    with pytest.raises(InputError, match="--first, --last, --shortest, .*: give one of them"):
        call(["data", "subset", "--first", "--last", "data/train", "2", "data/part"])


def test_split_by_utterance_and_again(train):
    for _ in range(2):
        call(["data", "split", "--per-utt", "data/train", "5"])
    parts = [read_data_dir(f"data/train/split5utt/{part}").utterances for part in range(1, 6)]
    assert sum(parts, []) == IDS
    assert sorted(item.name for item in train.iterdir()) == ["spk2utt", "split5utt", "text", "utt2spk", "wav.scp"]


def test_combine_says_what_it_leaves_out(train, capsys):
    call(["data", "split", "data/train", "2"])
    Path("data/train/split2/1/utt2lang").write_text("".join(f"{key} en\n" for key in IDS))
    call(["data", "combine", "data/all", "data/train/split2/1", "data/train/split2/2"])
    assert "left out utt2lang" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["validate", "data/none"], "data/none: no such data dir"),
        (["subset", "data/train", "13", "data/x"], "13 utterances were asked for, of 12"),
        (["subset", "data/train", "many", "data/x"], "SOURCE NUMBER DEST"),
        (["subset", "data/train", "data/x"], "SOURCE NUMBER DEST"),
        (["subset", "--utt-list", "none", "data/train", "data/x"], "none: no such file"),
        (
            ["subset", "--utt-list", "data/train/text", "data/train", "3", "data/x"],
            "with a list the arguments are: SOURCE DEST",
        ),
        (["subset", "data/train", "3", "data/train"], "data/train: is also the source"),
        (["subset", "data/train", "3", "."], "holds a-0.wav, which is not part of a data dir"),
        (["combine", "data/train", "data/train"], "data/train: is also the source"),
        (["combine", "data/x", "data/train", "data/train"], "utt2spk: utterance a-0 is in two"),
        (["split", "data/train", "4"], "3 speakers cannot be split into 4 parts"),
        (["split", "--per-utt", "data/train", "13"], "12 utterances cannot be split into 13 parts"),
        (["from-manifests", "--recordings", "r", "--supervisions", "s", "--output", "data/x"], "r: no such manifest"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(train, arguments, message):
    before = {str(item): item.is_file() and item.read_bytes() for item in Path().rglob("*")}
    with pytest.raises(InputError, match=message) as error:
        call(["data", *arguments])
    assert "\n" not in str(error.value)
    assert {str(item): item.is_file() and item.read_bytes() for item in Path().rglob("*")} == before


def test_exit_status_and_message_of_the_command(train):
    failed = utils("validate_data_dir.sh", "data/none")
    assert failed.returncode == 1
    assert failed.stderr == "error: data/none: no such data dir: check the path, or run the stage that writes it\n"
    unknown = utils("validate_data_dir.sh", "--what", "data/train")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith("error: no such option '--what'.") and unknown.stderr.count("\n") == 1


def test_data_dirs_from_manifests(tmp_path, monkeypatch, capsys):
    import numpy as np
    import soundfile

    monkeypatch.chdir(tmp_path)
    soundfile.write("a-1.flac", np.zeros(8000), 16000)
    data = DataDir({"a-1": "a-1.flac"}, {"a-1": "a"}, text={"a-1": "X"}, utt2dur={"a-1": "0.5"})
    write_manifests(*from_data_dir(data), "manifests")
    one = ["--recordings", "manifests/recordings.jsonl.gz", "--supervisions", "manifests/supervisions.jsonl.gz"]
    call(["data", "from-manifests", *one, "--output", "data/b", *one, "--output", "data/c"])
    assert read_data_dir("data/b") == read_data_dir("data/c") == data
    assert capsys.readouterr().out.splitlines() == [f"data/{name}: 1 utterances, 1 speakers" for name in "bc"]
    with pytest.raises(InputError, match="give as many"):
        call(["data", "from-manifests", *one, *one, "--output", "data/d"])
    Path("a-1.flac").unlink()
    with pytest.raises(InputError, match="data/d/wav.scp: no audio file of a-1"):
        call(["data", "from-manifests", *one, "--output", "data/d"])
    assert not Path("data/d").exists()


def test_no_torch_without_manifests(train):
    script = """
import sys
from espnet_ext.cli.program import call
call(["data", "validate", "--no-wav", "--audio", "data/train"])
call(["data", "subset", "data/train", "3", "data/x"])
call(["data", "fix", "data/x"])
call(["data", "split", "data/train", "2"])
call(["data", "combine", "data/y", "data/train/split2/1", "data/train/split2/2"])
heavy = {"torch", "lhotse", "espnet2", "torchaudio"} & set(sys.modules)
assert not heavy, heavy
print("light")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.endswith("light\n"), done.stderr
