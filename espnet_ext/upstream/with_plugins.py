"""Run an ESPnet command with plugins, complete checkpoints, and one line for bad input."""

import re
import sys
from collections.abc import Callable, Sequence

import espnet_ext
from espnet_ext.command import run_main
from espnet_ext.errors import InputError
from espnet_ext.packages import how_to_install
from espnet_ext.upstream.arguments import check_initial_parameters, checked_arguments
from espnet_ext.upstream.logs import drop_repeated_warnings
from espnet_ext.upstream.option_faults import option_fault
from espnet_ext.upstream.random_numbers import seed_by_rank
from espnet_ext.upstream.whole_checkpoints import keep_checkpoints_whole
from espnet_ext.work.parallel import require_gpus

# in what ESPnet says of an encoder and the like that it does not know
UNKNOWN_CHOICE = "must be one of"


def with_plugins(main: Callable[[], None], module_name: str) -> None:
    """Register all plugins and, if the calling module, ``module_name``, is the program,
    run ESPnet's ``main``.

    Plugins are also registered when the module is only imported, since the processes
    that ESPnet spawns for several GPUs import it and do not run it.
    """

    def run() -> None:
        set_up()
        run_checked(main)

    if module_name == "__main__":
        run_main(run)
    else:
        set_up()


def run_checked(main: Callable[[], None]) -> None:
    """Run ESPnet's command on the arguments of this process; what is wrong with them is
    refused in one line.
    """
    check_gpus(sys.argv[1:])
    try:
        with checked_arguments():
            main()
    except NotImplementedError as error:
        raise InputError(str(error)) from error
    except (
        ModuleNotFoundError
    ) as error:  # ESPnet imports what few models need when it builds one
        name = error.name or ""
        if name.startswith("espnet") or how_to_install(name):
            raise
        raise InputError(f"{error}: this config needs it: install it") from error
    except (TypeError, ValueError, AttributeError) as error:
        if fault := option_fault(error):
            raise InputError(fault) from error
        if UNKNOWN_CHOICE in str(error):
            raise InputError(str(error)) from error
        raise


def set_up() -> None:
    """Register the plugins, make checkpoints complete, seed by rank, and filter
    repeated warnings from the log.
    """
    espnet_ext.register()
    keep_checkpoints_whole()
    seed_by_rank()
    check_initial_parameters()
    drop_repeated_warnings()


def check_gpus(options: Sequence[str]) -> None:
    """Refuse ``--ngpu N`` if there are fewer GPUs, before ESPnet reads its data and
    fails with a traceback.
    """
    asked = re.search(r"--ngpu[ =](\d+)(?!\S)", " ".join(options))
    require_gpus(int(asked[1]) if asked else 0)
