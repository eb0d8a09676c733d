"""What was settled with a recogniser, in its folder: how it is searched, and the windows that it hears best.

``decoding.json`` lies beside ``config.yaml``. Commands take it where they are not told otherwise.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.multitalker.decode import search_options
from espnet_ext.work.files import write_json
from espnet_ext.work.yaml_files import read_yaml

SETTLED = "decoding.json"


@dataclass(frozen=True)
class Settled:
    """Options of the search by name, and the length of windows in seconds (None: any)."""

    search: Mapping[str, Any] = field(default_factory=dict)
    window: float | None = None


def write_settled(folder: Path, settled: Settled) -> None:
    write_json(folder / SETTLED, asdict(settled))


def read_settled(model: Path) -> Settled:
    """What was settled with a model, of which one file is named; nothing if its folder does not say.

    Raises:
        InputError: a file of another form, or an unknown option.
    """
    path = model.with_name(SETTLED)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        window = record["window"]
        return Settled(search_options(record["search"], path), None if window is None else float(window))
    except FileNotFoundError:
        return Settled()
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not what was settled with a model ({error!r}): delete it, or train again") from None


def require_speaker_model(model_config: Path, model_file: Path) -> None:
    """Refuse what is no speaker-attributed recogniser, before any work is done.

    Raises:
        InputError: a missing file, or a model of another kind.
    """
    for path, what in ((model_config, "--model-config"), (model_file, "--model")):
        if not path.is_file():
            raise InputError(f"{path}: no such file ({what}): check the path, or run the stage that makes it")
    kind = str(read_yaml(model_config).get("model"))
    if not kind.endswith("sa_asr"):
        raise InputError(f"{model_config}: a model of the kind {kind}, not sa_asr: give one of sa_asr_train")
