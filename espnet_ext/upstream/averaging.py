"""Average the parameters of several epochs of one training."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_ext.errors import InputError, say
from espnet_ext.upstream.checkpoint import load_epochs, load_parameters, read_shapes
from espnet_ext.work.files import atomic_write

if TYPE_CHECKING:
    import torch


def write_average(
    folder: Path,
    output: Path,
    which: str,
    count: int,
    criterion: str = "valid.acc.max",
    first: int = 1,
) -> None:
    """Average the ``best`` or ``last`` epochs of a training into one checkpoint.

    ``criterion`` is phase, name, and ``min`` or ``max``; ``first`` is the first epoch
    that may be one of the best.
    """
    if which not in ("best", "last") or count < 1:
        raise InputError(
            f"{which}:{count}: an average is over best:N or last:N epochs, at least 1"
        )
    if which == "last":
        files = list_last_epochs(folder, count)
    else:
        phase, _, rest = criterion.partition(".")
        key, _, mode = rest.rpartition(".")
        files = list_best_epochs(folder, count, (phase, key, mode), first)

    import torch

    with atomic_write(output, "wb") as file:
        torch.save(average_checkpoints(files), file)
    say(f"{output}: the mean of {', '.join(path.name for path in files)}")


def average_checkpoints(files: Sequence[Path]) -> "dict[str, torch.Tensor]":
    """Average each floating-point tensor over checkpoints, summed in float64.

    Others, such as counts, are those of the last file. Raises InputError: the files
    hold different parameters.
    """
    if not files:
        raise InputError("there are no checkpoints to average")
    sums: dict[str, torch.Tensor] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    # one file at a time, since all of them need not fit into memory
    for file in files:
        state = load_parameters(file)
        own_shapes = read_shapes(state)
        shapes = shapes or own_shapes
        if own_shapes != shapes:
            raise InputError(
                f"{file}: holds other parameters than {files[0]}: average epochs "
                "of one training only"
            )
        for key, value in state.items():
            if value.is_floating_point():
                sums[key] = value.double() + sums.get(key, 0)
            else:
                sums[key] = value
    means = {}
    # of the last file, which has the names and the types of all
    for key, value in state.items():
        mean = sums[key] / len(files) if value.is_floating_point() else value
        means[key] = mean.to(value.dtype)
    return means


def list_last_epochs(folder: Path, count: int) -> list[Path]:
    """Return the checkpoints of the last ``count`` epochs, the latest first."""
    numbers = [
        int(path.name.removesuffix("epoch.pth"))
        for path in folder.glob("[0-9]*epoch.pth")
    ]
    if not numbers:
        raise InputError(f"{folder}: has no <n>epoch.pth: train first")
    return _list_files(folder, range(max(numbers), max(numbers) - count, -1))


def list_best_epochs(
    folder: Path,
    count: int,
    criterion: tuple[str, str, str],
    first: int = 1,
) -> list[Path]:
    """Return the checkpoints of the best epochs, the best first.

    ``criterion``: such as ``("valid", "acc", "max")``; ``first``: the first epoch that
    may be one of them.
    """
    phase, key, mode = criterion
    values = {}
    for epoch, stats in load_epochs(folder).items():
        of_phase = stats.get(phase, {})
        if epoch >= first and key in of_phase:
            values[epoch] = of_phase[key]
    if mode not in ("min", "max") or not values:
        raise InputError(
            f"{folder / 'checkpoint.pth'}: no {phase}.{key} to take the {mode} "
            "of: name another criterion"
        )
    # of equals the earlier first, as ESPnet's reporter has it; ``reverse`` keeps that
    order = sorted(values, key=lambda epoch: values[epoch], reverse=mode == "max")
    return _list_files(folder, order[:count])


def _list_files(folder: Path, epochs: Sequence[int]) -> list[Path]:
    files = [folder / f"{epoch}epoch.pth" for epoch in epochs]
    for file in files:
        if not file.exists():
            raise InputError(
                f"{file}: no such file: raise keep_nbest_models and train again, "
                "or average fewer epochs"
            )
    return files
