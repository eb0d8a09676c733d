"""Each command that the pages name is there, with its options: read out of the text and
parsed, but not run.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from espnet_ext.cli.program import program

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("examples/*/*.md"),
    *ROOT.glob("egs/*/*.md"),
    *ROOT.glob("tests/**/*.md"),
    *ROOT.glob("espnet_ext/**/*.md"),
    *ROOT.glob("egs/*/run.sh"),
    *ROOT.glob("egs/*/conf/*.yaml"),
]
PROGRAM = re.compile(
    r"(?:^|[\s`(;&|'])"
    r"((?:espnet-ext|\./run\.sh|python -m espnet_ext\.bin\.\w+|make -C tools)"
    r"(?=[\s`]|$)[^`\n]*)"
)


def written_commands(text: str) -> Iterator[str]:
    """The command lines of a page: in its blocks, between backticks, and in comments;
    one that goes on is joined.
    """
    for found in PROGRAM.finditer(re.sub(r"\s*\\\n\s*#?\s*", " ", text)):
        command = re.split(r"\s+#|\s*`|\s+&&\s|;\s|\s\|\s|\s\(", found[1])[0]
        # what ends a sentence is no word of the command, but a folder may be `.`
        command = re.sub(r"(?<=\S)[).,:]+$", "", command.strip())
        yield command.removesuffix("'") if command.count("'") % 2 else command


def in_blocks(text: str) -> str:
    """What stands in the fenced blocks of a page."""
    return "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


COMMANDS = sorted(
    {
        (str(page.relative_to(ROOT)), command)
        for page in PAGES
        if "/results/" not in str(page)
        for command in written_commands(page.read_text(encoding="utf-8"))
    }
)


def test_commands_are_found():
    """The words that a reader sees, and none of the sentence around them."""
    text = (
        "Use `espnet-ext score wer`:\n```\n./run.sh --table 1   # all\nespnet-ext "
        "data \\\n    fix DIR\n```\n"
    )
    assert list(written_commands(text)) == [
        "espnet-ext score wer",
        "./run.sh --table 1",
        "espnet-ext data fix DIR",
    ]
    assert {"README.md", "docs/clusters.md", "egs/librispeech_sem/README.md"} <= {
        page for page, _ in COMMANDS
    }
    assert sum(command.startswith("espnet-ext") for _, command in COMMANDS) > 15


def find(words: list[str]) -> tuple[click.Command, click.Context, list[str]]:
    """The command that these words name, and the words after it."""
    command: click.Command = program
    context = click.Context(command, info_name=program.name)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        found = command.get_command(context, name)
        assert found, f"{context.command_path} has no command {name}"
        command, context = found, click.Context(found, info_name=name, parent=context)
    return command, context, words


def check_program(words: list[str], whole: bool) -> None:
    """Do the command and its options exist? If it is a ``whole`` command line, it needs
    all that is required.
    """
    command, context, rest = find(words)
    if "--" in rest:
        rest = rest[: rest.index("--")]
    values, _, _ = command.make_parser(context).parse_args(
        [word for word in rest if word != "..."]
    )
    if not whole or "--help" in rest or "..." in rest:
        return
    missing = [
        each.opts[0]
        for each in command.params
        if each.required and each.name not in values
    ]
    assert not missing, f"{context.command_path} needs {', '.join(missing)}"


def check_recipe(page: Path, words: list[str]) -> None:
    recipe = (
        page.parent
        if page.parent.parent.name == "egs"
        else ROOT / "egs" / "librispeech_sem"
    )
    shell = (recipe / "run.sh").read_text()
    for word in words:
        if word.startswith("--") and word != "--help":
            name = word.removeprefix("--").partition("=")[0].replace("-", "_")
            assert re.search(rf"^{name}=", shell, re.MULTILINE), (
                f"{recipe.name}/run.sh has no option {word}"
            )


def check_target(words: list[str]) -> None:
    targets = re.findall(
        r"^([a-z -]+):", (ROOT / "tools" / "Makefile").read_text(), re.MULTILINE
    )
    known = {name for line in targets for name in line.split()}
    assert {word for word in words if re.fullmatch(r"[a-z-]+", word)} <= known


@pytest.mark.parametrize(
    ("page", "command"),
    COMMANDS,
    ids=[f"{page}: {command}" for page, command in COMMANDS],
)
def test_a_documented_command_is_there(page, command):
    words = shlex.split(command.replace("[", "").replace("]", ""))
    if words[0] == "espnet-ext":
        check_program(
            words[1:],
            command
            in set(
                written_commands(in_blocks((ROOT / page).read_text(encoding="utf-8")))
            ),
        )
    elif words[0] == "./run.sh":
        check_recipe(ROOT / page, words[1:])
    elif words[0] == "make":
        check_target(words[3:])
    else:
        assert (ROOT / (words[2].replace(".", "/") + ".py")).is_file(), (
            f"there is no module {words[2]}"
        )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_of_bin_that_are_named_are_there(path):
    names = re.findall(r"espnet_ext\.bin\.(\w+)", path.read_text(encoding="utf-8"))
    assert [
        name
        for name in names
        if not (ROOT / "espnet_ext" / "bin" / f"{name}.py").is_file()
    ] == []


def options_of(command: click.Command, name: str) -> Iterator[tuple[str, list[str]]]:
    """The options of all commands below one, with the spellings of each."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found
            yield from options_of(found, f"{name} {each}")
    yield from (
        (name, opt.opts)
        for opt in command.params
        if isinstance(opt, click.Option) and opt.name != "version"
    )


def test_every_option_stands_in_a_page_or_a_recipe():
    files = [*PAGES, *ROOT.glob("egs/*/recipe.py"), *ROOT.glob("tests/benchmarks/*.py")]
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for path in files
        if "/results/" not in str(path)
    )
    there = set(re.findall(r"--[a-z][a-z0-9-]*", text.replace("_", "-")))
    missing = [
        (name, opts)
        for name, opts in options_of(program, "espnet-ext")
        if not there & set(opts)
    ]
    assert not missing
