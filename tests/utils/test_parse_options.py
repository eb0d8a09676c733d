"""utils/parse_options.sh as a recipe uses it: a script with settings, sourced, run by bash."""

import subprocess
import textwrap
from pathlib import Path

import pytest

PARSER = Path(__file__).resolve().parents[2] / "utils" / "parse_options.sh"
SCRIPT = """\
#!/usr/bin/env bash
# Train the thing.
#
# It takes a while.

set -euo pipefail
secret=unset
# begin options
# What to run
stage=1              # first stage to run
stop_stage=9         # last stage to run
scale=mini           # {smoke|mini|full} how much of everything
table=1              # <T> number of the table,
                     # or 'all'
# Where
resume=true          # go on where a run stopped
librispeech=         # <DIR> the corpus on disk
note='two words'     # free text
rows=baseline,0dB
name=n
index=i              # names that the parser might use itself
# end options
cd /
. "$PARSER"

# begin stages
# 1 data: from the corpus to manifests
if ((stage <= 1)); then
  # not for the help
  :
fi
# 2 format
# end stages
for variable in stage stop_stage scale table resume librispeech note rows name index secret; do
  printf '%s=%s\\0' "$variable" "${!variable}"
done
printf '%s\\0' "$@"
"""
DEFAULTS = {
    "stage": "1",
    "stop_stage": "9",
    "scale": "mini",
    "table": "1",
    "resume": "true",
    "librispeech": "",
    "note": "two words",
    "rows": "baseline,0dB",
    "name": "n",
    "index": "i",
    "secret": "unset",
}


@pytest.fixture
def call(tmp_path):
    """Run the script with arguments from its parent folder, by a relative path."""
    script = tmp_path / "recipe" / "run.sh"
    script.parent.mkdir()
    script.write_text(SCRIPT)

    def run(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", "recipe/run.sh", *arguments],
            cwd=tmp_path,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "PARSER": str(PARSER), "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=30,
        )

    return run


def values(done: subprocess.CompletedProcess) -> tuple[dict[str, str], list[str]]:
    """Variables and positional arguments after the options were read."""
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    fields = done.stdout.split("\0")[:-1]
    settings = dict(field.split("=", 1) for field in fields[: len(DEFAULTS)])
    return settings, [field for field in fields[len(DEFAULTS) :] if field]


def refused(done: subprocess.CompletedProcess) -> str:
    """The one line on stderr of a refusal; nothing after the parser may have run."""
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("run.sh: error: ")
    return lines[0]


def test_no_option_keeps_the_defaults(call):
    assert values(call()) == (DEFAULTS, [])


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        (["--stage", "3"], {"stage": "3"}),
        (["--stage=3"], {"stage": "3"}),
        (["--stage", "-1"], {"stage": "-1"}),
        (["--stop-stage", "4"], {"stop_stage": "4"}),
        (["--stop_stage=4"], {"stop_stage": "4"}),
        (["--stage", "2", "--stage", "5"], {"stage": "5"}),
        (["--table", "all"], {"table": "all"}),
        (["--scale", "smoke", "--resume", "false"], {"scale": "smoke", "resume": "false"}),
        (["--librispeech", "/a b/c"], {"librispeech": "/a b/c"}),
        (["--rows=a=b,c"], {"rows": "a=b,c"}),
        (["--note="], {"note": ""}),
        (["--note", ""], {"note": ""}),
        (["--note=--stage"], {"note": "--stage"}),
        (["--name", "x", "--index", "y"], {"name": "x", "index": "y"}),
    ],
)
def test_values_are_set(call, arguments, changed):
    assert values(call(*arguments)) == (DEFAULTS | changed, [])


