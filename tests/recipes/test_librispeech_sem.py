"""egs/librispeech_sem/run.sh at scale smoke: the whole way, the same to the last bit
each time, and mistakes.
"""

import gzip
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import call_trace
import numpy as np
import pytest
import torch
import yaml
from kaldi_stand_in import read_calls, write_wrapper
from make_walkthrough import OPTIONS, PAGE, list_files
from runs import (
    EGS,
    assert_nothing_is_repeated,
    cells_of,
    fail_in_each_stage,
    smoke_run,
    table_of,
)

from espnet_ext.recipe.start import load_recipe
from espnet_ext.synthetic.librispeech import make_librispeech

RECIPE = EGS / "librispeech_sem"
run = partial(smoke_run, RECIPE.name, "--table", "1")
rows = partial(cells_of, RECIPE.name)
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}
# They hold times and folders; parameters are compared below.
SKIPPED = {".log", ".done", ".lock", ".yaml", ".pth"}
# Logs, the trace of the run, and what later stages and other systems leave.
LATER = re.compile(r"/log/|/decode_|^exp/(results|sem_m80_0)/|^trace")
# A folder lists its files in the order of its file system: here in reverse.
REVERSED = """
import os
_listdir, _scandir = os.listdir, os.scandir
os.listdir = lambda *a: sorted(_listdir(*a), reverse=True)
class _Scan:
    def __init__(self, *a):
        with _scandir(*a) as found:
            self.found = iter(sorted(found, key=lambda entry: entry.name, reverse=True))
    def __iter__(self): return self
    def __next__(self): return next(self.found)
    def __enter__(self): return self
    def __exit__(self, *a): pass
    def close(self): pass
os.scandir = _Scan
"""


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess]:
    """One whole run of two systems, which fill rows of all tables without a language
    model.
    """
    folder = tmp_path_factory.mktemp("smoke")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(call_trace.VARIABLE, str(folder / "trace"))
        result = smoke_run(RECIPE.name, *OPTIONS, folder=folder)
    return folder, result


def test_every_file_that_ran_is_on_the_walkthrough(smoke):
    """If not, run ``python tests/docs/make_walkthrough.py``."""
    folder, _ = smoke
    ran = {call.file for call in call_trace.read_trace(folder / "trace")}
    page = list_files(PAGE.read_text(encoding="utf-8"))
    assert len(ran) > 80
    assert sorted(ran - page) == []
    assert all((call_trace.ROOT / file).is_file() for file in page)


def test_run_fills_the_rows_that_were_asked_for(smoke):
    folder, result = smoke
    table = rows(folder)
    for name in ("baseline", "0dB"):
        for test_set in ("test-clean", "test-other"):
            here = table[name][test_set].here
            assert here.words > 0 and here.errors >= 0
            assert here.value == pytest.approx(100 * here.errors / here.words, abs=0.01)
    assert table["-60dB"]["test-clean"].here is None
    for other in ("2", "3", "4", "r"):
        assert (
            cells_of(RECIPE.name, folder, other)["baseline"]["test-other"].here
            == table["baseline"]["test-other"].here
        )
    # no number of the paper beside ours: the corpus is another
    assert table["baseline"]["test-clean"].paper is None
    assert "tables.md" in result.stdout and "4.19" not in result.stdout


