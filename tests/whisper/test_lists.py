"""Whisper's N-best lists: scores, shards done once, utterances beyond the window."""

import ctypes
import itertools
import math
import os
import shutil
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.scoring.normalise import LIBRISPEECH, find_normaliser
from espnet_ext.whisper import lists as module
from espnet_ext.whisper import model as model_module
from espnet_ext.whisper.lists import (
    FirstPass,
    Whisper,
    combine_texts,
    cut_at_quiet_points,
    decode_utterances,
    make_lists,
    plan_shards,
)
from espnet_ext.whisper.model import RATE, convert_once, load_cublas, load_whisper
from espnet_ext.work.settings import check_settings

DURATIONS = {"s1-0": 0.8, "s1-1": 0.5, "s2-0": 0.01, "s2-1": 1.0, "s2-2": 2.6}
RULES = find_normaliser(LIBRISPEECH)[0]
SCORED = st.lists(
    st.tuples(
        st.sampled_from(["", "A", "B", "A B", "C"]), st.integers(-20, 0).map(float)
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda pair: pair[0],
).map(lambda piece: sorted(piece, key=lambda pair: -pair[1]))


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    return np.random.default_rng(0).normal(scale=0.1, size=2 * RATE).astype(np.float32)


@pytest.fixture(scope="module")
def data(tmp_path_factory, make_data_dir) -> Path:
    return make_data_dir(tmp_path_factory.mktemp("data") / "test", DURATIONS)


@pytest.fixture
def first_pass(random_whisper: Path) -> FirstPass:
    return FirstPass(model=str(random_whisper / "ct2"), beam=8, window=2, nbest=4)


def test_scores_are_log_probabilities_of_words_and_end(
    random_whisper: Path, samples: np.ndarray, first_pass
) -> None:
    from transformers import (
        AutoTokenizer,
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
    )

    model = WhisperForConditionalGeneration.from_pretrained(
        random_whisper / "hf"
    ).eval()
    ids = AutoTokenizer.from_pretrained(random_whisper / "hf").get_vocab()
    features = WhisperFeatureExtractor()(
        samples, sampling_rate=RATE, return_tensors="pt"
    )["input_features"]
    prompt = [ids["<|startoftranscript|>"], ids["<|notimestamps|>"]]
    found = Whisper(first_pass.model_copy(update={"window": 30})).decode([samples])[0]
    assert len(found) == len({text for text, _ in found}) == 8
    assert [score for _, score in found] == sorted(
        (score for _, score in found), reverse=True
    )
    for text, score in found:
        target = [*(ids[f" {word}"] for word in text.split()), ids["<|endoftext|>"]]
        with torch.no_grad():
            logits = model(
                features, decoder_input_ids=torch.tensor([prompt + target[:-1]])
            ).logits[0, 1:]
        logits[:, model.generation_config.suppress_tokens] = -torch.inf
        expected = logits.log_softmax(-1)[range(len(target)), target].sum().item()
        assert score == pytest.approx(expected, abs=1e-4)


def test_what_has_not_ended_is_left_out(
    samples: np.ndarray, first_pass, monkeypatch: pytest.MonkeyPatch
) -> None:
    whisper = Whisper(first_pass.model_copy(update={"window": 30}))
    assert max(len(text.split()) for text, _ in whisper.decode([samples])[0]) > 3
    monkeypatch.setattr(model_module, "MOST_TOKENS", 3)
    found = [text.split() for text, _ in whisper.decode([samples])[0]]
    assert found and max(map(len, found)) == 2


def test_a_batch_gives_what_its_utterances_give(
    samples: np.ndarray, first_pass
) -> None:
    whisper = Whisper(first_pass)
    batch = [samples, samples[: len(samples) // 2], samples[len(samples) // 3 :]]
    for own, together in zip(
        [whisper.decode([each])[0] for each in batch],
        whisper.decode(batch),
        strict=True,
    ):
        assert [text for text, _ in own] == [text for text, _ in together]
        assert [score for _, score in own] == pytest.approx(
            [score for _, score in together], abs=1e-3
        )


def test_a_model_of_transformers_is_converted_once(
    random_whisper: Path, samples, first_pass, tmp_path: Path
) -> None:
    made = convert_once(str(random_whisper / "hf"), tmp_path / "whisper")
    written = (tmp_path / "whisper" / "model.bin").stat().st_mtime_ns
    assert convert_once(str(random_whisper / "hf"), tmp_path / "whisper") == made
    assert (tmp_path / "whisper" / "model.bin").stat().st_mtime_ns == written
    # What is converted already is taken as it is.
    assert convert_once(made, tmp_path / "other") == made
    assert not (tmp_path / "other").exists()
    one = Whisper(first_pass.model_copy(update={"model": made}))
    other = Whisper(first_pass)
    assert [text for text, _ in one.decode([samples])[0]] == [
        text for text, _ in other.decode([samples])[0]
    ]
    with pytest.raises(
        InputError, match="/nowhere: neither a folder with a Whisper model"
    ):
        convert_once("/nowhere", tmp_path / "nothing")


def test_models_that_cannot_be_read(first_pass, tmp_path: Path) -> None:
    folder = shutil.copytree(first_pass.model, tmp_path / "ct2")
    broken = first_pass.model_copy(update={"model": str(folder)})
    (folder / "model.bin").write_bytes(b"no model")
    with pytest.raises(
        InputError, match="ct2: CTranslate2 cannot read it as a Whisper model"
    ):
        Whisper(broken)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"tokenizer.json: no such file"):
        Whisper(broken)


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"width": 3}, "width"),
        ({"beam": "40"}, "beam"),
        ({"window": 31}, "window"),
        ({"nbest": 9, "beam": 8}, "beam"),
    ],
)
def test_bad_settings(values: dict, key: str) -> None:
    with pytest.raises(InputError, match=f"^first pass.*{key}"):
        check_settings(FirstPass, values, "first pass")


