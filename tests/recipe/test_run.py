"""run.sh and what its stages begin with, in a recipe that does nothing: options,
folders, help, and what is refused.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from kaldi_stand_in import write_wrapper

from espnet_ext.errors import InputError
from espnet_ext.recipe import options as recipe_options
from espnet_ext.recipe import start
from espnet_ext.recipe.options import COMMON
from espnet_ext.recipe.run import Run
from espnet_ext.recipe.start import load_recipe, prepare_run
from espnet_ext.work import gpus

ROOT = Path(__file__).parents[2]
RECIPES = sorted(path.parent for path in (ROOT / "egs").glob("*/run.sh"))
RECIPE = """
from espnet_ext.recipe.own_system import Trained
from espnet_ext.recipe.run import Recipe


def show(run):
    print("named", run.options["name"])
    print("corpus", run.corpus, "seeds", run.seeds, "command", run.command, end=" ")
    print("launch", run.launch, run.train_options)


def fail(run):
    raise ValueError("a fault of the stage")


RECIPE = Recipe(
    corpus="librispeech",
    trained={"asr_config": Trained()},
    options={"lm_text": "", "kind": "", "music": "", "bert": "", "clean_only": "false"},
    paths=("lm_text", "music"),
    models=("bert",),
    choices={"kind": ("b", "c")},
    needed=("music",),
    variant=lambda options: options["kind"],
    stages={"data": show, "training": fail},
)
"""
TABLES = """
recipe: toy
paper: {id: P0, title: A title, authors: Nobody, year: 2020, metric: WER (%)}
test_sets: [test]
systems: {base: {kind: train, config: train, data: train}}
tables:
  "1":
    caption: A table
    columns: [test]
    rows: [{name: "-60dB", system: base, paper: [1.0]}]
