"""Call a function on one shard, in a worker or in this process."""

import errno
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

from espnet_ext.errors import InputError

# One process works on one shard at a time: shards chdir, redirect output and share one
# cached model.
_ONE_SHARD = Lock()
DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)


class ShardError(InputError):
    """A shard failed, but not because of bad input.

    Commands show it with the worker's traceback, not their own.
    """


@dataclass(frozen=True)
class Failure:
    """Why a shard failed: by bad input, or with a traceback."""

    message: str
    bad_input: bool = False


def call_on_shard(function: Callable, shard: Any, folder: str) -> Any:
    """Run one shard, in a worker or in this process; return its result, or a Failure.

    Exceptions are returned as text, since not all can be pickled.
    """
    with _ONE_SHARD:
        try:
            # A cluster may start its jobs elsewhere, and data dirs hold relative paths.
            os.chdir(folder)
            return function(shard)
        except InputError as error:
            return Failure(str(error), bad_input=not isinstance(error, ShardError))
        # SystemExit too, by which ESPnet's commands may end: it would end the worker.
        except (Exception, SystemExit) as error:
            if isinstance(error, OSError) and error.errno in DISK_IS_FULL:
                return Failure(
                    f"{error.filename}: {error.strerror}: make room and run again",
                    bad_input=True,
                )
            return Failure(traceback.format_exc())
