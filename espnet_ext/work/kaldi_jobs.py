"""Compute calls in jobs of one of Kaldi's wrappers (``decode_cmd`` in cmd.sh).

Each of n jobs runs a share of the calls::

    queue.pl --mem 4G JOB=1:n FOLDER/JOB.log \\
        python -m espnet_ext.work.kaldi_jobs FOLDER JOB n ngpu

Calls and their outcomes are files in a folder that all machines see, and nothing else
goes between them.
"""

import os
import pickle
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError, say
from espnet_ext.work import gpus
from espnet_ext.work.calls import Failure
from espnet_ext.work.launch import (
    PLAIN,
    check_interpreter,
    list_launched_words,
    shorten,
    start_process,
    write_interpreter,
)

CALLS = "calls.pickle"
OUTCOME = ".outcome"
POLL_SECONDS = 0.5
# A file that another machine has written appears on a shared disk after some seconds.
APPEAR_SECONDS = 30.0


@dataclass(frozen=True)
class Wrapper:
    """One of Kaldi's wrappers with its options, and the folder of its jobs' files."""

    words: tuple[str, ...]
    folder: Path


def run_calls(
    wrapper: Wrapper,
    calls: Sequence[partial],
    jobs: int,
    ngpu: int,
    done: Callable[[int, Any], None],
    describe: str,
) -> None:
    """Call ``done(index, outcome)`` for each call as its outcome comes, in any order.

    With ``ngpu`` 1 each job sees one GPU of its machine, with 0 none. What is called
    must be at the top level of a module. Raises InputError: the wrapper or a job ended
    before all outcomes were there; the logs of the jobs stay then.
    """
    wrapper.folder.mkdir(parents=True, exist_ok=True)
    name = "".join(letter for letter in describe if PLAIN.fullmatch(letter))
    folder = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=wrapper.folder))
    (folder / CALLS).write_bytes(pickle.dumps(list(calls)))
    interpreter = write_interpreter(folder / "1.log")
    words = list_job_words(wrapper, folder, interpreter, jobs, ngpu)
    waiting = set(range(len(calls)))  # indices of calls without an outcome

    def collect() -> None:
        for index in sorted(waiting):
            path = folder / f"{index}{OUTCOME}"
            if path.is_file():
                waiting.remove(index)
                done(index, pickle.loads(path.read_bytes()))

    with start_process(words) as process:
        while process.poll() is None:
            collect()
            time.sleep(POLL_SECONDS)
        status = process.wait()
    # Of jobs that have failed, no more is waited for.
    deadline = time.monotonic() + (APPEAR_SECONDS if status == 0 else 0.0)
    collect()
    while waiting and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        collect()
    if waiting or status:
        check_interpreter(interpreter, wrapper.words)
        # Call i is that of job i modulo n, and jobs count from 1 (run_share).
        first = min(waiting, default=0) % jobs + 1
        raise InputError(
            f"{describe}: {wrapper.words[0]} has ended with status {status} before "
            f"{len(waiting)} of {len(calls)} shards were done: see "
            f"{folder}/{first}.log, then run the same command again; what is done "
            "is not repeated"
        )
    shutil.rmtree(folder, ignore_errors=True)


def list_job_words(
    wrapper: Wrapper, folder: Path, interpreter: Path, jobs: int, ngpu: int
) -> list[str]:
    """Return the words that start n jobs on the calls in a folder."""
    name = "JOB"
    # The wrapper would replace it in the folder's path, too.
    while name in str(folder.absolute()):
        name += "X"
    module = ["-m", "espnet_ext.work.kaldi_jobs"]
    numbers = [name, str(jobs), str(ngpu)]
    command = [shorten(interpreter), *module, shorten(folder), *numbers]
    return list_launched_words(
        wrapper.words, folder / f"{name}.log", command, f"{name}=1:{jobs}"
    )


def run_share(folder: Path, number: int, jobs: int, ngpu: int) -> int:
    """Make every n-th call, from the one of this number on; return the job's status.

    After a failure the job ends, as Kaldi's do.
    """
    take_gpu(number, ngpu)
    calls = pickle.loads((folder / CALLS).read_bytes())
    for index in range(number - 1, len(calls), jobs):
        outcome = calls[index]()
        path = folder / f"{index}{OUTCOME}"
        # Renamed when it is complete: who waits for it reads it as soon as it is there.
        part = path.with_suffix(".part")
        part.write_bytes(pickle.dumps(outcome))
        os.replace(part, path)
        if isinstance(outcome, Failure):
            say(outcome.message)
            return 1
    return 0


def take_gpu(number: int, ngpu: int) -> None:
    """Let the job of this number see one GPU; without ``ngpu`` it sees none.

    So the jobs on a machine share its GPUs evenly; a batch system shows a job one
    anyway.
    """
    names = gpus.list_gpus() if ngpu else ()
    own = names[(number - 1) % len(names)] if names else ""
    os.environ[gpus.VISIBLE] = own


if __name__ == "__main__":
    sys.exit(run_share(Path(sys.argv[1]), *map(int, sys.argv[2:])))
