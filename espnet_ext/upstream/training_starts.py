"""Whether a training can learn anything, looked at before its first epoch.

The data are looked at as the model gets them.
"""

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from espnet2.schedulers.abs_scheduler import AbsValEpochStepScheduler
from espnet2.tasks.abs_task import AbsTask
from espnet2.torch_utils.device_funcs import to_device
from espnet2.train.trainer import Trainer

from espnet_ext.errors import InputError
from espnet_ext.upstream.resuming import check_kept_options

LOOKED_AT = 1000  # utterances; in usable data the first batch settles all questions
# ESPnet's own criteria for the best epochs
DEFAULT = [
    ("train", "loss", "min"),
    ("train", "acc", "max"),
    ("valid", "loss", "min"),
    ("valid", "acc", "max"),
]
# what the trainer notes of an epoch, besides the numbers of its model
TRAINERS_OWN = {
    "time",
    "total_count",
    "train_time",
    "iter_time",
    "forward_time",
    "backward_time",
    "optim_step_time",
    "optim0_lr0",
    "grad_norm",
    "clip",
}
UNKNOWN = "<unk>"
SEPARATORS = ("<space>", "▁", "<sc>")  # between words and speakers, which say nothing
SHOWN = 8
EMPTY = "empty"
OUT_OF_LIST = "unknown"
SHORT = "short"
FAULTS = {
    EMPTY: "have an empty transcript: check the data of `text`",
    OUT_OF_LIST: (
        "have a transcript of nothing but <unk>: check that token_list, token_type and "
        "bpemodel suit the transcripts"
    ),
    SHORT: (
        "have fewer encoder frames than CTC needs for their tokens: subsample less in "
        "encoder_conf, or take longer tokens"
    ),
}

_run = Trainer.run.__func__
_build_optimizers = AbsTask.build_optimizers.__func__
_tokens: WeakKeyDictionary[torch.nn.Module, Sequence[str]] = WeakKeyDictionary()


def check_training_starts() -> None:
    """Make ESPnet's trainings of this process check their model and data first.

    Calling it again changes nothing.
    """
    AbsTask.build_optimizers = classmethod(build_optimizers)
    Trainer.run = classmethod(run)


def build_optimizers(cls: type, args: Namespace, model: torch.nn.Module) -> Any:
    """Build them as ESPnet does, after a look at what cannot be trained.

    That is what ``freeze_param`` has frozen, and what a training that resumes cannot
    change.
    """
    check_kept_options(args)
    check_frozen(model, args.freeze_param)
    tokens = getattr(args, "token_list", None)
    if isinstance(tokens, list | tuple):
        _tokens[model] = tokens
    return _build_optimizers(cls, args, model)


def check_frozen(model: torch.nn.Module, names: Sequence[str]) -> None:
    """Refuse names in ``freeze_param`` that are of no parameter, or of all of them."""
    parameters = [name for name, _ in model.named_parameters()]
    for name in names:
        if not any(f"{each}.".startswith(f"{name}.") for each in parameters):
            parts = list(dict.fromkeys(each.partition(".")[0] for each in parameters))
            raise InputError(
                f"freeze_param: {name} is no part of the model and freezes nothing: it "
                f"has {', '.join(parts[:SHOWN])}, and parts of these as encoder.embed"
            )
    if names and not any(each.requires_grad for each in model.parameters()):
        raise InputError("freeze_param: freezes the whole model: nothing is trained")


def run(
    cls: type,
    /,
    *,
    model: Any,
    train_iter_factory: Any,
    trainer_options: Any,
    schedulers: Sequence[Any],
    **others: Any,
) -> None:
    """Train as ESPnet does, after a look at the first utterances of a new training."""
    checkpoint = Path(trainer_options.output_dir) / "checkpoint.pth"
    # its data were looked at when it began
    resumes = trainer_options.resume and checkpoint.exists()
    if not resumes and not trainer_options.no_forward_run:
        device = "cuda" if trainer_options.ngpu > 0 else "cpu"
        statistics = check_examples(model, train_iter_factory.build_iter(1), device)
        by_value = any(
            isinstance(each, AbsValEpochStepScheduler) for each in schedulers
        )
        check_criteria(trainer_options, statistics, by_value)
    _run(
        cls,
        model=model,
        train_iter_factory=train_iter_factory,
        trainer_options=trainer_options,
        schedulers=schedulers,
        **others,
    )


