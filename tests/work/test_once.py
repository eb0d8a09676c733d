"""Folders that are made once: whole or absent, and never mixed up with others."""

import threading
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.work.once import NOTE, fingerprint, make_folder, replace_folder

KEY = fingerprint({"size": (1, 2), "seed": 0})


def fill(output: Path, key: str = KEY, text: str = "new") -> bool:
    return make_folder(
        output,
        key,
        lambda folder: (folder / "file").write_text(text),
        "synthetic corpus",
    )


def visible(folder: Path) -> list[str]:
    return sorted(
        path.name for path in folder.iterdir() if not path.name.endswith(".lock")
    )


@pytest.mark.parametrize("before", ["absent", "empty", "left by a killed run"])
def test_filled_and_then_left_alone(tmp_path: Path, before: str) -> None:
    output = tmp_path / "deep" / "corpus"
    if before == "empty":
        output.mkdir(parents=True)
    if before == "left by a killed run":
        left = output.with_name(".corpus.a1b2c3") / "part"
        left.mkdir(parents=True)
        (left / "half").write_text("half")
    assert fill(output)
    assert not fill(output, text="newer")
    assert (output / "file").read_text() == "new"
    assert visible(output.parent) == ["corpus"]
    assert visible(output) == [NOTE, "file"]


def test_a_failure_leaves_the_former_result(tmp_path: Path) -> None:
    assert fill(tmp_path / "corpus")
    with (
        pytest.raises(RuntimeError),
        replace_folder(tmp_path / "corpus", "another key") as folder,
    ):
        (folder / "file").write_text("half")
        raise RuntimeError
    assert not fill(tmp_path / "corpus")
    assert (tmp_path / "corpus" / "file").read_text() == "new"


def test_what_holds_something_else_is_refused(tmp_path: Path) -> None:
    fill(tmp_path / "corpus")
    with pytest.raises(InputError, match="another size, seed or version"):
        fill(tmp_path / "corpus", fingerprint({"size": (1, 2), "seed": 1}), "newer")
    with pytest.raises(
        InputError, match=f"{tmp_path} is not empty and not a synthetic corpus"
    ):
        fill(tmp_path, text="newer")
    with pytest.raises(InputError, match="file is not a folder"):
        fill(tmp_path / "corpus" / "file", text="newer")
    assert (
        visible(tmp_path) == ["corpus"]
        and (tmp_path / "corpus" / "file").read_text() == "new"
    )


def test_two_at_once(tmp_path: Path) -> None:
    """The second waits for the first, and finds its result."""
    made: list[bool] = []
    started, go_on = threading.Event(), threading.Event()

    def write(folder: Path) -> None:
        started.set()
        assert go_on.wait(30)
        (folder / "file").write_text("first")

    first = threading.Thread(
        target=lambda: made.append(make_folder(tmp_path / "corpus", KEY, write))
    )
    first.start()
    assert started.wait(30)
    second = threading.Thread(
        target=lambda: made.append(fill(tmp_path / "corpus", text="second"))
    )
    second.start()
    second.join(0.3)
    assert second.is_alive() and not (tmp_path / "corpus").exists()
    go_on.set()
    first.join(30)
    second.join(30)
    assert made == [True, False]
    assert (tmp_path / "corpus" / "file").read_text() == "first"
