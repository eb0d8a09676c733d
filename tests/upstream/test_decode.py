"""Decoding over shards against ESPnet's own asr_inference; what is skipped, what is
refused.
"""

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread

import psutil
import pytest
import soundfile
import torch

from espnet_ext.errors import InputError
from espnet_ext.nbest.espnet_output import read_espnet_output
from espnet_ext.upstream import decode as module
from espnet_ext.upstream.decode import Decoding, decode, merge_results, plan_shards
from espnet_ext.work import model_cache

NAMES = ("text", "token", "token_int", "score")
DURATIONS = {"s1-0": 0.8, "s1-1": 0.5, "s2-0": 0.01, "s2-1": 1.0, "s2-2": 0.6}
OPTIONS = ("--ctc_weight", "0.4", "--maxlenratio", "0.3")


@pytest.fixture(scope="module")
def data(tmp_path_factory, make_data_dir) -> Path:
    return make_data_dir(tmp_path_factory.mktemp("data") / "test", DURATIONS)


@pytest.fixture
def job(data, model, tmp_path) -> Decoding:
    (tmp_path / "decode.yaml").write_text("beam_size: 3\nnbest: 2\n")
    return Decoding(
        model_config=model / "config.yaml",
        model_file=model / "model.pth",
        data=data,
        output=tmp_path / "decode",
        config=tmp_path / "decode.yaml",
        options=OPTIONS,
    )


def espnet(job: Decoding, output: Path) -> Path:
    """Decode by ESPnet's own command."""
    from espnet2.bin import asr_inference

    options = [
        "--config",
        job.config,
        "--asr_train_config",
        job.model_config,
        "--asr_model_file",
        job.model_file,
    ]
    if job.lm_file:
        options += ["--lm_train_config", job.lm_config, "--lm_file", job.lm_file]
    options += [
        "--data_path_and_name_and_type",
        f"{job.data / 'wav.scp'},speech,sound",
        "--output_dir",
        output,
    ]
    asr_inference.main([str(option) for option in [*options, *job.options]])
    return output


def shards_of(job: Decoding) -> list[str]:
    return sorted(path.name for path in (job.output / "log").iterdir() if path.is_dir())


