"""Run ESPnet's ``asr_train`` for speaker-attributed ASR.

It has a speaker encoder, profiles and speaker labels.
"""

from collections.abc import Sequence

from espnet_ext.stitch.recogniser.task import SAASRTask
from espnet_ext.upstream.with_plugins import with_plugins


def main(cmd: Sequence[str] | None = None) -> None:
    SAASRTask.main(cmd=cmd)


with_plugins(main, __name__)
