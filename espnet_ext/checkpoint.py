"""Refuse a checkpoint that does not fit its model: ESPnet loads non-strictly and would leave parameters at random."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from espnet_ext.errors import InputError

if TYPE_CHECKING:
    import torch

SHOWN = 3


def check_checkpoint(model_file: str | Path, model: "torch.nn.Module") -> None:
    """Compare the names and shapes in ``model_file`` with those of ``model``; no values are read.

    Raises:
        InputError: the file is missing or no checkpoint that loads with ``weights_only=True``; or it lacks parameters
            or buffers of the model, has others, or has them in other shapes. The message counts each and names a few.
    """
    found = _shapes(Path(model_file))
    wanted = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    missing = [key for key in wanted if key not in found]
    unexpected = [key for key in found if key not in wanted]
    shapes = [
        f"{key} {found[key]} instead of {wanted[key]}" for key in wanted if key in found and found[key] != wanted[key]
    ]
    faults = [
        f"{len(items)} {what} ({', '.join(items[:SHOWN])}{', ...' if len(items) > SHOWN else ''})"
        for what, items in (("missing", missing), ("unexpected", unexpected), ("of another shape", shapes))
        if items
    ]
    if faults:
        raise InputError(
            f"{model_file}: does not fit its config ({len(wanted)} parameters and buffers): {'; '.join(faults)}: "
            "give the config.yaml that it was trained with, or train again"
        )


def check_model(task: type, config_file: str | Path, model_file: str | Path) -> None:
    """Build the model of ``config_file`` by an ESPnet task and check ``model_file`` against it.

    A model with adapters is not checked: its checkpoint may hold the adapters alone.

    Raises:
        InputError: as :func:`check_checkpoint`, and for a config that is missing or no YAML mapping.
    """
    from argparse import Namespace

    import yaml

    try:
        with Path(config_file).open(encoding="utf-8") as file:
            config = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except FileNotFoundError:
        raise InputError(f"{config_file}: no such file: give the config.yaml beside the model") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{config_file}: not readable as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(config, dict):
        raise InputError(f"{config_file}: is no training config of ESPnet: give the config.yaml beside the model")
    if config.get("use_adapter"):
        return
    # The checkpoint overwrites what initialisation would fill in.
    check_checkpoint(model_file, task.build_model(Namespace(**(config | {"init": None}))))


def load_strictly() -> None:
    """Make every task's ``build_model_from_file``, and so ``Speech2Text``, refuse a checkpoint that does not fit.

    Calling it again changes nothing.
    """
    from espnet2.tasks.abs_task import AbsTask

    load = AbsTask.build_model_from_file.__func__
    if getattr(load, "strict", False):
        return

    @functools.wraps(load)
    def load_and_check(cls, config_file=None, model_file=None, device="cpu"):
        if model_file is not None:
            _shapes(Path(model_file))  # ESPnet would ask, on a terminal, whether to load a file that is not safe
        try:
            model, args = load(cls, config_file, model_file, device)
        except RuntimeError:
            # a parameter of another shape; say which, if that is what it was
            if model_file is not None:
                check_model(cls, config_file or Path(model_file).parent / "config.yaml", model_file)
            raise
        if model_file is not None and not getattr(args, "use_adapter", False):
            check_checkpoint(model_file, model)
        return model, args

    load_and_check.strict = True
    AbsTask.build_model_from_file = classmethod(load_and_check)


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    import torch

    try:
        state = torch.load(path, map_location="meta", weights_only=True)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file: train the model first, or check the path") from None
    except Exception as error:  # torch raises whatever its readers do: RuntimeError, UnpicklingError, EOFError ...
        reason = str(error).strip().split("\n")[0]
        raise InputError(
            f"{path}: not a checkpoint that loads safely ({reason}): train again, or copy it again"
        ) from None
    for wrapper in ("module", "state_dict"):  # DeepSpeed's and Lightning's, which ESPnet takes as well
        if isinstance(state, dict) and isinstance(state.get(wrapper), dict):
            state = state[wrapper]
    if not isinstance(state, dict) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise InputError(
            f"{path}: holds no model's parameters (a training checkpoint?): give a file such as valid.acc.ave.pth"
        )
    return {key: tuple(value.shape) for key, value in state.items()}
