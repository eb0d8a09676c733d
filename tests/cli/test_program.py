"""The whole command line: its help, how long it takes to start, and what becomes of
errors.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import espnet_ext
from espnet_ext.cli import main
from espnet_ext.cli.options import Utf8Path
from espnet_ext.cli.program import call, program
from espnet_ext.command import run_main
from espnet_ext.errors import InputError

SEM = Path(__file__).parents[2] / "egs" / "librispeech_sem"
HEAVY = (
    "torch",
    "espnet2",
    "espnet3",
    "lhotse",
    "numpy",
    "soundfile",
    "transformers",
    "matplotlib",
    "yaml",
    "typeguard",
)


def every_command(
    command: click.Command = program, parent: click.Context | None = None
) -> Iterator[tuple[click.Command, click.Context]]:
    """All groups and commands, each with its context, whose ``command_path`` is what a
    user types.
    """
    context = click.Context(command, info_name=command.name, parent=parent)
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None and found.name == name, (
                f"{context.command_path} {name}"
            )
            yield from every_command(found, context)


COMMANDS = {
    context.command_path: (command, context) for command, context in every_command()
}
PATHS = {
    path: [p for p in command.params if isinstance(p.type, Utf8Path)]
    for path, (command, _) in COMMANDS.items()
}


@pytest.mark.parametrize("path", COMMANDS)
def test_everything_has_help_and_groups_have_a_line_for_each_command(path):
    command, context = COMMANDS[path]
    assert command.help and all(
        option.help for option in command.params if isinstance(option, click.Option)
    )
    if isinstance(command, click.Group):
        lines = command.get_help(context).split("Commands:")[1].strip().splitlines()
        assert len(lines) == len(command.list_commands(context)) and not any(
            line.endswith("...") for line in lines
        )


@pytest.mark.parametrize(
    "words", [["--help"], ["score", "wer", "--help"], ["score", "--help"]]
)
def test_help_starts_quickly(words):
    code = (
        "import sys, time\n"
        "from espnet_ext.cli import main\n"
        f"try: main({words})\n"
        "finally: print(time.process_time(), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: espnet-ext") and float(done.stderr) < 0.5


def test_no_help_needs_a_library():
    """The help of all groups and commands, in one process."""
    code = (
        "import sys\nimport click\nfrom espnet_ext.cli.program import program\n"
        "def show(command, parent):\n"
        "    context = click.Context(command, info_name=command.name, parent=parent)\n"
        "    command.get_help(context)\n"
        "    if isinstance(command, click.Group):\n"
        "        for name in command.list_commands(context): "
        "show(command.get_command(context, name), context)\n"
        f"show(program, None)\nassert not set({HEAVY}) & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


SLOW = {
    "torch",
    "transformers",
    "espnet2",
    "lhotse",
    "matplotlib",
    "typeguard",
    "scipy.stats",
}
MODEL = [
    "--model-config",
    "none.yaml",
    "--model",
    "none.pth",
    "--data",
    "none",
    "--output",
    "x",
]
GOOD = [
    "score wer --ref ref --hyp ref",
    "data validate --no-wav data",
    "data fix data",
    f"table config --recipe {SEM}",
]
GOOD += ["score compare --ref ref --system one=ref --system two=ref"]
BAD = [
    "nbest convert --nbest none --output x",
    "rescore --nbest none --lm x --weight first_pass=1 --output x",
    "score sa --ref none --hyp none",
    *(
        f"decode {' '.join([command, *MODEL])}"
        for command in ("long", "speakers --profiles p")
    ),
]


@pytest.mark.parametrize("words", [*GOOD, *BAD])
def test_what_needs_no_model_imports_none(words, tmp_path):
    """Commands on text and tables, and bad input of all; which is one line, and leaves
    nothing behind.
    """
    (tmp_path / "data").mkdir()
    for name, value in (
        ("ref", "A B"),
        ("data/text", "A B"),
        ("data/wav.scp", "a.flac"),
        ("data/utt2spk", "a-1"),
    ):
        (tmp_path / name).write_text(f"a-1 {value}\n")
    (tmp_path / "data/spk2utt").write_text("a-1 a-1\n")
    code = (
        "import sys\nfrom espnet_ext.cli import main\ntry: main()\nfinally: assert "
        f"not {SLOW} & set(sys.modules)\n"
    )
    command = [sys.executable, "-c", code, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == (words in BAD), done.stderr
    if words in BAD:
        assert done.stdout == "" and re.fullmatch(
            "error: none[^\n]*: no such [^\n]*\n", done.stderr
        )
        assert not (tmp_path / "x").exists()


NUMBERS = ("IntRange", "IntParamType", "FloatParamType")


def test_an_option_means_the_same_everywhere():
    kinds: dict[str, dict[str, str]] = {}
    for path, (command, _) in COMMANDS.items():
        for option in command.params:
            if isinstance(option, click.Option) and not option.is_flag:
                kind = type(option.type).__name__
                kinds.setdefault(option.opts[0], {})[path] = (
                    "number" if kind in NUMBERS else kind
                )
    assert {
        name: places for name, places in kinds.items() if len(set(places.values())) > 1
    } == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["scroe"],
            "no such command 'scroe'. (Did you mean one of: 'rescore', 'score'?) "
            "See espnet-ext --help",
        ),
        (
            ["score", "wer", "--rf", "x"],
            "no such option '--rf'. Did you mean '--ref'? See espnet-ext score "
            "wer --help",
        ),
        (
            ["score", "wer", "--ref", "x"],
            "missing option '--hyp'. See espnet-ext score wer --help",
        ),
        (
            ["score", "compare", "--ref", "a", "b", "--system", "x=y"],
            "got unexpected extra argument (b): repeat an option for each of its "
            "values. See espnet-ext score compare "
            "--help",
        ),
    ],
)
def test_a_wrong_command_line_is_one_line(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert capsys.readouterr() == ("", f"error: {message}\n")


@pytest.mark.parametrize("words", [[], ["score"], ["data"]])
def test_a_group_alone_shows_its_help(words, capsys):
    assert call(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("Usage: espnet-ext") and "Commands:" in err


def test_options_may_be_written_as_espnet_writes_them(tmp_path):
    with pytest.raises(InputError, match="nothing: no such data dir"):
        call(["data", "validate", "--no_text", str(tmp_path / "nothing")])


def test_version(capsys):
    assert call(["--version"]) == 0
    assert capsys.readouterr().out == f"espnet-ext, version {espnet_ext.__version__}\n"


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (InputError("a: no such file"), 1, "error: a: no such file\n"),
        (
            OSError(28, "No space left on device", "exp/x"),
            1,
            "error: No space left on device: exp/x\n",
        ),
        (KeyboardInterrupt(), 130, "\n"),
    ],
)
def test_errors_of_commands(error, status, message, monkeypatch, capsys):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("espnet_ext.nbest.sources.read_lists", fail)
    with pytest.raises(SystemExit) as stop:
        main(["nbest", "oracle", "--nbest", "a"])
    assert stop.value.code == status
    assert capsys.readouterr().err == message


def test_python_without_the_packages_names_the_environment():
    for module in ("espnet_ext.cli", "espnet_ext.bin.asr_train"):
        done = subprocess.run(  # -S: without site-packages
            [sys.executable, "-S", "-m", module],
            capture_output=True,
            text=True,
            cwd=Path(espnet_ext.__file__).parents[1],
        )
        assert done.returncode == 1 and done.stdout == ""
        assert (
            done.stderr.startswith(f"error: {sys.executable} ")
            and done.stderr.count("\n") == 1
        )
        assert "make -C tools install" in done.stderr


@pytest.mark.parametrize(
    ("path", "output", "other"),
    [
        pytest.param(path, output, other, id=f"{path} {output.name} {other.name}")
        for path, params in PATHS.items()
        for output in params
        for other in params
        if output.type.written and (other is not output or output.multiple)
    ],
)
def test_no_output_is_an_input(tmp_path, path, output, other):
    """Whatever a command writes would replace what it reads, or what it writes
    elsewhere.
    """
    (tmp_path / "here").write_text("as it was\n")
    words = path.split()[1:]
    for param, name in ((output, "here"), (other, "../" + tmp_path.name + "/here")):
        words += [
            *([param.opts[0]] if isinstance(param, click.Option) else []),
            str(tmp_path / name),
        ]
    with pytest.raises(InputError, match="here: is named twice"):
        call(words)
    assert (tmp_path / "here").read_text() == "as it was\n"


def test_all_outputs_are_marked():
    names = {"output", "output_dir", "destination", "scores"}
    marked = {
        param.name
        for params in PATHS.values()
        for param in params
        if param.type.written
    }
    assert marked == names
    assert all(
        param.type.written
        for params in PATHS.values()
        for param in params
        if param.name in names
    )


def test_what_people_read_holds_nothing_that_a_terminal_obeys(tmp_path, capsys):
    """Ids and names of files come from anybody; a mark of direction hides an ending."""
    hostile = "a\x1b]0;owned\x07\x9b31m\u202egpj"
    data = tmp_path / f"data {hostile}"
    data.mkdir()
    for name, value in (("text", "WORD"), ("wav.scp", "a.wav"), ("utt2spk", "s")):
        (data / name).write_text(f"{hostile} {value}\nb\x1b[2J {value}\n")
    lists = tmp_path / f"{hostile}.jsonl"
    lists.write_text('{"utt_id": "a\\u001b[2J", "hyps": []}\n')
    for words in (
        ["data", "validate", str(data)],
        ["nbest", "oracle", "--nbest", str(lists), "--ref", str(data / "text")],
        ["transcribe", str(tmp_path / f"{hostile}.wav"), "--output", str(tmp_path)],
        ["score", "wer", "--ref", str(data / "text"), "--hyp", str(data / "none")],
        [hostile],
    ):
        with pytest.raises(SystemExit) as ended:
            run_main(lambda words=words: call(words))
        told = "".join(capsys.readouterr())
        assert ended.value.code and told
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", told), words


def test_nothing_but_say_prints():
    """Alone: what a program of ours writes as it stands, and loading's fixed line."""
    root = Path(espnet_ext.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = getattr(node, "func", None)
            if getattr(called, "id", getattr(called, "attr", "")) in ("print", "echo"):
                found.add(path.relative_to(root).as_posix())
    assert found <= {"errors.py", "work/parallel.py", "cli/table.py"}
