"""The smallest training of each recipe in two processes: each sees its own utterances,
and both have the same parameters after each epoch.

P2's growing encoder is in tests/sem/test_training.py, P3's rescorers are in
tests/rescore/models/test_large_models.py.
"""

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import soundfile
import yaml
from small_systems import (
    CODE_SWITCHING,
    MT_TOKENS,
    STITCHER,
    SYSTEMS,
    TOKENS,
    fill_in,
    make_language_decoder,
    write_files,
)

from espnet_ext.kaldi.tables import write_table
from espnet_ext.longform.recording_features import write_statistics
from espnet_ext.stitch.recogniser.profiles import write_profiles
from espnet_ext.text.word_times import write_word_times
from espnet_ext.text.words import Word

SECONDS = {"u1": 1.0, "u2": 1.6, "u3": 1.2, "u4": 1.4}
SMALL = {
    "optim": "adam",
    "optim_conf": {"lr": 0.01},
    "batch_type": "sorted",
    "batch_size": 4,  # two for each process
    "max_epoch": 2,
    "num_workers": 0,
    "num_att_plot": 0,
    "use_tensorboard": False,
    "use_matplotlib": False,
    "token_type": "word",
    "dist_world_size": 2,
    "dist_backend": "gloo",
    "multiprocessing_distributed": False,
}
CHUNKS = {"batch_seconds": 4, "max_seconds": 1, "initial_seconds": 1, "passes": 2}
TRAININGS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "P1": (
        "asr_train",
        CODE_SWITCHING | make_language_decoder("separate"),
        ("wav.scp,speech,sound", "text,text,text"),
    ),
    "P4, recogniser": (
        "sa_asr_train",
        SYSTEMS["P4, recogniser, transformer"].config
        | {"profiles": ["FOLDER/profiles.scp"], "inventory_size": 3},
        ("wav.scp,speech,sound", "serialised,text,text", "speakers,speakers,text"),
    ),
    "P4, stitcher": (
        "mt_train",
        STITCHER | {"src_token_type": "word"},
        ("src_text,src_text,text", "text,text,text"),
    ),
    "P5": (
        "asr_train_long",
        SYSTEMS["P5"].config
        | {
            "features_conf": {"n_mels": 20},
            "chunk_conf": CHUNKS,
            "scheduler_conf": {"warmup_steps": 2},
            "num_iters_per_epoch": 2,
            "batch_type": "unsorted",
        },
        (
            "wav.scp,speech,text",
            "utt2dur,duration,text",
            "words.scp,words,text",
            "statistics.scp,statistics,text",
        ),
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Noise with all tables that the trainings read."""
    folder = write_files(tmp_path_factory.mktemp("data"))
    random = np.random.default_rng(0)
    for name, seconds in SECONDS.items():
        noise = random.normal(scale=0.1, size=int(16000 * seconds))
        soundfile.write(folder / f"{name}.flac", noise, 16000)
    texts = ["A B <sc> C", "D E <sc> F", "A C <sc> G", "B H <sc> D"]
    tables = {
        "wav.scp": [f"{folder / name}.flac" for name in SECONDS],
        "utt2dur": [str(seconds) for seconds in SECONDS.values()],
        "text": [text.replace(" <sc>", "") for text in texts],
        "serialised": texts,
        "src_text": ["A A B B C D", "D D E E F F", "A A C C G G", "B B H H D D"],
        "speakers": ["w x", "y z", "x y", "z w"],
        "shape": [str(int(16000 * seconds)) for seconds in SECONDS.values()],
    }
    for name, values in tables.items():
        write_table(folder / name, dict(zip(SECONDS, values, strict=True)))
    write_profiles(folder, {name: random.normal(size=(3, 4)) for name in "wxyz"})
    words = {name: [Word("A", 0.1, 0.4), Word("B", 0.5, 0.9)] for name in SECONDS}
    write_word_times(folder / "words", words.items())
    write_statistics(folder, folder, {"n_mels": 20})
    return folder


def write_config(name: str, folder: Path, output: Path) -> tuple[str, list[str]]:
    """Return the command of a training and its options."""
    command, config, tables = TRAININGS[name]
    tokens = MT_TOKENS if command == "mt_train" else TOKENS
    meeting = {"dist_init_method": f"file://{output}/meeting"}
    more = {"token_list": tokens, **meeting, "output_dir": str(output / "exp")}
    (output / "train.yaml").write_text(
        yaml.safe_dump(SMALL | fill_in(config, folder) | more)
    )
    options = ["--config", str(output / "train.yaml"), "--ngpu", "0"]
    for part in ("train", "valid"):
        for table in tables:
            options += [f"--{part}_data_path_and_name_and_type", str(folder / table)]
        if command != "asr_train_long":
            options += [f"--{part}_shape_file", str(folder / "shape")]
    return command, options


@contextmanager
def recorded_epochs(record: list[dict[str, Any]]) -> Iterator[None]:
    """Note the texts that a process is trained on, and the sums of the parameters after
    each epoch.
    """
    from espnet2.train.trainer import Trainer

    train = Trainer.train_one_epoch.__func__

    def train_and_note(cls: type, *, model: Any, iterator: Any, **others: Any) -> Any:
        batches = list(iterator)
        done = train(cls, model=model, iterator=batches, **others)
        names = [name for utterances, _ in batches for name in utterances]
        sums = [float(value.double().sum()) for value in model.parameters()]
        record.append({"utterances": names, "parameters": sums})
        return done

    with patch.object(Trainer, "train_one_epoch", classmethod(train_and_note)):
        yield


def train_rank(rank: int, command: str, options: list[str], output: Path) -> None:
    record: list[dict[str, Any]] = []
    main = importlib.import_module(f"espnet_ext.bin.{command}").main
    with recorded_epochs(record):
        main(cmd=[*options, "--dist_rank", str(rank)])
    output.write_text(json.dumps(record))


@pytest.mark.parametrize("name", TRAININGS)
def test_processes_have_equal_parameters(name, folder, tmp_path):
    command, options = write_config(name, folder, tmp_path)
    importlib.import_module(f"espnet_ext.bin.{command}")  # once for both
    outputs = [tmp_path / f"rank{rank}.json" for rank in (0, 1)]
    fork = get_context("fork")
    processes = [
        fork.Process(target=train_rank, args=(rank, command, options, output))
        for rank, output in enumerate(outputs)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0]
    first, second = (json.loads(output.read_text()) for output in outputs)
    assert len(first) == len(second) == SMALL["max_epoch"]
    for one, other in zip(first, second, strict=True):
        assert one["parameters"] == other["parameters"]
        assert one["utterances"] != other["utterances"]
    assert first[0]["parameters"] != first[1]["parameters"]
