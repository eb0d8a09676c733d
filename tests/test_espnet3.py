"""The recipe of ESPnet3 in ``examples``: its stages, with few updates, and what its
model and lists are good for.
"""

import json
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

import espnet_ext
from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.nbest.espnet3 import outputs
from espnet_ext.nbest.sources import read_lists
from espnet_ext.rescore.training.small_models import SmallModel, make_small_model
from espnet_ext.sharing.model_files import find_checkpoint, find_model

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
UTTERANCE = "dev-clean/1001/10010/1001-10010-0000.flac"
SEARCH = {"ctc_weight": 1.0, "beam_size": 5, "nbest": 3}
STAGES = (
    "create_dataset",
    "train_tokenizer",
    "collect_stats",
    "train",
    "infer",
    "measure",
)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Path:
    """The recipe's folder after all stages, with eight updates on two speakers'
    utterances.
    """
    folder = tmp_path_factory.mktemp("of espnet3") / "recipe"
    shutil.copytree(
        EXAMPLES / "espnet3_digits",
        folder,
        ignore=shutil.ignore_patterns("exp", "data", "lm*"),
    )
    corpus = folder.parent / "digits"
    for part in ("train-clean-100", "dev-clean", "test-clean"):
        for speaker in ("1001", "1002"):
            shutil.copytree(
                EXAMPLES / "digits" / part / speaker, corpus / part / speaker
            )
    for part in ("test-clean", "train-clean-100"):
        for path in (corpus / part).rglob("*.trans.txt"):
            path.write_text(
                "".join(
                    path.read_text().splitlines(keepends=True)[
                        : 2 if part == "test-clean" else 20
                    ]
                )
            )
    training = yaml.safe_load((folder / "conf/training.yaml").read_text())
    training["model"]["encoder_conf"] |= {"hidden_size": 8}
    training["scheduler"] |= {"warmup_steps": 2, "total_steps": 8}
    training["trainer"] |= {"max_epochs": 2}
    (folder / "conf/training.yaml").write_text(yaml.safe_dump(training))
    inference = yaml.safe_load((folder / "conf/inference.yaml").read_text())
    inference["dataset"]["test"] = inference["dataset"]["test"][-1:]
    inference["model"] |= {"beam_size": 3, "nbest": 3, "maxlenratio": -8}
    (folder / "conf/inference.yaml").write_text(yaml.safe_dump(inference))
    configs = [
        f"--{name}_config=conf/{name}.yaml"
        for name in ("training", "inference", "metrics")
    ]
    command = [
        sys.executable,
        "-m",
        "espnet_ext.bin.run",
        "run.py",
        "--stages",
        *STAGES,
        *configs,
    ]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture
