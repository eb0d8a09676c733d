"""N-best lists of data dirs over shards: what is written, what is skipped, what is refused."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.nbest import first_pass as module
from espnet_ext.nbest.first_pass import FirstPass, first_pass_all, plan
from espnet_ext.nbest.lists import read_nbest
from espnet_ext.nbest.whisper import WhisperSettings, load_whisper

DURATIONS = {"s1-0": 0.8, "s1-1": 0.5, "s2-0": 0.01, "s2-1": 1.0, "s2-2": 2.6}


@pytest.fixture(scope="module")
def data(tmp_path_factory, make_data_dir) -> Path:
    return make_data_dir(tmp_path_factory.mktemp("data") / "test", DURATIONS)


@pytest.fixture
def job(data, random_whisper, tmp_path) -> FirstPass:
    yield FirstPass(data, tmp_path / "lists", WhisperSettings(str(random_whisper / "ct2"), beam=8, window=2), nbest=4)
    load_whisper.cache_clear()


def test_lists_of_all_utterances(job, data):
    [lists] = first_pass_all([job])
    assert [nbest.utt_id for nbest in lists] == list(DURATIONS)
    assert read_nbest(job.output / "nbest.jsonl") == lists
    texts = dict(line.split(" ", 1) for line in (data / "text").read_text().splitlines())
    for nbest in lists:
        assert nbest.ref == texts[nbest.utt_id]
        assert 1 <= len(nbest.hyps) <= 4
        assert len({hyp.text for hyp in nbest.hyps}) == len(nbest.hyps)
        assert [hyp.score for hyp in nbest.hyps] == sorted((hyp.score for hyp in nbest.hyps), reverse=True)
    assert json.loads((job.output / "normaliser.json").read_text())["name"] == "librispeech"


def test_a_second_run_does_only_what_is_missing(job, monkeypatch, capsys):
    [lists] = first_pass_all([job])
    shutil.rmtree(job.output / "log" / "lists.2")
    (job.output / "log" / ".lists.3.half").mkdir()
    (job.output / "nbest.jsonl").unlink()
    done = []
    run = module.run_task
    monkeypatch.setattr(module, "run_task", lambda task: done.append(task.name) or run(task))
    assert first_pass_all([job]) == [lists]
    assert done == ["2"]
    assert "first pass: 3 of 4 shards are done already" in capsys.readouterr().err
    assert not (job.output / "log" / ".lists.3.half").exists()


def test_the_key_of_a_shard_changes_with_its_inputs(job, data, tmp_path):
    def keys(job: FirstPass) -> set[str]:
        return {task.shard.key for task in plan(job, 1)}

    job = replace(job, data=shutil.copytree(data, tmp_path / "data"))
    folder = shutil.copytree(job.whisper.model, tmp_path / "model")
    job = replace(job, whisper=replace(job.whisper, model=str(folder)))
    before = keys(job)
    assert keys(job) == before
    assert not keys(replace(job, nbest=3)) & before
    assert not keys(replace(job, whisper=replace(job.whisper, beam=9))) & before
    text = (job.data / "text").read_text()
    (job.data / "text").write_text(text.replace("s2-1 ", "s2-1 MORE "))
    assert len(keys(job) & before) == len(before) - 1
    before = keys(job)
    os.utime(folder / "model.bin")
    assert not keys(job) & before


def test_without_transcripts_there_are_no_references(job, data, tmp_path):
    job = replace(job, data=shutil.copytree(data, tmp_path / "data"))
    (job.data / "text").unlink()
    assert {nbest.ref for nbest in first_pass_all([job])[0]} == {None}


def test_an_utterance_without_a_transcript_is_refused(job, data, tmp_path):
    job = replace(job, data=shutil.copytree(data, tmp_path / "data"))
    (job.data / "text").write_text("s1-0 A\n")
    with pytest.raises(InputError, match="text: s1-1 of wav.scp is missing: add its transcript"):
        first_pass_all([job])


def test_more_hypotheses_than_the_beam_has_are_refused(job):
    with pytest.raises(InputError, match="--nbest must be 1 to the beam's 8, not 9: widen --beam"):
        first_pass_all([replace(job, nbest=9)])


def test_bad_audio_is_refused_by_utterance(job, make_data_dir, tmp_path):
    job = replace(job, data=make_data_dir(tmp_path / "slow", {"c": 0.3}, rate=8000))
    with pytest.raises(InputError, match="utterance c: sampling rate 8000 Hz, not 16000 Hz"):
        first_pass_all([job])
    (job.data / "c.flac").write_bytes(b"no audio")
    with pytest.raises(InputError, match="utterance c: corrupt audio"):
        first_pass_all([job])
    assert not (job.output / "nbest.jsonl").exists()
