"""make_lm, lm_adapt and mwer_train one after the other on a few sentences, as a recipe calls them."""

import json

import pytest
import yaml

from espnet_ext.bin import lm_adapt, make_lm, mwer_train
from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import Hypothesis, NBest, write_nbest
from espnet_ext.rescore.scorers import load_lm

TEXT = ["THE CAT SAT ON THE MAT", "A DOG RAN", "TWO CATS RAN HOME", "HE SAT AT HOME"]
SIZES = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "max_position_embeddings": 64}


@pytest.fixture
def files(tmp_path):
    """Text, transcripts, N-best lists and configs in the current folder."""
    (tmp_path / "lm.txt").write_text("\n".join(TEXT) + "\n")
    (tmp_path / "dev.text").write_text("u1 A CAT RAN\nu2 HE RAN\n")
    hyps = (Hypothesis("THE CAT SAT", -1.0), Hypothesis("THE CATS AT", -1.5))
    write_nbest(tmp_path / "train.jsonl", [NBest("u1", hyps, ref="THE CAT SAT"), NBest("u2", hyps, ref="THE CATS")])
    configs = {
        "make": {"kind": "gpt2", "vocabulary": 300, "casing": "lower", "config": SIZES},
        "adapt": {"batch_size": 2, "epochs": 3, "lr": 0.001, "sentences": 3},
        "mwer": {"batch_size": 2, "max_steps": 2},
    }
    for name, config in configs.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


def arguments(folder, **options) -> list[str]:
    """Options of a command; values are names in the folder."""
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(folder / value))]


@pytest.mark.parametrize(("kind", "scorer"), [("gpt2", "causal"), ("bert", "pll"), ("gpt2", "pooled")])
def test_from_text_to_a_rescorer(files, capsys, kind, scorer):
    (files / "bert.yaml").write_text("kind: bert\n")
    configs = ["make.yaml", "bert.yaml"] if kind == "bert" else ["make.yaml"]
    config = ["--config", *(str(files / name) for name in configs)]
    make_lm.main([*arguments(files, text="lm.txt", output="init"), *config])
    assert f"init: {kind} with" in capsys.readouterr().out
    adapt = arguments(
        files, lm="init", text="lm.txt", dev_transcripts="dev.text", config="adapt.yaml", output="adapted"
    )
    lm_adapt.main(adapt)
    assert "adapted/model: after " in capsys.readouterr().out
    report = json.loads((files / "adapted" / "training.json").read_text())
    assert report["history"][-1]["step"] == 6  # 3 sentences, 2 updates an epoch
    lists = arguments(
        files, nbest="train.jsonl", dev="train.jsonl", lm="adapted/model", config="mwer.yaml", output="mwer"
    )
    mwer_train.main([*lists, "--scorer", scorer, "--seed", "5"])
    report = json.loads((files / "mwer" / "training.json").read_text())
    assert report["key"]["seed"] == 5 and report["key"]["ce_weight"] == 0.0
    found = load_lm(files / "mwer" / "model")
    assert (found.name, found.casing) == (scorer, "lower")
    mwer_train.main([*lists, "--scorer", scorer, "--seed", "5"])
    assert "trained already" in capsys.readouterr().out
    with pytest.raises(InputError, match="another seed"):
        mwer_train.main([*lists, "--scorer", scorer])


def test_bad_input_of_the_commands(files):
    with pytest.raises(InputError, match="no such file"):
        make_lm.main(arguments(files, text="none.txt", config="make.yaml", output="x"))
    with pytest.raises(InputError, match="no language model"):
        lm_adapt.main(arguments(files, lm="none", text="lm.txt", dev_text="lm.txt", config="adapt.yaml", output="x"))
    with pytest.raises(InputError, match="sentences must be a whole number of at least 1, not 0"):
        (files / "none.yaml").write_text("sentences: 0\nbatch_size: 1\n")
        lm_adapt.main(arguments(files, lm="none", text="lm.txt", dev_text="lm.txt", config="none.yaml", output="x"))
    with pytest.raises(InputError, match=r"none.jsonl: no such file"):
        mwer_train.main(
            arguments(files, nbest="none.jsonl", dev="train.jsonl", lm="none", config="mwer.yaml", output="x")
        )
    with pytest.raises(InputError, match="--ngpu 2: this training runs on one GPU or none"):
        lists = arguments(files, nbest="train.jsonl", dev="train.jsonl", lm="none", config="mwer.yaml", output="x")
        mwer_train.main([*lists, "--ngpu", "2"])
    assert not (files / "x").exists()
