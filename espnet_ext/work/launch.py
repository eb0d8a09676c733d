"""Start commands as ``train_cmd`` in cmd.sh says: by a prefix, or Kaldi's wrapper.

A prefix such as ``srun --gres gpu:1`` or ``env X=1`` runs the command that follows it.
Kaldi's wrappers (``run.pl``, ``queue.pl``, ``slurm.pl``, ``pbs.pl``, ``ssh.pl``, and
any other program whose name ends in ``.pl``) have a contract of their own::

    queue.pl [options] [JOB=1:n] LOG command argument...

- LOG is overwritten: it gets the command, its output and its status.
- With ``JOB=1:n`` the command runs n times, and in LOG and in the command each "JOB" is
  replaced by a number from 1 to n. Any other name will do.
- Arguments without white space go to bash as they are, all others between quotes in
  which bash still replaces ``$x``; LOG and the working directory go to bash as they
  are.
- An option takes one argument, but for ``-V`` (none) and ``-pe`` (two). So of ``--gpu``
  without its value, the log would be the value, and the program the log.
- The command runs in the working directory, on whichever machine, after ``. ./path.sh``
  there. The status is 0 if it was that of all jobs, otherwise 1.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from espnet_ext.errors import InputError
from espnet_ext.work import supervise
from espnet_ext.work.files import atomic_write

KALDI = re.compile(r".+\.pl")
JOBS = re.compile(r"\w+=\d+(:\d+)?")
ARGUMENTS = {"-V": 0, "-pe": 2}  # of the wrappers' options; all others take one
PLAIN = re.compile(r"[\w@%+=:,./-]+")  # what bash leaves as it is
# run.pl stays in its working directory; the others write ``cd DIRECTORY`` for bash.
STAYS = "run.pl"
LAUNCHED = ".launched.log"  # ends the names of the logs that launchers write
POLL_SECONDS = 0.5


def is_kaldi_wrapper(words: Sequence[str]) -> bool:
    """Tell whether words, maybe after a prefix, begin a command as Kaldi has it."""
    return _find_wrapper(words) is not None


def split_words(text: str, name: str) -> tuple[str, ...]:
    """Split the value of ``name`` by the shell's rules of quoting."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise InputError(f"{name}: {text!r}: {error}: fix cmd.sh") from None


def check_launcher(words: Sequence[str], name: str, folder: Path) -> None:
    """Raise InputError if words, the value of ``name``, cannot start a command.

    ``folder`` is where the logs will be: Kaldi's wrappers give its path to bash.
    """
    if not words:
        return
    place = _find_wrapper(words)
    programs = [words[0]] if place is None else [words[0], words[place]]
    for program in programs:
        can_start = shutil.which(program) is not None
        # A script that perl runs need be neither executable nor on PATH.
        if program != words[0] and Path(words[0]).name.startswith("perl"):
            can_start = can_start or os.path.isfile(program)
        if not can_start:
            raise InputError(
                f"{name}: {program!r} is no program that can be started here: give a "
                "prefix such as srun, or a wrapper of Kaldi's such as queue.pl, "
                "that is on PATH and executable"
            )
    if place is not None:
        _check_wrapper_options(words[place:], name)
        _check_paths(words[place], name, folder)


def _find_wrapper(words: Sequence[str]) -> int | None:
    """Find the index of the wrapper among words: the first that is named like one."""
    for place, word in enumerate(words):
        if KALDI.fullmatch(Path(word).name):
            return place
    return None


def _check_wrapper_options(words: Sequence[str], name: str) -> None:
    """Refuse words after a wrapper that it would take for its log or its jobs."""
    wrapper = words[0]
    place = 1
    while place < len(words):
        word = words[place]
        if JOBS.fullmatch(word):
            raise InputError(f"{name}: leave out {word}: run.sh gives the jobs itself")
        # A wrapper of a wrapper, such as retry.pl.
        if Path(word).name != wrapper and KALDI.fullmatch(Path(word).name):
            place += 1
            continue
        if not word.startswith("-"):
            raise InputError(
                f"{name}: {word!r} stands where {wrapper} expects its log, which "
                "run.sh gives: leave it out"
            )
        place += 1 + ARGUMENTS.get(word, 1)
        if place > len(words):
            raise InputError(f"{name}: {wrapper} needs a value after {word}")


