"""The patches of ESPnet's tasks and trainings, each beside ESPnet as installed."""

import importlib
import logging
from dataclasses import fields
from importlib.metadata import EntryPoint, version
from types import SimpleNamespace

import pytest
import torch
from patched import (
    CATEGORIES,
    CHOICES,
    INFERENCE,
    INIT_PARAM,
    SEQUENCES,
    TASK,
    TRAINER,
    apply,
    module_name,
)

from espnet_ext.upstream import random_numbers, whole_checkpoints

pytestmark = pytest.mark.skipif(
    version("espnet").partition(".")[0] != "202611",
    reason="the patches are for ESPnet 202611",
)

# options of ESPnet's trainer that are off in the smallest training
FLAGS = (
    "resume",
    "use_amp",
    "grad_noise",
    "no_forward_run",
    "use_matplotlib",
    "use_tensorboard",
    "use_wandb",
    "use_adapter",
    "sharded_ddp",
    "unused_parameters",
    "create_graph_in_tensorboard",
    "gradient_as_bucket_view",
)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Return a function that gives a module as it is installed, and patched."""
    patched = apply(tmp_path_factory.mktemp("espnet"))

    def load(name):
        return importlib.import_module(module_name(name)), patched(name)

    return load


@pytest.fixture(autouse=True)
def espnets_own(monkeypatch):
    """Undo what our trainings, which other tests run, have changed in this process."""
    monkeypatch.setattr(torch, "save", whole_checkpoints._save)
    for name in (SEQUENCES, CATEGORIES):
        module = importlib.import_module(module_name(name))
        monkeypatch.setattr(module, "worker_init_fn", random_numbers._seed_worker)


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint without the bias of a small model, and that model's class."""
    from espnet2.train.abs_espnet_model import AbsESPnetModel

    class Small(AbsESPnetModel):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

        def forward(self, **batch):
            raise NotImplementedError

        def collect_feats(self, **batch):
            raise NotImplementedError

    state = Small().state_dict()
    del state["layer.bias"]
    torch.save(state, tmp_path / "model.pth")
    (tmp_path / "config.yaml").write_text("seed: 0\n")
    return tmp_path / "model.pth", Small


def test_what_a_checkpoint_lacks_is_reported(both, checkpoint, caplog):
    path, model = checkpoint

    def load(module, **options):
        task = type("Task", (module.AbsTask,), {})
        task.build_model = classmethod(lambda cls, args: model())
        build = module.AbsTask.__dict__["build_model_from_file"].__func__
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            # past what espnet_ext's own programs put around it
            getattr(build, "__wrapped__", build)(task, None, str(path), **options)
        return caplog.text

    installed, patched = both(TASK)
    assert "layer.bias" not in load(installed)
    assert "layer.bias" in load(patched)
    with pytest.raises(RuntimeError, match=r"layer\.bias"):
        load(patched, strict=True)


class Unfinished:
    """Breaks off while it is saved, as a full disk does."""

    def __reduce__(self):
        raise OSError("no space left")


def test_a_checkpoint_is_replaced_only_by_a_complete_one(both, tmp_path):
    _, patched = both(TRAINER)
    path = tmp_path / "checkpoint.pth"
    patched.save_completely({"epoch": 1}, path)
    # Large tensors go to disk before the object that fails.
    broken = [torch.zeros(1000), Unfinished()]
    with pytest.raises(OSError):
        patched.save_completely(broken, path)
    assert torch.load(path) == {"epoch": 1}
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OSError):
        torch.save(broken, path)  # what ESPnet calls
    with pytest.raises(Exception):  # noqa: B017 - torch raises many kinds
        torch.load(path)


@pytest.mark.parametrize("name", [SEQUENCES, CATEGORIES])
def test_each_gpu_draws_its_own_numbers(both, name, monkeypatch):
    def draw(module, rank):
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
        module.worker_init_fn(3, base_seed=5)
        return module.random.random()

    installed, patched = both(name)
    own = {rank: draw(installed, rank) for rank in (0, 1)}
    new = {rank: draw(patched, rank) for rank in (0, 1)}
    assert own[0] == own[1]
    assert new[0] != new[1]
    assert new[0] == own[0]