"""


@pytest.fixture
def toy(tmp_path, monkeypatch) -> Path:
    """A recipe with two stages, beside the utils and conf of the repository."""
    monkeypatch.setattr(recipe_options, "ROOT", tmp_path)
    shutil.copytree(ROOT / "utils", tmp_path / "utils")
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    folder = tmp_path / "egs" / "toy"
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "full.yaml").write_text(
        "settings: {size: 3, average: best:5}\ntrain: {lr: 1}\ndecode: {}\n"
    )
    (folder / "conf" / "mini.yaml").write_text("settings: {size: 2}\n")
    (folder / "conf" / "tables.yaml").write_text(TABLES)
    (folder / "recipe.py").write_text(RECIPE)
    for name in ("path.sh", "cmd.sh"):
        shutil.copy(ROOT / "egs" / "librispeech_sem" / name, folder)
    options = "".join(
        f"{name}={value} # what {name} is\n" for name, value in COMMON.items()
    )
    own = (
        "librispeech= # the corpus\nlm_text= # a text\nkind= # of "
        "recipe\nmusic=\nbert=\nclean_only=false\n"
    )
    own += "stage=1\nstop_stage=9 # last\n"
    own += "asr_config= # a config\nname=mine # of its row\n"
    sources = "".join(
        f'. "$(dirname "$0")/{name}"\n'
        for name in ("path.sh", "cmd.sh", "../../utils/parse_options.sh")
    )
    stages = "run 1 data # the corpus\nrun 2 training # of nothing\necho reached\n"
    head = "#!/usr/bin/env bash\n# A toy.\nset -euo pipefail\n\n"
    (folder / "run.sh").write_text(head + options + own + sources + stages)
    (folder / "run.sh").chmod(0o755)
    venv = tmp_path / "tools" / "venv" / "bin"
    venv.mkdir(parents=True)
    for name, line in (
        ("python", sys.executable),
        ("espnet-ext", f"{sys.executable} -m espnet_ext.cli"),
    ):
        (venv / name).write_text(f'#!/bin/sh\nexec {line} "$@"\n')
        (venv / name).chmod(0o755)
    return folder


@pytest.fixture
def prepared(toy, monkeypatch):
    """Return a function that prepares the toy recipe as a run elsewhere would."""

    def prepare_it(caller: Path | None = None, **options: str) -> Run:
        monkeypatch.chdir(caller or toy)
        return prepare_run(toy, options, {})

    return prepare_it


@pytest.mark.parametrize(
    ("recipe", "option", "value", "usual"),
    [
        ("asru2019_cs", "average", "last:2", "best:1"),
        ("libricss_stitch", "pairs_within", "none", "1.0"),
        ("librispeech_rescore", "amp", "true", ""),
        ("librispeech_rescore", "gpt2", "openai/gpt2", ""),
        ("librispeech_sem", "average", "last:2", "best:1"),
        ("librispeech_sem", "lm_size", "large", "small"),
        ("librispeech_sem", "pretrain", "false", "true"),
        ("spotify_longctx", "passes", "9", ""),
        ("spotify_longctx", "schedule", "shares", "counts"),
    ],
)
def test_a_value_that_changes_results_names_their_folders(
    recipe, option, value, usual, monkeypatch, tmp_path
):
    """One that the scale has anyway does not."""
    monkeypatch.chdir(tmp_path)  # prepare_run() changes the folder, too
    folder = ROOT / "egs" / recipe
    names = {}
    for each in ("", usual, value):
        found = prepare_run(folder, {"scale": "smoke", option: each}, {})
        names[each] = (found.system_tag, found.decoding_tag)
    decoding = option in load_recipe(folder).decoding
    assert names[""] == names[usual] == ("", "") and names[value][decoding].startswith(
        f"-{option}_"
    )
    assert not names[value][not decoding]


def test_a_folder_of_another_variant_is_refused(toy, prepared):
    assert (
        run(toy, "--expdir", "exp/x", "--kind", "b", "--stop_stage", "1").returncode
        == 0
    )
    prepared(expdir="exp/x", kind="b")
    for options in ({"kind": "c"}, {"clean_only": "true"}):
        with pytest.raises(InputError, match="--expdir: .*exp/x is of another"):
            prepared(expdir=str(toy / "exp" / "x"), **options)


def test_more_gpus_than_there_are_are_refused(prepared, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpus, "_ask_new_process", lambda visible: 2)
    assert prepared(ngpu="2").ngpu == 2
    with pytest.raises(InputError, match="--ngpu 4: .*give --ngpu 2"):
        prepared(ngpu="4")


def run(
    toy: Path, *options: str, folder: Path | None = None
) -> subprocess.CompletedProcess:
    command = [str(toy / "run.sh"), *options]
    return subprocess.run(
        command,
        cwd=folder or toy,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("options", "tag"),
    [
        ({}, "mini"),
        ({"kind": "b", "librispeech": "digits"}, "mini-b-digits"),
        ({"clean_only": "true", "librispeech": "digits"}, "mini-clean-digits"),
        (
            {"scale": "full", "librispeech": "LibriSpeech", "music": "musan"},
            "full-LibriSpeech",
        ),
    ],
)
def test_each_scale_variant_and_corpus_has_folders_of_its_own(
    options, tag, prepared, tmp_path
):
    for name in ("librispeech", "music"):
        if name in options:
            options = options | {name: str(tmp_path / options[name])}
            Path(options[name]).mkdir()
    found = prepared(**options)
    assert (found.expdir, found.datadir) == (Path(f"exp/{tag}"), Path(f"data/{tag}"))
    assert found.lm == Path(f"exp/{tag}/lm")
    given = options.get("librispeech")
    assert found.corpus == Path(given or f"data/{tag}/corpus")
    assert found.corpus_name == (
        Path(given).name if given else "synthetic"
    ) and found.synthetic == (not given)


def test_data_dirs_in_place_of_a_corpus(prepared, tmp_path):
    given = tmp_path / "mine"
    for name in ("train", "dev", "calls"):
        (given / name).mkdir(parents=True)
        (given / name / "wav.scp").touch()
    found = prepared(data=str(given))
    assert (found.corpus, found.corpus_name, found.tag) == (given, "mine", "mini-mine")
    assert found.of_data_dirs and not found.synthetic
    assert list(found.tables.rows["1/-60dB"].paper) == ["calls"]
    with pytest.raises(InputError, match="--datadir"):
        prepared(data=str(given), datadir=f"{given}/../mine")
    with pytest.raises(InputError, match="two corpora"):
        prepared(data=str(given), librispeech=str(given))
    (given / "dev" / "wav.scp").unlink()
    with pytest.raises(InputError, match="mine: .*dev"):
        prepared(data=str(given))


def test_a_tilde_is_the_home_folder(prepared, tmp_path, monkeypatch):
    """A shell leaves it as it is in --expdir=~/x."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "corpus").mkdir()
    found = prepared(expdir="~/x", datadir="~", librispeech="~/corpus")
    assert (found.expdir, found.datadir) == (tmp_path / "x", tmp_path)
    assert found.corpus == tmp_path / "corpus"
    with pytest.raises(InputError, match="~nobody-of-this-name"):
        prepared(expdir="~nobody-of-this-name/x")


