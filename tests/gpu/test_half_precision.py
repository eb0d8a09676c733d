"""Losses and gradients under autocast, on the CPU: finite in bfloat16, and in float16,
whose largest number is 65,504 and whose least is 6e-8.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import tiny_scorers
import torch
from small_systems import SYSTEMS, write_files

from espnet_ext.rescore.training.mwer import Example, MwerLoss, backward
from espnet_ext.text.nbest import Hypothesis, NBest

HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}
# of the loss in float32: a number has 8 digits of 2 in bfloat16, and 11 in float16
TOLERANCE = {"bfloat16": 0.1, "float16": 0.02}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(autouse=True)
def features_as_on_a_gpu(monkeypatch) -> Iterator[None]:
    """ESPnet computes features in float32, but switches only a GPU's autocast off."""
    from espnet2.asr import espnet_model

    def on_cpu(device: str, **options: Any) -> torch.autocast:
        return torch.autocast("cpu", **options)

    monkeypatch.setattr(espnet_model, "autocast", on_cpu)
    # oneDNN has no LSTM in float16
    with torch.backends.mkldnn.flags(enabled=False):
        yield


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_loss_is_finite_and_near_that_of_float32(name, dtype, folder):
    system = SYSTEMS[name]
    if "encoder.d_vectors" in system.plugins:
        pytest.importorskip("resemblyzer")
    model = system.build(folder).train()
    losses = []
    for enabled in (False, True):
        torch.manual_seed(1)
        model.zero_grad()
        with torch.autocast("cpu", HALF[dtype], enabled=enabled):
            loss = model(**system.make_batch())[0].mean()
        loss.backward()
        losses.append(float(loss))
    assert losses[1] == pytest.approx(losses[0], rel=TOLERANCE[dtype])
    gradients = {
        key: each.grad
        for key, each in model.named_parameters()
        if each.grad is not None
    }
    assert [key for key, each in gradients.items() if not each.isfinite().all()] == []


@pytest.mark.parametrize("which", ["gpt2", "bert", "gpt2-last", "bert-attention"])
def test_a_rescorer_trains_in_bfloat16(which):
    texts = ["THE CAT SAT", "A CAT SAT ON A MAT", "THE DOG RAN"]
    hypotheses = tuple(Hypothesis(text, -number) for number, text in enumerate(texts))
    batch = [Example(NBest("a", hypotheses, texts[0]), (0, 4, 2))]
    losses = []
    for amp in (False, True):
        scorer = tiny_scorers.make_scorer(which, texts)
        scorer.prepare_training(gradient_checkpointing=False, amp=amp)
        losses.append(backward(scorer, batch, MwerLoss())["loss"])
        gradients = [each.grad for each in scorer.parameters() if each.grad is not None]
        assert all(each.isfinite().all() for each in gradients)
    assert losses[1] == pytest.approx(losses[0], abs=0.2)