def test_sets_are_decoded_by_the_recogniser_that_is_there(both, tmp_path):
    installed, patched = both(INFERENCE)
    data = ("--data_path_and_name_and_type", "wav.scp,speech,sound")
    words = ["--output_dir", str(tmp_path), *data]
    options = vars(patched.get_parser().parse_args(words))
    del options["config"]
    batch = {"speech": torch.zeros(1, 8), "speech_lengths": torch.tensor([8])}

    class Task:
        build_preprocess_fn = staticmethod(lambda args, train: None)
        build_collate_fn = staticmethod(lambda args, train: None)
        build_streaming_iterator = staticmethod(lambda *a, **k: [(["u1"], batch)])

    class Recogniser(patched.Speech2Text):
        asr_train_args = None

        def __init__(self):
            """Load nothing."""

        def __call__(self, speech):
            return [("hello", ["hel", "lo"], [1, 2], SimpleNamespace(score=1.0))]

    patched.ASRTask = Task
    patched.inference(**options, speech2text=Recogniser())
    assert (tmp_path / "1best_recog" / "text").read_text() == "u1 hello\n"
    with pytest.raises(TypeError, match="speech2text"):
        installed.inference(**options, speech2text=Recogniser())


def test_classes_come_from_other_packages(both, monkeypatch):
    installed, patched = both(CHOICES)
    group = "espnet2.classes.layer"
    entries = [
        EntryPoint("mine", "torch.nn:Linear", group),
        EntryPoint("broken", "no_such_package:Layer", group),
    ]
    monkeypatch.setattr(patched, "entry_points", lambda group: entries, raising=True)
    own = {"norm": torch.nn.LayerNorm}
    new = patched.ClassChoices("layer", own, torch.nn.Module)
    assert new.get_class("mine") is torch.nn.Linear
    assert new.get_class("norm") is torch.nn.LayerNorm  # the broken one stops nobody
    with pytest.raises(ModuleNotFoundError):
        new.get_class("broken")
    with pytest.raises(ValueError):
        installed.ClassChoices("layer", own, torch.nn.Module).get_class("mine")


def test_init_param_that_loads_nothing_is_refused(both, tmp_path):
    installed, patched = both(INIT_PARAM)
    source, target = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    torch.save(source.state_dict(), tmp_path / "model.pth")
    wrong = f"{tmp_path}/model.pth:no_such_module"
    before = target.weight.clone()
    installed.load_pretrained_model(wrong, target, False)
    assert torch.equal(target.weight, before)
    with pytest.raises(ValueError, match="no_such_module"):
        patched.load_pretrained_model(wrong, target, False)
    patched.load_pretrained_model(f"{tmp_path}/model.pth", target, False)
    assert torch.equal(target.weight, source.weight)


def test_a_training_without_an_update_fails(both, tmp_path):
    """All gradients of an epoch are NaN: the trainer skips each of its steps."""
    from espnet2.iterators.abs_iter_factory import AbsIterFactory
    from espnet2.train.abs_espnet_model import AbsESPnetModel
    from espnet2.train.distributed_utils import DistributedOption

    class Scale(AbsESPnetModel):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def forward(self, speech, **others):
            loss = (self.weight * speech).sum()
            return loss, {"loss": loss.detach()}, torch.tensor(1.0)

        def collect_feats(self, **batch):
            raise NotImplementedError

    class Batches(AbsIterFactory):
        def __init__(self, value):
            self.value = value

        def build_iter(self, epoch, shuffle=None):
            yield ["u1"], {"speech": torch.tensor([[self.value]])}

    def train(module, value, folder):
        folder.mkdir()
        options = {each.name: None for each in fields(module.TrainerOptions)}
        options |= dict.fromkeys(FLAGS, False)
        options |= {
            "ngpu": 0,
            "train_dtype": "float32",
            "accum_grad": 1,
            "grad_clip": 5.0,
            "grad_clip_type": 2.0,
            "log_interval": 1,
            "output_dir": str(folder),
            "max_epoch": 2,
            "seed": 0,
            "keep_nbest_models": 1,
            "nbest_averaging_interval": 0,
            "wandb_model_log_interval": 0,
            "best_model_criterion": [("valid", "loss", "min")],
            "save_strategy": "all",
        }
        model = Scale()
        module.Trainer.run(
            model=model,
            optimizers=[torch.optim.SGD(model.parameters(), 0.1)],
            schedulers=[None],
            train_iter_factory=Batches(value),
            valid_iter_factory=Batches(1.0),
            plot_attention_iter_factory=None,
            trainer_options=module.TrainerOptions(**options),
            distributed_option=DistributedOption(),
        )
        return sorted(path.name for path in folder.glob("*epoch.pth"))

    installed, patched = both(TRAINER)
    # one epoch of two, and yet its end looks as if all were well
    assert train(installed, float("nan"), tmp_path / "installed") == ["1epoch.pth"]
    with pytest.raises(RuntimeError, match="1epoch"):
        train(patched, float("nan"), tmp_path / "patched")
    assert "2epoch.pth" in train(patched, 1.0, tmp_path / "sound")
