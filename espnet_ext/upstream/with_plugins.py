"""An ESPnet command with plugins, complete checkpoints, and one line for bad input."""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from espnet2.tasks.abs_task import AbsTask, optim_classes, scheduler_classes
from torch.multiprocessing.spawn import ProcessRaisedException

import espnet_ext
from espnet_ext.command import run_main
from espnet_ext.errors import InputError, UsageError
from espnet_ext.packages import advise_on_installing
from espnet_ext.upstream.arguments import check_initial_parameters, checked_arguments
from espnet_ext.upstream.checkpoint import strict_loading
from espnet_ext.upstream.logs import drop_repeated_warnings
from espnet_ext.upstream.option_faults import check_options, find_option_fault
from espnet_ext.upstream.random_numbers import seed_by_rank
from espnet_ext.upstream.resuming import check_resumed, check_tokens_of_start
from espnet_ext.upstream.training_data import check_training_data, name_utterances
from espnet_ext.upstream.training_ends import check_training_end
from espnet_ext.upstream.training_starts import check_training_starts
from espnet_ext.upstream.whole_checkpoints import keep_checkpoints_whole
from espnet_ext.work.gpus import count_asked, require_own_gpus
from espnet_ext.work.precision import has_bfloat16

# in what ESPnet says of an encoder and the like that it does not know
UNKNOWN_CHOICE = "must be one of"


def with_plugins(main: Callable[[], None], module_name: str) -> None:
    """Register all plugins, and run ESPnet's ``main`` if this is the program.

    ``module_name``: ``__name__`` of the calling module. Plugins are also registered
    when the module is only imported, since the processes that ESPnet spawns for several
    GPUs import it and do not run it.
    """

    def run() -> None:
        set_up()
        run_checked(main)

    if module_name == "__main__":
        run_main(run)
    else:
        set_up()


def run_checked(main: Callable[[], None]) -> None:
    """Run ESPnet's command on the arguments of this process.

    What is wrong with them is refused in one line.
    """
    check_gpus(sys.argv[1:])
    try:
        with strict_loading(), checked_arguments(), checked_trainings():
            main()
    except InputError as error:
        # of a worker that reads data: PyTorch raises its type again, with a traceback
        error.args = (_find_last_line(str(error)),)
        raise
    except NotImplementedError as error:
        raise InputError(str(error)) from error
    # ESPnet imports what few models need when it builds one
    except ModuleNotFoundError as error:
        name = error.name or ""
        if name.startswith("espnet") or advise_on_installing(name):
            raise
        raise InputError(f"{error}: what was started needs it: install it") from error
    except ProcessRaisedException as error:
        raise _find_error_of_child(error) from error
    except Exception as error:
        fault = find_option_fault(error)
        if fault:
            raise InputError(fault) from error
        if UNKNOWN_CHOICE in str(error):
            raise InputError(str(error)) from error
        raise


@contextmanager
def checked_trainings() -> Iterator[None]:
    """In this block, check ESPnet's trainings before they begin and after they end.

    Before they begin, arguments and data are checked; after, how they have ended. With
    several GPUs this is the process that starts the others.
    """
    # the first that ESPnet does with the arguments of a training
    require = AbsTask.check_required_command_args.__func__
    started: list[tuple[type[AbsTask], Namespace]] = []

    def check(task: type[AbsTask], args: Namespace) -> None:
        check_training(task, args)
        require(task, args)
        if args.use_amp and args.ngpu:
            args.use_amp = has_bfloat16("cuda", "use_amp")
        started.append((task, args))

    name = "check_required_command_args"
    with patch.object(AbsTask, name, classmethod(check)):
        yield
    for task, args in started:
        check_training_end(args, task.num_optimizers)


def check_training(task: type[AbsTask], args: Namespace) -> None:
    """Refuse a training with wrong options or data, or one that cannot resume.

    Options are wrong that are missing or do not suit the classes that they are for.
    """
    lacking = [f"--{name}" for name in args.required if getattr(args, name) is None]
    if lacking:
        raise UsageError(f"give {', '.join(lacking)}")
    slots = {each.name: each.classes for each in task.class_choices_list}
    slots |= {"optim": optim_classes, "scheduler": scheduler_classes}
    for key, classes in slots.items():
        name = str(getattr(args, key, None))
        options = getattr(args, f"{key}_conf", None)
        if name in classes and options:
            check_options(key, name, classes[name], options)
    if args.use_amp and args.use_tf32:
        raise InputError("use_tf32 is for float32: set it or use_amp to false")
    check_resumed(args)
    check_tokens_of_start(args)
    check_training_data(args)


def _find_error_of_child(error: ProcessRaisedException) -> Exception:
    """Return the error of one of several processes, an InputError as one line."""
    last = _find_last_line(str(error))
    return InputError(last) if last != str(error) else error


def _find_last_line(text: str) -> str:
    """Return the message of the InputError at the end of a traceback.

    PyTorch passes on the errors of other processes as such a text.
    """
    before, name, message = text.rpartition(f"{InputError.__module__}.InputError: ")
    # a message may itself speak of an InputError
    return message.strip() if name and "Traceback" in before else text


# What our programs change in ESPnet for as long as their process runs, and in those
# that ESPnet starts for several GPUs. upstream/README.md says why, and until when.
CHANGES: tuple[Callable[[], None], ...] = (
    keep_checkpoints_whole,
    seed_by_rank,
    check_initial_parameters,
    check_training_starts,
    name_utterances,
    drop_repeated_warnings,
)


def set_up() -> None:
    """Register the plugins, and make all :data:`CHANGES`.

    Calling it again changes nothing.
    """
    espnet_ext.register()
    for change in CHANGES:
        change()


def check_gpus(options: Sequence[str]) -> None:
    """Refuse ``--ngpu N`` if there are fewer GPUs.

    ESPnet would fail with a traceback after it has read its data.
    """
    require_own_gpus(count_asked(options))
