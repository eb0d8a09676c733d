"""Several processes of one training or scoring, one for each GPU.

:func:`launch` starts them on this machine, ``accelerate launch`` on several.

Each process has the whole model. A batch is shared among them, and its gradients are summed, so that the updates are
those of one process but for rounding and dropout. Lists to score are shared, too, and the scores gathered.
"""

import os
import pickle
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException, spawn

from espnet_ext.errors import InputError

BUCKET = 64 * 2**20  # bytes of gradients that are summed together: bounds what the copy takes of a GPU's memory


def launch[Result](
    function: Callable[..., Result], number: int, *arguments: Any, ngpu: int = 1, **named: Any
) -> Result:
    """Call a function in ``number`` new processes that know of each other, with ``ngpu`` 1 each on a GPU of its own.

    Args:
        function: at the top level of a module; it is given ``arguments``, ``named`` and ``ngpu``, and asks
            :func:`device_for` for its device.
        number: how many.
        arguments, named: what can be pickled.
        ngpu: 0 for processes on the CPU.

    Returns:
        What it returns in process 0.

    Raises:
        InputError: there are not as many GPUs, the function raised it, or a process died.
    """
    if ngpu and torch.cuda.device_count() < number:
        raise InputError(f"--ngpu {number}, but torch finds {torch.cuda.device_count()} GPUs: give at most as many")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with TemporaryDirectory() as folder:
        call = (function, arguments, {**named, "ngpu": ngpu})
        try:
            spawn(_process, (number, port, Path(folder), call), nprocs=number)
        except (ProcessRaisedException, ProcessExitedException) as error:
            for fault in sorted(Path(folder).glob("fault.*")):
                raise InputError(fault.read_text(encoding="utf-8")) from None
            raise InputError(f"one of {number} processes ended: {error}") from None
        result: Result = pickle.loads((Path(folder) / "result").read_bytes())
        return result


def _process(rank: int, number: int, port: int, folder: Path, call: tuple[Any, ...]) -> None:
    """One of the processes of :func:`launch`."""
    function, arguments, named = call
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": number, "LOCAL_WORLD_SIZE": number, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in names.items()}, MASTER_ADDR="127.0.0.1")
    try:
        result = function(*arguments, **named)
    except InputError as error:
        (folder / f"fault.{rank}").write_text(str(error), encoding="utf-8")
        raise
    if rank == 0:
        (folder / "result").write_bytes(pickle.dumps(result))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def device_for(ngpu: int) -> torch.device:
    """The device of this process: the CPU for 0, a GPU for 1, and its own GPU under ``accelerate launch``.

    Raises:
        InputError: another number, there is no GPU that torch can use, or Accelerate is not installed.
    """
    if ngpu not in (0, 1):
        raise InputError(f"--ngpu {ngpu}: a process has one GPU, or none: give 0 or 1")
    if ngpu and not torch.cuda.is_available():
        raise InputError("--ngpu 1, but torch finds no GPU: give --ngpu 0, or run it on a machine with a GPU")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        try:
            from accelerate import PartialState
        except ImportError:
            raise InputError("several processes need Accelerate: pip install accelerate") from None
        return PartialState(cpu=not ngpu).device
    return torch.device("cuda" if ngpu else "cpu")


def rank() -> int:
    """The number of this process, from 0; process 0 writes files and prints."""
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0


def count() -> int:
    """How many processes there are."""
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1


def gather(value: Any) -> list[Any]:
    """The values of all processes, in their order."""
    if count() == 1:
        return [value]
    values: list[Any] = [None] * count()
    torch.distributed.all_gather_object(values, value)
    return values


def wait() -> None:
    """Wait until all processes are here."""
    if count() > 1:
        torch.distributed.barrier()


def own_share[Item](items: Sequence[Item]) -> list[Item]:
    """The items of this process."""
    return list(items[rank() :: count()])


def map_shared[Item, Value](score: Callable[[list[Item]], Sequence[Value]], items: Sequence[Item]) -> list[Value]:
    """What ``score`` gives for all items, in their order; each process scores its share.

    Raises:
        Exception: that of any process, on all of them.
    """
    found: list[Value] = []
    fault: Exception | None = None
    try:
        found = list(score(own_share(items)))
    except Exception as error:  # the others would wait for ever
        fault = error
    shares = gather((found, fault))
    for _, raised in shares:
        if raised is not None:
            raise raised
    merged: list[Any] = [None] * len(items)
    for number, (values, _) in enumerate(shares):
        merged[number :: len(shares)] = values
    return merged


def sum_gradients(parameters: Iterable[torch.nn.Parameter], share: float) -> None:
    """Replace each gradient by the sum over processes of its ``share``-fold; a missing gradient is zero.

    Gradients are joined to a few long tensors, since each exchange costs time, however short what it sends.
    """
    if count() == 1:
        return
    gradients = []
    for parameter in parameters:
        if parameter.requires_grad:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradients.append(parameter.grad)
    for joined in _buckets(gradients):
        flat = torch.cat([gradient.reshape(-1) for gradient in joined]).mul_(share)
        torch.distributed.all_reduce(flat)
        for gradient, part in zip(joined, flat.split([gradient.numel() for gradient in joined]), strict=True):
            gradient.copy_(part.view_as(gradient))


def _buckets(tensors: Iterable[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """The tensors in lists of one number format and at most ``BUCKET`` bytes, unless one tensor alone has more."""
    begun: dict[torch.dtype, tuple[list[torch.Tensor], int]] = {}
    for tensor in tensors:
        own, size = begun.get(tensor.dtype, ([], 0))
        if own and size + tensor.nbytes > BUCKET:
            yield own
            own, size = [], 0
        own.append(tensor)
        begun[tensor.dtype] = own, size + tensor.nbytes
    for own, _ in begun.values():
        yield own
