"""The files of a model: in a training's folder, in a packed archive, or on the hub.

A packed model is a folder, or an archive of it, in the layout of ESPnet's own packing,
see ``docs/sharing.md``: ``meta.yaml`` lists the files, ``espnet_ext.yaml`` says how its
authors decode it.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.sharing.archives import ARCHIVES, unpack
from espnet_ext.sharing.espnet3 import convert_to_espnet2, find_average, is_espnet3
from espnet_ext.upstream.checkpoint import LATEST
from espnet_ext.upstream.config_paths import (
    find_named_files,
    list_base_folders,
    replace_paths,
)
from espnet_ext.work.hub import download
from espnet_ext.work.once import fingerprint
from espnet_ext.work.yaml_files import read_yaml, write_yaml

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(@[\w./-]+)?")
META = "meta.yaml"
OURS = "espnet_ext.yaml"
CARD = "README.md"
CONFIG = "config.yaml"
MODEL = "model.pth"
PRIOR = "search/prior.txt"
TASKS = ("asr", "sa_asr", "long", "mt")
# The tasks of ESPnet's own packing, which begin the names in meta.yaml.
PACKED = ("asr", "mt", "s2t")
# What ESPnet keeps for decoding, the preferred one first. The recipes have their own
# averages, such as best5.ave.pth.
CHECKPOINTS = (
    "valid.acc.ave.pth",
    "valid.loss.ave.pth",
    "valid.acc.best.pth",
    "valid.loss.best.pth",
    MODEL,
)
EMPTY: Mapping[str, Any] = MappingProxyType({})
# What only a training needs: its data, folders and start. The values are those that
# ESPnet has when none is given.
TRAINING: Mapping[str, Any] = {
    **dict.fromkeys(("config", "output_dir", "pretrain_path", "noise_scp", "rir_scp")),
    **dict.fromkeys(("wandb_project", "wandb_id", "wandb_entity", "wandb_name")),
    "use_wandb": False,
    "dist_init_method": "env://",
    "dist_master_addr": None,
    "init_param": [],
    "stages": [],  # of a training that grows (P2), with lists of its utterances
    "ignore_init_mismatch": False,
    **{
        f"{part}_{name}": []
        for part in ("train", "valid")
        for name in ("data_path_and_name_and_type", "shape_file")
    },
}


@dataclass(frozen=True)
class ModelFiles:
    """A model that can be loaded."""

    name: str  # what the user called it, for messages
    config: Path  # of the training, all paths in it absolute
    model: Path
    lm_config: Path | None = None
    lm_file: Path | None = None
    prior_file: Path | None = None
    task: str = "asr"  # one of TASKS
    # options by the names of espnet2.bin.asr_inference
    search: Mapping[str, Any] = field(default=EMPTY)
    espnet: str = ""  # the release that packed it; "" for a training's folder

    def options(self) -> dict[str, str]:
        """Return the files that there are, by the names of options.

        The options are those of ``espnet2.bin.asr_inference`` and ours.
        """
        files = {
            "asr_train_config": self.config,
            "asr_model_file": self.model,
            "lm_train_config": self.lm_config,
            "lm_file": self.lm_file,
            "prior_file": self.prior_file,
        }
        return {name: str(path) for name, path in files.items() if path is not None}


def find_model(name: str | Path) -> ModelFiles:
    """Find the files of a model.

    ``name`` is a packed archive, which is unpacked into the cache; the folder of a
    packed model or of a training by ESPnet2 or 3, or one of its checkpoints; or
    ``user/model``, with ``@revision`` if wanted, which is downloaded from the hub.
    Raises InputError: there is no such model, it lacks a file, or it cannot be
    downloaded.
    """
    path = Path(name)
    if path.is_dir():
        return read_folder(path)
    if path.suffix in (".pth", ".ckpt") and path.is_file():
        return read_folder(path.parent, checkpoint=path)
    if path.is_file():
        if not path.name.endswith(ARCHIVES):
            raise InputError(
                f"{path}: not a packed model ({', '.join(ARCHIVES)}): give an "
                "archive or a folder"
            )
        return read_folder(unpack(path, _cache_folder() / "models"), name=str(path))
    if HUB_NAME.fullmatch(str(name)):
        return read_folder(download(str(name), library_name="espnet"), name=str(name))
    raise InputError(
        f"{name}: no such file or folder, and not a name on the hub (user/model)"
    )


def _cache_folder() -> Path:
    own = os.environ.get("ESPNET_EXT_CACHE")
    if own:
        return Path(own)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "espnet_ext"


def read_folder(
    folder: Path,
    *,
    name: str = "",
    checkpoint: Path | None = None,
) -> ModelFiles:
    """Read which files of a folder are a model.

    The folder is of a packed model or of a training. ``name`` is what the user called
    it, if that is not the folder; ``checkpoint`` is of a training, None for what
    :func:`find_checkpoint` finds. Raises InputError: the folder holds no model, or a
    file that its ``meta.yaml`` or config names is not there.
    """
    name = name or str(folder)
    if (folder / META).is_file() and checkpoint is None:
        return _read_packed(folder, name)
    if (folder / CONFIG).is_file():
        task = find_task(read_yaml(folder / CONFIG))
        checkpoint = checkpoint or find_checkpoint(folder, task)
        config = make_paths_absolute(folder / CONFIG, list_base_folders(folder))
        return ModelFiles(name, config, checkpoint, task=task)
    raise InputError(
        f"{name}: holds no model: it has neither {META} (a packed model) nor "
        f"{CONFIG} (a training)"
    )


def _read_packed(folder: Path, name: str) -> ModelFiles:
    meta = read_yaml(folder / META)
    ours = read_yaml(folder / OURS) if (folder / OURS).is_file() else {}
    named: dict[str, Any] = {}
    for part in ("yaml_files", "files"):
        if not isinstance(meta.get(part) or {}, dict):
            raise InputError(
                f"{name}: {META}: {part} is no mapping of names to files: "
                "download or pack it again"
            )
        named.update(meta.get(part) or {})
    # A package may be a stranger's: its paths must not reach the user's other files.
    for file in map(str, named.values()):
        if _leads_out(file):
            raise InputError(
                f"{name}: its {META} names {file}, outside of the model: do not use it"
            )
        if not (folder / file).is_file():
            raise InputError(
                f"{name}: lacks {file}, which its {META} names: copy, unpack or "
                "download it again"
            )
    kinds = []
    for kind in PACKED:
        if {f"{kind}_train_config", f"{kind}_model_file"} <= named.keys():
            kinds.append(kind)
    if not kinds:
        raise InputError(
            f"{name}: its {META} names no model for speech recognition or "
            "translation of hypotheses"
        )
    config = named[f"{kinds[0]}_train_config"]
    model = named[f"{kinds[0]}_model_file"]
    task = find_task(read_yaml(folder / config))
    search = ours.get("search") or {}
    if "s2t_train_config" in named:
        raise InputError(
            f"{name}: is of ESPnet's task s2t: espnet2.bin.s2t_inference or "
            "s2t_inference_ctc decodes it"
        )
    if ours.get("task", task) not in TASKS or not isinstance(search, dict):
        raise InputError(
            f"{name}: {OURS} needs a task ({', '.join(TASKS)}) and a mapping of "
            "search options"
        )
    prior = folder / PRIOR
    lm_config = None
    if "lm_train_config" in named:
        lm_config = _check_own_paths(folder / named["lm_train_config"], folder)
    return ModelFiles(
        name=name,
        config=_check_own_paths(folder / config, folder),
        model=folder / model,
        lm_config=lm_config,
        lm_file=folder / named["lm_file"] if "lm_file" in named else None,
        prior_file=prior if prior.is_file() else None,
        task=ours.get("task", task),
        search=search,
        espnet=str(meta.get("espnet", "")),
    )


def _check_own_paths(config: Path, folder: Path) -> Path:
    """Return the config of a packed model with absolute paths.

    Raises InputError: it names a file that is not of the model.
    """
    values = drop_training(read_yaml(config))
    for name in find_named_files(values, [folder], config):
        if _leads_out(name):
            raise InputError(
                f"{config}: names {name}, outside of the model: do not use it"
            )
    return make_paths_absolute(config, [folder])


def _leads_out(name: str) -> bool:
    return os.path.isabs(name) or os.path.normpath(name).startswith("..")


def find_task(config: Mapping[str, Any]) -> str:
    """Return the task of a training config, by the keys that only that task writes.

    A name in it, such as ``encoder: long_fastconformer``, says nothing: every task has
    it.
    """
    if "src_token_list" in config:
        return "mt"
    if "promptencoder" in config:
        raise InputError(
            "a config of ESPnet's task s2t: espnet2.bin.s2t_inference_ctc decodes "
            "its models"
        )
    if "speaker_encoder" in config:
        return "sa_asr"
    # Speech2Text has no features that are normalised by recording: such a model is
    # decoded in windows, whatever its encoder, and with or without a decoder.
    return "long" if "features_conf" in config else "asr"


def find_checkpoint(folder: Path, task: str = "asr") -> Path:
    """Find the checkpoint in a training's folder that is meant for decoding.

    The checkpoint is the training's average, or its best epoch. Of a long-context
    model, task ``long``, it is the last epoch: that is what P5 decodes. Raises
    InputError: there is none, or several averages to choose from.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder: name that of a training")
    # the recipes' own; those of ESPnet are called after a criterion
    averages = [
        path
        for path in sorted(folder.glob("*.ave.pth"))
        if re.fullmatch(r"(best|last)\d+\.ave\.pth", path.name)
    ]
    if len(averages) > 1:
        names = ", ".join(path.name for path in averages)
        raise InputError(
            f"{folder}: holds several averages ({names}): name one with --model"
        )
    candidates = list(averages)
    if task == "long":
        candidates.append(folder / LATEST)
    candidates += [folder / name for name in CHECKPOINTS]
    for path in candidates:
        if path.is_file():
            return path
    average = find_average(folder)
    if average:
        return average
    raise InputError(
        f"{folder}: has no {CHECKPOINTS[0]} or other average: train first, or "
        "name a file with --model"
    )


