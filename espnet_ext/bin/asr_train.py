"""ESPnet's ``espnet2.bin.asr_train`` with the plugins of espnet_ext and of third parties."""

from espnet2.bin.asr_train import main

from espnet_ext.errors import run_main
from espnet_ext.logs import drop_repeated_warnings
from espnet_ext.registry import register


def set_up() -> None:
    register()
    drop_repeated_warnings()


def run() -> None:
    set_up()
    main()


if __name__ == "__main__":
    run_main(run)
else:
    # at import time, since the processes that ESPnet spawns for several GPUs import this module again
    set_up()
