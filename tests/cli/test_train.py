"""``espnet-ext train``: a small model made, trained on text and then by MWER, as a user
does it.
"""

import json
from pathlib import Path

import pytest
import yaml

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.rescore.models.scorers import load_lm
from espnet_ext.rescore.training.small_models import make_language_model
from espnet_ext.text.nbest import Hypothesis, NBest, write_nbest

TEXT = ["THE CAT SAT ON THE MAT", "A DOG RAN", "TWO CATS RAN HOME", "HE SAT AT HOME"]
SIZES = {
    "num_hidden_layers": 1,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}
MAKE = {"kind": "gpt2", "vocabulary": 300, "casing": "lower", "config": SIZES}
CONFIGS = {
    "adapt": {"batch_size": 2, "epochs": 3, "lr": 0.001, "sentences": 3, "seed": 4},
    "mwer": {"batch_size": 2, "max_steps": 2, "seed": 4},
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Text, transcripts, N-best lists and configs."""
    (tmp_path / "lm.txt").write_text("\n".join(TEXT) + "\n")
    (tmp_path / "dev.text").write_text("u1 A CAT RAN\nu2 HE RAN\n")
    hyps = (Hypothesis("THE CAT SAT", -1.0), Hypothesis("THE CATS AT", -1.5))
    write_nbest(
        tmp_path / "train.jsonl",
        [NBest("u1", hyps, ref="THE CAT SAT"), NBest("u2", hyps, ref="THE CATS")],
    )
    for name, config in CONFIGS.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


def arguments(folder: Path, **options: str) -> list[str]:
    """Options of a command; values are names in the folder."""
    return [
        word
        for name, value in options.items()
        for word in (f"--{name.replace('_', '-')}", str(folder / value))
    ]


@pytest.mark.parametrize(
    ("kind", "scorer"), [("gpt2", "causal"), ("bert", "pll"), ("gpt2", "pooled")]
)
def test_from_text_to_a_rescorer(files, capsys, kind, scorer):
    make_language_model({**MAKE, "kind": kind}, [files / "lm.txt"], files / "init")
    adapt = arguments(
        files,
        lm="init",
        text="lm.txt",
        dev_transcripts="dev.text",
        config="adapt.yaml",
        output="adapted",
    )
    assert call(["train", "lm", *adapt]) == 0
    assert "adapted/model: after " in capsys.readouterr().out
    report = json.loads((files / "adapted" / "training.json").read_text())
    assert report["history"][-1]["step"] == 6  # 3 sentences, 2 updates an epoch
    assert report["key"]["seed"] == 4
    lists = arguments(
        files,
        nbest="train.jsonl",
        dev="train.jsonl",
        lm="adapted/model",
        config="mwer.yaml",
        output="mwer",
    )
    mwer = ["train", "mwer", *lists, "--scorer", scorer]
    assert call([*mwer, "--seed", "5"]) == 0
    report = json.loads((files / "mwer" / "training.json").read_text())
    assert (
        report["key"]["seed"] == 5 and report["key"]["ce_weight"] == 0.0
    )  # the option, not the config's
    found = load_lm(files / "mwer" / "model")
    assert (found.name, found.casing) == (scorer, "lower")
    assert call([*mwer, "--seed", "5"]) == 0
    assert "trained already" in capsys.readouterr().out
    with pytest.raises(InputError, match="another seed"):
        call(mwer)


def test_bad_input(files):
    text = arguments(files, lm="none", text="lm.txt", dev_text="lm.txt", output="x")
    with pytest.raises(
        InputError, match="none: no such folder of a language model: check the path"
    ):
        call(["train", "lm", *text, *arguments(files, config="adapt.yaml")])
    (files / "none.yaml").write_text("sentences: 0\nbatch_size: 1\n")
    with pytest.raises(
        InputError, match="^.*/none.yaml: sentences: must be at least 1, is 0$"
    ):
        call(["train", "lm", *text, *arguments(files, config="none.yaml")])
    with pytest.raises(InputError, match="--casing': 'title' is not one of"):
        call(
            [
                "train",
                "lm",
                *text,
                *arguments(files, config="adapt.yaml"),
                "--casing",
                "title",
            ]
        )
    lists = arguments(files, dev="train.jsonl", config="mwer.yaml", output="x")
    with pytest.raises(InputError, match="none.jsonl: no such file"):
        call(
            ["train", "mwer", *lists, *arguments(files, nbest="none.jsonl", lm="none")]
        )
    with pytest.raises(InputError, match="/mwer.yaml: the key 'lm' is missing"):
        call(["train", "mwer", *lists, *arguments(files, nbest="train.jsonl")])
    with pytest.raises(InputError, match="--ngpu 2: PyTorch sees"):
        call(
            [
                "train",
                "mwer",
                *lists,
                *arguments(files, nbest="train.jsonl", lm="none"),
                "--ngpu",
                "2",
            ]
        )
    assert not (files / "x").exists()
