"""Train a scorer: updates, evaluations, the best model kept.

A killed training resumes with the same numbers.

MWER has a gradient for each chunk of a batch, so the updates are written out here;
Accelerate has the processes and the states of a resumed training. Processes have the
whole model and share a batch, whose gradients are summed. The folder holds
``checkpoint<N>/``, what resuming needs; ``model/``, the best so far; ``training.json``,
written last.
"""

import hashlib
import json
import math
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import gather_object
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from espnet_ext.errors import InputError
from espnet_ext.rescore.devices import is_main, mute_unless_main, take_share
from espnet_ext.rescore.training import REPORT
from espnet_ext.rescore.training.settings import TrainingSettings
from espnet_ext.upstream.checkpoint import load_checkpoint
from espnet_ext.work.files import write_json

MODEL = "model"
# In a checkpoint, beside the states that Accelerate writes.
WEIGHTS = "weights.pth"
PROGRESS = "progress.json"
BEGUN = ".begun"  # marks the folder of a training that has not written a checkpoint yet
CHECKPOINT = re.compile(r"checkpoint(\d+)")
RANK_SEED = 7919  # a prime, by which seeds of processes differ: so dropout does, too
PROGRESS_SECONDS = 30.0  # between lines in the log
# Batches whose examples are drawn together and sorted by length: enough for little
# padding, few enough for the same examples not to meet in each epoch.
SORTED_BATCHES = 50


@dataclass(frozen=True)
class TrainingTask:
    """Say what is trained, on what, and how it is evaluated."""

    module: nn.Module  # the model, on its device
    examples: Sequence[Any]
    # adds the gradient of a batch; returns numbers to log
    backward: Callable[[list[Any]], dict[str, float]]
    # returns numbers on the development sets; draws no random numbers
    evaluate: Callable[[], dict[str, float]]
    # the model with the smallest of these numbers is best; later ones break ties
    best_by: tuple[str, ...]
    save: Callable[[Path], None]
    measure: Callable[[Any], int]  # returns the length of an example, in any unit


