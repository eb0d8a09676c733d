"""Every plugin on a device that refuses mixed devices: forward, backward and search,
with the results of the CPU.
"""

from typing import Any

import pytest
import tiny_scorers
import torch
from small_systems import SEARCHES, SYSTEMS, SmallSystem, search_beams, write_files
from strict_tensor import strict_device

from espnet_ext.registry import PLUGINS
from espnet_ext.rescore.training.mwer import Example, MwerLoss, backward
from espnet_ext.text.nbest import Hypothesis, NBest

SCHEDULERS = {
    "newbob_multi_epoch": {"warmup_epochs": 1, "start_lr": 1e-4},
    "warmup_cosine": {"warmup_steps": 1, "total_steps": 4},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("files"))


def build(system: SmallSystem, folder) -> Any:
    if "encoder.d_vectors" in system.plugins:
        pytest.importorskip("resemblyzer")
    model = system.build(folder)
    for module in model.modules():  # random numbers of a GPU are others
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def train_once(system: SmallSystem, model: Any, device: str) -> float:
    """Take an update with the system's optimizer and scheduler; return the loss."""
    from espnet2.tasks.abs_task import optim_classes, scheduler_classes

    batch = {key: value.to(device) for key, value in system.make_batch().items()}
    torch.manual_seed(1)  # masks of Small Energy Masking and spectrograms
    loss = model.train()(**batch)[0]
    loss.mean().backward()
    optimizer = optim_classes[system.config.get("optim", "adam")](
        [each for each in model.parameters() if each.requires_grad], lr=1e-3
    )
    name = system.config.get("scheduler")
    if name:
        scheduler_classes[name](optimizer, **SCHEDULERS[name])
    optimizer.step()
    return float(loss.mean())


def test_no_plugin_is_left_out():
    assert PLUGINS.keys() <= set().union(*(each.plugins for each in SYSTEMS.values()))


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_trains_and_searches_as_on_the_cpu(name, folder):
    system = SYSTEMS[name]
    model = build(system, folder)
    random = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        if parameter.dim() > 1 and parameter.requires_grad:
            parameter.data = 0.3 * torch.randn(parameter.shape, generator=random)
    search = SEARCHES[system.search]
    with torch.no_grad():
        expected = search(model.eval(), system.make_batch())
    expected_loss = train_once(system, build(system, folder), "cpu")
    with strict_device():
        on_device = build(system, folder).to("cuda")
        assert train_once(system, on_device, "cuda") == pytest.approx(expected_loss)
        trained = [each for each in on_device.parameters() if each.requires_grad]
        assert all(each.device.type == "cuda" for each in trained)
        batch = {key: each.to("cuda") for key, each in system.make_batch().items()}
        with torch.no_grad():
            assert search(model.to("cuda").eval(), batch) == expected


@pytest.mark.parametrize(
    "name", [name for name, system in SYSTEMS.items() if system.search == "beam"]
)
def test_a_step_of_the_search_waits_once(name, folder):
    model = build(SYSTEMS[name], folder).eval()
    batch = SYSTEMS[name].make_batch()
    with strict_device() as record, torch.no_grad():
        model = model.to("cuda")
        batch = {key: each.to("cuda") for key, each in batch.items()}
        record.reset()
        found = search_beams(model, batch)
        steps = max(len(tokens) - 1 for nbest in found for tokens in nbest)
        waits = {
            key: count for key, count in record.waits.items() if "fast_search" in key[1]
        }
        # what comes before and after the steps happens once an utterance
        assert max(waits.values()) <= steps + 2, record.waits
        each_step = [key for key, count in record.waits.items() if count >= steps - 1]
        assert len(each_step) == 1, record.waits


SENTENCES = ["THE CAT SAT", "A CAT SAT ON A MAT", "THE DOG RAN"]


# not pooled by attention: the product of a vector and a matrix changes a tensor's shape
# in place, which StrictTensor cannot follow
@pytest.mark.parametrize("which", ["gpt2", "bert", "gpt2-last", "bert-cls"])
def test_rescorers_train_and_score_as_on_the_cpu(which):
    def train_and_score(device: str) -> tuple[dict[str, float], list[float]]:
        scorer = tiny_scorers.make_scorer(which, SENTENCES).to(device)
        scorer.model.tie_weights()  # which StrictTensor has copied one by one
        scores = [Hypothesis(text, -number) for number, text in enumerate(SENTENCES)]
        batch = [Example(NBest("a", tuple(scores), SENTENCES[0]), (0, 4, 2))]
        loss = MwerLoss(ce_weight=0.0 if "-" in which else 0.01)
        values = backward(scorer, batch, loss)
        gradients = [each.grad for each in scorer.parameters() if each.requires_grad]
        norm = sum(each.norm() ** 2 for each in gradients if each is not None)
        with torch.no_grad():
            terms = [scorer(chunk)[0].sum() for chunk in scorer.chunks([SENTENCES])]
        return values, [float(norm), *map(float, terms)]

    expected_values, expected = train_and_score("cpu")
    with strict_device():
        values, found = train_and_score("cuda")
    assert values == pytest.approx(expected_values)
    assert found == pytest.approx(expected, rel=1e-4)
