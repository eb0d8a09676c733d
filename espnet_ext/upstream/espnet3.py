"""A fault of ESPnet3 that changes a model without a word."""

import copy
import sys
from typing import Any


class KeepNormaliser:
    """Wait on ``sys.meta_path`` for the import of ESPnet3's stages; ``collect_stats``
    then gets a copy of its config.

    It takes ``normalize`` out of the config that all stages of a run share. A stage
    ``train`` of the same run would train with ESPnet's default, ``utterance_mvn``.
    """

    def find_spec(self, name: str, *_: object) -> None:
        """Leave the search for a module to the others."""
        if name != "espnet3.systems.base.system":
            return
        sys.meta_path.remove(self)
        from espnet3.systems.base import training

        collect = training.collect_stats

        def collect_from_copy(config: Any) -> None:
            collect(copy.deepcopy(config))

        training.collect_stats = collect_from_copy
