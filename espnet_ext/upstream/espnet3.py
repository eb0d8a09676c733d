"""A fault of ESPnet3 that changes a model without a word."""

import copy
from importlib.util import find_spec
from typing import Any


def keep_normaliser() -> None:
    """Let ESPnet3's ``collect_stats`` change a copy of its config.

    It takes ``normalize`` out of the config that all stages of a run share. A stage
    ``train`` of the same run would train with ESPnet's default, ``utterance_mvn``.
    Calling it again changes nothing.
    """
    if find_spec("espnet3") is None:
        return
    from espnet3.systems.base import system, training

    collect = training.collect_stats
    if getattr(collect, "keeps", False):
        return

    def collect_from_copy(config: Any) -> None:
        collect(copy.deepcopy(config))

    collect_from_copy.keeps = True  # type: ignore[attr-defined]
    for module in (training, system):  # which has imported it by name
        module.collect_stats = collect_from_copy
