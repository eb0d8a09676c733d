"""Train speaker-attributed ASR: ESPnet's ``asr_train`` with a speaker encoder, profiles and speaker labels."""

from collections.abc import Sequence

from espnet_ext.bin.with_plugins import with_plugins
from espnet_ext.task.sa_asr import SAASRTask


def main(cmd: Sequence[str] | None = None) -> None:
    SAASRTask.main(cmd=cmd)


with_plugins(main, __name__)
