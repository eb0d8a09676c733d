"""ESPnet's checks of types wait for the first call, and then refuse what they refused."""

import inspect
import sys

import pytest
import typeguard

from espnet_ext import loading


@pytest.fixture
def deferred(monkeypatch):
    monkeypatch.setattr(typeguard, "typechecked", typeguard.typechecked)
    loading.defer_type_checks()
    return typeguard.typechecked


def test_types_are_checked_when_a_function_is_called(deferred):
    @deferred
    def double(number: int) -> int:
        return 2 * number

    assert inspect.signature(double).parameters["number"].annotation is int
    assert double(2) == 4
    with pytest.raises(typeguard.TypeCheckError):
        double("2")


def test_a_decorated_class_is_checked(deferred):
    @deferred
    class Doubled:
        @classmethod
        def of(cls, number: int) -> int:
            return 2 * number

    assert Doubled.of(2) == 4
    with pytest.raises(typeguard.TypeCheckError):
        Doubled.of("2")


def test_a_rare_module_is_loaded_when_it_is_used(monkeypatch, tmp_path):
    (tmp_path / "used_rarely.py").write_text("print('loaded'); VALUE = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        loading, "RARELY_USED", ("used_rarely", "espnet_ext_has_no_such_module")
    )
    loading.defer_modules()
    module = sys.modules.pop("used_rarely")
    assert module.__file__ and "VALUE" not in vars(module)
    assert module.VALUE == 3


@pytest.mark.parametrize(
    "fault, shown",
    [("No module named 'flash_attn'", False), ("undefined symbol", True)],
)
def test_only_a_broken_flash_attention_is_reported(monkeypatch, capsys, fault, shown):
    """It is not said that something optional is not there."""

    def import_module(name):
        print(f"Failed to import Flash Attention: {fault}", file=sys.stderr)

    monkeypatch.setattr(loading, "import_module", import_module)
    loading.import_attention()
    assert ("Flash Attention" in capsys.readouterr().err) == shown
