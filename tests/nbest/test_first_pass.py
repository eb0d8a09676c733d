"""N-best lists of data dirs over shards; distinct hypotheses; utterances longer than the model's window."""

import json
import math
import os
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.codeswitch.text_rules import LIBRISPEECH
from espnet_ext.errors import InputError
from espnet_ext.nbest import first_pass as module
from espnet_ext.nbest.first_pass import (
    FirstPass,
    combine,
    cut,
    decode_utterances,
    make_lists,
    parse_first_pass,
    plan,
)
from espnet_ext.nbest.lists import read_nbest
from espnet_ext.whisper.nbest import WhisperSettings
from espnet_ext.work import model_cache

DURATIONS = {"s1-0": 0.8, "s1-1": 0.5, "s2-0": 0.01, "s2-1": 1.0, "s2-2": 2.6}
SCORED = st.lists(
    st.tuples(st.sampled_from(["", "A", "B", "A B", "C"]), st.integers(-20, 0).map(float)),
    min_size=1,
    max_size=5,
    unique_by=lambda pair: pair[0],
).map(lambda piece: sorted(piece, key=lambda pair: -pair[1]))


@pytest.fixture(scope="module")
def data(tmp_path_factory, make_data_dir) -> Path:
    return make_data_dir(tmp_path_factory.mktemp("data") / "test", DURATIONS)


@pytest.fixture
def job(data, random_whisper, tmp_path) -> FirstPass:
    yield FirstPass(data, tmp_path / "lists", WhisperSettings(str(random_whisper / "ct2"), beam=8, window=2), nbest=4)
    model_cache._last.clear()


def test_lists_of_all_utterances(job, data):
    [lists] = make_lists([job])
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
    [lists] = make_lists([job])
    shutil.rmtree(job.output / "log" / "lists.2")
    (job.output / "log" / ".lists.3.half").mkdir()
    (job.output / "nbest.jsonl").unlink()
    done = []
    run = module.run_task
    monkeypatch.setattr(module, "run_task", lambda task: done.append(task.name) or run(task))
    assert make_lists([job]) == [lists]
    assert done == ["2"]
    assert "first pass: 3 of 4 shards are done already" in capsys.readouterr().err
    assert not (job.output / "log" / ".lists.3.half").exists()


def test_batches_hold_utterances_of_similar_length(job, monkeypatch):
    """One for each GPU in a shard, whose process has a copy of the model on each."""
    seconds = {f"u{number:04}": 1.0 + number * 7 % 1000 / 100 for number in range(1000)}
    monkeypatch.setattr(module.audio_tables, "read_audio_table", lambda _data: dict.fromkeys(seconds, __file__))
    monkeypatch.setattr(module.audio_tables, "durations", lambda _data, _audio: seconds)
    monkeypatch.setattr(module, "_references", lambda _data, _audio: {})
    batched = replace(job, whisper=replace(job.whisper, batch=16, device="cuda"))
    shards = [list(task.shard.tables["wav.scp"]) for task in plan(batched, 1)]
    assert sorted(utterance for shard in shards for utterance in shard) == sorted(seconds)
    assert [len(shard) for shard in shards] == [125] * 8
    for shard in shards:
        assert max(map(seconds.get, shard)) - min(map(seconds.get, shard)) < 1.5  # of 10 seconds
    assert seconds[shards[0][0]] > seconds[shards[-1][-1]]  # the longest first, so that the end is not waited for
    # one by one, on CPUs, shards take equally long
    shards = [[seconds[utterance] for utterance in task.shard.tables["wav.scp"]] for task in plan(job, 1)]
    assert max(map(sum, shards)) - min(map(sum, shards)) < 11


def test_one_process_searches_on_all_gpus(job, monkeypatch):
    used = []
    monkeypatch.setattr(module, "map_shards", lambda _run, _todo, **options: used.append(options["nj"]))
    monkeypatch.setattr(module, "read_nbest", lambda _path: [])
    monkeypatch.setattr(module, "write_nbest", lambda _path, _lists: None)
    for device in ("cpu", "cuda"):
        make_lists([replace(job, whisper=replace(job.whisper, device=device))], nj=2)
    assert used == [2, 1]


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
    assert {nbest.ref for nbest in make_lists([job])[0]} == {None}


def test_an_utterance_without_a_transcript_is_refused(job, data, tmp_path):
    job = replace(job, data=shutil.copytree(data, tmp_path / "data"))
    (job.data / "text").write_text("s1-0 A\n")
    with pytest.raises(InputError, match="text: s1-1 of wav.scp is missing: add its transcript"):
        make_lists([job])


def test_more_hypotheses_than_the_beam_has_are_refused(job):
    with pytest.raises(InputError, match="the first pass wants 9 hypotheses from a beam of 8: widen the beam"):
        make_lists([replace(job, nbest=9)])


