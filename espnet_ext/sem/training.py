"""Training of an encoder that grows, in ESPnet's own trainer (P2, section 4).

:class:`GrowingASRTask` is ESPnet's ASR task with one more setting, ``stages``: a list
of :class:`espnet_ext.sem.pretraining.Stage`. The model is built whole. A stage trains
some of its layers, without label smoothing, on the utterances of its shape file; after
the stages the whole model is trained on those of ``train_shape_file``. New layers begin
with the values that they were built with. Epochs are counted through all stages, so
that each has its own order of the utterances and its own random numbers. The moments of
the optimiser begin anew whenever the network changes, as in RETURNN, which trained P2's
reference [17].
``patience`` and the best epochs count from when the network is whole.
"""

import argparse
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import yaml
from espnet2.iterators.abs_iter_factory import AbsIterFactory
from espnet2.tasks.asr import ASRTask
from espnet2.train import trainer
from espnet2.train.distributed_utils import DistributedOption
from espnet2.train.reporter import Reporter
from espnet2.train.trainer import Trainer, TrainerOptions
from espnet2.utils.build_dataclass import build_dataclass

from espnet_ext.errors import InputError
from espnet_ext.sem.pretraining import Stage
from espnet_ext.upstream.unused_parameters import expect_all_gradients
from espnet_ext.work.settings import check_settings


def read_stages(values: Sequence[Mapping[str, Any]]) -> list[Stage]:
    """Check the setting ``stages``.

    Raises InputError: an unknown key, or a value out of range.
    """
    is_list = isinstance(values, list)
    if not is_list or not all(isinstance(each, dict) for each in values):
        raise InputError(f"stages is {values!r}, but must be a list of mappings")
    stages = []
    for number, value in enumerate(values):
        stages.append(check_settings(Stage, value, f"stages[{number}]"))
    return stages


def find_stage(stages: Sequence[Stage], epoch: int) -> tuple[int, bool]:
    """Return the number of an epoch's stage, and whether the epoch is its first.

    The number is ``len(stages)`` after them.
    """
    first = 1
    for number, stage in enumerate(stages):
        if epoch < first + stage.epochs:
            return number, epoch == first
        first += stage.epochs
    return len(stages), epoch == first


def begin_epoch(
    model: Any,
    optimizers: Sequence[torch.optim.Optimizer],
    stages: Sequence[Stage],
    epoch: int,
    label_smoothing: float,
) -> None:
    """Give a model the network of an epoch.

    The optimisers forget their moments if the network is another one than before.
    ``label_smoothing`` is used when the stages are over.
    """
    networks = [stage.network for stage in stages]
    number, is_first = find_stage(stages, epoch)
    is_last = number == len(stages)
    if is_last:
        model.encoder.use_all()
    else:
        model.encoder.use(**networks[number])
    loss = model.criterion_att
    loss.smoothing = label_smoothing if is_last else 0.0
    # ESPnet's loss computes this from the smoothing only when it is built.
    loss.confidence = 1.0 - loss.smoothing
    # Only at the first epoch of a stage: a training resumed within it keeps the moments
    # that its checkpoint has.
    if is_first and number and (is_last or networks[number] != networks[number - 1]):
        for optimizer in optimizers:
            optimizer.state.clear()
    logging.info(
        f"epoch {epoch}: {'the whole network' if is_last else networks[number]}"
    )


@dataclass
class GrowthOptions(TrainerOptions):
    """ESPnet's options of a trainer, with those of the stages."""

    stages: list = field(default_factory=list)
    model_conf: dict = field(default_factory=dict)
    # Whether the whole network has unused parameters. Without a type it is no field of
    # the dataclass: ESPnet would look for an option of that name.
    unused_when_whole = False


class GrowthReporter(Reporter):
    """Let ESPnet's reporter rate epochs of the whole network better than others.

    ``whole``: the first of them.
    """

    def __init__(self, whole: int):
        super().__init__()
        self.whole = whole

    def sort_epochs_and_values(
        self,
        key: str,
        key2: str,
        mode: str,
    ) -> list[tuple[int, float]]:
        """Return epochs and values, best to worst, those of the whole network first."""
        return sorted(
            super().sort_epochs_and_values(key, key2, mode),
            key=lambda item: item[0] < self.whole,
        )

    def get_best_epoch(self, key: str, key2: str, mode: str, nbest: int = 0) -> int:
        """Return the best epoch of the whole network.

        Return the current epoch while the network grows, so that patience waits.
        """
        best = super().get_best_epoch(key, key2, mode, nbest)
        return best if best >= self.whole else self.get_epoch()