@pytest.mark.parametrize(
    "text",
    [
        "$(touch {mark})",
        "`touch {mark}`",
        "; touch {mark}",
        "x'; touch {mark}; '",
        'x"; touch {mark}; "',
        "a[$(touch {mark})]",
        "${{PATH}}",
        "%s%n\\n",
        "tab\tnew\nline",
        " * ? ~ é \\",
    ],
)
def test_values_stay_literal(call, tmp_path, text):
    mark = tmp_path / "mark"
    text = text.format(mark=mark)
    assert values(call("--note", text))[0]["note"] == text
    assert values(call(f"--librispeech={text}"))[0]["librispeech"] == text
    # Where a number, a choice or a name belongs, the same text is refused and not run either.
    for arguments in (["--stage", text], ["--scale", text], ["--resume", text], [f"--{text}", "x"], [f"--{text}=x"]):
        refused(call(*arguments))
    assert not mark.exists()


def test_positional_arguments_are_left(call):
    changed = DEFAULTS | {"stage": "2"}
    assert values(call("--stage", "2", "a b", "--scale", "full")) == (changed, ["a b", "--scale", "full"])
    assert values(call("--stage", "2", "--", "--scale", "c")) == (changed, ["--scale", "c"])


@pytest.mark.parametrize("option", ["--PATH", "--IFS", "--secret", "--PARSER", "--_po_names", "--BASH_ENV", "-x"])
def test_only_declared_names_can_be_set(call, option):
    assert f"unknown option '{option}'" in refused(call(option, "x"))
    assert f"unknown option '{option}'" in refused(call(f"{option}=x"))


def test_option_without_a_name_is_refused(call):
    assert "unknown option '--'" in refused(call("--=x"))


def test_unknown_option_names_it_and_the_nearest(call):
    assert "unknown option '--stge'; did you mean --stage?" in refused(call("--stge", "1"))
    assert "unknown option '--libri-speech'; did you mean --librispeech?" in refused(call("--libri-speech=/x"))
    assert "unknown option '--stop_stagee'; did you mean --stop-stage?" in refused(call("--stop_stagee"))
    assert "unknown option '--tbale'; did you mean --table?" in refused(call("--tbale", "1"))  # --scale is as near
    far = refused(call("--something-else-altogether", "1"))
    assert "'--something-else-altogether'" in far and "did you mean" not in far


@pytest.mark.parametrize("arguments", [["--stage"], ["--stage", "--scale", "mini"], ["--scale", "mini", "--stage"]])
def test_missing_value_is_refused(call, arguments):
    assert "--stage wants a value" in refused(call(*arguments))


@pytest.mark.parametrize("value", ["yes", "True", "1", "", "true "])
def test_boolean_takes_only_true_and_false(call, value):
    assert "--resume takes true or false" in refused(call("--resume", value))


@pytest.mark.parametrize("value", ["one", "1.5", "", "08", "1 ", "0x1", "99999999999999999999"])
def test_number_takes_only_whole_numbers(call, value):
    assert "--stage takes a whole number" in refused(call("--stage", value))


