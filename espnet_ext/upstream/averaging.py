"""Average the parameters of several epochs of one training."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_ext.errors import InputError, say
from espnet_ext.upstream.checkpoint import load_epochs, load_parameters
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
        files = last_epochs(folder, count)
    else:
        phase, _, rest = criterion.partition(".")
        key, _, mode = rest.rpartition(".")
        files = best_epochs(folder, count, (phase, key, mode), first)

    import torch

    with atomic_write(output, "wb") as file:
        torch.save(average(files), file)
    say(f"{output}: the mean of {', '.join(path.name for path in files)}")


def average(files: Sequence[Path]) -> "dict[str, torch.Tensor]":
    """Average each floating-point tensor over checkpoints, summed in float64; take
    others from the last file.
    """
    if not files:
        raise InputError("there are no checkpoints to average")
    sums: dict[str, torch.Tensor] = {}
    for file in files:
        state = load_parameters(file)
        if sums and {key: value.shape for key, value in state.items()} != {
            key: v.shape for key, v in sums.items()
        }:
            raise InputError(
                f"{file}: holds other parameters than {files[0]}: average epochs "
                "of one training only"
            )
        for key, value in state.items():
            sums[key] = (
                value.double() + sums.get(key, 0)
                if value.is_floating_point()
                else value
            )
    return {
        key: (sums[key] / len(files)).to(value.dtype)
        if value.is_floating_point()
        else value
        for key, value in state.items()
    }


def last_epochs(folder: Path, count: int) -> list[Path]:
    """Return the checkpoints of the last ``count`` epochs of an ESPnet training, the
    latest first.
    """
    numbers = [
        int(path.name.removesuffix("epoch.pth"))
        for path in folder.glob("[0-9]*epoch.pth")
    ]
    if not numbers:
        raise InputError(f"{folder}: has no <n>epoch.pth: train first")
    return _files(folder, range(max(numbers), max(numbers) - count, -1))


def best_epochs(
    folder: Path,
    count: int,
    criterion: tuple[str, str, str],
    first: int = 1,
) -> list[Path]:
    """Return the checkpoints of the best epochs, the best first, by a criterion as
    ``("valid", "acc", "max")``.
    """
    phase, key, mode = criterion
    stats = load_epochs(folder)
    own = {
        epoch: of_epoch.get(phase, {})
        for epoch, of_epoch in stats.items()
        if epoch >= first
    }
    values = {
        epoch: of_phase[key] for epoch, of_phase in own.items() if key in of_phase
    }
    if mode not in ("min", "max") or not values:
        raise InputError(
            f"{folder / 'checkpoint.pth'}: no {phase}.{key} to take the {mode} "
            "of: name another criterion"
        )
    order = sorted(values, key=lambda epoch: values[epoch], reverse=mode == "max")
    return _files(folder, order[:count])


def _files(folder: Path, epochs: Sequence[int]) -> list[Path]:
    files = [folder / f"{epoch}epoch.pth" for epoch in epochs]
    for file in files:
        if not file.exists():
            raise InputError(
                f"{file}: no such file: raise keep_nbest_models and train again, "
                "or average fewer epochs"
            )
    return files
