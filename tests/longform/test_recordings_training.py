"""Training on chunks of recordings through ESPnet's trainer, also interrupted."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
import yaml

from espnet_ext import register
from espnet_ext.audio.recordings import RecordingAudio
from espnet_ext.errors import InputError
from espnet_ext.longform import training as training
from espnet_ext.longform.chunking import Chunk
from espnet_ext.longform.recording_features import RecordingFeatures, write_statistics
from espnet_ext.text.word_times import write_word_times
from espnet_ext.text.words import Word
from espnet_ext.upstream.checkpoint import load_checkpoint, load_parameters
from espnet_ext.upstream.with_plugins import checked_trainings

N_MELS = 20
CONFIG = {
    "input_size": N_MELS,
    "features_conf": {"n_mels": N_MELS},
    "chunk_conf": {
        "batch_seconds": 8,
        "max_seconds": 4,
        "initial_seconds": 1,
        "double_every": 2,
        "passes": 4,
    },
    "encoder": "transformer",
    "encoder_conf": {
        "output_size": 8,
        "attention_heads": 2,
        "linear_units": 8,
        "num_blocks": 1,
    },
    "decoder": "none",
    "model_conf": {"ctc_weight": 1.0},
    "optim": "madgrad",
    "optim_conf": {"lr": 3e-3, "momentum": 0.9},
    "scheduler": "warmup_cosine",
    # the task replaces the number of steps by that of its data
    "scheduler_conf": {"warmup_steps": 2, "total_steps": 58000},
    "grad_clip": 0.8,
    "num_iters_per_epoch": 5,
    "keep_nbest_models": 1,
    "use_matplotlib": False,
    "use_tensorboard": False,
    "num_att_plot": 0,
    "num_workers": 0,
    "token_type": "char",
}
SECONDS = {"r1": 9.0, "r2": 6.3, "r3": 12.0, "r4": 4.7, "r5": 3.0}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """A data dir of recordings of two rates, with a word in every second.

    The words are ``A B C`` and so on.
    """
    folder = tmp_path_factory.mktemp("recordings")
    rng = np.random.default_rng(0)
    words = {}
    for number, (name, seconds) in enumerate(SECONDS.items()):
        rate = 16000 if number else 22050
        soundfile.write(
            folder / f"{name}.ogg",
            rng.normal(scale=0.1, size=int(seconds * rate)),
            rate,
        )
        words[name] = [
            Word("ABCDE"[at % 5], at + 0.1, at + 0.6) for at in range(int(seconds) - 1)
        ]
    (folder / "wav.scp").write_text(
        "".join(f"{name} {folder / name}.ogg\n" for name in SECONDS)
    )
    (folder / "utt2dur").write_text(
        "".join(f"{name} {seconds}\n" for name, seconds in SECONDS.items())
    )
    write_word_times(folder / "words", words.items())
    assert write_statistics(folder, folder, {"n_mels": N_MELS}) == len(SECONDS)
    return folder


def tables(data: Path) -> list[tuple[str, str, str]]:
    names = {
        "speech": "wav.scp",
        "duration": "utt2dur",
        "words": "words.scp",
        "statistics": "statistics.scp",
    }
    return [(str(data / file), name, "text") for name, file in names.items()]


def train(data: Path, output: Path, token_list: Path, **settings) -> None:
    register()
    config = output.parent / f"{output.name}.yaml"
    config.write_text(yaml.safe_dump({**CONFIG, **settings}))
    options = [
        "--config",
        str(config),
        "--output_dir",
        str(output),
        "--token_list",
        str(token_list),
        "--ngpu",
        "0",
    ]
    for part in ("train", "valid"):
        for entry in tables(data):
            options += [f"--{part}_data_path_and_name_and_type", ",".join(entry)]
    with checked_trainings():
        training.RecordingsASRTask.main(cmd=options)


def dataset(data: Path) -> training.ChunkDataset:
    def letters(_, values):
        return {
            "text": np.array(
                [ord(letter) for letter in values["text"] if letter != " "]
            )
        }

    return training.ChunkDataset(
        training.read_recordings(tables(data)),
        RecordingFeatures(n_mels=N_MELS),
        letters,
    )


@pytest.mark.parametrize("name", ["r1", "r3"])
def test_chunks_are_parts_of_the_normalised_recording(data, name):
    """Of one at 22 kHz too; words that straddle a cut are in no chunk."""
    items = dataset(data)
    with RecordingAudio(name, data / f"{name}.ogg") as audio:
        features = items.features.compute(
            audio, 0, items.features.count_frames(audio.length)
        )
    expected = (features - features.mean(axis=0)) / features.std(axis=0)
    key, item = items[Chunk(name, 2.4, 5.0)]
    assert key == f"{name}-2.40-5.00"
    assert np.allclose(item["speech"], expected[240:500], atol=1e-2)
    assert (
        bytes(item["text"].tolist()).decode() == "DE"
    )  # those of 3.1 and 4.1 s; that of 2.1 s ends at 2.6 s
    _, last = items[Chunk(name, SECONDS[name] - 1, SECONDS[name])]
    assert len(last["text"]) == 0 and 95 < len(last["speech"]) <= 100


def test_silent_recordings_are_left_out_of_training(data, tmp_path, capsys):
    """A file lists them for training, up to the share that may be.

    Otherwise one error names them.
    """
    soundfile.write(tmp_path / "mute.wav", np.zeros(32000), 16000)
    soundfile.write(tmp_path / "tiny.wav", np.ones(300), 16000)
    (tmp_path / "wav.scp").write_text(
        (data / "wav.scp").read_text()
        + "".join(f"{name} {tmp_path / name}.wav\n" for name in ("mute", "tiny"))
    )
    (tmp_path / "utt2dur").write_text(
        (data / "utt2dur").read_text() + "mute 2.0\ntiny 0.02\n"
    )
    for share in (0.0, 0.2):
        with pytest.raises(
            InputError, match="2 of 7 recordings .* shorter than a frame: mute, tiny"
        ):
            write_statistics(
                tmp_path,
                tmp_path / "out",
                {"n_mels": N_MELS},
                keep_features=True,
                skip_silent=share,
            )
        assert not (tmp_path / "out" / "statistics.scp").exists()
    count = write_statistics(
        tmp_path,
        tmp_path / "out",
        {"n_mels": N_MELS},
        keep_features=True,
        skip_silent=0.3,
    )
    assert count == len(SECONDS) and "warning: " in capsys.readouterr().out
    speech, duration, words, _ = tables(data)
    entries = [
        (str(tmp_path / "wav.scp"), *speech[1:]),
        (str(tmp_path / "utt2dur"), *duration[1:]),
        words,
        *(
            (str(tmp_path / "out" / f"{name}.scp"), name, "text")
            for name in ("statistics", "features")
        ),
    ]
    read = training.read_recordings(entries)
    assert set(read.speech) == set(read.duration) == set(read.features) == set(SECONDS)
    (tmp_path / "wav.scp").write_text((data / "wav.scp").read_text())
    write_statistics(tmp_path, tmp_path / "out", {"n_mels": N_MELS})
    assert not (tmp_path / "out" / "no_speech.txt").exists()


def test_a_shard_of_silent_recordings_has_no_statistics(data, tmp_path):
    for number in range(60):
        soundfile.write(tmp_path / f"s{number:02}.wav", np.zeros(800), 16000)
    lines = [f"s{number:02} {tmp_path}/s{number:02}.wav\n" for number in range(60)]
    (tmp_path / "wav.scp").write_text((data / "wav.scp").read_text() + "".join(lines))
    with pytest.raises(
        InputError,
        match=r"60 of 65 .*: s00, s01, s02 and 57 more \(all: .*no_speech.txt\)",
    ):
        write_statistics(tmp_path, tmp_path, {"n_mels": N_MELS})
    assert len((tmp_path / "no_speech.txt").read_text().splitlines()) == 60


def test_features_that_were_kept_are_those_that_are_computed(data, tmp_path):
    assert write_statistics(
        data, tmp_path, {"n_mels": N_MELS}, keep_features=True
    ) == len(SECONDS)
    assert (tmp_path / "statistics.scp").read_text() != "" and len(
        list(tmp_path.rglob("*.npy"))
    ) == len(SECONDS)
    computed = dataset(data)
    entries = [*tables(data), (str(tmp_path / "features.scp"), "features", "text")]
    kept = training.ChunkDataset(
        training.read_recordings(entries), computed.features, computed.preprocess
    )
    for chunk in (
        Chunk("r1", 2.4, 5.0),
        Chunk("r3", 11.0, 12.0),
        Chunk("r5", 0.0, 3.0),
    ):
        (key, item), (same, other) = computed[chunk], kept[chunk]
        assert key == same and np.array_equal(item["text"], other["text"])
        assert (
            item["speech"].shape == other["speech"].shape
            and other["speech"].dtype == np.float32
        )
        assert np.allclose(item["speech"], other["speech"], atol=2e-3, rtol=2e-3)
    wrong = training.ChunkDataset(
        kept.recordings, RecordingFeatures(n_mels=7), computed.preprocess
    )
    with pytest.raises(InputError, match="20 channels, but n_mels is 7"):
        wrong[Chunk("r1", 0.0, 1.0)]
    next(tmp_path.rglob("r1.npy")).write_bytes(b"no numpy file")
    with pytest.raises(
        InputError, match="no features of r1 .* run the statistics stage again"
    ):
        kept[Chunk("r1", 0.0, 1.0)]


def test_only_a_part_is_read(data, monkeypatch):
    frames = []
    original = RecordingAudio._read_frames

    def counted(self, start, end):
        frames.append(end - start)
        return original(self, start, end)

    items = dataset(data)
    monkeypatch.setattr(RecordingAudio, "_read_frames", counted)
    items[Chunk("r3", 10.0, 11.0)]
    assert sum(frames) < 1.1 * 16000


def test_epochs_are_parts_of_one_plan():
    plan = [
        [Chunk("r", float(number), number + 1.0)] * (4 if number < 10 else 1)
        for number in range(11)
    ]
    make = {"plan": lambda: iter(plan), "dataset": None, "collate": None}
    factory = training.ChunkIterFactory(**make, per_epoch=4)
    assert [
        chunks for epoch in (1, 2, 3) for chunks in factory.list_chunks(epoch)
    ] == plan
    ranks = [
        training.ChunkIterFactory(**make, per_epoch=4, share=(rank, 2)).list_chunks(3)
        for rank in (0, 1)
    ]
    assert (
        ranks[0] == ranks[1] == [plan[8][:2], plan[9][:2]]
    )  # the last batch has too few


def test_trains_and_goes_on_exactly(data, tmp_path, token_list, monkeypatch):
    """Each epoch has a seed into which the command mixes the rank."""
    from espnet_ext.bin import asr_train_long
    from espnet_ext.upstream import random_numbers

    seeds = []
    monkeypatch.setattr(
        random_numbers, "mix_in_rank", lambda seed: seeds.append(seed) or seed
    )
    train(data, tmp_path / "whole", token_list)
    config = yaml.safe_load((tmp_path / "whole" / "config.yaml").read_text())
    assert asr_train_long.main == training.RecordingsASRTask.main
    assert seeds == [
        config["seed"] + epoch for epoch in range(1, config["max_epoch"] + 1)
    ]
    assert config["max_epoch"] > 2 and config["scheduler_conf"]["total_steps"] > 10

    build = training.ChunkIterFactory.build_iter

    def interrupted(self, epoch, shuffle=None):
        if epoch == 2:
            raise KeyboardInterrupt
        return build(self, epoch, shuffle)

    monkeypatch.setattr(training.ChunkIterFactory, "build_iter", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path / "parts", token_list)
    monkeypatch.setattr(training.ChunkIterFactory, "build_iter", build)
    with pytest.raises(InputError, match="scheduler_conf: warmup_steps"):
        changed = {"scheduler_conf": {"warmup_steps": 3}}
        train(data, tmp_path / "parts", token_list, resume=True, **changed)
    train(data, tmp_path / "parts", token_list, resume=True)
    parameters = [
        load_parameters(tmp_path / run / "latest.pth") for run in ("whole", "parts")
    ]
    for name, value in parameters[0].items():
        assert torch.equal(value, parameters[1][name]), name
    schedulers = [
        load_checkpoint(tmp_path / run / "checkpoint.pth")["schedulers"]
        for run in ("whole", "parts")
    ]
    assert schedulers[0] == schedulers[1]


def test_bad_settings(data, tmp_path, token_list):
    for settings, fault in (
        ({"input_size": 7}, "input_size is 7"),
        (
            {"chunk_conf": {"length": 3}},
            "chunk_conf: no option length: its options are batch_seconds, "
            "max_seconds, ",
        ),
        (
            {"chunk_conf": {"max_secnds": 3}},
            "chunk_conf: no option max_secnds: is max_seconds meant",
        ),
        (
            {"chunk_conf": {"max_seconds": "ten"}},
            "chunk_conf: max_seconds is 'ten', but must be a number",
        ),
        ({"chunk_conf": {"passes": 0}}, "passes must be"),
        (
            {"chunk_conf": {"passes": "two"}},
            "passes must be a whole number of at least 1, not 'two'",
        ),
        (
            {"features_conf": {"n_mels": N_MELS, "colour": 1}},
            "features_conf: no option colour",
        ),
    ):
        with pytest.raises(InputError, match=fault):
            train(data, tmp_path / "bad", token_list, **settings)
    with pytest.raises(InputError, match="give words, statistics too"):
        training.read_recordings(tables(data)[:2])
    (tmp_path / "statistics.scp").write_text(
        "".join(f"{name} touch {tmp_path}/ran |\n" for name in SECONDS)
    )
    with pytest.raises(InputError, match="commands are not run"):
        training.read_recordings(
            [
                *tables(data)[:3],
                (str(tmp_path / "statistics.scp"), "statistics", "text"),
            ]
        )
    (tmp_path / "utt2dur").write_text("r1 9.0\n")
    with pytest.raises(InputError, match="recording r2 .* is missing"):
        training.read_recordings(
            [
                (str(tmp_path / "utt2dur"), "duration", "text"),
                *tables(data)[:1],
                *tables(data)[2:],
            ]
        )


def test_the_documented_config_and_tables(data, tmp_path, token_list, monkeypatch):
    """Of ``docs/long_recordings.md``: the Python writes tables, the config trains."""
    page = (Path(__file__).parents[2] / "docs" / "long_recordings.md").read_text(
        encoding="utf-8"
    )
    config, script = (
        re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)[1]
        for kind in ("yaml", "python")
    )
    (tmp_path / "train").mkdir()
    for name in ("wav.scp", "utt2dur"):
        (tmp_path / "train" / name).write_text((data / name).read_text())
    seconds = {name: int(value) - 1 for name, value in SECONDS.items()}
    lines = [
        f"{name} 1 {at + 0.1:.1f} 0.5 {'ABCDE'[at % 5]}\n"
        for name, count in seconds.items()
        for at in range(count)
    ]
    (tmp_path / "train" / "words.ctm").write_text("".join(lines))
    monkeypatch.chdir(tmp_path)
    exec(script, {})
    settings = yaml.safe_load(config)
    settings["chunk_conf"] |= CONFIG["chunk_conf"] | {"passes": 1}
    settings["encoder_conf"] |= {
        "output_size": 8,
        "num_blocks": 1,
        "attention_heads": 2,
        "subsampling_channels": 4,
    }
    monkeypatch.setattr(
        sys.modules[__name__],
        "CONFIG",
        {"num_workers": 0, "use_tensorboard": False, "token_type": "char"},
    )
    train(tmp_path / "train", tmp_path / "exp", token_list, **settings)
    assert (tmp_path / "exp" / "1epoch.pth").exists() or (
        tmp_path / "exp" / "latest.pth"
    ).exists()
