"""run.sh --rehearse goes through every recipe at scale smoke; a recipe that fails in
places is rehearsed to its end.
"""

import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from runs import EGS, RECIPES, ROWS, smoke_run

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir, read_data_dir, write_data_dir
from espnet_ext.recipe.gpus import locate_hours_file
from espnet_ext.recipe.options import COMMON
from espnet_ext.recipe.rehearsal import (
    GpuMemory,
    choose_utterances,
    make_runs,
    rehearse,
    shrink_sections,
)
from espnet_ext.recipe.rehearsal_report import (
    Seen,
    describe_jobs,
    list_jobs,
    list_problems,
)
from espnet_ext.recipe.run import Recipe, Run
from espnet_ext.recipe.steps import Step, run_jobs, run_steps
from espnet_ext.tables.plan import load_scale
from espnet_ext.tables.reading import load_tables
from espnet_ext.work import once

SEM = EGS / "librispeech_sem"
MOST = dict.fromkeys(RECIPES, ()) | {
    "librispeech_sem": ("--table", "5", "--rows", "lm=0.40")
}

# Work without a training, or not in shards, that has its hours too.
MEASURED = {
    "librispeech_rescore": ("lists", "bert_mwer/seed1/decode_default"),
    "libricss_stitch": (
        "heard/windows50",
        "stitcher_wco_wce_windows50/seed1/decode_default",
    ),
}


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes_are_rehearsed_to_their_tables(recipe, tmp_path):
    done = smoke_run(
        recipe, *(MOST[recipe] or ROWS[recipe]), "--rehearse", folder=tmp_path
    )
    for stage in ("data", "training", "tables"):
        assert f"\n-- {stage}\n" in done.stdout
    assert "nothing failed" in done.stdout and "seconds of one" in done.stdout
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"exp.hours.json", ".exp.rehearsal.lock"}, (
        "the folder of a rehearsal is its own"
    )
    for name in MEASURED.get(recipe, ()):
        assert re.search(
            rf"^ *{name} +- +[0-9.]+ +[1-9][0-9,]* +[0-9.]+ +-$", done.stdout, re.M
        ), done.stdout
    hours = json.loads((tmp_path / "exp.hours.json").read_text())
    assert hours and all(value > 0 for value in hours.values())


def a_set(count: int, speakers: int, prefix: str) -> DataDir:
    """Return utterances of 1, 2, ... seconds."""
    ids = [
        f"{prefix}{number % speakers}-{number:03d}" for number in range(1, count + 1)
    ]
    seconds = {key: str(float(key[-3:])) for key in ids}
    speaker = {key: key.partition("-")[0] for key in ids}
    return DataDir(
        dict.fromkeys(ids, "/a.wav"),
        speaker,
        dict.fromkeys(ids, "A B"),
        utt2dur=seconds,
    )


def test_the_longest_utterances_fill_a_batch_and_each_speaker_has_some():
    data = a_set(200, 10, "s")
    chosen = choose_utterances(data, 1000.0)
    longest = sorted(data.utterances, key=lambda key: -float(data.utt2dur[key]))
    assert (
        set(longest[:6]) <= chosen
        and sum(float(data.utt2dur[key]) for key in longest[:6]) >= 1000
    )
    assert len({data.utt2spk[key] for key in chosen}) >= 8 and len(chosen) < 80
    assert min(float(data.utt2dur[key]) for key in chosen) < 11, (
        "pre-training needs short ones"
    )
    few = choose_utterances(data, None)
    assert set(longest[:2]) <= few and len(few) <= 4
    assert choose_utterances(a_set(1, 1, "t"), None) == {"t0-001"}
    assert choose_utterances(data, 1000.0, lists=8) == set(longest[:8])


def write(output: str, text: str = "") -> None:
    Path(output).write_text(text)


def fail() -> None:
    raise InputError("bad.wav: cannot be read")


def a_run(folder: Path, **stages) -> Run:
    """Return a run with these stages, after one that writes two data dirs."""

    def data(run: Run) -> None:
        for name, count in (("train", 100), ("test-clean", 30)):
            write_data_dir(a_set(count, 4, name[0]), run.datadir / name)
        (run.datadir / "more").mkdir()

    tables = load_tables(SEM / "conf" / "tables.yaml", "full")
    selected = (tables.tables["1"],)
    options = {**COMMON, "scale": "full", "corpus": "here"}
    recipe = Recipe(corpus="corpus", stages={"data": data, **stages})
    return Run(
        recipe,
        options,
        load_scale(SEM, "full"),
        tables,
        selected,
        folder / "exp",
        folder / "data",
    )


def step(folder: Path, name: str, function=write, **arguments) -> Step:
    if function is write:
        arguments["output"] = str(folder / name)
    return Step(
        name,
        folder / "log" / f"{name}.log",
        function,
        arguments,
        outputs=[folder / name],
    )


def test_a_rehearsal_goes_on_after_a_failure_and_names_each(tmp_path, capsys):
    def training(run: Run) -> None:
        seen.append(len(read_data_dir(run.datadir / "train").utt2spk))
        assert (run.datadir / "more").is_dir() and len(
            read_data_dir(run.datadir / "test-clean").utt2spk
        ) <= 4
        run_jobs(
            [
                [step(run.expdir, "bad", fail), step(run.expdir, "after")],
                [step(run.expdir, "good")],
            ]
        )

    def decoding(run: Run) -> None:
        run_steps(replace(step(run.expdir, "decode"), inputs=[run.expdir / "after"]))

    def scoring(run: Run) -> None:
        assert (run.expdir / "good").is_file()
        raise ValueError("a fault of the stage")

    seen: list[int] = []
    with pytest.raises(InputError, match="3 problems"):
        rehearse(a_run(tmp_path, training=training, decoding=decoding, scoring=scoring))
    failed = [
        line for line in capsys.readouterr().out.splitlines() if "would fail:" in line
    ]
    assert [line.split()[2] for line in failed] == [
        "training:",
        "decoding:",
        "scoring:",
    ]
    assert (
        "bad.wav" in failed[0] and "/after" in failed[1] and "ValueError" in failed[2]
    )
    assert seen[0] < 100, "a few utterances of each"
    left = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and path.suffix != ".lock"
    ]
    assert left and all(path.suffix == ".log" for path in left), "the logs stay"


