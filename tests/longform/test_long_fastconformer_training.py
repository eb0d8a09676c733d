"""The long-context encoder, optimizer and schedule through ESPnet's own commands."""

import numpy as np
import pytest
import torch
from espnet2.bin.asr_inference import Speech2Text

import espnet_ext
from espnet_ext.longform.warmup_cosine import WarmupCosine

TOKENS = ["<blank>", "<unk>", "A", "B", "C", "<sos/eos>"]
TEXTS = ["A B", "C A", "B", "B B C"]
FRAMES = [96, 96, 96, 75]  # batches with and without padding


CONFIG = {
    "input_size": 8,
    "encoder": "long_fastconformer",
    "encoder_conf": {
        "output_size": 16,
        "attention_heads": 2,
        "num_blocks": 2,
        "subsampling_channels": 4,
    },
    "model_conf": {"ctc_weight": 1.0},
    "optim": "madgrad",
    "optim_conf": {"lr": 0.003, "momentum": 0.9},
    "scheduler": "warmup_cosine",
    "scheduler_conf": {"warmup_steps": 2, "total_steps": 6},
    "grad_clip": 0.8,
    "token_type": "word",
    "best_model_criterion": [["valid", "loss", "min"]],
    "keep_nbest_models": 3,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory, make_training_data):
    """Four recordings of random features and their transcripts."""
    random = np.random.default_rng(0)
    speech = [random.normal(size=(frames, 8)).astype(np.float32) for frames in FRAMES]
    return make_training_data(tmp_path_factory.mktemp("data"), speech, TEXTS, TOKENS)


def test_trains_resumes_and_decodes_through_espnets_commands(
    data, train_small, tmp_path, monkeypatch
):
    espnet_ext.register()
    used = []
    step = WarmupCosine.step

    def spy(self, *args):
        used.append(self.optimizer.param_groups[0]["lr"])
        step(self, *args)

    def train(name: str, epochs: int) -> None:
        """Epochs of two updates each, a new training or one that is resumed."""
        train_small(
            data,
            tmp_path / name,
            CONFIG,
            "--max_epoch",
            str(epochs),
            "--resume",
            "true",
        )

    train("whole", 3)
    train("cut", 2)
    monkeypatch.setattr(WarmupCosine, "step", spy)
    train("cut", 3)
    # building a scheduler steps it once; the last two of six updates follow
    cosine = [0.0015 * (1 + np.cos(np.pi * done / 5)) for done in (3, 4)]
    np.testing.assert_allclose(used[-2:], cosine)

    first, last, resumed = (
        torch.load(tmp_path / path, weights_only=True)
        for path in ("whole/1epoch.pth", "whole/3epoch.pth", "cut/3epoch.pth")
    )
    still = [key for key in first if torch.equal(first[key], last[key])]
    assert not still, "every parameter and buffer moves, conditioning_layer among them"
    assert (
        "encoder.conditioning_layer.weight" in first
        and last["encoder.layers.0.convolution.norm.updates"] == 6
    )
    for key, value in last.items():
        torch.testing.assert_close(resumed[key], value)

    recogniser = Speech2Text(
        asr_train_config=str(tmp_path / "whole" / "config.yaml"),
        asr_model_file=str(tmp_path / "whole" / "valid.loss.ave.pth"),
        beam_size=2,
        ctc_weight=1.0,
        device="cpu",
    )
    encoder = recogniser.asr_model.encoder
    assert type(encoder).__name__ == "LongFastConformerEncoder" and not encoder.training
    speech = np.load(data / "u0.npy")
    hypotheses = recogniser(speech)
    assert set(hypotheses[0][1]) <= set(TOKENS) and np.isfinite(
        float(hypotheses[0][3].score)
    )
