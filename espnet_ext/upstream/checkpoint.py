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
    """Load what ``torch.save`` has written, with ``weights_only``.

    ``device="meta"`` reads only names and shapes. Raises InputError: no such file, or
    not one that loads safely.
    """
    import torch

    try:
        return torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file: train the model first, or check the path"
        ) from None
    # torch raises many kinds: RuntimeError, UnpicklingError, EOFError ...
    except Exception as error:
        # Its first sentence alone: the next ones advise to load unsafely.
        sentence = str(error).split(". ")[0].split("\n")[0]
        reason = sentence or type(error).__name__
        raise InputError(
            f"{path}: not a checkpoint that loads safely ({reason}): train or "
            "copy it again"
        ) from None


def load_epochs(folder: Path) -> Mapping[int, Mapping[str, Any]]:
    """Load what ESPnet's reporter has noted of each epoch.

    An epoch has ``train`` and ``valid``, such as ``valid: {acc: 0.9}``.
    """
    return load_checkpoint(folder / "checkpoint.pth")["reporter"]["stats"]


def load_parameters(path: str | Path, device: str = "cpu") -> "dict[str, torch.Tensor]":
    """Load a model's parameters and buffers by name.

    Raises InputError: the file holds something else, or nothing that loads safely.
    """
    import torch

    state = load_checkpoint(path, device)
    # DeepSpeed and Lightning wrap the parameters; ESPnet accepts both.
    for wrapper in ("module", "state_dict"):
        if isinstance(state, dict) and isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    values = state.values() if isinstance(state, dict) else [state]
    holds_others = any(not isinstance(value, torch.Tensor) for value in values)
    if not isinstance(state, dict) or holds_others:
        raise InputError(
            f"{path}: does not hold the parameters of a model: give a file such "
            "as valid.acc.ave.pth"
        )
    return state


def split_init_param(init_param: str) -> tuple[str, str, str, str]:
    """Split ESPnet's ``FILE[:FROM[:TO[:EXCLUDED]]]``; "" is what is left out."""
    given = init_param.split(":", 3)
    path, source, target, excluded = given + [""] * (4 - len(given))
    return path, source, target, excluded


def read_shapes(
    parameters: "Mapping[str, torch.Tensor]",
) -> dict[str, tuple[int, ...]]:
    """Return the shape of each parameter."""
    return {name: tuple(value.shape) for name, value in parameters.items()}


def check_checkpoint(model_file: str | Path, model: "torch.nn.Module") -> None:
    """Refuse a file whose names and shapes are not those of ``model``.

    Values are not read.
    """
    found = read_shapes(load_parameters(model_file, "meta"))
    wanted = read_shapes(model.state_dict())
    faults = list_misfits(found, wanted)
    if faults:
        raise InputError(
            f"{model_file}: does not fit its config ({len(wanted)} parameters and "
            f"buffers): {faults}: "
            "give the config.yaml that it was trained with, or train again"
        )


def list_misfits(
    found: Mapping[str, tuple[int, ...]],
    wanted: Mapping[str, tuple[int, ...]],
) -> str:
    """Say how the shapes in a checkpoint differ from those of a model, and name some.

    "" if they do not.
    """
    missing = [key for key in wanted if key not in found]
    unexpected = [key for key in found if key not in wanted]
    others = []
    for key, shape in wanted.items():
        if key in found and found[key] != shape:
            others.append(f"{key} {found[key]} instead of {shape}")
    faults = []
    for items, what in (
        (missing, "missing"),
        (unexpected, "unexpected"),
        (others, "of another shape"),
    ):
        if items:
            more = ", ..." if len(items) > SHOWN else ""
            faults.append(f"{len(items)} {what} ({', '.join(items[:SHOWN])}{more})")
    return "; ".join(faults)


def check_values(model_file: str | Path, model: "torch.nn.Module") -> None:
    """Refuse a model with NaN or infinite values, as after it has diverged.

    It would recognise nothing, or nonsense, and look as if there were no speech.
    """
    bad = []
    for name, parameter in model.named_parameters():
        if not bool(parameter.isfinite().all()):
            bad.append(name)
    # Infinite values in buffers may be meant, as in masks.
    for name, buffer in model.named_buffers():
        if buffer.is_floating_point() and bool(buffer.isnan().any()):
            bad.append(name)
    if bad:
        more = f" and {len(bad) - 1} others" if len(bad) > 1 else ""
        raise InputError(
            f"{model_file}: values of {bad[0]}{more} are NaN or infinite: the training "
            "has diverged, or the file is damaged: take another checkpoint"
        )


def check_model(task: Any, config_file: str | Path, model_file: str | Path) -> None:
    """Build the model of a config by an ESPnet task, and check a checkpoint against it.

    One with adapters is not checked: its checkpoint may hold only these.
    """
    from argparse import Namespace

    config = read_yaml(config_file)
    if config.get("use_adapter"):
        return
    # The checkpoint overwrites what initialisation would fill in.
    options = Namespace(**(config | {"init": None}))
    check_checkpoint(model_file, task.build_model(options))


@contextmanager
def strict_loading() -> Iterator[None]:
    """In this block, let ``build_model_from_file`` refuse a checkpoint that is unfit.

    So ``Speech2Text`` does of every task. Unfit is one of another model, and one with
    parameters that are NaN or infinite; a config without a checkpoint is refused too.
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


# Cached, so that it is the same function each time: models are kept by it.
@functools.cache
def make_strict(load: Callable[..., Any]) -> Callable[..., Any]:
    """Return a task's ``build_model_from_file`` with checks before and after it.

    Other arguments, such as those of a lab's own version, are passed on.
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
        # where ESPnet looks for it, too
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
        # after loading, which ESPnet does with strict=False: what is missing has kept
        # its random values. With adapters, a checkpoint may hold only these.
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
