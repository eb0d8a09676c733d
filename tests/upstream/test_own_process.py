"""ESPnet's checks of types wait for the first call, and then refuse as before."""

import asyncio
import inspect
import sys

import pytest
import typeguard

from espnet_ext.upstream import own_process


@pytest.fixture
def deferred(monkeypatch):
    """typeguard's decorator as our programs have it, for functions of this module."""
    plain = getattr(typeguard.typechecked, "__wrapped__", typeguard.typechecked)
    monkeypatch.setattr(typeguard, "typechecked", plain)
    monkeypatch.setattr(own_process, "DEFERRED", (__name__,))
    own_process.defer_type_checks()
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


def test_generators_and_coroutines_are_still_seen_as_such(deferred):
    @deferred
    def count(last: int):
        yield from range(last)

    @deferred
    async def double(number: int) -> int:
        return 2 * number

    assert inspect.isgeneratorfunction(count) and list(count(2)) == [0, 1]
    assert inspect.iscoroutinefunction(double) and asyncio.run(double(2)) == 4


def test_functions_of_others_are_decorated_as_ever(deferred, monkeypatch):
    monkeypatch.setattr(own_process, "DEFERRED", ("espnet2.",))

    def double(number: int) -> int:
        return 2 * number

    checked = deferred(double)
    assert not hasattr(checked, "__wrapped__")  # of a function that waits
    with pytest.raises(typeguard.TypeCheckError):
        checked("2")


@pytest.mark.parametrize(
    "fault, shown",
    [("No module named 'flash_attn'", False), ("undefined symbol", True)],
)
def test_only_a_broken_flash_attention_is_reported(monkeypatch, capsys, fault, shown):
    """It is not said that something optional is not there."""

    def import_module(name):
        print(f"Failed to import Flash Attention: {fault}", file=sys.stderr)

    monkeypatch.setattr(own_process, "import_module", import_module)
    own_process.import_attention()
    assert ("Flash Attention" in capsys.readouterr().err) == shown
