"""Hide, give and count the GPUs of processes.

CUDA reads ``CUDA_VISIBLE_DEVICES`` once, when it starts in a process, and a process in
which it has started cannot fork another that asks it anything. ESPnet starts it when it
is imported. Hence one rule: a process that may use a GPU is a new interpreter, which
sees its GPUs from its first line on, and the process that starts it never asks CUDA.
From work that uses none, GPUs are hidden; its processes may be forked.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import takewhile
from math import ceil
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from espnet_ext.errors import InputError

VISIBLE = "CUDA_VISIBLE_DEVICES"
SHARING = "ESPNET_EXT_GPU_PROCESSES"  # how many workers there are for each GPU
NO_GPU = ("", "-1", "NoDevFiles")  # the last one is Slurm's
COUNT = "import torch; print(torch.cuda.device_count())"


def list_names(visible: str) -> tuple[str, ...]:
    """Return the GPUs that a value of ``CUDA_VISIBLE_DEVICES`` names.

    As CUDA does, this takes none from the first on that is no GPU.

    >>> list_names("3, 5"), list_names("0,-1,1"), list_names("")
    (('3', '5'), ('0',), ())
    """
    names = map(str.strip, visible.split(","))
    return tuple(takewhile(lambda name: name not in NO_GPU, names))


def are_hidden() -> bool:
    """Return whether ``CUDA_VISIBLE_DEVICES`` hides all GPUs from this process."""
    visible = os.environ.get(VISIBLE)
    return visible is not None and not list_names(visible)


def hide_gpus() -> None:
    """Hide all GPUs from this process and those that it starts.

    Where CUDA has started already, only from those.
    """
    os.environ[VISIBLE] = ""


def count_asked(words: Sequence[str]) -> int:
    """Find N of ``--ngpu N`` in a command line; 0 without it.

    >>> count_asked(["--ngpu", "2"]), count_asked(["--ngpu=1"]), count_asked([])
    (2, 1, 0)
    """
    # Not by the command's own parser, which imports torch, and torch would see the
    # GPUs.
    asked = re.search(r"(?<!\S)--ngpu[ =](\d+)(?!\S)", " ".join(words))
    return int(asked[1]) if asked else 0


def hide_unless_asked(words: Sequence[str]) -> None:
    """Hide all GPUs unless a command line asks for some.

    Call it before any import of torch or ESPnet.
    """
    if not count_asked(words):
        hide_gpus()


@contextmanager
def give_gpus(names: Sequence[str] | None) -> Iterator[None]:
    """Let the processes that are started meanwhile see these GPUs only.

    With None they see those that this one sees.
    """
    before = os.environ.get(VISIBLE)
    try:
        if names is not None:
            os.environ[VISIBLE] = ",".join(names)
        yield
    finally:
        if before is not None:
            os.environ[VISIBLE] = before
        else:
            os.environ.pop(VISIBLE, None)


class NewProcess(SpawnProcess):
    """A process with an interpreter of its own, which sees the GPUs ``gpus`` only.

    With None it sees those of its parent.
    """

    def __init__(self, *arguments: Any, gpus: Sequence[str] | None, **named: Any):
        super().__init__(*arguments, **named)
        self.gpus = gpus

    def start(self) -> None:
        """Start the process. Its environment has the GPUs before its first import."""
        with give_gpus(self.gpus):
            super().start()


class NewWorkers(SpawnContext):
    """Makes the processes of a pool, each of which sees one GPU, or none without any.

    A process gets the GPU that the fewest of the processes alive have.
    """

    def __init__(self, gpus: Sequence[str]) -> None:
        self._gpus = gpus
        self._made: list[NewProcess] = []

    def count_sharing(self, workers: int) -> int:
        """Return how many of a number of workers share a GPU, at most."""
        return ceil(workers / max(1, len(self._gpus)))

    def Process(self, *arguments: Any, **named: Any) -> NewProcess:  # type: ignore[override] # noqa: N802
        """Make a process, as ``multiprocessing.Process`` does."""
        alive = [process for process in self._made if process.is_alive()]
        workers = Counter(gpu for process in alive for gpu in process.gpus or ())
        # None or one of them. Counted anew for each process, as those that have died
        # leave their GPUs free, and others take their places.
        own = tuple(sorted(self._gpus, key=lambda name: workers[name])[:1])
        process = NewProcess(*arguments, gpus=own, **named)
        self._made = [*alive, process]
        return process


def count_sharing() -> int:
    """Return how many processes share the GPU of this one, itself among them."""
    return int(os.environ.get(SHARING, "1"))


def has_cuda_started() -> bool:
    """Return whether CUDA has started in this process, whose forks it then fails in."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


def list_gpus() -> tuple[str, ...]:
    """Return the names of the GPUs that new processes can be given."""
    visible = os.environ.get(VISIBLE)
    if visible is None:
        return tuple(map(str, range(_ask_new_process(None))))
    return list_names(visible)


def count_gpus() -> int:
    """Return how many GPUs new processes would see, without asking CUDA in this one.

    Where NVIDIA's NVML is missing, as in many containers, even to count starts CUDA.
    """
    names = list_gpus()
    # CUDA shows a process only the first of several MIG slices: they are counted by
    # name, and a process that is given one checks that it is there.
    if not names or names[0].startswith("MIG-"):
        return len(names)
    return _ask_new_process(os.environ.get(VISIBLE))


@cache
def _ask_new_process(visible: str | None) -> int:
    """Count GPUs in a new process, once for each value of ``CUDA_VISIBLE_DEVICES``."""
    command = [sys.executable, "-c", COUNT]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout)


def require_gpus(number: int) -> None:
    """Refuse more GPUs than new processes would see."""
    if number:
        _refuse_more(number, count_gpus())


def require_own_gpus(number: int) -> None:
    """Refuse more GPUs than this process sees, which is to use them itself."""
    if not number:
        return
    import torch

    seen = torch.cuda.device_count()
    visible = os.environ.get(VISIBLE)
    _refuse_more(number, seen)
    if visible is not None and seen > len(list_names(visible)):
        # It would take a GPU that is another process's.
        raise RuntimeError(
            f"CUDA started before {VISIBLE} was {visible}: {seen} GPUs are seen"
        )


def _refuse_more(number: int, there: int) -> None:
    if there < number:
        what = f"{there or 'no'} GPU{'s' if there > 1 else ''}"
        hidden = f" ({VISIBLE} hides all)" if are_hidden() else ""
        raise InputError(
            f"--ngpu {number}: PyTorch sees {what} here{hidden}: give --ngpu {there}, "
            "or a machine that has them"
        )


def choose_device(ngpu: int) -> str:
    """Return the device of this process: the CPU for 0, otherwise its own GPU."""
    require_own_gpus(min(ngpu, 1))
    return "cuda" if ngpu else "cpu"
