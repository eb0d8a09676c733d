"""The last model stays loaded, until another is asked for or its file changes."""

import pytest

from espnet_ext.work.model_cache import keep_last


@pytest.fixture
def loads() -> list[str]:
    return []


@pytest.fixture
def load(loads):
    @keep_last
    def load(path: str, *, options: dict | None = None) -> object:
        loads.append(path)
        return object()

    return load


def test_the_same_arguments_give_the_last_model(load, loads):
    first = load("a", options={"beam": 2})
    assert load(path="a", options={"beam": 2}) is first
    assert load("a", options={"beam": 3}) is not first
    load("a", options={"beam": 2})
    assert loads == ["a"] * 3


def test_a_changed_file_is_loaded_again(load, tmp_path):
    path = tmp_path / "model"
    path.write_text("1")
    first = load(str(path))
    assert load(str(path)) is first
    path.write_text("22")
    assert load(str(path)) is not first


def test_functions_have_a_model_each_and_an_error_leaves_none(load):
    @keep_last
    def fail(path: str) -> object:
        raise ValueError(path)

    first = load("a")
    with pytest.raises(ValueError):
        fail("a")
    assert load("a") is first