def here(recipe, monkeypatch, tmp_path) -> Path:
    """The training's folder; the recipe's is the working directory, and the cache is
    the test's own.
    """
    monkeypatch.setenv("ESPNET_EXT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(recipe)
    return Path("exp/training")


def test_every_stage_leaves_what_it_is_for(here):
    config = yaml.safe_load((here / "config.yaml").read_text())
    assert (config["encoder"], config["normalize"]) == (
        "blstm_maxpool",
        "sem_global_mvn",
    )
    metrics = json.loads((here / "inference/metrics.json").read_text())
    (by_set,) = metrics.values()
    assert set(by_set) == {"test"} and by_set["test"]["WER"] > 0
    lists = read_lists(here / "inference/test")
    assert len(lists) == 4 and all(nbest.ref and len(nbest.hyps) > 1 for nbest in lists)
    best = dict(
        line.rstrip("\n").split(" ", 1)
        for line in (here / "inference/test/hyp.scp").open()
    )
    assert {nbest.utt_id: nbest.hyps[0].text for nbest in lists} == best


def test_the_checkpoint_is_loaded_transcribed_with_and_packed(
    here, tmp_path, monkeypatch
):
    speech = np.random.default_rng(0).normal(scale=0.1, size=16000).astype(np.float32)
    expected = hypotheses(espnet_ext.load(here / "last.ckpt", **SEARCH), speech)
    assert len(expected) == 3
    assert (
        call(
            [
                "pack",
                str(here),
                "--model",
                str(here / "last.ckpt"),
                "--output",
                str(tmp_path / "packed"),
            ]
        )
        == 0
    )
    audio, output = Path("../digits", UTTERANCE), tmp_path / "text"
    assert (
        call(
            [
                "transcribe",
                str(audio),
                "--model",
                str(here / "last.ckpt"),
                "--output",
                str(output),
            ]
        )
        == 0
    )
    assert (output / f"{audio.stem}.txt").is_file()
    home = str(here.resolve().parents[1])
    monkeypatch.chdir(tmp_path)
    assert hypotheses(espnet_ext.load("packed", **SEARCH), speech) == expected
    config = yaml.safe_load(Path("packed/model/config.yaml").read_text())
    assert config["normalize_conf"]["stats_file"] == "model/feats_stats.npz"
    assert (
        config["encoder"] == "espnet_ext:blstm_maxpool" and "dataloader" not in config
    )
    assert not any(
        home.encode() in path.read_bytes()
        for path in Path("packed").rglob("*")
        if path.is_file()
    )


def hypotheses(recogniser, speech) -> list[tuple]:
    return [(text, ids, float(hyp.score)) for text, _, ids, hyp in recogniser(speech)]


def test_the_folder_stands_for_its_average_or_else_its_last_epoch(here, tmp_path):
    assert find_model(here).model.name == "valid.loss.ave_1best.pth"
    shutil.copyfile(here / "config.yaml", tmp_path / "config.yaml")
    for name in (
        "last.ckpt",
        "valid.loss.ave_2best.pth",
        "valid.loss.ave_10best.pth",
        "valid.acc.ave_3best.pth",
    ):
        (tmp_path / name).touch()
        assert find_checkpoint(tmp_path).name == name


class Runs:
    """What leaves a file when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("ran"),)


def prefixed(state):
    return {f"model.{name}": value for name, value in state.items()}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            lambda state: {"state_dict": prefixed(state)},
            r"wrong.ckpt: .* missing .*unexpected \(model\.",
        ),
        (
            lambda state: {"state_dict": dict(list(state.items())[:-2])},
            "wrong.ckpt: .* 2 missing",
        ),
        (
            lambda state: {"state_dict": state, "callbacks": Runs()},
            "wrong.ckpt: ",
        ),
        (lambda state: {"epoch": 3}, "wrong.ckpt: "),
        (None, "wrong.ckpt: "),
    ],
    ids=["prefixed", "half", "hostile", "without parameters", "cut short"],
)
def test_a_wrong_checkpoint_is_refused_by_name(
    here, tmp_path, monkeypatch, change, line
):
    home = here.resolve()
    shutil.copyfile(home / "config.yaml", tmp_path / "config.yaml")
    if change:
        torch.save(
            change(torch.load(home / "last.ckpt", weights_only=True)["state_dict"]),
            tmp_path / "wrong.ckpt",
        )
    else:
        (tmp_path / "wrong.ckpt").write_bytes((home / "last.ckpt").read_bytes()[:5000])
    with pytest.raises(InputError, match=line):
        espnet_ext.load(tmp_path / "wrong.ckpt")
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"task": "espnet3.systems.esp2_asr.src.transducer_task.ASRTransducerTask"},
            "task .*ASRTransducerTask",
        ),
        ({"task": "os.system"}, "task os.system"),
        ({"bpemodel": None}, "bpemodel"),
    ],
)
def test_a_config_that_gives_no_recogniser_is_refused_by_name(
    here, tmp_path, change, line
):
    config = yaml.safe_load((here / "config.yaml").read_text())
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config | change))
    (tmp_path / "last.ckpt").touch()
    with pytest.raises(InputError, match=f"config.yaml: .*{line}"):
        find_model(tmp_path / "last.ckpt")


def test_its_lists_are_rescored(here, tmp_path, capsys):
    lm = SmallModel(
        kind="gpt2",
        vocabulary=280,
        config={"n_layer": 1, "n_embd": 8, "n_head": 1, "n_positions": 512},
    )
    make_small_model(lm, ["ONE TWO THREE"]).save(tmp_path / "lm")
    lists = here / "inference/test/nbest.scp"
    words = [
        "rescore",
        "--nbest",
        lists,
        "--weight",
        "second_lm=0.5",
        "--lm",
        tmp_path / "lm",
    ]
    words += ["--output", tmp_path / "rescored"]
    assert call(list(map(str, words))) == 0
    assert (
        len(read_lists(tmp_path / "rescored/nbest.jsonl")) == 4
        and "%" in capsys.readouterr().out
    )
    lists = tmp_path / "nbest.scp"
    lists.write_text("u1 not JSON\n")
    with pytest.raises(InputError, match="nbest.scp: line 1"):
        read_lists(lists)


def test_outputs_of_batches_short_utterances_and_models_without_tokenizer():
    hyp = Namespace(score=torch.tensor(-1.5), scores={"ctc": torch.tensor(-0.5)})
    one = [("A  B", ["A", "B"], [1, 2], hyp)]
    first, second = outputs([{"utt_id": "u1", "text": "A C"}, {}], [one, []], [0, 1])
    assert first == {
        "utt_id": "u1",
        "hyp": "A B",
        "ref": "A C",
        "nbest": first["nbest"],
    }
    assert json.loads(first["nbest"])["hyps"] == [
        {"text": "A B", "score": -1.5, "scores": {"ctc": -0.5}}
    ]
    assert (second["utt_id"], second["hyp"]) == ("1", "") and "ref" not in second
    with pytest.raises(InputError, match="7: "):
        outputs({}, [(None, None, [1], hyp)], 7)