def test_paths_are_those_of_the_caller_and_stages_run_in_the_recipe(
    prepared, toy, tmp_path
):
    caller = tmp_path / "caller"
    (caller / "corpus").mkdir(parents=True)
    for name in ("mine.yaml", "a.txt"):
        (caller / name).write_text("env: local\n")
    found = prepared(
        caller,
        librispeech="corpus",
        lm_text="a.txt",
        expdir="exp",
        datadir="../data",
        parallel="mine.yaml",
    )
    assert (
        found.corpus == caller / "corpus" and found.path("lm_text") == caller / "a.txt"
    )
    assert found.path("music") is None
    (caller / "bert").mkdir()
    for given, taken in (
        ("bert", str(caller / "bert")),
        ("bert-base-cased", "bert-base-cased"),
    ):
        assert prepared(caller, bert=given).options["bert"] == taken
    assert found.expdir == caller / "exp" and found.datadir == tmp_path / "data"
    assert found.parallel == caller / "mine.yaml" and Path.cwd() == toy
    slurm = Path("conf/parallel/slurm.yaml")  # of all recipes, or else of this one
    assert prepared(parallel=str(slurm)).parallel == tmp_path / slurm
    (toy / slurm).parent.mkdir()
    (toy / slurm).write_text("env: slurm\n")
    assert prepared(parallel=str(slurm)).parallel == toy / slurm


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("extra",), "unexpected argument 'extra' (run.sh --help lists the options)"),
        (("--", "--scale", "mini"), "unexpected argument '--'"),
        (("--sacle", "mini"), "unknown option '--sacle'. Did you mean '--scale'?"),
        (("--stage", "3"), "no stage is between --stage 3"),
        (("--stage", "2", "--stop_stage", "1"), "the stages are 1 to 2"),
        (("--stage", "x[$(touch injected)]"), "--stage takes a whole number"),
        (("--rows", "--seed"), "--rows needs a value"),
        (("--scale", "full"), "--scale full needs --librispeech DIR"),
        (("--scale", "full", "--librispeech", "."), "--scale full needs --music DIR"),
        (("--librispeech", "nowhere"), "nowhere: no such file or folder"),
        (("--lm_text", "none.txt"), "none.txt: no such file or folder"),
        (("--scale", "big"), "no scale 'big'; known are full, mini"),
        (("--kind", "d"), "--kind takes one of b|c, not 'd'"),
        (("--rehearse=",), "--rehearse takes one of true|false, not ''"),
        (("--seed", "$(touch injected)"), "--seed takes whole numbers"),
        (
            ("--librispeech", "/data/Libri,Speech"),
            "mini-Libri,Speech has a comma, at which ESPnet would cut the path",
        ),
        (("--skip-faulty", "60"), "--skip-faulty takes true, false, or a percentage"),
        (("--nj", "0"), "--nj must be at least 1"),
        (("--ngpu", "-1"), "--ngpu must be at least 0"),
        (
            ("--parallel", "conf/parallel/none.yaml"),
            "--parallel: there is no file conf/parallel/none.yaml",
        ),
        (("--table", "2"), "no table '2'"),
        (("--rows", "none"), "no row 'none'"),
    ],
)
def test_what_is_refused(options, message, toy):
    done = run(toy, *options)
    assert (
        done.returncode == (2 if "--help lists the options" in done.stderr else 1)
        and "reached" not in done.stdout
    )
    assert (
        "error: " in done.stderr
        and message in done.stderr
        and done.stderr.count("\n") == 1
    )
    assert not (toy / "injected").exists() and "Traceback" not in done.stderr