def _check_paths(wrapper: str, name: str, folder: Path) -> None:
    """Refuse paths that the wrapper would give to bash in pieces."""
    places = [shorten(folder)]
    if Path(wrapper).name != STAYS:
        places.append(os.getcwd())
    for place in places:
        if not PLAIN.fullmatch(place):
            raise InputError(
                f"{name}: {wrapper} cannot work in {place!r}, whose path has blanks or "
                "other characters that bash interprets: move it, or give another "
                "--expdir"
            )


def shorten(path: Path) -> str:
    """Return a path relative to the working directory, if it is below that."""
    whole = Path(os.path.abspath(path))
    here = Path.cwd()
    if not whole.is_relative_to(here):
        return str(whole)
    short = str(whole.relative_to(here))
    # A program's name without a folder would be looked for on PATH.
    return short if "/" in short else f"./{short}"


def quote_word(word: str) -> str:
    r"""Return a word that bash reads back, without white space or a ``$`` of its own.

    Wrappers leave such words as they are, and their scripts show them in a
    here-document, where bash would run ``$(...)``.

    >>> print(quote_word("it's $(x)"))
    $'it\x27s\x20\x24\x28x\x29'
    """
    if PLAIN.fullmatch(word):
        return word
    written = ""
    for character in word:
        if PLAIN.fullmatch(character):
            written += character
        else:
            # Bytes and not characters, as bash reads \x: one letter may be several.
            written += "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
    return f"$'{written}'"


def list_launched_words(
    launch: Sequence[str], log: Path, command: Sequence[str], jobs: str = ""
) -> list[str]:
    """Return the words that start a command by a launcher; ``jobs`` is ``NAME=1:n``.

    A prefix has no log, and its jobs are its own.
    """
    if not is_kaldi_wrapper(launch):
        return [*launch, *command]
    numbered = [jobs] if jobs else []
    return [*launch, *numbered, shorten(log), *map(quote_word, command)]


def run_launched(launch: Sequence[str], log: Path, arguments: Sequence[str]) -> None:
    """Run Python with arguments by a launcher; InputError if its status is not 0.

    What a wrapper writes to ``log`` is printed here as it comes.
    """
    interpreter = write_interpreter(log)
    words = list_launched_words(launch, log, [shorten(interpreter), *arguments])
    # What an earlier run has written must not be printed as if it were this one's.
    log.unlink(missing_ok=True)
    with start_process(words) as process:
        if is_kaldi_wrapper(launch):
            _print_as_it_grows(log, process)
        status = process.wait()
    if status:
        check_interpreter(interpreter, launch)
        raise InputError(f"{launch[0]} has ended with status {status}")


def write_interpreter(log: Path) -> Path:
    """Write a program ``python`` beside a log, which runs this interpreter.

    Launchers get it in place of the interpreter itself: one that takes its first
    argument for a log, and is not known to, overwrites nothing else.
    """
    path = log.with_name("python")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(_write_interpreter_text())
    path.chmod(0o755)
    return path


def _write_interpreter_text() -> str:
    return f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n'


def check_interpreter(path: Path, launch: Sequence[str]) -> None:
    """Raise InputError if a launcher has overwritten the program ``python``."""
    with suppress(OSError, UnicodeDecodeError):
        if path.read_text(encoding="utf-8") == _write_interpreter_text():
            return
    raise InputError(
        f"{launch[0]} has overwritten {path}: it takes a log before the command, as "
        "Kaldi's wrappers do: give it a name that ends in .pl"
    )


@contextmanager
def start_process(words: Sequence[str]) -> Iterator[subprocess.Popen]:
    """Yield a process that ends with this block and this process, however they end.

    A launcher that is killed leaves its jobs in the queue, so it is asked to end first.
    """
    # supervise.py ends the command when this process is killed, which cannot do it.
    guarded = [sys.executable, "-I", supervise.__file__, *words]
    process = subprocess.Popen(guarded, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _print_as_it_grows(log: Path, process: subprocess.Popen) -> None:
    """Print a log, which may be written on another machine, until the process ends."""
    place = 0
    while True:
        # Asked before the log is read: what is written up to the end is printed.
        ended = process.poll() is not None
        if log.is_file():
            with open(log, "rb") as file:
                file.seek(place)
                text = file.read()
            place += len(text)
            sys.stdout.write(text.decode(errors="replace"))
            sys.stdout.flush()
        if ended:
            return
        time.sleep(POLL_SECONDS)
