"""Every plugin on a device that refuses mixed devices, with the results of the CPU.

Tried are forward, backward and search.
"""

from typing import Any

import pytest
import tiny_scorers
import torch
from small_systems import (
    SEARCHES,
    SYSTEMS,
    Batch,
    SmallSystem,
    search_beams,
    write_files,
)
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

    batch = move_batch(system.make_batch(), device)
    torch.manual_seed(1)  # masks of Small Energy Masking and spectrograms
    loss, *_ = model.train()(**batch)
    loss.mean().backward()
    make_optimizer = optim_classes[system.config.get("optim", "adam")]
    optimizer = make_optimizer(list_trained(model), lr=1e-3)
    name = system.config.get("scheduler")
    if name:
        scheduler_classes[name](optimizer, **SCHEDULERS[name])
    optimizer.step()
    return float(loss.mean())


def move_batch(batch: Batch, device: str) -> Batch:
    return {key: each.to(device) for key, each in batch.items()}


def list_trained(model: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [each for each in model.parameters() if each.requires_grad]


def test_no_plugin_is_left_out():
    tried = set()
    for system in SYSTEMS.values():
        tried |= system.plugins
    assert PLUGINS.keys() <= tried


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_trains_and_searches_as_on_the_cpu(name, folder):
    system = SYSTEMS[name]
    model = build(system, folder)
    random = torch.Generator().manual_seed(3)
    for parameter in list_trained(model):
        if parameter.dim() > 1:
            parameter.data = 0.3 * torch.randn(parameter.shape, generator=random)
    search = SEARCHES[system.search]
    with torch.no_grad():
        expected = search(model.eval(), system.make_batch())
    expected_loss = train_once(system, build(system, folder), "cpu")
    with strict_device():
        on_device = build(system, folder).to("cuda")
        loss = train_once(system, on_device, "cuda")
        assert loss == pytest.approx(expected_loss)
        for parameter in list_trained(on_device):
            assert parameter.device.type == "cuda"
        batch = move_batch(system.make_batch(), "cuda")
        with torch.no_grad():
            found = search(model.to("cuda").eval(), batch)
        assert found == expected


BY_BEAM = [name for name, system in SYSTEMS.items() if system.search == "beam"]


@pytest.mark.parametrize("name", BY_BEAM)
def test_a_step_of_the_search_waits_once(name, folder):
    model = build(SYSTEMS[name], folder).eval()
    batch = SYSTEMS[name].make_batch()
    with strict_device() as record, torch.no_grad():
        model = model.to("cuda")
        batch = move_batch(batch, "cuda")
        record.reset()
        found = search_beams(model, batch)
        lengths = []
        for nbest in found:
            lengths += [len(tokens) for tokens in nbest]
        steps = max(lengths) - 1  # the first token is there from the start
        own = []
        each_step = []
        for (what, place), count in record.waits.items():
            if "fast_search" in place:
                own.append(count)
            if count >= steps - 1:
                each_step.append((what, place))
        # what comes before and after the steps happens once an utterance
        assert max(own) <= steps + 2, record.waits
        assert len(each_step) == 1, record.waits


SENTENCES = ["THE CAT SAT", "A CAT SAT ON A MAT", "THE DOG RAN"]


# not pooled by attention: the product of a vector and a matrix changes a tensor's shape
# in place, which StrictTensor cannot follow
@pytest.mark.parametrize("which", ["gpt2", "bert", "gpt2-last", "bert-cls"])
def test_rescorers_train_and_score_as_on_the_cpu(which):
    def train_and_score(device: str) -> tuple[dict[str, float], list[float]]:
        scorer = tiny_scorers.make_scorer(which, SENTENCES).to(device)
        scorer.model.tie_weights()  # which StrictTensor has copied one by one
        hypotheses = []
        for number, text in enumerate(SENTENCES):
            hypotheses.append(Hypothesis(text, -number))
        nbest = NBest("a", tuple(hypotheses), SENTENCES[0])
        # a score of a single position has no cross entropy to add
        loss = MwerLoss(ce_weight=0.0 if "-" in which else 0.01)
        values = backward(scorer, [Example(nbest, (0, 4, 2))], loss)
        norm = 0.0
        for parameter in list_trained(scorer):
            if parameter.grad is not None:
                norm += float(parameter.grad.norm() ** 2)
        found = [norm]
        with torch.no_grad():
            for chunk in scorer.chunks([SENTENCES]):
                scores, *_ = scorer(chunk)
                found.append(float(scores.sum()))
        return values, found

    expected_values, expected = train_and_score("cpu")
    with strict_device():
        values, found = train_and_score("cuda")
    assert values == pytest.approx(expected_values)
    assert found == pytest.approx(expected, rel=1e-4)