def check_criteria(options: Any, statistics: set[str], by_value: bool) -> None:
    """Refuse criteria for epochs by numbers that the model does not give.

    ESPnet would miss them after an epoch, or remove each epoch's model in silence.
    ``by_value``: a scheduler uses its criterion, too.
    """
    criteria = {}
    if options.patience is not None:
        criteria["early_stopping_criterion"] = [options.early_stopping_criterion]
    if by_value:
        criteria["val_scheduler_criterion"] = [options.val_scheduler_criterion]
    # ESPnet's own are for all models, and some have no accuracy
    own = [each for each in options.best_model_criterion if tuple(each) not in DEFAULT]
    criteria["best_model_criterion"] = own
    there = statistics | TRAINERS_OWN
    for option, values in criteria.items():
        for phase, name, *_ in values:
            if phase not in ("train", "valid") or name not in there:
                known = ", ".join(sorted(statistics))
                raise InputError(
                    f"{option}: there is no {phase}.{name}: phases are train and "
                    f"valid, and the model gives {known}"
                )


def check_examples(model: Any, batches: Any, device: str = "cpu") -> set[str]:
    """Refuse data if none of the first ``LOOKED_AT`` utterances can teach anything.

    ``batches`` yields utterance ids and tensors, as ESPnet's iterators do. Returns the
    names of the numbers that the model gives.
    """
    seen = 0
    batch: Mapping[str, Any] = {}
    open_questions = set(FAULTS)
    for ids, tensors in batches:
        batch = {**tensors, "utt_id": ids}
        seen += len(ids)
        faults = find_faults(model, batch, device)
        # One usable utterance settles a question. One that is not asked of these data
        # is settled, too.
        for name in list(open_questions):
            if not all(faults.get(name, [False])):
                open_questions.remove(name)
        if not open_questions or seen >= LOOKED_AT:
            break
    if not seen:
        raise InputError(
            "there is no batch to train on: lower batch_size or batch_bins"
        )
    for name, text in FAULTS.items():
        if name in open_questions:
            raise InputError(f"all {seen:,} training utterances looked at {text}")
    return list_statistics(model, batch, device)


@torch.no_grad()
def list_statistics(model: Any, batch: Mapping[str, Any], device: str) -> set[str]:
    """Return the names of the numbers that a model reports of a batch."""
    # in training mode, running statistics would change before the first update
    model.eval()
    try:
        found = model(**to_device(batch, device))
    finally:
        model.train()
    # ESPnet's models return loss, statistics and weight, as a tuple or by name
    statistics = found["stats"] if isinstance(found, dict) else found[1]
    return {name for name, value in statistics.items() if value is not None}


def find_faults(
    model: Any,
    batch: Mapping[str, torch.Tensor],
    device: str = "cpu",
) -> dict[str, list[bool]]:
    """Say of each utterance of a batch which of the ``FAULTS`` it has.

    Faults that cannot be told from this batch and this model are left out.
    """
    if "text" not in batch or "text_lengths" not in batch:
        return {}
    texts = list(_list_texts(batch))
    faults = {EMPTY: [not text for text in texts]}
    tokens = _tokens.get(model, ())
    if UNKNOWN in tokens:
        say_nothing = set()
        for each in (UNKNOWN, *SEPARATORS):
            if each in tokens:
                say_nothing.add(tokens.index(each))
        # an empty text is among them: that fault is named first
        faults[OUT_OF_LIST] = [say_nothing.issuperset(text) for text in texts]
    if _trains_ctc(model) and "speech_lengths" in batch:
        frames = _count_frames(model, batch, device)
        needed = [_count_needed_frames(text) for text in texts]
        faults[SHORT] = [few < many for few, many in zip(frames, needed, strict=True)]
    return faults


def _list_texts(batch: Mapping[str, torch.Tensor]) -> Iterator[list[int]]:
    for tokens, length in zip(batch["text"], batch["text_lengths"], strict=True):
        yield tokens[: int(length)].tolist()


def _trains_ctc(model: Any) -> bool:
    if getattr(model, "ctc", None) is None or not hasattr(model, "encode"):
        return False
    return getattr(model, "ctc_weight", 0.0) > 0


@torch.no_grad()
def _count_frames(
    model: Any,
    batch: Mapping[str, torch.Tensor],
    device: str,
) -> list[int]:
    """Return the encoder's frames of each utterance."""
    speech = {name: batch[name] for name in ("speech", "speech_lengths")}
    model.eval()
    try:
        lengths = model.encode(**to_device(speech, device))[1]
        return lengths.tolist()
    finally:
        model.train()


def _count_needed_frames(text: Sequence[int]) -> int:
    """Return how many frames CTC needs.

    It needs one for each token, and one for the blank between equal ones.
    """
    repeats = sum(one == other for one, other in pairwise(text))
    return len(text) + repeats