def run_otherwise(folder: Path, **environment: str) -> None:
    """Run the stages up to the training in two processes, with other variables."""
    given = [
        f"--recipe={RECIPE}",
        f"--expdir={folder}/exp",
        f"--datadir={folder}/data",
        "--scale=smoke",
        "--nj=2",
    ]
    stages = list(load_recipe(RECIPE).stages)
    calls = [
        ["run", stage, *given, "--rows=baseline"]
        for stage in stages[: stages.index("training") + 1]
    ]
    script = (
        f"from espnet_ext.cli.program import call\nfor words in {calls}: assert "
        "call(words) == 0"
    )
    variables = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        **AVX2,
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def digests(folder: Path) -> dict[str, str]:
    """Return a digest of each file, and of the parameters of the one system."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if (
            path.is_file()
            and path.suffix not in SKIPPED
            and not path.name.startswith(".")
            and not LATER.search(name)
        ):
            found[name] = digest(path, folder)
    [model] = (folder / "exp").glob("baseline/seed*/best*.ave.pth")
    arrays = {
        name: value.numpy()
        for name, value in torch.load(model, weights_only=True).items()
    }
    return found | {"parameters": digest_of(arrays)}


def digest(path: Path, folder: Path) -> str:
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return digest_of(dict(arrays))
    data = (
        gzip.decompress(path.read_bytes())
        if path.suffix == ".gz"
        else path.read_bytes()
    )
    return hashlib.sha256(data.replace(str(folder).encode(), b"FOLDER")).hexdigest()


def digest_of(arrays: dict[str, np.ndarray]) -> str:
    parts = [
        name.encode() + np.ascontiguousarray(value).tobytes()
        for name, value in sorted(arrays.items())
    ]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def test_results_do_not_depend_on_processes_hash_seeds_order_of_files_or_locale(
    smoke, tmp_path
):
    (tmp_path / "reversed").mkdir()
    (tmp_path / "reversed" / "sitecustomize.py").write_text(REVERSED)
    path = os.pathsep.join(
        [str(tmp_path / "reversed"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    run_otherwise(tmp_path / "other", PYTHONHASHSEED="1", PYTHONPATH=path, LC_ALL="C")
    expected, other = digests(smoke[0]), digests(tmp_path / "other")
    assert len(expected) > 20
    assert other == expected


@pytest.mark.skipif(
    "avx2" not in Path("/proc/cpuinfo").read_text().split(),
    reason="the processor has no AVX2",
)
def test_recipes_use_the_instructions_that_most_processors_have():
    shell = "source utils/path.sh && env"
    given = {"PATH": os.environ["PATH"], "ATEN_CPU_CAPABILITY": "avx512"}
    found = subprocess.run(
        ["bash", "-c", shell],
        cwd=EGS.parent,
        env=given,
        capture_output=True,
        text=True,
        check=True,
    )
    variables = dict(
        line.split("=", 1) for line in found.stdout.splitlines() if "=" in line
    )
    assert variables | AVX2 | {"OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"} == variables
    script = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    python = [str(EGS.parent / "tools" / "venv" / "bin" / "python"), "-c", script]
    assert (
        subprocess.run(
            python, env=variables, capture_output=True, text=True, check=True
        ).stdout
        == "AVX2\n"
    )


@pytest.mark.parametrize(
    ("instructions", "status", "capability"),
    [("all", 0, "avx512"), ("avx1", 1, None)],
)
def test_all_instructions_are_used_when_asked_for(instructions, status, capability):
    given = {
        "PATH": os.environ["PATH"],
        "ATEN_CPU_CAPABILITY": "avx512",
        "CPU_INSTRUCTIONS": instructions,
    }
    found = subprocess.run(
        ["bash", "-c", "source utils/path.sh && printenv ATEN_CPU_CAPABILITY"],
        cwd=EGS.parent,
        env=given,
        capture_output=True,
        text=True,
    )
    assert found.returncode == status
    if capability:
        assert found.stdout.strip() == capability
    else:
        assert "CPU_INSTRUCTIONS" in found.stderr


def test_table_5_on_a_librispeech_without_its_other_parts(tmp_path):
    """Their cells and the average stay empty; without the option, the missing parts are
    named before any work.
    """
    corpus = tmp_path / "LibriSpeech"
    make_librispeech(corpus, "smoke")
    for part in corpus.glob("*-other*"):
        shutil.rmtree(part)
    options = ("--table", "5", "--rows", "lm=0.36", "--librispeech", str(corpus))
    refused = run(*options, folder=tmp_path, status=1)
    said = refused.stdout + refused.stderr
    assert "dev-other, test-other" in said and "--clean_only true" in said
    run(*options, "--clean_only", "true", folder=tmp_path)
    cells = cells_of(RECIPE.name, tmp_path, "5")["lm=0.36"]
    assert cells["test-clean"].here.words > 0
    assert cells["test-other"].here is None and cells["average"].here is None


def test_systems_differ_only_in_what_the_table_says(smoke):
    folder, _ = smoke
    base, sem = (
        yaml.safe_load((folder / "exp" / system / "seed1" / "config.yaml").read_text())
        for system in ("baseline", "sem_m80_0")
    )
    different = {key for key in base if base[key] != sem[key]}
    assert different <= {"config", "normalize", "normalize_conf", "output_dir"}
    assert sem["normalize_conf"] == base["normalize_conf"] | {
        "eta_min": -80.0,
        "eta_max": 0.0,
    }


def test_a_second_run_repeats_nothing(smoke):
    folder, _ = smoke
    before = rows(folder)
    again = run("--rows", "baseline,0dB", folder=folder)
    assert_nothing_is_repeated(again)
    assert rows(folder) == before


def test_language_model_grid_and_pretraining(smoke, tmp_path):
    """Two weights of Table 5 in one decoding command, by a system that was pre-trained
    and averaged otherwise.
    """
    folder, _ = smoke
    words = ("--table", "5", "--rows", "lm=0.36,lm=0.44", "--average", "last:1")
    result = run(*words, folder=tmp_path, datadir=folder / "data")
    system = tmp_path / "exp" / "sem_m80_0" / "seed1"
    stages = yaml.safe_load((system / "config.yaml").read_text())["stages"]
    assert [stage["pooling"] for stage in stages] == [
        [16],
        [16],
        [16],
        [2, 8],
        [2, 2, 2],
    ]
    log = (system / "log" / "train.log").read_text()
    assert (
        len(re.findall(r"epoch \d: {'num_layers': [23],", log)) == 5
        and "epoch 6: the whole network" in log
    )
    shapes = list(
        (tmp_path / "exp" / "stats" / "train" / "train").glob("speech_shape.*.json")
    )
    assert len(shapes) == 3 and all(
        0 < json.loads(path.read_text())["audio_share"] <= 1 for path in shapes
    )
    masked = re.findall(
        r"1epoch results: \[train\].*masked=([0-9.]+)",
        (system / "log" / "train.log").read_text(),
    )
    assert len(masked) == 1 and 0.05 < float(masked[0]) < 0.95
    # one step for both weights, and both hypotheses scored
    assert (
        len(
            re.findall(
                r"decode sem_m80_0/seed1 \(lm_0.36 lm_0.44\): done in", result.stdout
            )
        )
        == 1
    )
    here = {
        name: cells["test-clean"].here for name, cells in rows(tmp_path, "5").items()
    }
    assert (
        here["lm=0.36"].words == here["lm=0.44"].words > 0 and here["lm=0.40"] is None
    )
    assert 1.0 < table_of(RECIPE.name, tmp_path, "5").meta.lm_perplexity < 1000.0


def test_a_failing_step_of_each_stage_ends_the_run(smoke):
    fail_in_each_stage(RECIPE.name, smoke[0], "--table", "1", "--rows", "baseline")


def test_a_corrupt_recording_stops_the_first_stage(smoke, tmp_path):
    corpus = tmp_path / "LibriSpeech"
    subprocess.run(
        ["cp", "-r", str(smoke[0] / "data" / "corpus"), str(corpus)], check=True
    )
    victim = sorted(corpus.glob("test-clean/*/*/*.flac"))[0]
    victim.write_bytes(victim.read_bytes()[:200])
    result = run("--librispeech", str(corpus), folder=tmp_path, status=1)
    assert victim.stem in result.stderr + result.stdout
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        "librispeech_faults.txt",
        "log",
    ]
    assert "== Stage 2" not in result.stdout


def test_a_system_of_the_users_own_beside_the_table(smoke, tmp_path):
    """``--asr_config``: trained, decoded and scored like the others; its command can be
    copied from the screen.
    """
    folder, _ = smoke
    (tmp_path / "mine.yaml").write_text(
        "base: baseline\nencoder_conf: {hidden_size: 6}\n"
    )
    options = ("--asr_config", str(tmp_path / "mine.yaml"), "--name", "narrow")
    done = run(*options, folder=folder)
    (line,) = re.findall(
        r"train narrow/seed1: (python -m espnet_ext\.bin\.growing_asr_train .*)",
        done.stdout,
    )
    words = shlex.split(line)
    assert (
        words[words.index("--config") + 1].endswith("configs/narrow_growing.yaml")
        and "--token_list" in words
    )
    page = (folder / "exp" / "results" / "tables.md").read_text()
    assert re.search(r"^\| *narrow *\|.*[0-9]", page, re.M)
    assert re.search(r"^ *narrow .*[0-9]", done.stdout, re.M) and re.search(
        r"^ *baseline .*[0-9]", done.stdout, re.M
    )
    config = yaml.safe_load(
        (folder / "exp" / "narrow" / "seed1" / "config.yaml").read_text()
    )
    assert config["encoder_conf"]["hidden_size"] == 6
    for stays in (True, False):
        run("--rows", "baseline,0dB", "--stage", "8", folder=folder)
        page = (folder / "exp" / "results" / "tables.md").read_text()
        assert bool(re.search(r"^\| *narrow", page, re.M)) == stays
        assert re.search(r"^\| *baseline", page, re.M)
        shutil.rmtree(folder / "exp" / "narrow", ignore_errors=True)


def test_training_and_decoding_by_a_wrapper_of_kaldis(smoke, tmp_path):
    """As with train_cmd="queue.pl --gpu 1" in cmd.sh; the data are those of the run
    before. No file but logs is written over.
    """
    folder, _ = smoke
    shutil.copytree(folder / "exp", tmp_path / "exp")
    wrapper = write_wrapper(tmp_path / "bin")
    commands = {"train_cmd": "--gpu 1", "decode_cmd": "--mem 4G"}
    interpreter = Path(sys.executable).resolve().stat()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "espnet_ext.cli", "run"),
            *("training", "decoding"),
            *(f"--recipe={RECIPE}", "--scale=smoke", "--table=1", "--rows=-20dB"),
            *(f"--expdir={tmp_path / 'exp'}", f"--datadir={folder / 'data'}"),
        ],
        env=os.environ
        | {name: f"{wrapper} {options}" for name, options in commands.items()}
        | {"ESPNET_EXT_SHELL": str(os.getpid())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    train, *decode = read_calls(wrapper)
    jobs, log, *command = train.split()
    assert jobs == "=1:1" and log.endswith("/seed1/log/train.launched.log")
    assert command[1:3] == ["-m", "espnet_ext.bin.growing_asr_train"]
    own_log = Path(log).with_name("train.log").read_text()
    assert "The training was finished" in own_log
    assert decode and all(call.startswith("JOB=1:") for call in decode)
    after = Path(sys.executable).resolve().stat()
    assert (after.st_size, after.st_mtime) == (
        interpreter.st_size,
        interpreter.st_mtime,
    )
