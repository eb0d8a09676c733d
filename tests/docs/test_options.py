"""Each option that a page for users names is one of a command, and each page of docs/
that code or a script names is there.
"""

import re
import subprocess
from pathlib import Path

import click
import pytest

from espnet_ext.cli.program import program

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*/*.md")]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9_-]*")
# of programs that are not ours and not ESPnet's training and search
OF_OTHERS = {
    "srun, sbatch, queue.pl": "cpus-per-task gpu gres job-name mem nodes "
    "ntasks-per-node time wrap",
    "torchrun": "nnodes no-python nproc-per-node rdzv-backend rdzv-endpoint",
    "accelerate": "num-machines num-processes",
    "asr.sh": "asr-args asr-task inference-config use-k2 use-maskctc use-streaming",
    "run.py of ESPnet3": "inference-config metrics-config stages training-config",
    "pip, hf, tensorboard": "no-deps private logdir",
    "all": "help",
}


def list_options(command: click.Command) -> set[str]:
    """Return the options of a command and of all below it."""
    names = set()
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            names.update(parameter.opts + parameter.secondary_opts)
    if isinstance(command, click.Group):
        for name in command.commands:
            below = command.get_command(click.Context(command), name)
            assert below
            names |= list_options(below)
    return names


def list_espnet_options() -> set[str]:
    """Return the options of ESPnet's training and search, with ours in them."""
    from espnet_ext.longform.training import RecordingsASRTask
    from espnet_ext.upstream.inference import get_parser

    parsers = (get_parser(), RecordingsASRTask.get_parser())
    return {
        name
        for parser in parsers
        for action in parser._actions
        for name in action.option_strings
    }


@pytest.fixture(scope="module")
def known() -> set[str]:
    names = list_options(program) | list_espnet_options()
    for script in ROOT.glob("egs/*/run.sh"):
        settings = re.findall(r"^([a-z_]+)=", script.read_text(), re.MULTILINE)
        names |= {f"--{name}" for name in settings}
    for listed in OF_OTHERS.values():
        names |= {f"--{name}" for name in listed.split()}
    return {name.replace("_", "-") for name in names}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_of_a_page_are_there(page, known):
    named = set(OPTION.findall(page.read_text(encoding="utf-8")))
    assert {name for name in named if name.replace("_", "-") not in known} == set()


def test_pages_that_files_name_are_there():
    listed = subprocess.run(
        ["git", "-C", ROOT, "grep", "-noE", r"\bdocs/\w+\.md", "--", ":!CHANGELOG.md"],
        check=False,
        capture_output=True,
        text=True,
    )
    found = [line.split(":", 2) for line in listed.stdout.splitlines()]
    missing = [each for each in found if not (ROOT / each[2]).is_file()]
    assert not missing
