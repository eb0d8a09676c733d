"""Each command that trains mixes the rank into the seeds of its epochs (two processes:
tests/sem/test_training.py).
"""

import numpy as np
import pytest

from espnet_ext.upstream import random_numbers

MODEL = {
    "frontend_conf": {"n_fft": 256, "hop_length": 160, "n_mels": 20},
    "encoder_conf": {
        "output_size": 8,
        "attention_heads": 2,
        "linear_units": 8,
        "num_blocks": 1,
    },
    "decoder_conf": {"attention_heads": 2, "linear_units": 8, "num_blocks": 1},
    **{
        "encoder": "transformer",
        "decoder": "transformer",
        "normalize": "utterance_mvn",
    },
}


@pytest.mark.parametrize(
    ("command", "config", "tables", "shapes"),
    [
        ("asr_train", MODEL, (), ("speech_shape", "text_shape")),
        (
            "lm_train",
            {"lm_conf": {"unit": 8, "nlayers": 1}},
            ("text,text,text",),
            ("text_shape",),
        ),
    ],
)
def test_epochs_are_seeded_by_rank(
    command,
    config,
    tables,
    shapes,
    make_training_data,
    train_small,
    tmp_path,
    monkeypatch,
):
    seeds = []
    monkeypatch.setattr(
        random_numbers, "mix_in_rank", lambda seed: seeds.append(seed) or seed
    )
    speech = [
        np.random.default_rng(number).normal(scale=0.1, size=8000)
        for number in range(2)
    ]
    tokens = ["<blank>", "<unk>", "A", "B", "<sos/eos>"]
    data = make_training_data(tmp_path, speech, ["A B", "B A A"], tokens)
    options = ("--token_type", "word", "--seed", "5")
    train_small(
        data,
        tmp_path / "out",
        config,
        *options,
        command=command,
        tables=tables,
        shapes=shapes,
    )
    assert seeds == [6, 7]
