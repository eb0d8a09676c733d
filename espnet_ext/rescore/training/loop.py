"""Train a scorer: updates, evaluations, the best model kept. A killed training resumes and ends with the same numbers.

``transformers.Trainer`` backpropagates one loss per batch, while MWER goes through its batch in chunks. So this is our
own training loop; Accelerate starts its processes (see :mod:`espnet_ext.rescore.processes`). The folder of a training
holds:

- ``checkpoint.pth``: what resuming needs, written at each evaluation and every few minutes between them, removed when
  the training has ended. Parameters that are not trained, as with LoRA, are not in it;
- ``step<N>/``: the best model so far; in the end ``model/``;
- ``training.json``: settings, evaluations and the choice, written last: if it is there, the training is done.
"""

import hashlib
import json
import math
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from espnet_ext.errors import InputError
from espnet_ext.rescore import processes
from espnet_ext.rescore.report import REPORT
from espnet_ext.rescore.training.settings import TrainingSettings
from espnet_ext.upstream.checkpoint import load_checkpoint
from espnet_ext.work.files import atomic_write, write_json

CHECKPOINT, MODEL = "checkpoint.pth", "model"
BEGUN = ".begun"  # marks the folder of a training that has not written a checkpoint yet
STEP = re.compile(r"step\d+")
RANK_SEED = 7919  # dropout differs from process to process
PROGRESS_SECONDS = 30.0  # between lines in the log

RandomState = tuple[torch.Tensor, torch.Tensor | None]


@dataclass(frozen=True)
class TrainingTask:
    """What is trained, on what, and how it is evaluated.

    Attributes:
        module: the model, on its device.
        examples: what batches are made of.
        backward: adds a batch's gradient to the parameters, in training mode; returns numbers to log.
        evaluate: returns numbers on the development sets, in evaluation mode; it must draw no random numbers.
        best_by: the model with the smallest of these numbers is the best; later ones break ties.
        save: writes the model to a folder.
    """

    module: nn.Module
    examples: Sequence[Any]
    backward: Callable[[list[Any]], dict[str, float]]
    evaluate: Callable[[], dict[str, float]]
    best_by: tuple[str, ...]
    save: Callable[[Path], None]


