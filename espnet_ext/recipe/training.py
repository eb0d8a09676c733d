"""Steps that train ESPnet models with ESPnet's own commands; a killed one resumes."""

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError, say
from espnet_ext.recipe.options import check_average
from espnet_ext.recipe.plans import check_plan
from espnet_ext.recipe.run import Run
from espnet_ext.recipe.step_logs import tail
from espnet_ext.recipe.steps import Step
from espnet_ext.upstream.averaging import write_average
from espnet_ext.work.launch import LAUNCHED, list_launched_words, run_launched

EPOCH = re.compile(r"(\d+)epoch:train:\d+-(\d+)batch: (.*)")
VALUE = re.compile(r"(?<![a-z_])(?:loss|acc)=[-+.0-9e]+")


def run_command(
    command: str,
    options: Sequence[str],
    launch: Sequence[str] = (),
    more: Sequence[str] = (),
    ngpu: int = 0,
    log: Path | None = None,
) -> None:
    """Run a command of :mod:`espnet_ext.bin` and print it.

    It runs in this process, or in a new one if it uses GPUs or ``launch``, such as
    ``srun``, starts it. ``options`` determine the result; ``more`` are about GPUs and
    nodes and change it only by rounding. ``log`` is the file that a wrapper of Kaldi's
    writes.
    """
    words = [*more, "--ngpu", str(ngpu), *options]
    name = f"espnet_ext.bin.{command}"
    say(f"# {format_command(command, options, launch, more, ngpu, log)}")
    if launch:
        assert log is not None
        run_launched(launch, log, ["-m", name, *words])
        return
    # CUDA must not start here: this process is a fork of that of the stages
    if ngpu:
        _run_program(["-m", name, *words])
        return
    from espnet_ext.upstream.with_plugins import run_checked

    module = import_module(name)
    sys.argv = [name, *words]
    run_checked(module.main)


def _run_program(words: Sequence[str]) -> None:
    """Run Python in a new process that writes where this does; exit if it fails."""
    status = subprocess.run([sys.executable, *words], check=False).returncode
    if status < 0:
        raise InputError(f"killed by signal {-status}")
    if status:
        sys.exit(status)


def format_command(
    command: str,
    options: Sequence[str],
    launch: Sequence[str] = (),
    more: Sequence[str] = (),
    ngpu: int = 0,
    log: Path | None = None,
) -> str:
    """Return what :func:`run_command` runs, to be copied into a shell.

    Its paths are relative to the recipe's folder.
    """
    program = ["python", "-m", f"espnet_ext.bin.{command}"]
    words = [*program, *more, "--ngpu", str(ngpu), *options]
    return shlex.join(list_launched_words(launch, log, words) if log else words)


def train_step(
    run: Run,
    folder: Path,
    command: str,
    options: Sequence[str],
    *,
    name: str = "",
    inputs: Sequence[Path] = (),
    files: Mapping[str, Path] | None = None,
) -> Step:
    """Train a model by a command of :mod:`espnet_ext.bin`, resumed if it was killed.

    ``folder`` is ESPnet's output folder. ``options`` are all of ESPnet's but
    ``--output_dir`` and those about GPUs. ``files`` are options whose values are files,
    such as ``--config``: when their contents change, the step is not done, nor when
    ``inputs`` do.
    """
    files = files or {}
    words = []
    for option, path in files.items():
        words += [option, str(path)]
    words += ["--output_dir", str(folder), "--resume", "true", *options]
    spread = run.train_options
    if not spread and run.ngpu > 1:
        spread = ("--multiprocessing_distributed", "true")
    name = name or f"train {folder.relative_to(run.expdir)}"
    # a language model has a folder of shapes, which makes no plan
    if "--config" in files and "--train_shape_file" in options:
        shapes = options[options.index("--train_shape_file") + 1]
        check_plan(run, name, files["--config"], Path(shapes))
    log = folder / "log" / "train.log"
    # another number of GPUs may resume a training: it changes rounding alone
    launched: dict[str, Any] = {"launch": run.launch, "more": spread, "ngpu": run.ngpu}
    launched["log"] = log.with_suffix(LAUNCHED) if run.launch else None
    return Step(
        name=name,
        log=log,
        function=run_command,
        arguments={"command": command, "options": words},
        free=launched,
        inputs=[*inputs, *files.values()],
        outputs=[folder / "config.yaml"],
        resumes=folder,
        # where another process trains, this one needs no ESPnet
        preload=[] if run.launch or run.ngpu else [f"espnet_ext.bin.{command}"],
        command=format_command(command, words, **launched),
        progress=read_progress,
    )


def read_progress(log: Path) -> str:
    """Return epoch, batch, loss and accuracy from a training's log, in a line."""
    found = EPOCH.findall(tail(log, 20_000))
    if not found:
        return ""
    epoch, batch, rest = found[-1]
    return ", ".join([f"epoch {epoch}, batch {batch}", *VALUE.findall(rest)])


def name_average(which: str) -> str:
    """Return the name of a checkpoint with the mean of epochs.

    ``which`` is ``best:N`` (on the development set) or ``last:N``.

    >>> name_average("best:5")
    'best5.ave.pth'
    """
    check_average(which)
    return f"{which.replace(':', '')}.ave.pth"


def average_step(
    run: Run,
    folder: Path,
    which: str,
    *,
    criterion: str = "valid.acc.max",
    first_epoch: int = 1,
) -> Step:
    """Average the parameters of several epochs of a training.

    The best ones are those by ``criterion``, of the epochs from ``first_epoch`` on.
    """
    output = folder / name_average(which)
    if run.rehearsed:  # there is one epoch of the whole network
        which = "best:1"
        first_epoch = 1
    kind, _, count = which.partition(":")
    return Step(
        name=f"average {folder.relative_to(run.expdir)} ({which})",
        log=folder / "log" / f"average_{which.replace(':', '')}.log",
        function=write_average,
        arguments={
            "folder": folder,
            "output": output,
            "which": kind,
            "count": int(count),
            "criterion": criterion,
            "first": first_epoch,
        },
        inputs=[folder / "checkpoint.pth"],
        outputs=[output],
        preload=["torch"],
    )


def list_token_options(tokens: Path, token_type: str) -> list[str]:
    """Return the options with which ESPnet's commands find the tokens in a folder."""
    options = ["--token_list", str(tokens / "tokens.txt")]
    # ESPnet calls all that a sentencepiece model cuts "bpe"
    if token_type in ("bpe", "unigram", "mixed"):
        model = str(tokens / "bpe.model")
        return [*options, "--token_type", "bpe", "--bpemodel", model]
    return [*options, "--token_type", token_type]


def list_data_options(part: str, tables: Sequence[tuple[Path, str, str]]) -> list[str]:
    """Return the options with which ESPnet reads the tables of a part.

    ``part`` is ``train`` or ``valid``, a table its path, name and type.
    """
    words = []
    for path, name, kind in tables:
        words += [f"--{part}_data_path_and_name_and_type", f"{path},{name},{kind}"]
    return words


def make_free_arguments(run: Run, **more: Any) -> dict[str, Any]:
    """Return arguments of work over shards that do not change its result."""
    # a GPU without a process of its own would be idle
    return {"nj": max(run.nj, run.ngpu), "parallel": run.parallel, **more}
