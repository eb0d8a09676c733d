"""The checkpoints of P5's authors as files: their state and settings, read without running code, and checked."""

import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch

from espnet_ext.errors import InputError
from espnet_ext.longform.decoding.settings import SHORTEST

_FRAMES = 100  # a second
# Settings that the models of the paper have, and no other value of which can be imported.
_FIXED: Mapping[str, Any] = {
    "subsampling": "dw_striding",
    "subsampling_factor": 8,
    "subsampling_act": "silu",
    "subsampling_norm_out": False,
    "conv_expansion_factor": 1,
    "decoder_norm": True,
    "default_norm": "layer_norm",
    "sandwich_norm": False,
    "bias_in_ff": False,
    "transformer": False,
    "rotary_interpolation_factor": 1.0,
    "learned_rotary": False,
    "expansion_factor": 4,
}
_DEFAULTS: Mapping[str, Any] = {  # of their code, for settings that a config leaves out
    **_FIXED,
    "feat_in": 80,
    "subsampling_conv_channels": 256,
    "n_layers": 6,
    "d_model": 768,
    "n_heads": 6,
    "head_dim": 128,
    "conv_kernel_size": 9,
    "use_rotary": False,
    "rotary_base_freq": 10000.0,  # YAML reads 1.5e6 as such a number, too
    "fourier_pos_enc": False,
    "self_conditioning": True,
    "legasee_double_norm": True,
}
_SHOWN = 60  # characters of a value in a message
_KINDS = {bool: "true or false", int: "a whole number above 0", float: "a number above 0", str: "a word"}
_COUNTS = "num_batches_tracked"
_DEVIATION = "running_std"
_REAL = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_UNREAD = "rotary_pos_emb."  # computed anew from the settings


def read_checkpoint(
    path: Path, trust_pickle: bool, seconds: float | None = None
) -> tuple[dict[str, torch.Tensor], dict[str, Any], float]:
    """The state by their names without ``module.``, the settings of the model and the seconds of its sequences.

    Args:
        path: one of the authors' files.
        trust_pickle: read also other objects than tensors and plain values. Their code is run.
        seconds: the context, if it is not to be the checkpoint's. 0 is returned where neither says it.

    Raises:
        InputError: no such checkpoint, other settings than the paper's, or parameters that are no finite real numbers.
    """
    loaded = _load(path, trust_pickle)
    settings = {**_DEFAULTS, **_mapping(loaded["config"], "model", path)}
    _check_settings(settings, path)
    state = _state(loaded["model"], path)
    for key, value in state.items():
        _check_tensor(key, value, path)
    return state, settings, _context(loaded["config"], path) if seconds is None else seconds


def first_line(error: Exception) -> str:
    """What an exception says, on one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _settings_classes() -> list[Any]:
    """The classes of OmegaConf's settings, which hold values alone; without OmegaConf there are none to read."""
    try:
        from omegaconf import AnyNode, DictConfig, ListConfig
        from omegaconf.base import ContainerMetadata, Metadata
    except ImportError:
        return []
    return [AnyNode, DictConfig, ListConfig, ContainerMetadata, Metadata, defaultdict, Any, dict, list, int, str]