def train(
    task: TrainingTask,
    settings: TrainingSettings,
    output: Path,
    key: Mapping[str, Any],
    log: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Train, resume a killed training, or return the report of a finished one.

    The report is the contents of ``training.json``. At the end ``output/model`` is the
    best model, which may be the initial one. ``key`` is everything besides the settings
    that the result depends on; a training resumes only with the same key.
    """
    if not task.examples:
        raise InputError("there is nothing to train on: no examples")
    device = next(task.module.parameters()).device
    # Batches are split here, by take_share(); this tells the schedule that an update is
    # one step and not one for each process.
    one_step = DataLoaderConfiguration(split_batches=True)
    accelerator = Accelerator(cpu=device.type == "cpu", dataloader_config=one_step)
    made_of = {
        **settings.model_dump(exclude={"checkpoint_minutes", "group_by_length"}),
        **key,
        "processes": accelerator.num_processes,
    }
    if settings.group_by_length:
        made_of["group_by_length"] = True
    # As a checkpoint's JSON gives it back: tuples become lists.
    begun = json.loads(json.dumps(made_of))
    if (output / REPORT).exists():
        report = json.loads((output / REPORT).read_text(encoding="utf-8"))
        _check_same(output, report["key"], begun)
        _remove_marks(output)
        log(f"{output / MODEL}: trained already")
        return report
    refuse_foreign(output)
    output.mkdir(parents=True, exist_ok=True)
    (output / BEGUN).touch()
    run = _Run(task, settings, output, begun, mute_unless_main(log), accelerator)
    if run.total <= settings.warmup_steps:
        run.log(
            f"warning: all {run.total} updates are in the warm-up of "
            f"{settings.warmup_steps}: lower warmup_steps"
        )
    return run.train_to_end()


def refuse_foreign(output: Path, lm: str | Path | None = None) -> None:
    """Refuse a folder in which a training would replace a model that is not its own.

    That is ``lm``, which it begins with, or one of another origin.
    """
    model = output / MODEL
    if lm is not None and Path(lm).is_dir():
        begins_with = Path(lm).resolve()
        if begins_with in (output.resolve(), model.resolve()):
            raise InputError(
                f"{output}: holds {lm}, the model to begin with: name another folder "
                "for the training"
            )
    marks = [output / BEGUN, output / REPORT, *list_checkpoints(output)]
    is_ours = any(mark.exists() for mark in marks)
    if model.exists() and not is_ours:
        raise InputError(
            f"{model} was not written by this training, which would replace it: "
            "name another folder"
        )


def list_checkpoints(output: Path) -> list[Path]:
    """Return the checkpoints in the folder of a training, the last one at the end."""
    found = []
    for path in output.glob("checkpoint*"):
        if match := CHECKPOINT.fullmatch(path.name):
            found.append((int(match[1]), path))
    return [path for _, path in sorted(found)]  # by number: 9 before 10


def _remove_marks(output: Path) -> None:
    """Remove what a training needs to resume, once it has ended."""
    if is_main():
        for folder in (*list_checkpoints(output), *output.glob(".checkpoint*")):
            shutil.rmtree(folder)
        (output / BEGUN).unlink(missing_ok=True)


class _Run:
    """A running training: what changes from update to update, and its checkpoints."""

    def __init__(
        self,
        task: TrainingTask,
        settings: TrainingSettings,
        output: Path,
        key: dict,
        log: Callable[[str], None],
        accelerator: Accelerator,
    ):
        from transformers import get_linear_schedule_with_warmup

        self.task = task
        self.settings = settings
        self.output = output
        self.key = key
        self.log = log
        self.accelerator = accelerator
        self.total = settings.count_updates(len(task.examples))
        self.parameters = [
            parameter
            for parameter in task.module.parameters()
            if parameter.requires_grad
        ]
        optimizer = torch.optim.AdamW(
            self.parameters, lr=settings.lr, weight_decay=0.0, fused=True
        )
        scheduler = get_linear_schedule_with_warmup(
            optimizer, settings.warmup_steps, self.total
        )
        self.optimizer, self.scheduler = accelerator.prepare(optimizer, scheduler)
        self.step = 0
        self.history: list[dict[str, float]] = []
        self.seconds = 0.0  # of all that was done, also before it was killed
        self.updating = 0.0  # of updates, without evaluations
        # of the updates since the last evaluation
        self.logged: list[dict[str, float]] = []
        # the number of an epoch, and the examples of its batches
        self._batches: tuple[int, list[list[int]]] = (-1, [])

    def train_to_end(self) -> dict[str, Any]:
        """Update and evaluate until all updates are done; return the report."""
        if found := list_checkpoints(self.output):
            self._resume(found[-1])
            self.log(f"resumes after {self.step} of {self.total} updates")
        else:
            rank = self.accelerator.process_index
            torch.manual_seed(self.settings.seed + RANK_SEED * rank)
            self._evaluate()  # the initial model may be the best
        every = self.settings.evaluate_every or max(1, self.total // 10)
        began = said = saved = time.monotonic()
        while self.step < self.total:
            self.logged.append(self._update())
            now = time.monotonic()
            if now - said >= PROGRESS_SECONDS:
                said = now
                self.log(f"{self.step:6d}/{self.total}")
            evaluates = self.step % every == 0 or self.step == self.total
            # Process 0 decides for all: their clocks differ, and all must save at once.
            is_late = now - saved >= 60 * self.settings.checkpoint_minutes
            late, *_ = gather_object([is_late])
            if evaluates or late:
                self.seconds += now - began
                self.updating += now - began
                if evaluates:
                    self._evaluate()
                else:
                    self._write_checkpoint()
                began = saved = time.monotonic()
        return self._finish()

    def _update(self) -> dict[str, float]:
        self.task.module.train()
        self.optimizer.zero_grad()
        batch = self._choose_batch()
        # The last batch of an epoch may have fewer examples than there are processes.
        own = take_share(batch)
        numbers = self.task.backward(own) if own else {}
        # A share's gradient is a mean over its examples.
        self._sum_gradients(len(own) / len(batch))
        norm = nn.utils.clip_grad_norm_(self.parameters, self.settings.grad_clip)
        if not norm.isfinite():
            raise InputError(
                f"{self.output}: update {self.step + 1}: no finite gradient: it "
                "has diverged: lower lr"
            )
        self.optimizer.step()
        self.scheduler.step()
        self.step += 1
        return _average_numbers(gather_object([(len(own), numbers)]))

    def _sum_gradients(self, weight: float) -> None:
        """Replace each gradient by the weighted sum over processes.

        A missing gradient is zero.
        """
        if self.accelerator.num_processes == 1:
            return
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [
            parameter.grad
            for parameter in self.parameters
            if parameter.grad is not None
        ]
        # In one vector: each exchange costs time, however short what it sends.
        own = parameters_to_vector(gradients).mul_(weight)
        total = self.accelerator.reduce(own, "sum")
        vector_to_parameters(total, gradients)

    def _choose_batch(self) -> list[Any]:
        """Return the examples of the next update."""
        count = len(self.task.examples)
        updates_per_epoch = math.ceil(count / self.settings.batch_size)
        epoch, number = divmod(self.step, updates_per_epoch)
        known, batches = self._batches
        if known != epoch:
            batches = self._draw_batches(epoch)
            self._batches = (epoch, batches)
        return [self.task.examples[index] for index in batches[number]]

    def _draw_batches(self, epoch: int) -> list[list[int]]:
        """Draw the batches of an epoch: numbers of examples, each once."""
        # They depend only on the seed and the number of the epoch, so that a resumed
        # training sees what it would have seen; a prime keeps seeds and epochs apart.
        seed = self.settings.seed * 1_000_003 + epoch
        generator = torch.Generator().manual_seed(seed)
        examples = self.task.examples
        order = torch.randperm(len(examples), generator=generator).tolist()
        size = self.settings.batch_size
        if not self.settings.group_by_length:
            return cut_evenly(order, size)
        lengths = [self.task.measure(example) for example in examples]
        pools = cut_evenly(order, size * SORTED_BATCHES)
        batches = []
        for pool in pools:
            batches += cut_evenly(sorted(pool, key=lengths.__getitem__), size)
        # Not from short to long: the learning rate changes meanwhile.
        turns = torch.randperm(len(batches), generator=generator).tolist()
        return [batches[turn] for turn in turns]

    def _evaluate(self) -> None:
        """Evaluate, keep the model if it is the best, and write the checkpoint."""
        self.task.module.eval()
        began = time.monotonic()
        with torch.no_grad():
            evaluated = self.task.evaluate()
        # Means over the updates since the last evaluation; before the first, nothing.
        numbers: dict[str, float] = {}
        for name in self.logged[0] if self.logged else ():
            total = sum(each[name] for each in self.logged)
            numbers[name] = total / len(self.logged)
        self.logged = []
        for name, value in evaluated.items():
            numbers[f"dev_{name}"] = value
        self.history.append({"step": self.step, **numbers})
        shown = "  ".join(f"{name} {value:.5g}" for name, value in numbers.items())
        self.log(f"{self.step:6d}/{self.total}  {shown}")
        if self._find_best() == self.step and is_main():
            self._save_model()
        self.seconds += time.monotonic() - began
        self._write_checkpoint()

    def _find_best(self) -> int:
        """Return the update with the best evaluation, the first of equals."""

        def rank(values: Mapping[str, float]) -> list[float]:
            found = [values[f"dev_{name}"] for name in self.task.best_by]
            # NaN is neither larger nor smaller, and would be the best by its place.
            return [math.inf if math.isnan(value) else value for value in found]

        return int(min(self.history, key=rank)["step"])

    def _save_model(self) -> None:
        """Replace the best model.

        Killed in between, a training resumes before this evaluation and saves it again.
        """
        partial = self.output / f".{MODEL}"
        shutil.rmtree(partial, ignore_errors=True)
        self.task.save(partial)
        shutil.rmtree(self.output / MODEL, ignore_errors=True)
        partial.rename(self.output / MODEL)

    def _write_checkpoint(self) -> None:
        """Write a checkpoint, whole or not at all, and remove the one before it."""
        final = self.output / f"checkpoint{self.step}"
        partial = self.output / f".{final.name}"
        if is_main():
            shutil.rmtree(partial, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        self.accelerator.save_state(str(partial))
        self.accelerator.wait_for_everyone()
        if not is_main():
            return
        torch.save(self.task.module.state_dict(), partial / WEIGHTS)
        progress = {
            name: getattr(self, name)
            for name in ("key", "step", "history", "seconds", "updating", "logged")
        }
        write_json(partial / PROGRESS, progress)
        older = list_checkpoints(self.output)
        partial.rename(final)
        for folder in older:
            shutil.rmtree(folder)

    def _resume(self, checkpoint: Path) -> None:
        progress = json.loads((checkpoint / PROGRESS).read_text(encoding="utf-8"))
        _check_same(self.output, progress.pop("key"), self.key)
        self.task.module.load_state_dict(load_checkpoint(checkpoint / WEIGHTS))
        self.accelerator.load_state(str(checkpoint))
        for name, value in progress.items():
            setattr(self, name, value)

    def _finish(self) -> dict[str, Any]:
        last = self.history[-1]
        if not all(math.isfinite(last[f"dev_{name}"]) for name in self.task.best_by):
            raise InputError(
                f"{self.output}: after update {self.step} the evaluation is not "
                "finite: it has diverged: lower lr, and train into another folder"
            )
        report = {
            "key": self.key,
            "best_step": self._find_best(),
            "seconds": round(self.seconds, 3),
            "update_seconds": round(self.updating, 3),
            "history": self.history,
        }
        self.accelerator.wait_for_everyone()
        if not is_main():
            return report
        write_json(self.output / REPORT, report)
        _remove_marks(self.output)
        return report


def cut_evenly(items: list[int], size: int) -> list[list[int]]:
    """Cut a list into parts of one size; the last one may be shorter.

    >>> cut_evenly([5, 6, 7], 2)
    [[5, 6], [7]]
    """
    return [items[start : start + size] for start in range(0, len(items), size)]


def describe_result(output: Path, report: Mapping[str, Any]) -> str:
    """Return the result of a training, as a line to print."""
    by_step = {values["step"]: values for values in report["history"]}
    best = by_step[report["best_step"]]
    on_dev = [name for name in best if name.startswith("dev_")]
    shown = ", ".join(f"{name} {best[name]:.5g}" for name in on_dev)
    which = "the initial model, since no update was better"
    if best["step"]:
        which = f"after {best['step']} updates"
    return f"{output / MODEL}: {which}: {shown} ({report['seconds']:.0f} s of training)"


def compute_digest(values: Iterable[str | bytes]) -> str:
    """Return a hash of texts or bytes, in order, for a training's key."""
    total = hashlib.sha256()
    for value in values:
        data = value.encode() if isinstance(value, str) else value
        # With the length: else "ab", "c" would be as "a", "bc".
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


def compute_module_digest(module: nn.Module) -> str:
    """Return a hash of a model's parameters and buffers."""

    def list_parts() -> Iterator[str | bytes]:
        for name, value in module.state_dict().items():
            yield name
            flat = value.detach().cpu().contiguous().view(-1)
            # As bytes: numpy has no bfloat16.
            yield flat.view(torch.uint8).numpy().tobytes()

    return compute_digest(list_parts())


def _check_same(output: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            raise InputError(
                f"{output}: holds a training with another {name} "
                f"({old.get(name)}, now {new.get(name)}): remove the "
                "folder to train again, or give another folder"
            )


def _average_numbers(
    shares: Sequence[tuple[int, Mapping[str, float]]],
) -> dict[str, float]:
    """Average numbers of several processes over examples, whose number is first."""
    total = sum(number for number, _ in shares)
    names = next(numbers for _, numbers in shares if numbers)
    return {
        name: sum(number * own.get(name, 0.0) for number, own in shares) / total
        for name in names
    }