def kill_a_worker(log: Path, killed: list) -> None:
    """Wait until both workers are in the middle of a shard, and kill one."""
    deadline = time.monotonic() + 60
    while len(list(log.glob("decode.*.log"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    own = psutil.Process(os.getpid())
    worker = next(
        child for child in own.children() if child.cmdline() == own.cmdline()
    )  # a fork of this process
    killed.append(worker.pid)
    worker.kill()


def test_two_workers_of_which_one_is_killed_write_what_espnet_writes(
    job, tmp_path, capsys
):
    expected = espnet(job, tmp_path / "espnet")
    killed = []
    killer = Thread(target=kill_a_worker, args=(job.output / "log", killed))
    killer.start()
    assert decode(job, nj=2) == len(DURATIONS)
    killer.join()
    assert killed and "lost 1 worker process" in capsys.readouterr().err
    for name in NAMES:
        text = (expected / "1best_recog" / name).read_text()
        assert (job.output / name).read_text() == text
        assert (job.output / "1best_recog" / name).read_text() == text
        assert (job.output / "2best_recog" / name).read_text() == (
            expected / "2best_recog" / name
        ).read_text()
    lines = (job.output / "text").read_text().split("\n")
    assert [line.split(" ")[0] for line in lines[:-1]] == list(DURATIONS)
    assert lines[2] == "s2-0  "  # too short for the encoder: ESPnet writes a blank
    assert shards_of(job) == [f"output.{number}" for number in range(1, 6)]


def test_a_second_run_does_only_what_is_missing(job, monkeypatch, capsys):
    decode(job)
    text = (job.output / "text").read_text()
    shutil.rmtree(job.output / "log" / "output.2")
    (job.output / "log" / ".output.3.half").mkdir()
    (job.output / "log" / "output.9").mkdir()
    (job.output / "text").unlink()
    done = []
    run = module.decode_shard
    monkeypatch.setattr(
        module, "decode_shard", lambda shard: done.append(shard.name) or run(shard)
    )
    decode(job)
    assert done == ["2"]
    assert (job.output / "text").read_text() == text
    assert "decode: 3 of 4 shards are done already" in capsys.readouterr().err
    assert shards_of(job) == [f"output.{number}" for number in range(1, 5)]


def test_whole_sets_are_what_espnet_writes_and_resume(job, tmp_path, monkeypatch):
    expected = espnet(job, tmp_path / "espnet") / "1best_recog"
    job = replace(
        job, options=(*OPTIONS, "--fast_decoder", "true", "--batch_size=auto")
    )
    (job.data / "utt2dur").write_text(
        "".join(f"{name} {seconds}\n" for name, seconds in DURATIONS.items())
    )
    try:
        assert list(plan_shards(job, 1)[0].tables["wav.scp"]) == [
            "s2-1"
        ]  # the longest first
        decode(job)
        texts = [(job.output / name).read_text() for name in ("text", "token_int")]
        assert texts == [
            (expected / name).read_text() for name in ("text", "token_int")
        ]
        shutil.rmtree(job.output / "log" / "output.2")
        done = []
        run = module.decode_shard
        monkeypatch.setattr(
            module, "decode_shard", lambda shard: done.append(shard.name) or run(shard)
        )
        decode(job)
    finally:
        (job.data / "utt2dur").unlink()
    assert done == ["2"]


def test_a_grid_of_weights_loads_each_model_once(
    job, language_model, tmp_path, monkeypatch
):
    from espnet2.tasks.asr import ASRTask
    from espnet2.tasks.lm import LMTask

    job = replace(
        job,
        lm_config=language_model / "config.yaml",
        lm_file=language_model / "model.pth",
    )
    grid = []
    for weight in (0.0, 0.4, 0.8):
        config = tmp_path / f"{weight}.yaml"
        config.write_text(f"beam_size: 3\nlm_weight: {weight}\n")
        grid.append(replace(job, config=config, output=tmp_path / f"grid{weight}"))
    loads = []
    for task in (ASRTask, LMTask):
        build = task.build_model.__func__
        counted = classmethod(
            lambda cls, args, build=build: (
                loads.append(cls.__name__) or build(cls, args)
            )
        )
        monkeypatch.setattr(task, "build_model", counted)
    monkeypatch.setattr(model_cache, "_last", {})
    assert module.decode_all(grid, nj=1) == [len(DURATIONS)] * 3
    assert sorted(loads) == ["ASRTask", "LMTask"]
    scores = set()
    for each in grid:
        expected = espnet(each, each.output.with_suffix(".espnet"))
        for name in ("text", "score"):
            assert (each.output / name).read_text() == (
                expected / "1best_recog" / name
            ).read_text()
        scores.add((each.output / "score").read_text())
    assert len(scores) == 3


def test_the_key_of_a_shard_changes_with_its_inputs(job, data, model, tmp_path):
    def keys(job: Decoding) -> list[str]:
        return [shard.key for shard in plan_shards(job, 1)]

    before = keys(job)
    assert keys(job) == before
    assert not set(keys(replace(job, options=("--ctc_weight", "0.5")))) & set(before)
    shutil.copy(model / "model.pth", tmp_path / "model.pth")
    job = replace(job, model_file=tmp_path / "model.pth")
    before = keys(job)
    state = torch.load(model / "model.pth", weights_only=True)
    torch.save(
        state | {"ctc.ctc_lo.bias": state["ctc.ctc_lo.bias"] + 1},
        tmp_path / "model.pth",
    )
    assert not set(keys(job)) & set(before)
    before = keys(job)
    job.config.write_text("beam_size: 4\n")
    assert not set(keys(job)) & set(before)
    before = keys(job)
    os.utime(data / "s2-1.flac")
    assert len(set(keys(job)) & set(before)) == len(before) - 1


@pytest.mark.parametrize(
    "field, value, place",
    [
        (
            "model_config",
            Path("none.yaml"),
            r"none.yaml: no such file \(--model-config\)",
        ),
        ("model_file", Path(__file__), "test_decode.py: not a checkpoint"),
        ("lm_file", Path(__file__), "--lm-config and --lm-file"),
        ("ngpu", 2, "--ngpu"),
        ("data", Path("nowhere"), "nowhere"),
        ("options", ("--output_dir=x",), "--output_dir"),
        ("options", ("--model_tag", "x"), "--model_tag"),
        ("options", ("--beam_sise", "3"), "--beam_sise"),
        ("options", ("--beam_size", "three"), "--beam_size"),
    ],
)
def test_bad_arguments_are_refused(job, field, value, place):
    with pytest.raises(InputError, match=place):
        decode(replace(job, **{field: value}))
    assert not (job.output / "text").exists()


def test_bad_audio_is_refused_by_utterance(job, make_data_dir, tmp_path):
    data = make_data_dir(tmp_path / "bad", {"a": 0.3, "b": 0.4})
    slow = make_data_dir(tmp_path / "slow", {"b": 0.3}, rate=8000)
    sound = (data / "b.flac").read_bytes()
    for folder, content in (
        (data, sound[: len(sound) // 2]),
        (data, b"no audio at all"),
        (slow, None),
    ):
        if content:
            (data / "b.flac").write_bytes(content)
        with pytest.raises(InputError, match="b: .*b.flac"):
            decode(replace(job, data=folder))


def test_a_lacking_utterance_is_named_and_blanks_are_kept(tmp_path):
    folders = [tmp_path / "output.0", tmp_path / "output.1"]
    for folder, text in zip(folders, ["b  \n", "c \na X Y\n"], strict=True):
        (folder / "1best_recog").mkdir(parents=True)
        (folder / "1best_recog" / "text").write_text(text)
    merge_results(folders, tmp_path, ["a", "b", "c"])
    with pytest.raises(InputError, match="text: 1 of 4 utterances .* d"):
        merge_results(folders, tmp_path, ["a", "b", "c", "d"])
    assert (tmp_path / "text").read_text() == "a X Y\nb  \nc \n"
    with pytest.raises(InputError, match="no hypotheses"):
        merge_results([tmp_path], tmp_path / "none", ["a"])


def test_scores_that_are_nan_are_refused_before_anything_is_written(tmp_path):
    folder = tmp_path / "output.0" / "1best_recog"
    folder.mkdir(parents=True)
    (folder / "score").write_text("a tensor(-1.5)\nb tensor(nan)\n")
    (folder / "text").write_text("a X\nb \n")
    with pytest.raises(
        InputError,
        match="score: the model scores 1 of 2 utterances with NaN, the first is b",
    ):
        merge_results([tmp_path / "output.0"], tmp_path / "decode", ["a", "b"])
    assert not (tmp_path / "decode").exists()


@pytest.fixture
def long_lists(job) -> Decoding:
    """A beam of 3 over at most two tokens ends with fewer than 6 hypotheses."""
    job.config.write_text("beam_size: 3\nnbest: 6\nmaxlenratio: -2\nctc_weight: 0.4\n")
    return replace(job, options=())


def test_lists_on_disk_are_those_of_the_search(long_lists):
    from espnet2.bin.asr_inference import Speech2Text

    decode(long_lists)
    options = {"beam_size": 3, "nbest": 6, "maxlenratio": -2, "ctc_weight": 0.4}
    search = Speech2Text(long_lists.model_config, long_lists.model_file, **options)
    lists = read_espnet_output(long_lists.output)
    assert [nbest.utt_id for nbest in lists] == list(DURATIONS)
    for nbest in lists:
        if nbest.utt_id == "s2-0":  # too short for the encoder
            assert [(hyp.text, hyp.score) for hyp in nbest.hyps] == [("", 0.0)] * 6
            continue
        expected = search(
            soundfile.read(long_lists.data / f"{nbest.utt_id}.flac", dtype="float32")[0]
        )
        assert [hyp.text.split() for hyp in nbest.hyps] == [
            text.split() for text, *_ in expected
        ]
        scores = [float(hypothesis.score) for *_, hypothesis in expected]
        assert [hyp.score for hyp in nbest.hyps] == pytest.approx(scores, abs=2e-4)
        assert scores == sorted(scores, reverse=True)


def test_jobs_below_logdir_as_asr_sh_leaves_them(long_lists, tmp_path):
    decode(long_lists)
    logdir, lines = (
        tmp_path / "logdir",
        (long_lists.data / "wav.scp").read_text().splitlines(keepends=True),
    )
    logdir.mkdir()
    for number, part in enumerate((lines[:2], lines[2:]), start=1):
        keys = logdir / f"keys.{number}.scp"
        keys.write_text("".join(part))
        espnet(
            replace(long_lists, options=("--key_file", str(keys))),
            logdir / f"output.{number}",
        )
    assert (
        read_espnet_output(tmp_path)
        == read_espnet_output(logdir)
        == read_espnet_output(long_lists.output)
    )
