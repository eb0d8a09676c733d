"""Folders that are whole or absent."""

import fcntl
import os
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.synthetic.whole_folder import whole_folder

PARAMETERS = {"size": (1, 2), "seed": 0}


def fill(output: Path, parameters: dict = PARAMETERS, text: str = "new") -> bool:
    with whole_folder(output, parameters) as folder:
        if folder:
            (folder / "file").write_text(text)
    return folder is not None


@pytest.mark.parametrize("before", ["absent", "empty", "in a new folder"])
def test_filled_and_then_left_alone(tmp_path: Path, before: str) -> None:
    output = tmp_path / "deep" / "corpus" if before == "in a new folder" else tmp_path / "corpus"
    if before == "empty":
        output.mkdir()
    assert fill(output)
    assert not fill(output, text="newer")
    assert (output / "file").read_text() == "new"
    assert [path.name for path in output.parent.iterdir()] == ["corpus"]


def test_nothing_stays_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), whole_folder(tmp_path / "corpus", PARAMETERS) as folder:
        (folder / "file").write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_is_cleared(tmp_path: Path) -> None:
    left = tmp_path / ".corpus.partial" / "part"
    left.mkdir(parents=True)
    (left / "half").write_text("half")
    assert fill(tmp_path / "corpus")
    assert sorted(path.name for path in (tmp_path / "corpus").iterdir()) == [".mini_corpus.json", "file"]


def test_a_folder_of_the_users_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("all of it")
    with pytest.raises(InputError, match=f"{tmp_path} is not empty and not a mini corpus"):
        fill(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis"]


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="file is not a folder"):
        fill(tmp_path / "file")


def test_other_parameters_are_refused(tmp_path: Path) -> None:
    fill(tmp_path / "corpus")
    with pytest.raises(InputError, match="another size, seed or version"):
        fill(tmp_path / "corpus", {**PARAMETERS, "seed": 1})
    assert (tmp_path / "corpus" / "file").read_text() == "new"


def test_two_at_once(tmp_path: Path) -> None:
    partial = tmp_path / ".corpus.partial"
    partial.mkdir()
    (partial / "file").write_text("of the other process")
    lock = os.open(partial, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with pytest.raises(InputError, match="another process is writing"):
        fill(tmp_path / "corpus")
    assert (partial / "file").read_text() == "of the other process"
    os.close(lock)
    assert fill(tmp_path / "corpus")