def test_lists_of_all_utterances(first_pass, data, tmp_path) -> None:
    [lists] = make_lists([(data, tmp_path)], first_pass)
    assert [nbest.utt_id for nbest in lists] == list(DURATIONS)
    texts = dict(
        line.split(" ", 1) for line in (data / "text").read_text().splitlines()
    )
    for nbest in lists:
        assert nbest.ref == texts[nbest.utt_id]
        assert 1 <= len(nbest.hyps) <= 4
        assert len({hyp.text for hyp in nbest.hyps}) == len(nbest.hyps)
        assert [hyp.score for hyp in nbest.hyps] == sorted(
            (hyp.score for hyp in nbest.hyps), reverse=True
        )


def test_a_second_run_does_only_what_is_missing(
    first_pass, data, tmp_path, monkeypatch
) -> None:
    [lists] = make_lists([(data, tmp_path)], first_pass)
    shutil.rmtree(tmp_path / "log" / "lists.2")
    done = []
    run = module.run_shard
    monkeypatch.setattr(
        module, "run_shard", lambda shard: done.append(shard.name) or run(shard)
    )
    assert make_lists([(data, tmp_path)], first_pass) == [lists]
    assert done == ["2"]


def test_batches_hold_utterances_of_similar_length(
    first_pass, tmp_path, monkeypatch
) -> None:
    """One for each GPU in a shard, whose process has a copy of the model on each."""
    # From 1 to 11 s in steps of 0.01 s, each once, in mixed order.
    seconds = {
        f"u{number:04}": 1.0 + (number * 7 % 1000) / 100 for number in range(1000)
    }
    monkeypatch.setattr(
        module.audio_tables,
        "read_audio_table",
        lambda _data: dict.fromkeys(seconds, __file__),
    )
    monkeypatch.setattr(
        module.audio_tables, "read_durations", lambda _data, _audio: seconds
    )
    batched = first_pass.model_copy(update={"batch": 16})
    shards = [
        list(shard.tables["wav.scp"])
        for shard in plan_shards(tmp_path, tmp_path, batched, "cuda", 1)
    ]
    assert sorted(itertools.chain.from_iterable(shards)) == sorted(seconds)
    assert [len(shard) for shard in shards] == [125] * 8
    for shard in shards:
        lengths = [seconds[utterance] for utterance in shard]
        assert max(lengths) - min(lengths) < 1.5  # of 10 seconds
    # The longest come first, so that the end is not waited for.
    assert seconds[shards[0][0]] > seconds[shards[-1][-1]]
    # On CPUs utterances are searched one by one, and shards take equally long.
    split = plan_shards(tmp_path, tmp_path, first_pass, "cpu", 1)
    lengths = [
        sum(seconds[utterance] for utterance in shard.tables["wav.scp"])
        for shard in split
    ]
    assert max(lengths) - min(lengths) < 11


