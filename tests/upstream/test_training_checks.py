"""Trainings that ESPnet calls done and that are not, resumed ones that are other than
before, and data with slips: one line before the training, or after the epoch.
"""

import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
import yaml
from torch.multiprocessing.spawn import ProcessRaisedException

from espnet_ext.errors import InputError
from espnet_ext.upstream import resuming
from espnet_ext.upstream.checkpoint import load_checkpoint
from espnet_ext.upstream.training_ends import check_training_end
from espnet_ext.upstream.with_plugins import run_checked, set_up

TOKENS = ["<blank>", "<unk>", "a", "b", "c", "<sos/eos>"]
CONFIG = {
    "input_size": 4,
    "frontend": None,
    "normalize": None,
    "token_type": "word",
    "encoder": "transformer",
    "encoder_conf": {
        "input_layer": "linear",
        "output_size": 8,
        "attention_heads": 2,
        "linear_units": 8,
        "num_blocks": 1,
    },
    "decoder": "transformer",
    "decoder_conf": {"attention_heads": 2, "linear_units": 8, "num_blocks": 1},
    "model_conf": {"ctc_weight": 0.3},
    "optim": "adam",
    "optim_conf": {"lr": 0.01},
    "batch_type": "unsorted",
    "batch_size": 2,
    "max_epoch": 1,
    "num_workers": 0,
    "num_att_plot": 0,
    "use_tensorboard": False,
    "use_matplotlib": False,
    "keep_nbest_models": 3,
}
# the keys of CONFIG that are not options of every command
NOT_OF = {
    "mt_train": ("normalize",),
    "lm_train": (
        *("frontend", "normalize", "encoder", "encoder_conf"),
        *("decoder", "decoder_conf", "input_size", "model_conf"),
    ),
}
FEATURES = ("speech.scp,speech,npy", "text,text,text")
SOUND = ("speech.scp,speech,sound", "text,text,text")
TEXTS = ["a b", "b c a", "c", "a a b"]


@pytest.fixture(scope="module", autouse=True)
def commands():
    set_up()


