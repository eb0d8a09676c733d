"""Find the device of a process, and share work among processes, one for each GPU.

The processes are Accelerate's: :func:`launch` starts them on this machine, ``accelerate
launch`` on several. Each process has the whole model.
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
    """Tell whether this process writes files and prints: the first, or the only one."""
    # torch.distributed's variable, and not its state: asked before that is initialised.
    return os.environ.get("RANK", "0") == "0"


def mute_unless_main(log: Callable[[str], None]) -> Callable[[str], None]:
    """Return ``log`` in the first process, and what prints nothing in the others."""
    return log if is_main() else lambda _line: None


def choose_process_device(ngpu: int) -> "torch.device":
    """Return the device of this process: the CPU for 0, and for 1 a GPU.

    Of several processes each has its own. Raises InputError: another number.
    """
    import torch
    from accelerate import PartialState

    if ngpu not in (0, 1):
        raise InputError(f"--ngpu {ngpu}: a process has one GPU, or none: give 0 or 1")
    require_own_gpus(ngpu)
    # The first call in a process decides for all later ones, which take no options.
    state = PartialState(cpu=not ngpu)
    if state.num_processes > 1:
        return state.device
    return torch.device("cuda" if ngpu else "cpu")


def take_share[Item](items: Sequence[Item]) -> list[Item]:
    """Return the items that fall to this process."""
    from accelerate import PartialState

    # Every second of two processes, and so on, so that what grows along the list is
    # spread evenly.
    state = PartialState()
    return list(items[state.process_index :: state.num_processes])


def map_shared[Item, Value](
    function: Callable[[list[Item]], Sequence[Value]], items: Sequence[Item]
) -> list[Value]:
    """Return what ``function`` gives for all items, in their order.

    Each process computes its share.
    """
    from accelerate.utils import gather_object

    # gather_object() joins the lists of all processes: each gives one of one element.
    shares = gather_object([list(function(take_share(items)))])
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
    """Call a function in ``number`` new processes that know of each other.

    With ``ngpu`` 1 each has a GPU of its own. ``function`` is at the top level of a
    module; it is given ``arguments``, ``named`` and ``ngpu``, which can be pickled, and
    asks :func:`choose_process_device` for its device.
    """
    from torch.multiprocessing.spawn import (
        ProcessExitedException,
        ProcessRaisedException,
        spawn,
    )

    require_gpus(number if ngpu else 0)
    # For port 0 the system chooses a free one; the processes meet there.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    call = (function, arguments, {**named, "ngpu": ngpu})
    try:
        spawn(_run_process, (number, port, call), nprocs=number)
    except (ProcessRaisedException, ProcessExitedException) as error:
        # The traceback of a process comes as text; its last line is the exception.
        *_, fault = str(error).strip().splitlines()
        fault = fault.removeprefix(f"{InputError.__module__}.InputError: ")
        raise InputError(f"one of {number} processes ended: {fault}") from error


def _run_process(rank: int, number: int, port: int, call: tuple[Any, ...]) -> None:
    """Run one of the processes of :func:`launch`."""
    import torch

    function, arguments, named = call
    # What torchrun sets, and Accelerate reads.
    variables = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": number,
        "LOCAL_WORLD_SIZE": number,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    for name, value in variables.items():
        os.environ[name] = str(value)
    function(*arguments, **named)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