def _numbers_of_numpy() -> list[Any]:
    """What reads NumPy's numbers, as their schedule's learning rates are; NumPy 1 called it by another name."""
    from numpy._core.multiarray import scalar

    names = [(scalar, f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")]
    return [*names, np.dtype, *(type(np.dtype(kind)) for kind in (np.float64, np.float32, np.int64))]


def _load(path: Path, trust_pickle: bool) -> Mapping[str, Any]:
    what = f"{path}: no checkpoint with 'model' and 'config'"
    try:
        with torch.serialization.safe_globals(_settings_classes() + _numbers_of_numpy()):
            loaded = torch.load(path, map_location="cpu", weights_only=not trust_pickle)
    except UnpicklingError as error:
        if trust_pickle:
            raise InputError(f"{what} ({first_line(error)})") from None
        other = "or it has objects that could run code: give --trust_pickle if you trust its source"
        raise InputError(f"{what}, {other}") from None
    except Exception as error:  # torch raises many kinds: RuntimeError, EOFError, ValueError ...
        raise InputError(f"{what} ({first_line(error)})") from None
    if not isinstance(loaded, Mapping) or not {"model", "config"} <= set(loaded):
        raise InputError(what)
    if not isinstance(loaded["config"], Mapping):
        raise InputError(f"{path}: its 'config' is {_shown(loaded['config'])}, and must have settings by name")
    return loaded


def _mapping(config: Mapping[str, Any], name: str, path: Path) -> dict[str, Any]:
    """A part of the config; empty if it has none, but the model's must be there."""
    try:
        part = config.get(name)
        if part is None and name != "model":
            return {}
        if isinstance(part, Mapping):
            return dict(part)
    except Exception as error:  # OmegaConf's, of a value that names another which is not there
        raise InputError(f"{path}: its config's {name} cannot be read ({first_line(error)})") from None
    if part is None:
        raise InputError(f"{path}: no checkpoint with 'model' and 'config': its config has no settings of a model")
    raise InputError(f"{path}: its config's {name} is {_shown(part)}, and must have settings by name")


def _check_settings(settings: Mapping[str, Any], path: Path) -> None:
    for name, default in _DEFAULTS.items():
        if not _is_a(settings[name], type(default)):
            raise InputError(f"{path}: {name} is {_shown(settings[name])}, and must be {_KINDS[type(default)]}")
    for name, value in _FIXED.items():
        if settings[name] != value:
            raise InputError(f"{path}: {name} is {settings[name]!r}; models of the paper have {value!r}")
    window = settings.get("attention_window_size")
    if window is not None and not (type(window) is int and window == -1):
        raise InputError(
            f"{path}: attention_window_size is {_shown(window)}; models of the paper attend to all of a window"
        )
    if settings["n_heads"] * settings["head_dim"] != settings["d_model"]:
        raise InputError(
            f"{path}: {settings['n_heads']} heads of head_dim {settings['head_dim']} are not d_model "
            f"{settings['d_model']}, as in models of the paper"
        )


def _is_a(value: Any, kind: type) -> bool:
    """Whether a setting is of the kind of its default: "false" is true for Python, and True is a 1."""
    if kind in (int, float):
        numbers = int if kind is int else int | float
        return isinstance(value, numbers) and not isinstance(value, bool) and 0 < value < math.inf
    return type(value) is kind


def _state(model: Any, path: Path) -> dict[str, torch.Tensor]:
    if not isinstance(model, Mapping) or not all(
        isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in model.items()
    ):
        raise InputError(f"{path}: its 'model' holds other things than parameters")
    state: dict[str, torch.Tensor] = {}
    for key, value in model.items():
        name = key.removeprefix("module.")
        if name in state:
            raise InputError(f"{path}: it has both {name} and module.{name}: save it again with one of them")
        state[name] = value
    return state


def _check_tensor(key: str, value: torch.Tensor, path: Path) -> None:
    """Refuse a tensor that is not of dense, real, finite numbers, or a value that the model cannot compute with."""
    if key.startswith(_UNREAD):
        return
    counts = key.endswith(_COUNTS)
    kinds = (*_REAL, torch.int64, torch.int32) if counts else _REAL  # their averages of checkpoints average counts, too
    if value.dtype not in kinds or value.layout != torch.strided or value.is_nested or value.is_meta:
        found = ", ".join(str(part).removeprefix("torch.") for part in (value.dtype, value.layout, value.device))
        raise InputError(f"{path}: {key} is not a dense tensor of real numbers ({found}): download it again")
    if not value.float().isfinite().all():
        raise InputError(f"{path}: {key} has values that are NaN or infinite: download it again")
    if key.endswith(_DEVIATION) and not ((value > 0) & value.float().reciprocal().isfinite()).all():
        raise InputError(
            f"{path}: {key} is a deviation, and has values that are not above 0, by which nothing can be divided: "
            "download it again"
        )


def _context(config: Mapping[str, Any], path: Path) -> float:
    """Seconds of a sequence; 0: the config does not say."""
    # audio_chunking.size is where the warm-up of the length begins, if there is one
    scheduled = _mapping(config, "sequence_scheduler", path).get("max_sequence_length")
    frames = _mapping(config, "audio_chunking", path).get("size", 0) if scheduled is None else scheduled
    if isinstance(frames, bool) or not isinstance(frames, int | float) or not 0 <= frames < math.inf:
        raise InputError(f"{path}: its sequences have {_shown(frames)} frames, which is no number of frames")
    if 0 < frames < SHORTEST * _FRAMES:
        raise InputError(
            f"{path}: its sequences have {frames:g} frames, {frames / _FRAMES:g} s, in which nothing can be heard: "
            "give --context in seconds"
        )
    return frames / _FRAMES


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ..."