@pytest.mark.parametrize("row", [("--rows", "-60dB"), ("--rows=-60dB",)])
def test_values_are_taken_as_they_are(row, toy):
    (toy / "a b" / "$HOME*").mkdir(parents=True)
    done = run(
        toy,
        *row,
        "--seed",
        "1,2",
        "--librispeech",
        "a b/$HOME*",
        "--name",
        "other",
        "--stop-stage",
        "1",
    )
    assert done.returncode == 0, done.stderr
    assert f"named other\ncorpus {toy}/a b/$HOME* seeds [1, 2]" in done.stdout
    assert f"command ./run.sh {' '.join(row)} --seed 1,2" in done.stdout


def test_the_command_that_is_kept_names_no_folders(toy, tmp_path):
    corpus = tmp_path / "secret place" / "digits"
    corpus.mkdir(parents=True)
    done = run(
        toy,
        "--skip-faulty",
        "--librispeech",
        str(corpus),
        f"--expdir={tmp_path}/out",
        "--stop-stage",
        "1",
    )
    assert done.returncode == 0, done.stderr
    assert (
        "command ./run.sh --skip-faulty --librispeech 'digits' --expdir=out "
        "--stop-stage 1" in done.stdout
    )


def test_the_command_that_is_kept_finds_what_the_recipe_has(toy):
    text = toy / "lists" / "lm.txt"
    text.parent.mkdir()
    text.touch()
    options = [
        "--lm-text",
        "lists/lm.txt",
        "--bert",
        f"{toy}/bert",
        "--stop-stage",
        "1",
    ]
    done = run(toy, *options)
    assert done.returncode == 0, done.stderr
    kept = "command ./run.sh --lm-text lists/lm.txt --bert bert --stop-stage 1"
    assert kept in done.stdout


def test_an_option_that_is_false_by_default_may_stand_alone(toy):
    recipe = toy / "recipe.py"
    recipe.write_text(
        recipe.read_text().replace(
            '"corpus", run.corpus', '"skip", run.options["skip_faulty"]'
        )
    )
    for options, value in (
        (("--skip_faulty", "--nj", "1"), "true"),
        (("--skip-faulty", "7"), "7"),
    ):
        done = run(toy, *options, "--stop_stage=1")
        assert f"skip {value} seeds" in done.stdout, done.stderr


def test_cmd_sh_says_how_work_is_started(toy, monkeypatch):
    (toy / "cmd.sh").write_text(
        'export train_cmd="env X=\'a b\'"\nexport train_cmd_options="--flag true"\n'
    )
    done = run(toy, "--stop_stage", "1")
    monkeypatch.chdir(toy)
    environment = {"decode_cmd": "conf/parallel/slurm.yaml"}
    assert (
        prepare_run(toy, {}, environment).parallel
        == toy.parents[1] / "conf/parallel/slurm.yaml"
    )
    assert (
        prepare_run(
            toy, {"parallel": "conf/parallel/sge.yaml"}, environment
        ).parallel.name
        == "sge.yaml"
    )
    assert "launch ('env', 'X=a b') ('--flag', 'true')" in done.stdout
    wrapper = str(write_wrapper(toy / "utils"))
    kaldi = prepare_run(toy, {}, {"decode_cmd": "utils/queue.pl --mem 4G"}).parallel
    assert kaldi.words == ("utils/queue.pl", "--mem", "4G") and wrapper.endswith(
        kaldi.words[0]
    )
    assert kaldi.folder.parts[:2] == ("exp", "mini")


@pytest.mark.parametrize(
    "line",
    [
        "train_cmd=nosuchprogram",
        "train_cmd=conf/full.yaml",
        "train_cmd='./queue.pl --gpu'",
        "train_cmd='./queue.pl --gpu 1 my.log'",
        'train_cmd="srun \'a"',
        "decode_cmd=srun",
        "decode_cmd=nosuch.pl",
        "decode_cmd=conf/full.yaml",
        "decode_cmd='./queue.pl JOB=1:4'",
    ],
)
def test_what_cannot_start_work_is_refused_before_stage_1(line, toy):
    write_wrapper(toy)
    (toy / "cmd.sh").write_text(f"export {line}\n")
    done = run(toy)
    name = line.partition("=")[0]
    assert done.returncode == 1 and "Stage" not in done.stdout
    (error,) = done.stderr.splitlines()
    assert error.startswith("error: "), error
    assert name in error or "conf/full.yaml" in error


