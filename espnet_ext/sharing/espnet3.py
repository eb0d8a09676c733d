"""What ESPnet3 leaves of a training, as far as it differs from what ESPnet2 does.

Its ``config.yaml`` has ESPnet2's keys and, between them, those of its own training
config, such as ``dataloader``, and any that the recipe's author has added; an optimizer
and a scheduler are mappings with ``_target_``.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError

LAST = "last.ckpt"
_AVERAGE = re.compile(r"valid\.(\w+)\.ave_([1-9][0-9]*)best\.pth")
_NAMES_OF_A_TASK = re.compile(
    r"espnet3\.systems\.\w+\.task\.ASRTask|espnet2\.tasks\.asr\.ASRTask"
)


def is_espnet3(config: Mapping[str, Any]) -> bool:
    """Tell whether a config is of a training by ESPnet3."""
    return isinstance(config.get("dataloader"), Mapping) and "exp_dir" in config


def convert_to_espnet2(config: Mapping[str, Any], source: str | Path) -> dict[str, Any]:
    """Return what ESPnet2 reads of a config of ESPnet3.

    ESPnet2 reads all that builds the model, and nothing of its training. ``source`` is
    the config's file, for messages. Raises InputError: it is of a task other than ASR,
    or does not say how text is made of tokens, as with several preprocessors.
    """
    from espnet2.tasks.asr import ASRTask

    task = str(config.get("task"))
    if not _NAMES_OF_A_TASK.fullmatch(task):
        raise InputError(
            f"{source}: of ESPnet3's task {task}, and only its ASRTask is read "
            "here: use its stage infer"
        )
    known = {action.dest for action in ASRTask.get_parser()._actions}
    ours = {key: value for key, value in config.items() if key in known}
    # Of ESPnet3 it is a mapping, which ESPnet2 would take for a name.
    ours["scheduler"] = None
    if ours.get("token_type") == "bpe" and not ours.get("bpemodel"):
        raise InputError(
            f"{source}: has no bpemodel: name one preprocessor for train and "
            "valid, which has it"
        )
    return ours


def find_average(folder: Path) -> Path | None:
    """Find ESPnet3's average of most epochs, or else its last epoch.

    Averages by accuracy come first. None: there is neither.
    """
    averages = []
    for path in folder.glob("*.pth"):
        found = _AVERAGE.fullmatch(path.name)
        if found:
            measure, epochs = found.groups()
            # "acc" comes before "loss".
            averages.append((measure, -int(epochs), path.name))
    name = min(averages)[2] if averages else LAST
    return folder / name if (folder / name).is_file() else None