def train(
    task: TrainingTask,
    settings: TrainingSettings,
    output: Path,
    key: Mapping[str, Any],
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Train, or resume a killed training, or return the report of a finished one.

    Args:
        task: what is trained.
        settings: its hyperparameters.
        output: the training's folder; at the end ``output/model`` is the best model, which may be the initial one.
        key: everything besides the settings that the result depends on; a training resumes only with the same key.
        say: prints progress.

    Returns:
        The contents of ``training.json``.

    Raises:
        InputError: ``output`` was started with another key or other settings, there are no examples, or the gradient is
            no longer finite.
    """
    if not task.examples:
        raise InputError("there is nothing to train on: no examples")
    settings_of_result = settings.model_dump(exclude={"checkpoint_minutes"})
    begun = json.loads(json.dumps({**settings_of_result, **key, "processes": processes.count()}))
    if (output / REPORT).exists():
        report = json.loads((output / REPORT).read_text(encoding="utf-8"))
        _check_same(output, report["key"], begun)
        _remove_marks(output)
        say(f"{output / MODEL}: trained already")
        return report
    refuse_foreign(output)
    output.mkdir(parents=True, exist_ok=True)
    (output / BEGUN).touch()
    run = _Run(task, settings, output, begun, say)
    if run.total <= settings.warmup_steps:
        run.say(f"warning: all {run.total} updates are in the warm-up of {settings.warmup_steps}: lower warmup_steps")
    shared = min(settings.batch_size, len(task.examples))
    if (idle := processes.count() - shared) > 0:
        run.say(
            f"warning: {processes.count()} processes share the {shared} examples of an update, so that "
            f"{idle} of them have nothing to do: raise batch_size, or train on fewer GPUs"
        )
    return run.to_the_end()


def refuse_foreign(output: Path, lm: str | Path | None = None) -> None:
    """Refuse a folder in which a training would delete models that it has not written.

    Args:
        output: the folder of a training.
        lm: the model that it begins with.

    Raises:
        InputError: there are such models, or ``lm`` is one of them.
    """
    if lm is not None and Path(lm).is_dir():
        place, folder = Path(lm).resolve(), output.resolve()
        if place == folder or (place.parent == folder and _is_model(place)):
            raise InputError(f"{output}: holds {lm}, the model to begin with: name another folder for the training")
    if not any((output / name).exists() for name in (BEGUN, CHECKPOINT, REPORT)):
        other = next((path for path in sorted(output.glob("*")) if _is_model(path)), None)
        if other:
            raise InputError(
                f"{other} was not written by this training, which would delete it: remove it, or name another folder"
            )


def _remove_marks(output: Path) -> None:
    """Of a training that has ended; a killed one may have left them."""
    if processes.rank() == 0:
        for name in (CHECKPOINT, BEGUN):
            (output / name).unlink(missing_ok=True)


def _is_model(path: Path) -> bool:
    return path.name == MODEL or STEP.fullmatch(path.name) is not None


class _Run:
    """A running training: what changes from update to update, and its checkpoints."""

    def __init__(
        self, task: TrainingTask, settings: TrainingSettings, output: Path, key: dict, say: Callable[[str], None]
    ):
        from transformers import get_scheduler

        self.task, self.settings, self.output, self.key = task, settings, output, key
        self.main = processes.rank() == 0
        self.say = say if self.main else lambda text: None
        self.total = settings.steps(len(task.examples))
        self.device = next(task.module.parameters()).device
        self.parameters = [parameter for parameter in task.module.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=settings.lr, weight_decay=settings.weight_decay, fused=True
        )
        self.scheduler = get_scheduler(
            settings.schedule, self.optimizer, num_warmup_steps=settings.warmup_steps, num_training_steps=self.total
        )
        self.step = 0
        self.history: list[dict[str, float]] = []
        self.seconds = 0.0
        self.numbers: list[dict[str, float]] = []  # of the updates since the last evaluation
        self._order: tuple[int, torch.Tensor] = (-1, torch.empty(0))

    def to_the_end(self) -> dict[str, Any]:
        if (self.output / CHECKPOINT).exists():
            self._resume()
            self.say(f"resumes after {self.step} of {self.total} updates")
        else:
            torch.manual_seed(self.settings.seed + RANK_SEED * processes.rank())
            self._evaluate()
        every = self.settings.evaluate_every or max(1, self.total // 10)
        began = said = saved = time.monotonic()
        while self.step < self.total:
            self.numbers.append(self._update())
            now = time.monotonic()
            if now - said >= PROGRESS_SECONDS:
                said = now
                self.say(f"{self.step:6d}/{self.total}")
            evaluates = self.step % every == 0 or self.step == self.total
            # process 0 decides for all: their clocks differ
            late = processes.gather(now - saved >= 60 * self.settings.checkpoint_minutes)[0]
            if evaluates or late:
                self.seconds += now - began
                if evaluates:
                    self._evaluate()
                else:
                    self._write_checkpoint()
                began = saved = time.monotonic()
        return self._finish()

    def _update(self) -> dict[str, float]:
        self.task.module.train()
        self.optimizer.zero_grad()
        batch = self._batch()
        own = processes.own_share(batch)
        numbers = self.task.backward(own) if own else {}
        processes.sum_gradients(self.parameters, len(own) / len(batch))
        norm = nn.utils.clip_grad_norm_(self.parameters, self.settings.grad_clip)
        if not norm.isfinite():
            raise InputError(
                f"{self.output}: update {self.step + 1}: the gradient is not finite: training has diverged: lower lr"
            )
        self.optimizer.step()
        self.scheduler.step()
        self.step += 1
        return _weighted_means(processes.gather((len(own), numbers)))

    def _batch(self) -> list[Any]:
        """The examples of the next update; they depend only on the seed and the number of the update."""
        count, size = len(self.task.examples), self.settings.batch_size
        epoch, number = divmod(self.step, math.ceil(count / size))
        if self._order[0] != epoch:
            generator = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + epoch)
            self._order = epoch, torch.randperm(count, generator=generator)
        return [self.task.examples[index] for index in self._order[1][number * size : (number + 1) * size]]

    def _evaluate(self) -> None:
        """Evaluate, keep the model if it is the best, and write the checkpoint."""
        self.task.module.eval()
        began = time.monotonic()
        with torch.no_grad():
            values = {f"dev_{name}": value for name, value in self.task.evaluate().items()}
        numbers = _means(self.numbers)
        self.numbers = []
        self.history.append({"step": self.step, **numbers, **values})
        shown = "  ".join(f"{name} {value:.5g}" for name, value in {**numbers, **values}.items())
        self.say(f"{self.step:6d}/{self.total}  {shown}")
        best = self._best()
        if best == self.step and self.main:
            self._save_model()
        self.seconds += time.monotonic() - began
        self._write_checkpoint()
        for folder in self.output.glob("step*") if self.main else ():
            if STEP.fullmatch(folder.name) and folder.name != f"step{best}":
                shutil.rmtree(folder)

    def _best(self) -> int:
        """The update with the best evaluation, the first of equals."""

        def rank(values: Mapping[str, float]) -> list[float]:
            found = [values[f"dev_{name}"] for name in self.task.best_by]
            return [math.inf if math.isnan(value) else value for value in found]

        return int(min(self.history, key=rank)["step"])

    def _save_model(self) -> None:
        partial = self.output / f".step{self.step}"
        final = self.output / f"step{self.step}"
        for folder in (partial, final):
            shutil.rmtree(folder, ignore_errors=True)
        self.task.save(partial)
        partial.rename(final)

    def _write_checkpoint(self) -> None:
        state = {
            "key": json.dumps(self.key),
            "step": self.step,
            "history": self.history,
            "seconds": self.seconds,
            "numbers": self.numbers,
            "module": _trained_state(self.task.module),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "random": processes.gather(random_state(self.device)),
        }
        if not self.main:
            return
        with atomic_write(self.output / CHECKPOINT, "wb") as file:
            torch.save(state, file)

    def _resume(self) -> None:
        state = load_checkpoint(self.output / CHECKPOINT)
        _check_same(self.output, json.loads(state["key"]), self.key)
        self.task.module.load_state_dict(
            state["module"], strict=len(state["module"]) == len(self.task.module.state_dict())
        )
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        set_random_state(state["random"][processes.rank()], self.device)
        self.step, self.history, self.seconds = state["step"], state["history"], state["seconds"]
        self.numbers = state["numbers"]

    def _finish(self) -> dict[str, Any]:
        best = self._best()
        report = {"key": self.key, "best_step": best, "seconds": round(self.seconds, 1), "history": self.history}
        processes.wait()
        if not self.main:
            return report
        if (self.output / f"step{best}").exists():  # otherwise a killed run has renamed it already
            shutil.rmtree(self.output / MODEL, ignore_errors=True)
            (self.output / f"step{best}").rename(self.output / MODEL)
        write_json(self.output / REPORT, report)
        _remove_marks(self.output)
        return report


def summary(output: Path, report: Mapping[str, Any]) -> str:
    """The result of a training, as a line to print."""
    best = next(values for values in report["history"] if values["step"] == report["best_step"])
    shown = ", ".join(f"{name} {value:.5g}" for name, value in best.items() if name.startswith("dev_"))
    which = f"after {best['step']} updates" if best["step"] else "the initial model, since no update was better"
    return f"{output / MODEL}: {which}: {shown} ({report['seconds']:.0f} s of training)"


def random_state(device: torch.device) -> RandomState:
    """The state of the random number generators of the CPU and, if ``device`` is one, of the GPU."""
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def set_random_state(state: RandomState, device: torch.device) -> None:
    """Restore what :func:`random_state` returned."""
    cpu, cuda = state
    torch.set_rng_state(cpu)
    if cuda is not None:
        torch.cuda.set_rng_state(cuda, device)


@contextmanager
def replayed(state: RandomState, device: torch.device) -> Iterator[None]:
    """Draw random numbers from ``state`` inside the block; afterwards continue as if nothing had been drawn."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        set_random_state(state, device)
        yield


def digest(values: Iterable[str | bytes]) -> str:
    """A hash of texts or bytes, in order, for a training's key."""
    total = hashlib.sha256()
    for value in values:
        data = value.encode() if isinstance(value, str) else value
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


def module_digest(module: nn.Module) -> str:
    """A hash of a model's parameters and buffers."""
    return digest(
        part
        for name, value in module.state_dict().items()
        for part in (name, value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    )


def _check_same(output: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            raise InputError(
                f"{output}: holds a training with another {name} ({old.get(name)}, now {new.get(name)}): remove the "
                "folder to train again, or give another folder"
            )


def _trained_state(module: nn.Module) -> dict[str, torch.Tensor]:
    """What training changes: all of the state but parameters that have no gradient."""
    fixed = {name for name, parameter in module.named_parameters() if not parameter.requires_grad}
    return {name: value for name, value in module.state_dict().items() if name not in fixed}


def _weighted_means(shares: Sequence[tuple[int, Mapping[str, float]]]) -> dict[str, float]:
    """Means over examples of the numbers of several processes, each given with its number of examples."""
    total = sum(number for number, _ in shares)
    names = next(numbers for _, numbers in shares if numbers)
    return {name: sum(number * own.get(name, 0.0) for number, own in shares) / total for name in names}


def _means(numbers: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(each[name] for each in numbers) / len(numbers) for name in (numbers[0] if numbers else {})}
