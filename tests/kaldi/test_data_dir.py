from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.kaldi import data_dir as files
from espnet_ext.kaldi.data_dir import (
    DataDir,
    parse_segment,
    read_data_dir,
    write_data_dir,
)

ONE = DataDir({"a-1": "a.wav"}, {"a-1": "a"}, text={"a-1": "X"})
TWO = DataDir(
    {"b-1": "b.wav", "b-2": "c.wav"},
    {"b-1": "b", "b-2": "b"},
    utt2lang={"b-1": "en", "b-2": "zh"},
)


def listing(folder):
    return sorted(item.name for item in folder.iterdir())


@given(st.data())
@settings(max_examples=25)
def test_written_dirs_read_back(tmp_path_factory, data_dirs, data):
    whole = data.draw(data_dirs)
    path = tmp_path_factory.mktemp("data") / "train"
    write_data_dir(whole, path)
    assert read_data_dir(path) == whole


def test_files_and_spk2utt(tmp_path):
    write_data_dir(TWO, tmp_path / "data/train")
    assert listing(tmp_path / "data/train") == [
        "spk2utt",
        "utt2lang",
        "utt2spk",
        "wav.scp",
    ]
    assert (tmp_path / "data/train/spk2utt").read_text() == "b b-1 b-2\n"
    assert listing(tmp_path / "data") == ["train"]


def test_replacing_leaves_nothing_of_the_old(tmp_path):
    path = tmp_path / "train"
    write_data_dir(TWO, path)
    (path / "split2" / "1").mkdir(parents=True)
    (path / ".done").touch()
    write_data_dir(ONE, path)
    assert listing(path) == ["spk2utt", "text", "utt2spk", "wav.scp"]


def test_the_old_stays_when_writing_fails(tmp_path, monkeypatch):
    path = tmp_path / "train"
    write_data_dir(TWO, path)
    written = []

    def full_disk(file, table):
        if written:
            raise OSError(28, "No space left on device")
        written.append(file)

    monkeypatch.setattr(files, "write_table", full_disk)
    with pytest.raises(OSError, match="No space"):
        write_data_dir(ONE, path)
    assert written
    assert read_data_dir(path) == TWO
    assert listing(tmp_path) == ["train"]


def test_of_several_that_write_at_once_one_wins_and_no_file_is_lost(tmp_path):
    path = tmp_path / "train"
    with ThreadPoolExecutor(4) as pool:
        for done in [
            pool.submit(write_data_dir, data, path) for data in [ONE, TWO] * 40
        ]:
            done.result()
    assert read_data_dir(path) in (ONE, TWO)
    assert listing(tmp_path) == ["train"]


@pytest.mark.parametrize("name", ["thesis.tex", "photos/"])
def test_a_folder_of_other_things_is_never_replaced(tmp_path, name):
    write_data_dir(ONE, tmp_path / "home")
    (tmp_path / "home" / name).mkdir() if name.endswith("/") else (
        tmp_path / "home" / name
    ).touch()
    with pytest.raises(
        InputError,
        match=f"home: holds {name.strip('/')}, which is not part of a data dir",
    ):
        write_data_dir(TWO, tmp_path / "home")
    assert read_data_dir(tmp_path / "home") == ONE


def test_missing_folder_and_files(tmp_path):
    with pytest.raises(InputError, match="none: no such data dir"):
        read_data_dir(tmp_path / "none")
    write_data_dir(ONE, tmp_path / "train")
    (tmp_path / "train" / "wav.scp").unlink()
    with pytest.raises(InputError, match="wav.scp: no such file"):
        read_data_dir(tmp_path / "train")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        write_data_dir(ONE, tmp_path / "file")


@pytest.mark.parametrize("value", ["r 0", "r 0 x", "r nan 1", "r 0 inf", "r 0 1 2", ""])
def test_segments_that_are_none(value):
    assert parse_segment("r 0.5 -1") == ("r", 0.5, -1)
    with pytest.raises(ValueError):
        parse_segment(value)
