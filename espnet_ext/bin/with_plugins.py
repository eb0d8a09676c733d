"""What makes an ESPnet command one of ours: the plugins, checkpoints that are whole, and bad input in one line."""

from collections.abc import Callable

from espnet_ext.errors import run_main
from espnet_ext.logs import drop_repeated_warnings
from espnet_ext.registry import register
from espnet_ext.task.whole_checkpoints import keep_checkpoints_whole


def with_plugins(main: Callable[[], None], module_name: str) -> None:
    """Register all plugins and, if the calling module is the program, run ESPnet's ``main``.

    Plugins are registered when the module is imported too, since the processes that ESPnet spawns for several GPUs
    import it again and do no more.

    Args:
        main: ESPnet's command.
        module_name: ``__name__`` of the calling module.
    """

    def run() -> None:
        set_up()
        main()

    if module_name == "__main__":
        run_main(run)
    else:
        set_up()


def set_up() -> None:
    """Register the plugins, have checkpoints written whole, and keep known noise out of the log."""
    register()
    keep_checkpoints_whole()
    drop_repeated_warnings()
