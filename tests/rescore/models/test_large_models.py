"""Language models of today at the size of toys: bfloat16, activations computed again,
several processes.
"""

import json
from pathlib import Path

import pytest
import torch
from transformers import XLNetConfig, XLNetLMHeadModel

from espnet_ext.errors import InputError
from espnet_ext.rescore import devices
from espnet_ext.rescore.models.causal import CausalScorer
from espnet_ext.rescore.models.scorers import load_lm, score_lists
from espnet_ext.rescore.training.mwer import MwerLoss, backward, make_examples
from espnet_ext.rescore.training.mwer_training import train_rescorer
from espnet_ext.text.nbest import Hypothesis, NBest, write_nbest
from espnet_ext.work import gpus

TEXTS = [
    ["the cat sat on the mat", "the cat sat on mat", "a cat on the mat", "the cat sat"],
    ["sat the cat", "cat"],
]
LISTS = [
    NBest(
        "u1",
        (Hypothesis("sat cat the", -1.0), Hypothesis("the cat sat", -2.0)),
        "the cat sat",
    ),
    NBest(
        "u2", (Hypothesis("mat on", -1.0), Hypothesis("on the mat", -2.0)), "on the mat"
    ),
    NBest(
        "u3", (Hypothesis("cat the the", -1.0), Hypothesis("the cat", -2.0)), "the cat"
    ),
]


@pytest.fixture
def llama(saved) -> Path:
    return saved("llama")


def flat(lists) -> torch.Tensor:
    return torch.tensor([score for own in lists for score in own])


def test_bfloat16_scores_are_those_of_float32_but_for_rounding(llama):
    exact, half = (
        flat(score_lists(load_lm(llama, dtype=dtype), TEXTS))
        for dtype in ("float32", "bfloat16")
    )
    assert load_lm(llama, dtype="bfloat16").model.dtype == torch.bfloat16
    assert 0 < (exact - half).abs().max() < 0.03 * exact.abs().max()


def config(llama: Path, **more: object) -> dict:
    return {
        "lm": str(llama),
        "scorer": "causal",
        "batch_size": 2,
        "lr": 0.05,
        "epochs": 8,
        "evaluate_every": 4,
        **more,
    }


def trained(
    values: dict, lists: list[Path], dev: list[Path], output: Path, log=print
) -> dict:
    train_rescorer(values, lists, dev, output, log=log)
    return json.loads((output / "training.json").read_text())


def gradients(scorer: CausalScorer) -> dict[str, torch.Tensor]:
    return {
        name: parameter.grad.clone()
        for name, parameter in scorer.named_parameters()
        if parameter.grad is not None
    }


def test_activations_that_are_computed_again_give_the_same_gradients(llama):
    found = []
    for again in (False, True):
        scorer = load_lm(llama)
        scorer.prepare_training(again, amp=False)
        backward(scorer.train(), make_examples(LISTS), MwerLoss())
        found.append(gradients(scorer))
    assert found[0].keys() == found[1].keys()
    for name, gradient in found[0].items():
        torch.testing.assert_close(gradient, found[1][name])


def test_two_processes_train_as_one(llama, tmp_path, capfd):
    write_nbest(tmp_path / "lists.jsonl", LISTS)
    lists = [tmp_path / "lists.jsonl"]
    values = {
        **config(llama),
        "max_steps": 4,
        "checkpoint_minutes": 1e-6,
        "first_pass_weight": 1.0,
    }
    devices.launch(train_rescorer, 2, values, lists, lists, tmp_path / "two", ngpu=0)
    assert capfd.readouterr().out.count("4 updates") == 1  # the first one prints
    two = json.loads((tmp_path / "two" / "training.json").read_text())
    alone = trained(values, lists, lists, tmp_path / "one")
    for mine, other in zip(alone["history"], two["history"], strict=True):
        assert mine == pytest.approx(other, rel=1e-3)
    assert (two["key"]["processes"], alone["key"]["processes"]) == (2, 1)
    missing = [tmp_path / "none.jsonl"]
    with pytest.raises(InputError, match="^[^\n]*none.jsonl: no such file[^\n]*$"):
        devices.launch(
            train_rescorer, 1, values, missing, lists, tmp_path / "three", ngpu=0
        )


def test_several_gpus_that_are_not_there_are_refused(llama, tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "count_gpus", lambda: 1)
    with pytest.raises(InputError, match="--ngpu 2: .* 1 GPU"):
        train_rescorer(config(llama), [], [], tmp_path, ngpu=2)


def test_amp_computes_in_bfloat16_and_keeps_parameters_in_float32(llama, tmp_path):
    exact, half = load_lm(llama), load_lm(llama)
    half.prepare_training(False, amp=True)
    scores = [flat(score_lists(scorer.eval(), TEXTS)) for scorer in (exact, half)]
    assert 0 < (scores[0] - scores[1]).abs().max() < 0.03 * scores[0].abs().max()
    for scorer in (exact, half):
        backward(scorer.train(), make_examples(LISTS), MwerLoss())
    of_exact, of_half = gradients(exact), gradients(half)
    assert {gradient.dtype for gradient in of_half.values()} == {torch.float32}
    norms = torch.stack([gradient.norm() for gradient in of_exact.values()]).norm()
    apart = torch.stack(
        [(of_exact[name] - of_half[name]).norm() for name in of_exact]
    ).norm()
    assert 0 < apart < 0.1 * norms
    write_nbest(tmp_path / "lists.jsonl", LISTS)
    path = tmp_path / "lists.jsonl"
    report = trained(
        config(llama, amp=True, first_pass_weight=1.0), [path], [path], tmp_path / "out"
    )
    errors = {each["step"]: each["dev_mwer"] for each in report["history"]}
    assert report["best_step"] > 0 and errors[report["best_step"]] < 0.5 * errors[0]


def test_a_model_that_sees_later_tokens_is_refused(make_lm):
    """XLNet is among transformers' causal models, but its states depend on all tokens
    of its input.
    """
    _, tokenizer = make_lm("gpt2")
    torch.manual_seed(0)
    network = XLNetLMHeadModel(
        XLNetConfig(
            vocab_size=len(tokenizer), d_model=16, n_layer=2, n_head=2, d_inner=32
        )
    )
    for parameter in network.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    with pytest.raises(
        InputError, match="xlnet: its hidden states depend on later tokens"
    ):
        score_lists(CausalScorer(network, tokenizer).eval(), [["the cat"]])
