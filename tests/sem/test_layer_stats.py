"""The model that reports its layers' statistics against ESPnet's own model, and the
shares against numpy.
"""

import numpy as np
import pytest
import torch
from espnet2.tasks.asr import ASRTask

TOKENS = ["<blank>", "<unk>", "A", "B", "<sos/eos>"]


@pytest.fixture
def build(build_model, stats_file):
    """Return a function that builds a model with a normalisation."""

    def build(model: str, normalize: str, normalize_conf: dict):
        return build_model(
            ASRTask,
            token_list=TOKENS,
            frontend="power_mel",
            frontend_conf={},
            normalize=normalize,
            normalize_conf={"stats_file": str(stats_file)} | normalize_conf,
            encoder="blstm_maxpool",
            encoder_conf={"num_layers": 3, "hidden_size": 8},
            decoder="rnn",
            decoder_conf={"hidden_size": 8},
            model=model,
        )

    return build


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    speech = torch.randn(3, 16000, generator=generator) * torch.linspace(
        0.01, 1.0, 16000
    )
    return {
        "speech": speech,
        "speech_lengths": torch.tensor([16000, 12000, 5000]),
        "text": torch.tensor([[2, 3, 2], [3, 3, -1], [2, -1, -1]]),
        "text_lengths": torch.tensor([3, 2, 1]),
    }


def test_all_but_the_share_is_espnets(build, batch):
    models = [
        build(name, "sem_global_mvn", {}) for name in ("espnet", "espnet_layer_stats")
    ]
    assert list(models[0].state_dict()) == list(models[1].state_dict())
    results = []
    for model in models:
        torch.manual_seed(3)
        results.append(model.train()(**batch))
    (loss, stats, weight), (our_loss, our_stats, our_weight) = results
    assert torch.equal(loss, our_loss) and torch.equal(weight, our_weight)
    assert set(our_stats) - set(stats) == {"masked"}
    assert (
        our_stats["masked"].shape == our_stats["loss"].shape
    )  # as DataParallel gathers it
    assert "masked" not in models[1].eval()(**batch)[1]


@pytest.mark.parametrize(
    ("normalize", "conf"),
    [
        ("sem_global_mvn", {"eta_min": -25.0, "eta_max": -5.0}),
        ("dropout_global_mvn", {"dropout_rate": 0.3}),
    ],
)
def test_the_share_is_that_of_the_zeros(build, batch, normalize, conf):
    """A masked bin of the normalised features is 0; hardly any other is, of real
    numbers.
    """
    model = build("espnet_layer_stats", normalize, conf)
    seen = []
    model.encoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs))
    stats = model.train()(**batch)[1]
    features, lengths = seen[0]
    shares = [
        (row[:length] == 0).double().mean().item()
        for row, length in zip(features, lengths, strict=True)
    ]
    assert stats["masked"].item() == pytest.approx(np.mean(shares), abs=1e-6)
    assert 0.1 < stats["masked"].item() < 0.95
