"""A fault of ESPnet3 that changes a model without a word."""

import copy
from functools import wraps
from typing import Any


def keep_normaliser() -> None:
    """Let the stage ``collect_stats`` of ESPnet3 work on a copy of its config; calling it again changes nothing.

    It takes ``normalize`` out of the config that all stages of a run share. A stage ``train`` of the same run would
    train with ESPnet's default, ``utterance_mvn``.
    """
    from espnet3.systems.base import system

    collect = system.collect_stats
    if hasattr(collect, "__wrapped__"):
        return

    @wraps(collect)
    def collect_from_copy(config: Any) -> None:
        collect(copy.deepcopy(config))

    system.collect_stats = collect_from_copy