def make_paths_absolute(config: Path, bases: Sequence[Path]) -> Path:
    """Return the config with absolute paths.

    Return the file itself if its paths are absolute already, or a copy in the cache.
    """
    whole = read_yaml(config)
    model_part = drop_training(whole, config)
    found = find_named_files(model_part, bases, config)
    paths = {name: str(path) for name, path in found.items()}
    # a config of ESPnet3 must be written anew even so
    if all(name == path for name, path in paths.items()) and not is_espnet3(whole):
        return config
    key = fingerprint(str(config.resolve()), paths)[:20]
    target = _cache_folder() / "configs" / f"{key}.yaml"
    written = replace_paths(model_part, paths)
    write_yaml(target, written, f"{config}, with absolute paths")
    return target


def drop_training(
    config: Mapping[str, Any],
    source: str | Path = CONFIG,
) -> dict[str, Any]:
    """Return the config as ESPnet2 reads it, without what only its training needs.

    It may be of ESPnet2 or 3.
    """
    config = convert_to_espnet2(config, source) if is_espnet3(config) else config
    kept = {key: TRAINING.get(key, value) for key, value in config.items()}
    if "preprocessor_conf" in kept:  # rooms, noises and tables of speakers
        kept["preprocessor_conf"] = _drop_paths(kept["preprocessor_conf"])
    return kept


def _drop_paths(value: Any) -> Any:
    """Return a value of a config with None in place of each path."""
    if isinstance(value, Mapping):
        return {key: _drop_paths(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_drop_paths(item) for item in value]
    return None if isinstance(value, str) and "/" in value else value