@pytest.mark.parametrize("value", ["tiny", "", "mini|full", "min", "*"])
def test_choice_takes_only_what_is_listed(call, value):
    assert "--scale takes one of smoke|mini|full" in refused(call("--scale", value))


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--stage", "2", "--help", "--nonsense"]])
def test_help_is_made_from_the_comments(call, arguments):
    done = call(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    expected = """\
        Usage: run.sh [options]

        Train the thing.

        It takes a while.

        Options [and their defaults]:

         What to run
          --stage N                     first stage to run [1]
          --stop-stage N                last stage to run [9]
          --scale smoke|mini|full       how much of everything [mini]
          --table T                     number of the table, [1]
                                        or 'all'

         Where
          --resume true|false           go on where a run stopped [true]
          --librispeech DIR             the corpus on disk
          --note TEXT                   free text [two words]
          --rows TEXT                   [baseline,0dB]
          --name TEXT                   [n]
          --index TEXT                  names that the parser might use itself [i]

          --help                        print this

        Stages:
          1 data: from the corpus to manifests
          2 format
        """
    assert done.stdout == textwrap.dedent(expected)


SHARED = """\
# Not for the help.
# begin options
# What to run
table=1          # <T> number of the table
rows=            # <a,b> rows
                 # or nothing
# ...
stage=1          # first stage to run
# Data
# ...
check=auto       # {auto|full} how audio is checked
# Folders
datadir=data
# end options
"""
SHARING = """\
# Train the thing.

# begin options
. "$(dirname "$0")/../utils/shared.sh" # those of a/b
# What to run
rows=all         # <a> other rows
average=5        # of how many
pretrain=true
# Data
librispeech=     # <DIR> the corpus
# Models
bert=            # <NAME> model
                 # or folder
# Folders
logdir=log
# end options
. "$(dirname "$0")/../utils/head.sh" one two
for variable in table rows stage check datadir average pretrain librispeech bert logdir; do
  echo "$variable=${!variable}"
done
"""


@pytest.fixture
def sharing(tmp_path):
    """Run a script that takes options of a shared file, and reads its arguments in another file that it sources."""
    (tmp_path / "utils").mkdir()
    (tmp_path / "recipe").mkdir()
    (tmp_path / "utils" / "parse_options.sh").symlink_to(PARSER)
    (tmp_path / "utils" / "shared.sh").write_text(SHARED)
    head = 'words=$2\nshift 2\n. "${BASH_SOURCE[0]%/*}/parse_options.sh"\necho "words=$words $*"\n'
    (tmp_path / "utils" / "head.sh").write_text(head)
    (tmp_path / "recipe" / "run.sh").write_text(SHARING.replace("one two", 'one two "$@"'))

    def run(*arguments: str) -> subprocess.CompletedProcess:
        command = ["bash", "-euo", "pipefail", "recipe/run.sh", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)

    return run


def test_shared_options_are_set_like_a_scripts_own(sharing):
    done = sharing("--table", "2", "--average=7", "--check", "full", "left over")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "words=two left over",
        "table=2",
        "rows=all",
        "stage=1",
        "check=full",
        "datadir=data",
        "average=7",
        "pretrain=true",
        "librispeech=",
        "bert=",
        "logdir=log",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--check", "none"], "--check takes one of auto|full"),
        (["--stage", "x"], "--stage takes a whole number"),
        (["--pretrain", "1"], "--pretrain takes true or false"),
        (["--tables", "1"], "unknown option '--tables'; did you mean --table?"),
        (["--words", "1"], "unknown option '--words'"),
    ],
)
def test_shared_options_are_refused_like_a_scripts_own(sharing, arguments, message):
    assert message in refused(sharing(*arguments))


def test_help_has_shared_and_own_options_under_the_same_headings(sharing):
    done = sharing("--help")
    assert (done.returncode, done.stderr) == (0, "")
    expected = """\
        Usage: run.sh [options]

        Train the thing.

        Options [and their defaults]:

         What to run
          --table T                     number of the table [1]
          --rows a                      other rows [all]
          --average N                   of how many [5]
          --pretrain true|false         [true]
          --stage N                     first stage to run [1]

         Data
          --librispeech DIR             the corpus
          --check auto|full             how audio is checked [auto]

         Models
          --bert NAME                   model
                                        or folder

         Folders
          --datadir TEXT                [data]
          --logdir TEXT                 [log]

          --help                        print this
        """
    assert done.stdout == textwrap.dedent(expected)


def test_script_without_an_options_section_is_told(tmp_path):
    script = tmp_path / "bare.sh"
    script.write_text(f"stage=1\n. {PARSER}\necho reached\n")
    done = subprocess.run(["bash", script], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "bare.sh: error: it has no settings between '# begin options' and '# end options'" in done.stderr


def test_nothing_of_the_parser_is_left_behind(tmp_path):
    script = tmp_path / "run.sh"
    script.write_text(f"# begin options\nstage=1\n# end options\n. {PARSER}\ndeclare -p; declare -F\n")
    done = subprocess.run(["bash", script, "--stage", "2"], capture_output=True, text=True, timeout=30)
    assert 'declare -- stage="2"' in done.stdout
    assert "_po_" not in done.stdout
