"""The devices of trainings and scorings, and several processes, one for each GPU, by
Accelerate.

:func:`launch` starts the processes on this machine, ``accelerate launch`` on several.
    Each process has the whole model.
"""

import os
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from espnet_ext.errors import InputError
from espnet_ext.work.gpus import require_gpus, require_own_gpus

if TYPE_CHECKING:
    import torch


def is_main() -> bool:
    """Tell whether this is the only process or the first of several, which writes files
    and prints.
    """
    return os.environ.get("RANK", "0") == "0"


def main_prints(log: Callable[[str], None]) -> Callable[[str], None]:
    """Return ``log`` in the first process, and what prints nothing in the others."""
    return log if is_main() else lambda _line: None


def device_for(ngpu: int) -> "torch.device":
    """Return the device of this process: the CPU for 0, and for 1 a GPU, its own one if
    there are several processes.
    """
    import torch
    from accelerate import PartialState

    if ngpu not in (0, 1):
        raise InputError(f"--ngpu {ngpu}: a process has one GPU, or none: give 0 or 1")
    require_own_gpus(ngpu)
    if PartialState(cpu=not ngpu).num_processes > 1:
        return PartialState().device
    return torch.device("cuda" if ngpu else "cpu")


def share[Item](items: Sequence[Item]) -> list[Item]:
    """Return the items of this process."""
    from accelerate import PartialState

    state = PartialState()
    return list(items[state.process_index :: state.num_processes])


def map_shared[Item, Value](
    function: Callable[[list[Item]], Sequence[Value]], items: Sequence[Item]
) -> list[Value]:
    """Return what ``function`` gives for all items, in their order.

    Each process computes its share.
    """
    from accelerate.utils import gather_object

    shares = gather_object([list(function(share(items)))])
    merged: list[Any] = [None] * len(items)
    for number, values in enumerate(shares):
        merged[number :: len(shares)] = values
    return merged


def launch(
    function: Callable[..., Any],
    number: int,
    *arguments: Any,
    ngpu: int = 1,
    **named: Any,
) -> None:
    """Call a function in ``number`` new processes that know of each other, with
    ``ngpu`` 1 each on a GPU of its own.

    ``function`` is at the top level of a module; it is given ``arguments``, ``named``
    and ``ngpu``, which can be pickled, and asks :func:`device_for` for its device.
    """
    from torch.multiprocessing.spawn import (
        ProcessExitedException,
        ProcessRaisedException,
        spawn,
    )

    require_gpus(number if ngpu else 0)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    call = (function, arguments, {**named, "ngpu": ngpu})
    try:
        spawn(_process, (number, port, call), nprocs=number)
    except (ProcessRaisedException, ProcessExitedException) as error:
        fault = (
            str(error)
            .strip()
            .splitlines()[-1]
            .removeprefix(f"{InputError.__module__}.InputError: ")
        )
        raise InputError(f"one of {number} processes ended: {fault}") from error


def _process(rank: int, number: int, port: int, call: tuple[Any, ...]) -> None:
    """One of the processes of :func:`launch`."""
    import torch

    function, arguments, named = call
    names = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": number,
        "LOCAL_WORLD_SIZE": number,
        "MASTER_PORT": port,
    }
    os.environ.update(
        {name: str(value) for name, value in names.items()}, MASTER_ADDR="127.0.0.1"
    )
    function(*arguments, **named)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
