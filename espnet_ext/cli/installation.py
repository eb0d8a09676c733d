"""Check an installation: versions, imports, a small model with our plugins."""

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
from espnet_ext.packages import (
    check_range,
    list_extras,
    list_lacking_packages,
    list_package_checks,
)
from espnet_ext.upstream.logs import suppress_warnings
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
    """Check this interpreter by our ``python_requires``, and return its version."""
    found = platform.python_version()
    needed = SpecifierSet(metadata("espnet_ext")["Requires-Python"])
    return f"{found} {check_range('python', found, needed)} at {sys.executable}"


def check_bash() -> str:
    """Check the version of the bash that runs the recipes, and return it."""
    path = shutil.which("bash")
    if path is None:
        raise InputError("bash is not on PATH; the recipes are bash scripts")
    banner = subprocess.run(
        [path, "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"version (\d+)\.(\d+)\S*", banner)
    # Before 4.4, an empty array is an unset variable under set -u. macOS has 3.2.
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
    # PyTorch warns of a driver that is too old, and says that there is no GPU.
    with warnings.catch_warnings(record=True, action="always") as caught:
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if shutil.which("nvidia-smi") and not count:
        why = "nvidia-smi may say why"
        if caught:
            why = str(caught[0].message).split("(Triggered")[0]
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

    # ESPnet tells there what optional packages it has not got.
    with contextlib.redirect_stderr(io.StringIO()):
        espnet_ext.register()
    return ", ".join(sorted(key.partition(".")[2] for key in PLUGINS))


def check_forward() -> str:
    """Build a small model through ESPnet's own ASR task, and make a step with it.

    The step computes loss and gradients on a second of noise.
    """
    import numpy as np
    import torch
    from espnet2.tasks.asr import ASRTask

    import espnet_ext

    espnet_ext.register()
    with tempfile.TemporaryDirectory() as folder:
        stats = Path(folder) / "feats_stats.npz"
        np.savez(stats, count=2, sum=np.full(40, 2.0), sum_square=np.full(40, 4.0))
        config = ASRTask.get_default_config() | MODEL
        config["normalize_conf"] = {"stats_file": str(stats)}
        model = ASRTask.build_model(argparse.Namespace(**config)).train()
    noise = torch.randn(2, 16000, generator=torch.Generator().manual_seed(0))
    loss, _, _ = model(
        speech=noise,
        speech_lengths=torch.tensor([16000, 12000]),
        text=torch.tensor([[2, 3, 2], [3, 2, -1]]),
        text_lengths=torch.tensor([3, 2]),
    )
    loss.backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    reached = [gradient for gradient in gradients if gradient is not None]
    finite = all(torch.isfinite(value).all() for value in (loss, *reached))
    if not reached or not finite:
        raise InputError(
            "loss or gradients of a small model are not finite; this torch does "
            "not fit this processor"
        )
    return f"loss {loss.item():.3f}"


def run_checks(checks: Iterable[tuple[str, Callable[[], str]]]) -> int:
    """Run the checks, print one line for each, and return how many failed.

    A failing one does not stop the others.
    """
    failed = 0
    for name, check in checks:
        start = time.monotonic()
        # Before the check, as importing ESPnet takes its time.
        say(f"  {name:<18}", end=" ")
        try:
            result = check()
        except Exception as error:
            # Anything at all can be wrong with an install, and each is one line of the
            # answer.
            failed += 1
            reason = str(error)
            if not isinstance(error, InputError):
                reason = f"{type(error).__name__}: {error}"
            say(f"FAILED: {' '.join(reason.split())}")
            continue
        seconds = time.monotonic() - start
        say(result + (f"  [{seconds:.0f} s]" if seconds >= 1 else ""))
    return failed


def check_installation(wanted: Collection[str] = ()) -> int:
    """Run all checks, with those of the extras ``wanted``, and print a line for each.

    Another line says of each other extra what it lacks. Return the number of checks;
    InputError if one has failed.
    """
    checks = [
        ("python", check_python),
        ("bash", check_bash),
        *list_package_checks(wanted),
    ]
    checks += [
        ("plugins", check_plugins),
        ("forward pass", check_forward),
        ("GPU", check_gpu),
    ]
    if "whisper" in wanted:
        checks.append(("Whisper on a GPU", check_whisper_gpu))
    # ESPnet's advice is for those who trace its models.
    with suppress_warnings():
        failed = run_checks(checks)
    for extra in list_extras():
        if extra not in wanted:
            missing = list_lacking_packages(extra)
            state = f"lacks {', '.join(missing)}" if missing else "complete"
            say(f"  {'extra ' + extra:<18} {state}")
    if failed:
        raise InputError(
            f"{failed} of {len(checks)} checks failed; to install again: make -C "
            "tools clean install"
        )
    return len(checks)