def test_one_process_searches_on_all_gpus(
    first_pass, data, tmp_path, monkeypatch
) -> None:
    used = []
    monkeypatch.setattr(
        module.sharding,
        "run_shards",
        lambda _planned, _run, **options: used.append(options["nj"]),
    )
    monkeypatch.setattr(module, "read_nbest", lambda _path: [])
    for device in ("cpu", "cuda"):
        make_lists([(data, tmp_path)], first_pass, device, nj=2)
    assert used == [2, 1]


def test_the_key_of_a_shard_changes_with_its_inputs(first_pass, data, tmp_path) -> None:
    data = shutil.copytree(data, tmp_path / "data")
    folder = shutil.copytree(first_pass.model, tmp_path / "model")

    def list_keys(**changes) -> set[str]:
        changed = first_pass.model_copy(update={"model": str(folder), **changes})
        return {shard.key for shard in plan_shards(data, tmp_path, changed, "cpu", 1)}

    before = list_keys()
    assert list_keys() == before
    assert not list_keys(nbest=3) & before
    assert not list_keys(beam=9) & before
    text = (data / "text").read_text()
    (data / "text").write_text(text.replace("s2-1 ", "s2-1 MORE "))
    assert len(list_keys() & before) == len(before) - 1
    before = list_keys()
    os.utime(folder / "model.bin")
    assert not list_keys() & before


def test_transcripts_are_those_of_all_utterances_or_of_none(
    first_pass, data, tmp_path
) -> None:
    data = shutil.copytree(data, tmp_path / "data")
    (data / "text").write_text("s1-0 A\n")
    with pytest.raises(InputError, match="text: s1-1 of wav.scp is missing"):
        make_lists([(data, tmp_path)], first_pass)
    (data / "text").unlink()
    assert {nbest.ref for nbest in make_lists([(data, tmp_path)], first_pass)[0]} == {
        None
    }


def test_the_best_of_each_text_is_taken() -> None:
    found = [
        (" Ten cats.", -1.0),
        ("10 cats", -1.5),
        ("ten, cats", -2.0),
        ("Tin cats!", -2.5),
        ("Tint", -3.0),
    ]
    (texts,) = decode_utterances(
        [np.zeros(10)], lambda _: [found], rate=10, longest=2, rules=RULES, count=2
    )
    assert texts == [("TEN CATS", -1.0), ("TIN CATS", -2.5)]
    (texts,) = decode_utterances(
        [np.zeros(5)],
        lambda _: [[("...", -1.0)]],
        rate=10,
        longest=2,
        rules=RULES,
        count=5,
    )
    assert texts == [("", -1.0)]


