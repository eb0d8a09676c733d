"""Groups of commands: in the order in which they are written, and imported only when one of them is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click


@dataclass(frozen=True)
class Entry:
    """Where a command is, and the line that stands for it in the help of its group."""

    module: str
    name: str
    help: str


class OrderedGroup(click.Group):
    """A group that lists its commands in the order in which they are defined."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class LazyGroup(OrderedGroup):
    """A group whose commands are listed without being imported."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries
        # These stand-ins are what click searches for the command that a misspelt name may have meant.
        self.commands = {name: click.Command(name, help=entry.help) for name, entry in entries.items()}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        return None if entry is None else getattr(import_module(entry.module), entry.name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.entries.items()])
