"""Read checkpoints safely, and refuse one that does not fit its model or holds NaN.
ESPnet would decode with either.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from espnet_ext.errors import InputError
from espnet_ext.work.yaml_files import read_yaml

if TYPE_CHECKING:
    import torch

LATEST = "latest.pth"  # the parameters of a training's last epoch, as ESPnet calls them
SHOWN = 3


def load_checkpoint(path: str | Path, device: str = "cpu") -> Any:
    """Load what ``torch.save`` has written, with ``weights_only``. ``device="meta"``
    reads only names and shapes.
    """
    import torch

    try:
        return torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file: train the model first, or check the path"
        ) from None
    except (
        Exception
    ) as error:  # torch raises many kinds: RuntimeError, UnpicklingError, EOFError ...
        reason = (
            str(error).split(". ")[0].split("\n")[0] or type(error).__name__
        )  # not its advice: load unsafely
        raise InputError(
            f"{path}: not a checkpoint that loads safely ({reason}): train or "
            "copy it again"
        ) from None


def load_epochs(folder: Path) -> Mapping[int, Mapping[str, Any]]:
    """Load what ESPnet's reporter has noted of each epoch, ``train`` and ``valid``,
    such as ``valid: {acc: 0.9}``.
    """
    return load_checkpoint(folder / "checkpoint.pth")["reporter"]["stats"]


def load_parameters(path: str | Path, device: str = "cpu") -> "dict[str, torch.Tensor]":
    """Load a model's parameters and buffers by name, from a file that holds nothing
    else or has a known wrapper.
    """
    import torch

    state = load_checkpoint(path, device)
    for wrapper in (
        "module",
        "state_dict",
    ):  # of DeepSpeed and Lightning, which ESPnet accepts too
        if isinstance(state, dict) and isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    if not isinstance(state, dict) or not all(
        isinstance(value, torch.Tensor) for value in state.values()
    ):
        raise InputError(
            f"{path}: does not hold the parameters of a model: give a file such "
            "as valid.acc.ave.pth"
        )
    return state


def check_checkpoint(model_file: str | Path, model: "torch.nn.Module") -> None:
    """Compare the names and shapes in ``model_file`` with those of ``model``. Values
    are not read.
    """
    found = {
        key: tuple(value.shape)
        for key, value in load_parameters(model_file, "meta").items()
    }
    wanted = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    faults = misfits(found, wanted)
    if faults:
        raise InputError(
            f"{model_file}: does not fit its config ({len(wanted)} parameters and "
            f"buffers): {faults}: "
            "give the config.yaml that it was trained with, or train again"
        )


def misfits(
    found: Mapping[str, tuple[int, ...]],
    wanted: Mapping[str, tuple[int, ...]],
) -> str:
    """Say what differs between the shapes in a checkpoint and those of a model, and
    name some; "" if nothing does.
    """
    missing = [key for key in wanted if key not in found]
    unexpected = [key for key in found if key not in wanted]
    shapes = [
        f"{key} {found[key]} instead of {wanted[key]}"
        for key in wanted
        if key in found and found[key] != wanted[key]
    ]
    return "; ".join(
        f"{len(items)} {what} "
        f"({', '.join(items[:SHOWN])}{', ...' if len(items) > SHOWN else ''})"
        for what, items in (
            ("missing", missing),
            ("unexpected", unexpected),
            ("of another shape", shapes),
        )
        if items
    )


def check_values(model_file: str | Path, model: "torch.nn.Module") -> None:
    """Refuse a model whose parameters are NaN or infinite, as after a training that has
    diverged.

    It would recognise nothing, or nonsense, and look as if there were no speech.
    """
    bad = [
        name
        for name, value in model.named_parameters()
        if not bool(value.isfinite().all())
    ]
    bad += [
        name
        for name, value in model.named_buffers()
        if value.is_floating_point() and bool(value.isnan().any())
    ]
    if bad:
        more = f" and {len(bad) - 1} others" if len(bad) > 1 else ""
        raise InputError(
            f"{model_file}: values of {bad[0]}{more} are NaN or infinite: the "
            "training has diverged, or the file is "
            "damaged: take another checkpoint"
        )


def check_model(task: Any, config_file: str | Path, model_file: str | Path) -> None:
    """Build the model of ``config_file`` by an ESPnet task and check ``model_file``
    against it, but for adapters.
    """
    from argparse import Namespace

    config = read_yaml(config_file)
    if not config.get("use_adapter"):  # whose checkpoint may hold only the adapters
        # The checkpoint overwrites what initialisation would fill in.
        check_checkpoint(
            model_file, task.build_model(Namespace(**(config | {"init": None})))
        )


@contextmanager
def strict_loading() -> Iterator[None]:
    """In this block, let every task's ``build_model_from_file``, and so
    ``Speech2Text``, refuse a checkpoint that does not fit.

    So is one with parameters that are NaN or infinite, and a config without one.
    """
    from espnet2.tasks.abs_task import AbsTask

    load = vars(AbsTask)["build_model_from_file"].__func__
    if is_strict(load):
        yield
        return
    with patch.object(AbsTask, "build_model_from_file", classmethod(make_strict(load))):
        yield


def is_strict(load: Callable[..., Any]) -> bool:
    """Return whether a ``build_model_from_file`` is one of :func:`make_strict`."""
    return getattr(load, "strict", False)


@functools.cache  # the same function each time, by which models are kept
def make_strict(load: Callable[..., Any]) -> Callable[..., Any]:
    """Return a task's ``build_model_from_file`` with checks before and after it; other
    arguments, such as those of a lab's own version, are passed on.
    """
    if is_strict(load):
        return load

    @functools.wraps(load)
    def load_and_check(
        task: type,
        config_file: str | Path | None = None,
        model_file: str | Path | None = None,
        *arguments: Any,
        **options: Any,
    ) -> tuple[Any, Any]:
        # ESPnet would ask on the terminal whether to load an unsafe file.
        if model_file is not None:
            load_parameters(model_file, "meta")
        config = Path(config_file or Path(str(model_file)).parent / "config.yaml")
        try:
            model, args = load(task, config_file, model_file, *arguments, **options)
        except RuntimeError:
            # probably a parameter of another shape: name it
            if model_file is not None:
                check_model(task, config, model_file)
            raise
        except FileNotFoundError as error:
            if error.filename is None:
                raise
            raise _name_missing_file(str(error.filename), config) from None
        if model_file is None:
            raise InputError(
                f"{config_file}: no checkpoint is given: the model would have "
                "random parameters"
            )
        if not getattr(args, "use_adapter", False):
            check_checkpoint(model_file, model)
        check_values(model_file, model)
        return model, args

    setattr(load_and_check, "strict", True)  # noqa: B010
    return load_and_check


def _name_missing_file(path: str, config: Path) -> InputError:
    """Return what to say of a file that is missing while a model is built."""
    advice = (
        f"{config} names it, from the folder in which the model was trained: run the "
        "command there"
    )
    if path == str(config):
        advice = "train the model first, or check the path"
    return InputError(f"{path}: no such file: {advice}")