def test_bad_audio_is_refused_by_utterance(job, make_data_dir, tmp_path):
    job = replace(job, data=make_data_dir(tmp_path / "slow", {"c": 0.3}, rate=8000))
    with pytest.raises(InputError, match="utterance c: sampling rate 8000 Hz, not 16000 Hz"):
        make_lists([job])
    (job.data / "c.flac").write_bytes(b"no audio")
    with pytest.raises(InputError, match="utterance c: corrupt audio"):
        make_lists([job])
    assert not (job.output / "nbest.jsonl").exists()


def test_settings_from_yaml() -> None:
    whisper, nbest = parse_first_pass({"model": "bundled", "beam": 5, "nbest": 3, "window": 5}, "cuda")
    assert (whisper, nbest) == (WhisperSettings("bundled", beam=5, window=5, device="cuda"), 3)
    assert parse_first_pass({}) == (WhisperSettings(), 10)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"width": 3}, "no option width: known are nbest, model, beam"),
        ({"beam": "40"}, "beam must be a whole number, not '40'"),
        ({"nbest": True}, "nbest must be a whole number, not True"),
        ({"model": None}, "model must be a text, not None"),
        ({"device": "cuda"}, "no option device"),
    ],
)
def test_bad_settings_from_yaml(values: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_first_pass(values)


def test_the_best_of_each_text_is_kept() -> None:
    found = [(" Ten cats.", -1.0), ("10 cats", -1.5), ("ten, cats", -2.0), ("Tin cats!", -2.5), ("Tint", -3.0)]
    (texts,) = decode_utterances(
        [np.zeros(10)], lambda batch: [found] * len(batch), rate=10, longest=2, rules=LIBRISPEECH, count=2
    )
    assert texts == [("TEN CATS", -1.0), ("TIN CATS", -2.5)]


def test_a_list_may_stay_short_and_an_empty_text_is_a_hypothesis() -> None:
    found = [[("...", -1.0)]]
    assert decode_utterances([np.zeros(5)], lambda _: found, rate=10, longest=2, rules=LIBRISPEECH, count=5) == [
        [("", -1.0)]
    ]


@pytest.mark.parametrize(("batch", "threads"), [(1, 1), (2, 1), (3, 2)])
def test_pieces_of_similar_length_are_decoded_together(batch: int, threads: int) -> None:
    long = np.concatenate([np.full(15, 1.0), np.zeros(4), np.full(11, 2.0)])
    utterances = [long, np.full(8, 3.0), np.full(20, 4.0), np.full(3, 5.0)]
    words = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}
    sizes = []

    def decode(pieces: list[np.ndarray]) -> list[list[tuple[str, float]]]:
        sizes.append([len(piece) for piece in pieces])
        assert all(len(set(piece) - {0.0}) == 1 for piece in pieces)  # cut in the silence
        chosen = [words[int(piece.max())] for piece in pieces]
        return [[(word, -1.0), (f"{word} more", -1.5)] for word in chosen]

    found = decode_utterances(
        utterances, decode, rate=10, longest=2, rules=LIBRISPEECH, count=3, batch=batch, threads=threads
    )
    assert found[0] == [("ONE TWO", -2.0), ("ONE TWO MORE", -2.5), ("ONE MORE TWO", -2.5)]
    assert found[1:] == [[(word, -1.0), (f"{word} MORE", -1.5)] for word in ("THREE", "FOUR", "FIVE")]
    assert max(map(len, sizes)) == batch and sum(map(len, sizes)) == 5
    assert sum(sorted(sizes), []) == sorted(length for own in sizes for length in own)


@given(st.lists(SCORED, min_size=1, max_size=3), st.integers(1, 6))
@settings(max_examples=100)
def test_combinations_are_the_best_of_all(pieces: list, count: int) -> None:
    every: dict[str, float] = {}
    for choice in product(*pieces):
        text = " ".join(" ".join(text for text, _ in choice).split())
        every[text] = max(sum(score for _, score in choice), every.get(text, -math.inf))
    found = combine(pieces, count)
    assert found[0][1] == max(every.values())
    assert all(every[text] >= score for text, score in found)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert len({text for text, _ in found}) == len(found) <= count


@given(st.integers(1, 400), st.integers(20, 100), st.integers(0, 1000))
@settings(max_examples=200)
def test_pieces_are_short_enough_and_lose_nothing(length: int, longest: int, seed: int) -> None:
    samples = np.random.default_rng(seed).normal(size=length)
    pieces = cut(samples, longest, quiet=4)
    assert np.array_equal(np.concatenate(pieces), samples)
    assert len(pieces) == math.ceil(length / longest)
    assert all(0 < len(piece) <= longest for piece in pieces)


@pytest.mark.parametrize("quiet_at", [52, 60, 68])
def test_a_cut_is_where_it_is_quiet(quiet_at: int) -> None:
    samples = np.random.default_rng(1).normal(size=120)
    samples[quiet_at - 5 : quiet_at + 5] *= 0.01
    first, _ = cut(samples, 80, quiet=6)
    assert abs(len(first) - quiet_at) <= 5
