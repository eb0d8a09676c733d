"""Options of a speaker-attributed recogniser's search.

A file beside ``config.yaml`` holds them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.work.settings import (
    Count,
    Flag,
    Positive,
    Share,
    StrictMapping,
    check_settings,
    read_settings,
)
from espnet_ext.work.yaml_files import read_yaml

DECODING = "decoding.json"


class SearchOptions(StrictMapping):
    """Options of the beam search, with ESPnet's names and meanings."""

    beam_size: Count = 10
    ctc_weight: Share = 0.0
    penalty: float = 0.0
    maxlenratio: float = 0.0
    minlenratio: float = 0.0
    normalize_length: Flag = False


class DecodingSettings(StrictMapping):
    """Hold options of the search, and the windows that suit the model.

    ``window`` is their length in seconds; None: any.
    """

    search: SearchOptions = SearchOptions()
    window: Positive | None = None


def read_decoding_settings(model: Path) -> DecodingSettings:
    """Read the settings of the search beside a checkpoint.

    Without such a file they are the defaults.
    """
    path = model.with_name(DECODING)
    if not path.exists():
        return DecodingSettings()
    return read_settings(DecodingSettings, path, "delete it, or train again")


def change_options(
    options: SearchOptions, changes: Mapping[str, Any], where: str
) -> SearchOptions:
    """Change options of the search.

    Raises InputError, which begins with ``where``, if one is unknown or out of range.
    """
    return check_settings(SearchOptions, {**options.model_dump(), **changes}, where)


def require_speaker_model(model_config: Path, model_file: Path) -> None:
    """Refuse a missing file, or a model that is no speaker-attributed recogniser.

    Both are looked for before any work is done.
    """
    for path, what in ((model_config, "--model-config"), (model_file, "--model")):
        if not path.is_file():
            raise InputError(
                f"{path}: no such file ({what}): check the path, or run the stage "
                "that makes it"
            )
    # sa_asr_train writes this option, asr_train does not.
    if "speaker_encoder" not in read_yaml(model_config):
        raise InputError(
            f"{model_config}: has no speaker_encoder, so it is no speaker-attributed "
            "model: give one of sa_asr_train"
        )
