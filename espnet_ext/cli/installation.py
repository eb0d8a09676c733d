"""Checks of an installation: versions, imports, a forward pass of a small model with
our plugins.
"""

import argparse
import contextlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Iterable
from importlib.metadata import metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet

from espnet_ext.errors import InputError, say
from espnet_ext.packages import extras, in_range, lacking, package_checks
from espnet_ext.upstream.logs import without_warnings
from espnet_ext.work.gpus import VISIBLE, are_hidden

# The smallest model that has all plugins of the first recipe in it.
MODEL = {
    "frontend": "power_mel",
    "frontend_conf": {},
    "normalize": "sem_global_mvn",
    "encoder": "blstm_maxpool",
    "encoder_conf": {"num_layers": 2, "hidden_size": 8, "pooling": [2]},
    "decoder": "batch_rnn",
    "decoder_conf": {"hidden_size": 8},
    "specaug": None,
    "token_list": ["<blank>", "<unk>", "a", "b", "<sos/eos>"],
}


def check_python() -> str:
    """Return the version of this interpreter, checked against the package's
    ``python_requires``.
    """
    allowed = SpecifierSet(metadata("espnet_ext")["Requires-Python"])
    return (
        f"{platform.python_version()} "
        f"{in_range('python', platform.python_version(), allowed)} at {sys.executable}"
    )


def check_bash() -> str:
    """Return the version of the bash that runs the recipes."""
    path = shutil.which("bash")
    if path is None:
        raise InputError("bash is not on PATH; the recipes are bash scripts")
    banner = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"version (\d+)\.(\d+)\S*", banner)
    if found is None or (int(found[1]), int(found[2])) < (4, 4):
        raise InputError(
            f"{path} is {banner.splitlines()[0]}; the recipes need 4.4 or later"
        )
    return found[0].removeprefix("version ")


def check_gpu() -> str:
    """Return which CUDA build of torch there is, and how many GPUs it can use."""
    import torch

    if torch.version.cuda is None:
        return f"torch {torch.__version__} is a build for CPUs"
    build = f"torch {torch.__version__} has CUDA {torch.version.cuda}"
    if are_hidden():
        return f"{build}; {VISIBLE}='{os.environ[VISIBLE]}' hides all GPUs here"
    with warnings.catch_warnings(
        record=True, action="always"
    ) as caught:  # of a driver that is too old
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if shutil.which("nvidia-smi") and not count:
        why = (
            str(caught[0].message).split("(Triggered")[0]
            if caught
            else "nvidia-smi may say why"
        )
        raise InputError(
            f"{build}, which cannot use the GPU here: {why}: update the driver, "
            "or install an older build: "
            "UV_TORCH_BACKEND=cu126 uv pip install --reinstall torch torchaudio"
        )
    if not count:
        return f"{build}; no NVIDIA driver here, so work runs on the CPU"
    return f"{build}; {count} GPU visible"


def check_whisper_gpu() -> str:
    """Return where the library is that Whisper needs on a GPU, if there is one."""
    import ctranslate2

    from espnet_ext.whisper.model import load_cublas

    if are_hidden():
        return f"{VISIBLE} hides all GPUs here, so Whisper runs on the CPU"
    if not ctranslate2.get_cuda_device_count():
        return "no NVIDIA GPU here, so Whisper runs on the CPU"
    return load_cublas()


def check_plugins() -> str:
    """Import all plugins and add them to ESPnet's registries."""
    import espnet_ext
    from espnet_ext.registry import PLUGINS

    with contextlib.redirect_stderr(
        io.StringIO()
    ):  # ESPnet tells there what optional packages it has not got
        espnet_ext.register()
    return ", ".join(sorted(key.partition(".")[2] for key in PLUGINS))


def check_forward() -> str:
    """Build a small model through ESPnet's own ASR task and compute its loss and
    gradients on a second of noise.
    """
    import numpy as np
    import torch
    from espnet2.tasks.asr import ASRTask

    import espnet_ext

    espnet_ext.register()
    with tempfile.TemporaryDirectory() as folder:
        stats = Path(folder) / "feats_stats.npz"
        np.savez(stats, count=2, sum=np.full(40, 2.0), sum_square=np.full(40, 4.0))
        config = (
            ASRTask.get_default_config()
            | MODEL
            | {"normalize_conf": {"stats_file": str(stats)}}
        )
        model = ASRTask.build_model(argparse.Namespace(**config)).train()
    noise = torch.randn(2, 16000, generator=torch.Generator().manual_seed(0))
    loss, _, _ = model(
        speech=noise,
        speech_lengths=torch.tensor([16000, 12000]),
        text=torch.tensor([[2, 3, 2], [3, 2, -1]]),
        text_lengths=torch.tensor([3, 2]),
    )
    loss.backward()
    gradients = [
        parameter.grad for parameter in model.parameters() if parameter.grad is not None
    ]
    if (
        not torch.isfinite(loss)
        or not gradients
        or not all(torch.isfinite(gradient).all() for gradient in gradients)
    ):
        raise InputError(
            "loss or gradients of a small model are not finite; this torch does "
            "not fit this processor"
        )
    return f"loss {loss.item():.3f}"


def run_checks(checks: Iterable[tuple[str, Callable[[], str]]]) -> int:
    """Run the checks, print one line for each, and return how many failed. A failing
    one does not stop the others.
    """
    failed = 0
    for name, check in checks:
        start = time.monotonic()
        say(f"  {name:<18}", end=" ")  # before, as importing ESPnet takes its time
        try:
            result = check()
        except Exception as error:
            # anything at all can be wrong with an install, and each is one line of the
            # answer
            failed += 1
            reason = (
                str(error)
                if isinstance(error, InputError)
                else f"{type(error).__name__}: {error}"
            )
            say(f"FAILED: {' '.join(reason.split())}")
            continue
        seconds = time.monotonic() - start
        say(result + (f"  [{seconds:.0f} s]" if seconds >= 1 else ""))
    return failed


def check_installation(wanted: Collection[str] = ()) -> int:
    """Run all checks, with those of the extras ``wanted``, print a line for each, and
    one for each other extra.

    Return the number of checks; InputError if one has failed.
    """
    checks = [("python", check_python), ("bash", check_bash), *package_checks(wanted)]
    checks += [
        ("plugins", check_plugins),
        ("forward pass", check_forward),
        ("GPU", check_gpu),
    ]
    if "whisper" in wanted:
        checks.append(("Whisper on a GPU", check_whisper_gpu))
    with without_warnings():  # ESPnet's advice to those who trace its models
        failed = run_checks(checks)
    for extra in extras():
        if extra not in wanted:
            missing = lacking(extra)
            say(
                f"  {'extra ' + extra:<18} "
                f"{'lacks ' + ', '.join(missing) if missing else 'complete'}"
            )
    if failed:
        raise InputError(
            f"{failed} of {len(checks)} checks failed; to install again: make -C "
            "tools clean install"
        )
    return len(checks)
