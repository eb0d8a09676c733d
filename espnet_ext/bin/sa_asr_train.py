"""Train speaker-attributed ASR: ESPnet's ``asr_train`` with a speaker encoder, profiles and speaker labels."""

from espnet_ext.bin.with_plugins import with_plugins
from espnet_ext.task.sa_asr import SAASRTask


def main() -> None:
    SAASRTask.main()


with_plugins(main, __name__)