def test_trainings_of_rescorers_are_short():
    whole = load_scale(EGS / "librispeech_rescore", "full")
    short = shrink_sections(whole)
    for name in ("adapt_causal", "ce_masked", "mwer_pooled"):
        assert (
            "max_steps" not in whole[name]
            and short[name]["max_steps"] == short[name]["evaluate_every"] == 4
        )
    assert short["asr_train"].keys() == whole["asr_train"].keys()


def test_two_rehearsals_do_not_share_a_folder(tmp_path):
    folder = tmp_path / "exp.rehearsal"
    folder.mkdir()
    with (
        once.hold_lock(tmp_path / ".exp.rehearsal.lock", print),
        pytest.raises(InputError, match=str(folder)),
    ):
        rehearse(a_run(tmp_path))
    assert folder.is_dir()


def test_a_second_start_finds_what_is_repeated(tmp_path, capsys):
    def training(run: Run) -> None:
        starts.append(None)
        run_steps(
            step(run.expdir, "changed", text=str(len(starts))), step(run.expdir, "same")
        )

    starts: list[None] = []
    with pytest.raises(InputError, match="1 problem"):
        rehearse(a_run(tmp_path, training=training))
    assert "training: changed was repeated" in capsys.readouterr().out


def test_hours_and_disk_of_the_whole(tmp_path):
    """10,000 s of audio where 1,000 s were rehearsed, in batches of which 5 had been a
    pass.
    """
    run = a_run(tmp_path)
    whole, small = make_runs(run, tmp_path / "top")
    for each, count in ((whole, 10), (small, 1)):
        for name, seconds in (("train", 1000.0), ("dev", 0.0)):
            ids = {f"s-{number}": str(seconds) for number in range(count)}
            write_data_dir(
                DataDir(ids, dict.fromkeys(ids, "s"), ids, utt2dur=ids),
                each.datadir / name,
            )
    folder = small.expdir / "baseline" / "seed1"
    config = small.write_config(
        "baseline", {**run.sections["train"], "num_iters_per_epoch": None}, "a test"
    )
    (folder / "log").mkdir(parents=True)
    lines = [
        f"1epoch:train:{n}-{n}batch: loss=1.0, train_time={0.9 if n == 1 else 0.5}"
        for n in range(1, 6)
    ]
    (folder / "log" / "train.log").write_text("\n".join(lines))
    (folder / "1epoch.pth").write_bytes(bytes(2**20))
    (folder / "checkpoint.pth").write_bytes(bytes(3 * 2**20))
    words = ["--config", str(config)]
    for part, name in (("train", "train"), ("valid", "dev")):
        words += [
            f"--{part}_data_path_and_name_and_type",
            f"{small.datadir / name}/wav.scp,speech,sound",
        ]
    trained = Step(
        "train", folder / "log" / "train.log", write, {"options": words}, resumes=folder
    )
    (job,) = list_jobs([Seen("training", trained, 9.0, 7.5, "")], whole, small)
    assert (job.name, job.seconds, job.count) == (
        "baseline/seed1",
        pytest.approx(0.5),
        250 * 50,
    )
    assert job.hours == pytest.approx(250 * 50 * 0.5 / 3600)
    assert job.disk * 1024 == pytest.approx(3 + 10 * 1, abs=0.1), (
        "the checkpoint, and five epochs by each of two criteria"
    )
    assert list_problems([replace(job, disk=1e9)], run) and not list_problems(
        [job], run
    )
    assert locate_hours_file(run).parent == tmp_path
    many = replace(
        run,
        options={**run.options, "ngpu": "2"},
        sections=run.sections | {"settings": {"training_gpus": 1}},
    )
    names = [run.name_training(system, 1) for system in run.systems]
    systems = [replace(job, name=name) for name in names]
    assert len(systems) > 1
    printed = "\n".join(describe_jobs(systems, many, 1, 1))
    for gpus in (1, 4, 8):
        assert (
            f"about {-(-len(systems) // gpus) * job.hours:.1f} h"
            in re.search(f"on {gpus} GPU.*", printed)[0]
        )
    queued = replace(run, launch=("queue.pl",))
    queued.options["train_jobs"] = "2"
    line = re.search("by queue.pl.*", "\n".join(describe_jobs(systems, queued, 1, 1)))[
        0
    ]
    assert f"about {-(-len(systems) // 2) * job.hours:.1f} h" in line


def test_memory_of_a_gpu_is_what_was_added_to_it(tmp_path, monkeypatch):
    command = tmp_path / "nvidia-smi"
    command.write_text(
        "#!/bin/sh\nread used < "
        + str(tmp_path / "used")
        + "\necho \"0, GPU-a, $used\"\necho '1, GPU-b, 5'\n"
    )
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "used").write_text("1024\n")
    with GpuMemory(("0", "1")) as memory:
        (tmp_path / "used").write_text("9216\n")
        deadline = time.monotonic() + 60
        while memory.find_most(("0",), 60) != 8.0:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert memory.find_most(("1",), 60) == 0.0 and memory.find_most((), 60) == 8.0
    monkeypatch.setenv("PATH", "/nowhere")
    with GpuMemory(("0",)) as memory:
        assert memory.find_most(("0",), 60) is None
