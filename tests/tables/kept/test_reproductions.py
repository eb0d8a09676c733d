"""Other people's results: what is kept of a run, what is refused, and the page that shows all of them row by row."""

import json
import shutil
from pathlib import Path

import pytest

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.tables.kept.reproductions import keep_reproduction, read_reproductions

ROOT = Path(__file__).resolve().parents[3]
RUN = ROOT / "egs/librispeech_sem/results/mini-synthetic"


@pytest.fixture
def recipe(tmp_path) -> Path:
    """A recipe with the results that it keeps."""
    folder = tmp_path / "somewhere" / "librispeech_sem"
    shutil.copytree(ROOT / "egs/librispeech_sem/results", folder / "results")
    (folder / "conf").mkdir()
    shutil.copy(ROOT / "egs/librispeech_sem/conf/tables.yaml", folder / "conf")
    return folder


@pytest.fixture
def run(tmp_path) -> Path:
    """Results of a run with a WER of 7.77 on test-clean."""
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(RUN / "table1.json", folder)  # without the scores, which give another WER
    result = json.loads((folder / "table1.json").read_text())
    for row in result["rows"]:
        here = row["cells"]["test-clean"]["here"]
        if here:
            spread = [7.76, 7.77, 7.78]
            here |= {"value": 7.77, "spread": 0.01, "values": dict(zip("123", spread, strict=True)), "ci95": [7.0, 8.5]}
            here |= {"errors": None, "words": None}
    (folder / "table1.json").write_text(json.dumps(result))
    return folder


def change(run: Path, **meta) -> None:
    result = json.loads((run / "table1.json").read_text())
    result["meta"] |= meta
    (run / "table1.json").write_text(json.dumps(result))


def test_the_page_shows_all_of_them_row_by_row(recipe, run):
    call(["table", "results", "--recipe", str(recipe)])
    before = (recipe / "RESULTS.md").read_text()
    for name in ("Ada Example", "Bo Example"):
        call(["table", "results", "--recipe", str(recipe), "--results", str(run), "--by", name])
    page = (recipe / "RESULTS.md").read_text()
    assert page.startswith(before.rstrip("\n"))  # the recipe's own results are as they were
    section = page.split("## Results of others")[1]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    start = next(number for number, row in enumerate(rows) if row[0] == "baseline")
    own = [row for row in rows[start:] if row[1] == "this repository"]
    result = json.loads((run / "table1.json").read_text())
    seeds = next(" ".join(map(str, row["seeds"])) for row in result["rows"] if row["name"] == "baseline")
    assert rows[start][1] == "the paper" and rows[start][3] == "4.19" and own
    for name in ("Ada Example", "Bo Example"):
        (line,) = [row for row in rows[start:] if row[1] == name][:1]
        assert line[2] == "synthetic, mini" and line[3] == "7.77 ± 0.01 [7.00, 8.50]" and line[-1] == seeds
    command, commit = result["meta"]["command"], result["meta"]["git"]["commit"]
    assert section.count(f"`{command}`") == 2 and f"commit {commit[:12]}" in section
    call(["table", "verify", "--recipe", str(recipe)])


def test_only_rows_with_results_are_kept(recipe, run):
    path = keep_reproduction(run, recipe / "results", "Ada Example")
    assert path.name == "ada-example-mini-synthetic.json"
    (kept,) = read_reproductions(recipe / "results")
    assert kept["by"] == "Ada Example"
    assert all(any(cell["here"] for cell in row["cells"].values()) for row in kept["results"][0]["rows"])


def test_what_nobody_could_repeat_is_refused(recipe, run):
    change(run, git=None)
    with pytest.raises(InputError, match="table 1: no command or no commit: run the recipe's run.sh in a git checkout"):
        keep_reproduction(run, recipe / "results", "Ada")
    with pytest.raises(InputError, match="give the name"):
        keep_reproduction(run, recipe / "results", "...")
    other = recipe.parent / "spotify_longctx" / "results"
    other.mkdir(parents=True)
    with pytest.raises(InputError, match="of the recipe librispeech_sem, in the folder of spotify_longctx"):
        keep_reproduction(RUN, other, "Ada")
    assert not read_reproductions(recipe / "results")


@pytest.mark.parametrize(
    "edit, message",
    [
        (lambda file: file.pop("by"), "by"),
        (lambda file: file.update(comment="great"), "unknown key 'comment'"),
        (lambda file: file["results"][0]["rows"][0].update(name=5), "not a table's results"),
        (lambda file: file["results"][0]["rows"].clear(), "a row without a result"),
    ],
)
def test_a_file_that_is_not_as_its_version_has_it(recipe, run, edit, message):
    path = keep_reproduction(run, recipe / "results", "Ada")
    value = json.loads(path.read_text())
    edit(value)
    path.write_text(json.dumps(value))
    with pytest.raises(InputError, match=message):
        read_reproductions(recipe / "results")


def test_those_of_all_recipes_are_valid():
    for kept in ROOT.glob("egs/*/results"):
        read_reproductions(kept)