def test_gpus_that_this_machine_lacks_are_missed_before_stage_1(toy, monkeypatch):
    """Training and decoding need them here, unless cmd.sh starts both elsewhere."""
    monkeypatch.chdir(toy)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    write_wrapper(toy)
    train, decode = {"train_cmd": "./queue.pl"}, {"decode_cmd": "./queue.pl"}
    for environment in ({}, train, decode):
        with pytest.raises(InputError, match="--ngpu 1: .*decode_cmd"):
            prepare_run(toy, {"ngpu": "1"}, environment)
        prepare_run(toy, {"ngpu": "0"}, environment)
    prepare_run(toy, {"ngpu": "1"}, train | decode)
    recipe = replace(load_recipe(toy), uses_gpu_here=lambda run: "stitching")
    monkeypatch.setattr(start, "load_recipe", lambda folder: recipe)
    prepare_run(toy, {"ngpu": "1"}, train | decode)
    dask = {"decode_cmd": "conf/parallel/slurm.yaml"}
    with pytest.raises(InputError, match="stitching would run on this machine"):
        prepare_run(toy, {"ngpu": "1"}, train | dask)


def test_stages_between_the_first_and_the_last_run_and_an_exception_ends_run_sh(
    toy, tmp_path
):
    command = [
        os.path.relpath(toy / "run.sh", tmp_path),
        "--stop_stage",
        "1",
    ]  # from any directory
    lines = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert [line for line in lines if "Stage" in line] == [
        "== Stage 1: data"
    ] and lines[-1] == "reached"
    done = run(toy, "--stage", "2", "--stop_stage", "100")
    assert [line for line in done.stdout.splitlines() if "Stage" in line] == [
        "== Stage 2: training"
    ]
    assert (
        done.returncode != 0
        and "reached" not in done.stdout
        and "a fault of the stage" in done.stderr
    )


def test_help_shows_the_head_of_the_script_options_defaults_and_stages(toy, tmp_path):
    done = run(toy, "--help", folder=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    for text in (
        "A toy.",
        "--scale",
        "what scale is [mini]",
        "a text\n",
        "1 data",
        "the corpus",
        "2 train",
    ):
        assert text in done.stdout
    assert "shellcheck" not in done.stdout and run(toy, "-h").stdout == done.stdout
    piped = subprocess.run(
        f"{toy}/run.sh --help | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert piped.stdout.startswith("Usage") and piped.stderr == ""


def test_a_missing_environment_is_one_line(toy, tmp_path):
    (tmp_path / "tools" / "venv" / "bin" / "python").unlink()
    done = run(toy)
    assert (
        done.returncode == 1
        and "run 'make -C" in done.stderr
        and done.stderr.count("\n") == 1
    )


@pytest.mark.parametrize("folder", RECIPES, ids=lambda folder: folder.name)
def test_each_recipes_run_sh_and_recipe_py_agree(folder):
    """The same options with the same defaults, the same stages, the common options, and
    at most some 60 lines.
    """
    text = (folder / "run.sh").read_text()
    head = text.partition("parse_options.sh")[0]
    declared = dict(
        line.partition("#")[0].strip().split("=", 1)
        for line in head.splitlines()
        if _is_option(line)
    )
    assert all("#" in line for line in head.splitlines() if _is_option(line)), (
        "each option has its help"
    )
    recipe = load_recipe(folder)
    own = [*recipe.trained, "name"]
    assert set(declared) == {
        *COMMON,
        *recipe.options,
        recipe.corpus,
        *recipe.instead,
        *own,
        "stage",
        "stop_stage",
    }
    for name in COMMON:
        if name not in ("table", "seed"):
            assert declared[name] == COMMON[name], name
    named = [line.split()[2] for line in text.splitlines() if line.startswith("run ")]
    assert named == list(recipe.stages)
    assert text.count("\n") <= 65


def _is_option(line: str) -> bool:
    name, equals, _ = line.partition("=")
    return bool(equals) and name.isidentifier() and name.islower()