@pytest.fixture
def features(tmp_path, make_training_data) -> Path:
    random = np.random.default_rng(1)
    speech = [random.normal(size=(20, 4)).astype(np.float32) for _ in TEXTS]
    folder = tmp_path / "data"
    folder.mkdir()
    return make_training_data(folder, speech, TEXTS, TOKENS)


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Return a function that runs one of our commands, in this process."""

    def run(
        data: Path,
        changes: dict | None = None,
        *options: str,
        tables: Sequence[str] = FEATURES,
        command: str = "asr_train",
        output: str = "exp",
    ) -> Path:
        config = tmp_path / "train.yaml"
        absent = NOT_OF.get(command, ())
        whole = {key: CONFIG[key] for key in CONFIG if key not in absent}
        config.write_text(yaml.safe_dump(whole | (changes or {})))
        folder = tmp_path / output
        words = ["--config", str(config), "--output_dir", str(folder)]
        words += ["--token_list", str(data / "tokens.txt"), "--resume", "true"]
        for part in ("train", "valid"):
            for table in tables:
                words += [f"--{part}_data_path_and_name_and_type", str(data / table)]
            words += [f"--{part}_shape_file", str(data / "speech_shape")]
        monkeypatch.setattr(sys, "argv", [command, *words, *options])
        run_checked(import_module(f"espnet_ext.bin.{command}").main)
        return folder

    return run


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# --- the end of a training


@pytest.mark.parametrize("epochs", [1, 4])
def test_a_training_that_diverges_fails_with_its_epoch(train, features, epochs):
    with pytest.raises(InputError, match=r"epoch [12]: .*learning rate"):
        train(features, {"optim_conf": {"lr": 1.0e30}, "max_epoch": epochs})
    # and again, when the same command resumes it
    with pytest.raises(InputError, match=r"epoch [12]: .*learning rate"):
        train(features, {"optim_conf": {"lr": 1.0e30}, "max_epoch": epochs})


TRANSLATION = {
    "src_token_list": TOKENS,
    "src_token_type": "word",
    "model_conf": {},
    "frontend": "embed",
    "frontend_conf": {"embed_dim": 8},
    "input_size": None,
}
LANGUAGE = {"lm": "seq_rnn", "lm_conf": {"unit": 8, "nlayers": 1}, "token_type": "word"}
GROWING = {
    "encoder": "blstm_maxpool",
    "encoder_conf": {"num_layers": 3, "hidden_size": 4, "pooling": [2]},
    "stages": [{"epochs": 1, "num_layers": 2, "pooling": [2], "dropout_rate": 0.0}],
    "max_epoch": 3,
}


@pytest.mark.parametrize(
    ("command", "own", "tables"),
    [
        ("growing_asr_train", GROWING, FEATURES),
        ("lm_train", LANGUAGE, ("text,text,text",)),
        ("mt_train", TRANSLATION, ("text,text,text", "text,src_text,text")),
    ],
)
def test_every_command_checks_its_end(train, features, command, own, tables):
    config = own | {"optim_conf": {"lr": 1.0e30}}
    if command == "growing_asr_train":
        shape = str(features / "speech_shape")
        config["stages"] = [stage | {"shape_file": shape} for stage in own["stages"]]
    with pytest.raises(InputError, match=r"epoch [12]: .*learning rate"):
        train(features, config, tables=tables, command=command)


def test_a_training_that_diverges_late_fails_with_that_epoch(train, features):
    changes = {
        "max_epoch": 6,
        "scheduler": "multisteplr",
        "scheduler_conf": {"milestones": [2], "gamma": 1.0e30},
    }
    with pytest.raises(InputError, match=r"epoch [34]: .*learning rate"):
        train(features, changes)


def test_updates_that_are_never_made_are_told(train, features):
    with pytest.raises(InputError, match=r"no update .*epoch 1.*accum_grad"):
        train(features, {"accum_grad": 100})


def test_a_training_that_ends_by_patience_is_done(train, features):
    changes = {
        "max_epoch": 9,
        "patience": 1,
        "early_stopping_criterion": ["valid", "loss", "max"],
    }
    folder = train(features, changes)
    assert load_checkpoint(folder / "checkpoint.pth")["reporter"]["epoch"] < 9


def test_a_training_that_stopped_without_a_reason_is_refused(train, features):
    folder = train(features, {"max_epoch": 2})
    args = Namespace(output_dir=str(folder))
    check_training_end(args)
    change(folder / "config.yaml", "max_epoch: 2", "max_epoch: 3")
    with pytest.raises(InputError, match="after epoch 2 of 3"):
        check_training_end(args)


@pytest.mark.parametrize(
    ("train_stats", "valid_stats", "place"),
    [
        ({"loss": 1.0}, {"loss": 1.0}, "no update was made in epoch 2"),
        ({"grad_norm": 1.0}, {"time": 1, "total_count": 0}, "epoch 2 has no valid"),
        ({"grad_norm": 1.0}, {"loss": float("nan")}, "diverged in epoch 2"),
        ({"grad_norm": 1.0}, {"loss": 1.0e29}, "diverged in epoch 2"),
    ],
)
def test_the_record_of_the_epochs_is_read(tmp_path, train_stats, valid_stats, place):
    good = {"train": {"grad_norm": 1.0}, "valid": {"loss": 1.0}}
    stats = {1: good, 2: {"train": train_stats, "valid": valid_stats}, 3: good}
    reporter = {"epoch": 3, "stats": stats}
    torch.save({"reporter": reporter}, tmp_path / "checkpoint.pth")
    (tmp_path / "config.yaml").write_text("max_epoch: 3")
    with pytest.raises(InputError, match=place):
        check_training_end(Namespace(output_dir=str(tmp_path)))


def test_no_epoch_at_all_is_refused_by_the_process_that_writes_them(tmp_path):
    args = Namespace(output_dir=str(tmp_path))
    with pytest.raises(InputError, match="checkpoint.pth"):
        check_training_end(args)
    vars(args).update(distributed=True, dist_launcher=None, dist_rank=1)
    for args.multiprocessing_distributed in (True, False):
        check_training_end(args)


# --- what a training can learn from


def test_data_that_teach_nothing_are_refused(train, features, tmp_path):
    text = features / "text"
    text.write_text("".join(f"u{number} x y\n" for number in range(4)))
    with pytest.raises(InputError, match="all 4 .*<unk>"):
        train(features)
    (features / "tokens.txt").write_text("\n".join([*TOKENS[:-1], "▁", TOKENS[-1]]))
    text.write_text("".join(f"u{number} x ▁ y\n" for number in range(4)))
    with pytest.raises(InputError, match="all 4 .*<unk>"):
        train(features)
    text.write_text("".join(f"u{number}\n" for number in range(4)))
    with pytest.raises(InputError, match="all 4 .*empty transcript"):
        train(features)
    text.write_text("".join(f"u{number} {'a ' * 15}\n" for number in range(4)))
    with pytest.raises(InputError, match="all 4 .*CTC"):  # 15 tokens, 14 blanks
        train(features)
    train(features, {"model_conf": {"ctc_weight": 0.0}})
    assert not list((tmp_path / "data").glob("*.pth"))


def test_one_utterance_to_learn_from_is_enough(train, features):
    (features / "text").write_text("u0 x\nu1\nu2 a b\nu3 x x\n")
    train(features)


@pytest.mark.parametrize(
    ("names", "place"),
    [
        (["encodr"], "freeze_param: encodr"),
        (["encoder", "decoder.embd"], "freeze_param: decoder.embd"),
        (["encoder", "decoder", "ctc"], "freezes the whole model"),
    ],
)
def test_what_freezes_nothing_is_refused(train, features, names, place):
    with pytest.raises(InputError, match=place):
        train(features, {"freeze_param": names})


@pytest.mark.parametrize(
    "changes",
    [
        {"best_model_criterion": [["valid", "accuracy", "max"]]},
        {"best_model_criterion": [["test", "acc", "max"]]},
        {"patience": 3, "early_stopping_criterion": ["valid", "x", "min"]},
        {"scheduler": "reducelronplateau", "val_scheduler_criterion": ["valid", "x"]},
    ],
)
def test_criteria_that_no_epoch_has_are_refused_at_the_start(train, features, changes):
    with pytest.raises(InputError, match="criterion: there is no .*acc, .*loss"):
        train(features, changes)
    assert not (features.parent / "exp" / "1epoch.pth").exists()
    train(features, {"best_model_criterion": [["train", "total_count", "max"]]})


# --- what a training resumes


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"scheduler": "warmuplr", "scheduler_conf": {"warmup_steps": 5}}, "scheduler"),
        ({"optim": "sgd"}, "optim was adam, is sgd"),
        ({"optim_conf": {"lr": 0.001}}, "optim_conf: lr was 0.01, is 0.001"),
        ({"token_type": "char"}, "token_type was word, is char"),
    ],
)
def test_a_training_resumes_only_as_it_began(train, features, changes, place):
    folder = train(features)
    config = (folder / "config.yaml").read_bytes()
    with pytest.raises(InputError, match=place):
        train(features, changes | {"max_epoch": 2})
    assert (folder / "config.yaml").read_bytes() == config
    train(features, {"max_epoch": 2})


def test_a_scheduler_that_is_left_out_is_named(train, features):
    train(features, {"scheduler": "noamlr", "scheduler_conf": {"warmup_steps": 5}})
    with pytest.raises(InputError, match="scheduler was noamlr, is None"):
        train(features, {"max_epoch": 2})


def test_tokens_in_another_order_are_refused(train, features):
    folder = train(features)
    (features / "tokens.txt").write_text(
        "\n".join([*TOKENS[:2], "b", "a", *TOKENS[4:]])
    )
    with pytest.raises(InputError, match="token_list: token 2 is b, .*training a"):
        train(features, {"max_epoch": 2})
    start = str(folder / "1epoch.pth")
    with pytest.raises(InputError, match="--init_param .*token 2 is b"):
        train(features, {}, "--init_param", start, output="other")
    for part in ("encoder:encoder", "::decoder,ctc"):
        given = f"{start}:{part}"
        train(features, {}, "--init_param", given, output=part[0])


@pytest.mark.parametrize("excluded, taken", [("decoder.embed", False), ("embed", True)])
def test_parameters_are_left_out_by_their_whole_names(tmp_path, excluded, taken):
    """As ESPnet leaves them out, before it takes the part of ``decoder`` of a name."""
    state = {"decoder.embed.weight": torch.zeros(9, 4), "decoder.w": torch.zeros(4, 4)}
    torch.save(state, tmp_path / "model.pth")
    path = str(tmp_path / "model.pth")
    found = resuming._list_outputs(path, "decoder", "decoder", excluded, 9)
    assert bool(found) == taken


def test_an_earlier_epoch_that_was_cut_short_is_named_before_training(train, features):
    folder = train(features, {"max_epoch": 2})
    for epoch in (1, 2):
        path = folder / f"{epoch}epoch.pth"
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        if epoch == 1:
            with pytest.raises(InputError, match="1epoch.pth: not a checkpoint"):
                train(features, {"max_epoch": 3})
            path.write_bytes(whole)
    train(features, {"max_epoch": 3})  # the last one is in the checkpoint, too
    state = torch.load(folder / "2epoch.pth", weights_only=True)
    assert state.keys() == torch.load(folder / "3epoch.pth", weights_only=True).keys()


def test_a_missing_epoch_that_would_be_averaged_is_named(train, features):
    best = {"best_model_criterion": [["valid", "loss", "max"]], "keep_nbest_models": 1}
    folder = train(features, best | {"max_epoch": 3})
    kept = [path for path in folder.glob("*epoch.pth") if path.name != "3epoch.pth"]
    with pytest.raises(InputError, match=r"epoch.pth: no such .*keep_nbest_models"):
        train(features, best | {"max_epoch": 4, "keep_nbest_models": 3})
    for path in kept:
        path.rename(path.with_suffix(".old"))
        with pytest.raises(InputError, match=f"{path.name}: no such"):
            train(features, best | {"max_epoch": 4})
        path.with_suffix(".old").rename(path)
    train(features, best | {"max_epoch": 4})


# --- slips in the tables


def drop_line(table: str):
    def drop(data: Path) -> None:
        path = data / table
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))

    return drop


def double_line(table: str):
    def double(data: Path) -> None:
        path = data / table
        path.write_text(path.read_text() + path.read_text().splitlines()[0] + "\n")

    return double


def write(name: str, content: str | bytes):
    def change_file(data: Path) -> None:
        path = data / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return change_file


def convert(rate: int = 16000, channels: int = 1):
    def write_audio(data: Path) -> None:
        samples = np.zeros((4000, channels)) + 0.1
        soundfile.write(data / "u1.flac", samples, rate)

    return write_audio


@pytest.mark.parametrize(
    ("slip", "places"),
    [
        (drop_line("speech.scp"), ["speech.scp", "u3"]),
        (drop_line("text"), ["text", "u3"]),
        (double_line("speech.scp"), ["speech.scp", "u0"]),
        (double_line("text"), ["text", "u0"]),
        (double_line("speech_shape"), ["speech_shape", "u0"]),
        (write("speech.scp", ""), ["speech.scp"]),
        (write("text", ""), ["text"]),
        (write("speech_shape", ""), ["speech_shape"]),
        (write("speech_shape", "v1 100\nv2 100\n"), ["speech.scp", "v1"]),
        (write("text", "u0 a\n\nu1 b\nu2 c\nu3 c\n"), ["text", "line 2"]),
        (write("text", b"u0 \xff\nu1 b\nu2 c\nu3 c\n"), ["text", "line 1"]),
        (convert(rate=8000), ["u1", "8000 Hz"]),
        (convert(channels=2), ["u1", "2 channels"]),
        (write("u1.flac", ""), ["u1.flac"]),
        (write("u1.flac", "no audio at all"), ["u1.flac"]),
        (lambda data: (data / "u1.flac").unlink(), ["u1.flac"]),
        (lambda data: (data / "text").unlink(), ["text"]),
    ],
)
def test_a_slip_in_the_data_is_one_line(
    slip, places, train, tmp_path, make_training_data
):
    random = np.random.default_rng(1)
    data = tmp_path / "audio"
    data.mkdir()
    speech = [random.normal(scale=0.1, size=4000) for _ in TEXTS]
    make_training_data(data, speech, TEXTS, TOKENS)
    slip(data)
    changes = {
        "frontend": "default",
        "input_size": None,
        "frontend_conf": {"n_mels": 8},
    }
    with pytest.raises(InputError) as refused:
        train(data, changes, tables=SOUND)
    assert all(place in str(refused.value) for place in places)
    assert "\n" not in str(refused.value) and not (tmp_path / "exp").exists()


@pytest.mark.parametrize("workers", [0, 1])
def test_audio_that_breaks_off_names_its_utterance(
    workers, train, tmp_path, make_training_data
):
    """Its header is whole: it is found when it is read, in whichever process."""
    random = np.random.default_rng(1)
    data = tmp_path / "audio"
    data.mkdir()
    speech = [random.normal(scale=0.1, size=9000) for _ in TEXTS]
    make_training_data(data, speech, TEXTS, TOKENS)
    whole = (data / "u1.flac").read_bytes()
    (data / "u1.flac").write_bytes(whole[: len(whole) // 2])
    changes = {
        "frontend": "default",
        "input_size": None,
        "frontend_conf": {"n_mels": 8},
        "num_workers": workers,
    }
    with pytest.raises(InputError, match=r"u1: .*u1.flac") as refused:
        train(data, changes, tables=SOUND)
    assert "\n" not in str(refused.value)


def test_statistics_of_other_features_name_their_module(train, features, tmp_path):
    np.savez(tmp_path / "stats.npz", count=9, sum=np.ones(6), sum_square=np.ones(6))
    changes = {
        "normalize": "global_mvn",
        "normalize_conf": {"stats_file": str(tmp_path / "stats.npz")},
    }
    with pytest.raises(InputError, match="normalize_conf: global_mvn: "):
        train(features, changes)


def test_an_error_of_another_process_is_one_line():
    def fail():
        raise ProcessRaisedException(
            "\n\n-- Process 1 terminated with the following error:\nTraceback ...\n"
            "espnet_ext.errors.InputError: text: u3 is missing\n",
            1,
            2,
        )

    with pytest.raises(InputError) as refused:
        run_checked(fail)
    assert str(refused.value) == "text: u3 is missing"


def test_a_missing_option_is_named(features, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["asr_train", "--output_dir", str(tmp_path)])
    with pytest.raises(InputError, match="--token_list") as refused:
        run_checked(import_module("espnet_ext.bin.asr_train").main)
    assert refused.value.status == 2
