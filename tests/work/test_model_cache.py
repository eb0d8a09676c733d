"""The last model stays loaded, until another is asked for or its file changes."""

import pytest

from espnet_ext.work.model_cache import keep_last


def test_the_same_arguments_and_files_give_the_last_model(tmp_path):
    loads = []

    @keep_last
    def load(path: str, *, options: dict | None = None) -> object:
        loads.append(path)
        return object()

    @keep_last
    def fail(path: str) -> object:
        raise ValueError(path)

    path = tmp_path / "model"
    path.write_text("1")
    first = load(str(path), options={"beam": 2})
    with pytest.raises(ValueError):
        fail("a")
    assert load(path=str(path), options={"beam": 2}) is first
    assert load(str(path), options={"beam": 3}) is not first
    again = load(str(path), options={"beam": 2})
    path.write_text("22")
    assert load(str(path), options={"beam": 2}) is not again
    assert loads == [str(path)] * 4