class GrowingTrainer(Trainer):
    """ESPnet's trainer, which gives the model its network before each epoch."""

    @classmethod
    def run(cls, *, trainer_options: Any, **others: Any) -> None:
        """Train as ESPnet does; the reporter knows when the network is whole."""
        stages = read_stages(trainer_options.stages)
        whole = 1 + sum(stage.epochs for stage in stages)
        trainer_options.unused_when_whole = trainer_options.unused_parameters
        # Several processes would wait for gradients of layers that a stage leaves out.
        if stages:
            trainer_options.unused_parameters = True
        # ESPnet's run() builds its reporter itself, from this name of its module.
        trainer.Reporter = partial(GrowthReporter, whole)
        try:
            super().run(trainer_options=trainer_options, **others)
        finally:
            trainer.Reporter = Reporter

    @classmethod
    def build_options(cls, args: argparse.Namespace) -> TrainerOptions:
        """Take the options from those of the task."""
        return build_dataclass(GrowthOptions, args)

    @classmethod
    def train_one_epoch(
        cls,
        *,
        model: Any,
        optimizers: Any,
        reporter: Any,
        options: Any,
        **others: Any,
    ) -> bool:
        """Train an epoch as ESPnet does."""
        stages = read_stages(options.stages)
        label_smoothing = options.model_conf.get("lsm_weight", 0.0)
        number, _ = find_stage(stages, reporter.get_epoch())
        if number == len(stages) and not options.unused_when_whole:
            expect_all_gradients(model)
        # With several processes the model is inside of DistributedDataParallel.
        bare_model = getattr(model, "module", model)
        epoch = reporter.get_epoch()
        begin_epoch(bare_model, optimizers, stages, epoch, label_smoothing)
        return super().train_one_epoch(
            model=model,
            optimizers=optimizers,
            reporter=reporter,
            options=options,
            **others,
        )


class StagedIterFactory(AbsIterFactory):
    """Give the batches of each stage by epoch.

    ``factories``: ESPnet's for each stage, and last the one for the epochs after them.
    """

    def __init__(self, stages: Sequence[Stage], factories: Sequence[AbsIterFactory]):
        self.stages = stages
        self.factories = factories

    def build_iter(self, epoch: int, shuffle: bool | None = None) -> Any:
        """Return the batches of an epoch, counted from 1 through all stages."""
        number, _ = find_stage(self.stages, epoch)
        return self.factories[number].build_iter(epoch, shuffle)


class GrowingASRTask(ASRTask):
    """ESPnet's ASR task with ``stages`` (see the module's description)."""

    trainer = GrowingTrainer

    @classmethod
    def add_task_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """Add ESPnet's options and that of this task."""
        super().add_task_arguments(parser)
        parser.add_argument(
            "--stages",
            type=yaml.safe_load,
            default=[],
            help="stages of the growth, as a list in YAML",
        )

    @classmethod
    def main_worker(cls, args: argparse.Namespace) -> None:
        """Train as ESPnet does; InputError for bad stages."""
        read_stages(args.stages)
        super().main_worker(args)

    @classmethod
    def build_iter_factory(
        cls,
        args: argparse.Namespace,
        distributed_option: DistributedOption,
        mode: str,
        kwargs: dict | None = None,
    ) -> AbsIterFactory:
        """Build ESPnet's iterator factory, for training one that follows the stages."""
        build = super().build_iter_factory
        final = build(args, distributed_option, mode, kwargs)
        if mode != "train":
            return final
        stages = read_stages(args.stages)
        # Stages with the same utterances share a factory: ESPnet reads shape files of a
        # million lines for each.
        made = {(*args.train_shape_file, args.num_iters_per_epoch): final}
        for stage in stages:
            key = (stage.shape_file, stage.num_iters_per_epoch)
            if key not in made:
                changes = {
                    "shape_files": [stage.shape_file],
                    "num_iters_per_epoch": stage.num_iters_per_epoch,
                }
                made[key] = build(args, distributed_option, mode, changes)
        factories = []
        for stage in stages:
            factories.append(made[stage.shape_file, stage.num_iters_per_epoch])
        return StagedIterFactory(stages, [*factories, final])
