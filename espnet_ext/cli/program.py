"""Run ``espnet-ext``: its groups of commands, and what a wrong command line gets."""

import os
from collections.abc import Sequence
from importlib import import_module

import click

from espnet_ext import __version__
from espnet_ext.cli.options import OrderedGroup
from espnet_ext.errors import InputError, UsageError, say

NAME = "espnet-ext"
COMMANDS = {  # name -> module, line of help
    "data": ("data", "Prepare corpora; check, fix and combine data dirs."),
    "train": ("train", "Train language models for rescoring."),
    "transcribe": ("transcribe", "Audio files of any length to text and subtitles."),
    "decode": ("decode", "Recognise utterances, long and overlapped speech."),
    "score": ("score", "Error rates of words and speakers; compare systems."),
    "nbest": ("nbest", "Convert and describe N-best lists; oracle error rates."),
    "rescore": ("nbest", "Rescore N-best lists with a language model."),
    "stitch": ("stitch", "Join what recognisers wrote of windows; stitchers."),
    "table": ("table", "Tables of a paper: what they need, what came out."),
    "report": ("table", "Write results, figures and errors as web pages."),
    "pack": ("share", "Pack a trained model, with a model card."),
    "run": ("run", "Run a stage of a recipe; run.sh calls this."),
    "plugins": ("check", "List the modules that are added to ESPnet."),
    "check": ("check", "Check the installation."),
}
WITHOUT_MODELS = ("data", "score", "nbest", "table", "report")
# What click searches for the command that a misspelt name may have meant.
STAND_INS = {
    name: click.Command(name, help=text) for name, (_, text) in COMMANDS.items()
}


class LazyGroup(OrderedGroup):
    """A group whose commands are listed without being imported."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        # numpy reads it when it is imported, and its threads cost these more than they
        # save.
        if cmd_name in WITHOUT_MODELS:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        module, _ = COMMANDS[cmd_name]
        return getattr(import_module(f"espnet_ext.cli.{module}"), cmd_name)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


# Kaldi and ESPnet write --stop_stage, click --stop-stage: both are taken everywhere.
BOTH_SPELLINGS = {"token_normalize_func": lambda name: name.replace("_", "-")}


@click.command(NAME, cls=LazyGroup, commands=STAND_INS, context_settings=BOTH_SPELLINGS)
@click.version_option(__version__, prog_name=NAME)
def program() -> None:
    """Speech recognition after five papers, on ESPnet and Kaldi data dirs.

    For more, see espnet-ext COMMAND --help.
    """


def call(argv: Sequence[str] | None = None) -> int:
    """Run a command line (default: that of the process), and return its exit status.

    Raises InputError for bad input, UsageError for a command or option that there is
    not, KeyboardInterrupt for Ctrl-C.
    """
    # Not standalone: click would print errors in several lines, and end the process.
    try:
        return program.main(argv, prog_name=NAME, standalone_mode=False) or 0
    # A group without a command, whose help is the answer.
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.format_message(), error=True)
        return UsageError.status
    except click.UsageError as error:
        raise UsageError(_write_error(error)) from error
    except click.ClickException as error:
        raise InputError(_write_error(error)) from error
    except click.Abort as error:
        raise KeyboardInterrupt from error


def _write_error(error: click.ClickException) -> str:
    """Write click's message in one line, with where there is help."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    # Who writes --hyp a b means both: a is the value, and b an argument.
    repeatable = any(
        getattr(each, "multiple", False) for each in context.command.params
    )
    if "unexpected extra argument" in message and repeatable:
        message += ": repeat an option for each of its values"
    # click's "Did you mean --x?" and "(Possible options: ...)" end a sentence.
    end = "" if message.endswith(("?", ")")) and "mean" in message else "."
    return f"{message[0].lower()}{message[1:]}{end} See {context.command_path} --help"