@pytest.mark.parametrize(("batch", "threads"), [(1, 1), (3, 2)])
def test_pieces_of_similar_length_are_decoded_together(
    batch: int, threads: int
) -> None:
    long = np.concatenate([np.full(15, 1.0), np.zeros(4), np.full(11, 2.0)])
    utterances = [long, np.full(8, 3.0), np.full(20, 4.0), np.full(3, 5.0)]
    words = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five"}
    sizes = []

    def decode(pieces: list[np.ndarray]) -> list[list[tuple[str, float]]]:
        sizes.append([len(piece) for piece in pieces])
        # Cut in the silence: a piece has one value besides 0.
        assert all(len(set(piece) - {0.0}) == 1 for piece in pieces)
        chosen = [words[int(piece.max())] for piece in pieces]
        return [[(word, -1.0), (f"{word} more", -1.5)] for word in chosen]

    options = {
        "rate": 10,
        "longest": 2,
        "rules": RULES,
        "count": 3,
        "batch": batch,
        "threads": threads,
    }
    found = decode_utterances(utterances, decode, **options)
    assert found[0] == [
        ("ONE TWO", -2.0),
        ("ONE TWO MORE", -2.5),
        ("ONE MORE TWO", -2.5),
    ]
    assert found[1:] == [
        [(word, -1.0), (f"{word} MORE", -1.5)] for word in ("THREE", "FOUR", "FIVE")
    ]
    assert max(map(len, sizes)) == batch and sum(map(len, sizes)) == 5


@given(st.lists(SCORED, min_size=1, max_size=3), st.integers(1, 6))
@settings(max_examples=100)
def test_combinations_are_the_best_of_all(pieces: list, count: int) -> None:
    every: dict[str, float] = {}
    for choice in product(*pieces):
        text = " ".join(" ".join(text for text, _ in choice).split())
        every[text] = max(sum(score for _, score in choice), every.get(text, -math.inf))
    found = combine_texts(pieces, count)
    assert found[0][1] == max(every.values())
    assert all(every[text] >= score for text, score in found)
    assert [score for _, score in found] == sorted(
        (score for _, score in found), reverse=True
    )
    assert len({text for text, _ in found}) == len(found) <= count


@given(st.integers(1, 400), st.integers(20, 100), st.integers(0, 1000))
@settings(max_examples=100)
def test_pieces_are_short_enough_and_lose_nothing(
    length: int, longest: int, seed: int
) -> None:
    samples = np.random.default_rng(seed).normal(size=length)
    pieces = cut_at_quiet_points(samples, longest, quiet=4)
    assert np.array_equal(np.concatenate(pieces), samples)
    assert len(pieces) == math.ceil(length / longest)
    assert all(0 < len(piece) <= longest for piece in pieces)


@pytest.mark.parametrize("quiet_at", [52, 60, 68])
def test_a_cut_is_where_it_is_quiet(quiet_at: int) -> None:
    samples = np.random.default_rng(1).normal(size=120)
    samples[quiet_at - 5 : quiet_at + 5] *= 0.01
    first, _ = cut_at_quiet_points(samples, 80, quiet=6)
    assert abs(len(first) - quiet_at) <= 5


def test_cublas_of_cuda_12_is_loaded_from_its_package(tmp_path, monkeypatch) -> None:
    """A fake of the package, and a linker that has no CUDA 12 of its own.

    Without the package, one line says so.
    """
    folder = tmp_path / "cublas" / "lib"
    loaded = []

    def linker(name: str, mode: int) -> None:
        if not Path(name).is_file():
            raise OSError(name)
        loaded.append((Path(name).name, mode))

    monkeypatch.setattr(ctypes, "CDLL", linker)
    packages = SimpleNamespace(submodule_search_locations=[tmp_path])
    monkeypatch.setattr(model_module, "find_spec", lambda name: packages)
    with pytest.raises(InputError, match=r"libcublas.so.12 of CUDA 12.*whisper-gpu"):
        load_whisper(device="cuda")
    folder.mkdir(parents=True)
    for name in ("libcublas.so.12", "libcublasLt.so.12"):
        (folder / name).touch()
    assert load_cublas() == str(folder / "libcublas.so.12")
    assert loaded == [
        ("libcublasLt.so.12", ctypes.RTLD_GLOBAL),
        ("libcublas.so.12", ctypes.RTLD_GLOBAL),
    ]
