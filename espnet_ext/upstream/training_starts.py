"""Whether a training can learn anything: looked at before its first epoch, in the data
as its model gets them.
"""

from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from espnet2.tasks.abs_task import AbsTask
from espnet2.torch_utils.device_funcs import to_device
from espnet2.train.trainer import Trainer

from espnet_ext.errors import InputError

LOOKED_AT = 1000  # utterances; in usable data the first batch settles all questions
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
    """Make ESPnet's trainings of this process check their model and data first. Calling
    it again changes nothing.
    """
    AbsTask.build_optimizers = classmethod(build_optimizers)
    Trainer.run = classmethod(run)


def build_optimizers(cls: type, args: Namespace, model: torch.nn.Module) -> Any:
    """Build them as ESPnet does, after a look at what ``freeze_param`` has frozen."""
    check_frozen(model, args.freeze_param)
    tokens = getattr(args, "token_list", None)
    if isinstance(tokens, list | tuple):
        _tokens[model] = tokens
    return _build_optimizers(cls, args, model)


def check_frozen(model: torch.nn.Module, names: Sequence[str]) -> None:
    """Refuse a name in ``freeze_param`` that is of no parameter, and a model of which
    nothing is left to train.
    """
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
    **others: Any,
) -> None:
    """Train as ESPnet does, after a look at the first utterances of a new training."""
    checkpoint = Path(trainer_options.output_dir) / "checkpoint.pth"
    resumes = trainer_options.resume and checkpoint.exists()
    if not resumes and not trainer_options.no_forward_run:
        device = "cuda" if trainer_options.ngpu > 0 else "cpu"
        check_examples(model, train_iter_factory.build_iter(1), device)
    _run(
        cls,
        model=model,
        train_iter_factory=train_iter_factory,
        trainer_options=trainer_options,
        **others,
    )


def check_examples(model: Any, batches: Any, device: str = "cpu") -> None:
    """Refuse data of which no utterance can teach the model anything, of the first
    ``LOOKED_AT``.

    ``batches`` yields utterance ids and tensors, as ESPnet's iterators do.
    """
    counts: Counter[str] = Counter()
    seen = 0
    open_questions = set(FAULTS)
    for ids, batch in batches:
        faults = find_faults(model, batch, device)
        seen += len(ids)
        for name in list(open_questions):
            counts[name] += sum(faults.get(name, []))
            # one usable utterance is enough
            if not all(faults.get(name, [False])):
                open_questions.discard(name)
        if not open_questions or seen >= LOOKED_AT:
            break
    for name, text in FAULTS.items():
        if name in open_questions and seen:
            raise InputError(f"all {seen:,} training utterances looked at {text}")


def find_faults(
    model: Any, batch: Mapping[str, torch.Tensor], device: str = "cpu"
) -> dict[str, list[bool]]:
    """Say of each utterance of a batch which of the ``FAULTS`` it has, as far as the
    batch and the model allow.
    """
    if "text" not in batch or "text_lengths" not in batch:
        return {}
    texts = list(_texts(batch))
    faults = {EMPTY: [not text for text in texts]}
    tokens = _tokens.get(model, ())
    if UNKNOWN in tokens:
        empty = {
            tokens.index(each) for each in (UNKNOWN, *SEPARATORS) if each in tokens
        }
        faults[OUT_OF_LIST] = [not set(text) - empty for text in texts]
    if _trains_ctc(model) and "speech_lengths" in batch:
        frames = _count_frames(model, batch, device)
        needed = [_frames_for(text) for text in texts]
        faults[SHORT] = [few < many for few, many in zip(frames, needed, strict=True)]
    return faults


def _texts(batch: Mapping[str, torch.Tensor]) -> Iterator[list[int]]:
    for tokens, length in zip(batch["text"], batch["text_lengths"], strict=True):
        yield tokens[: int(length)].tolist()


def _trains_ctc(model: Any) -> bool:
    has_ctc = getattr(model, "ctc", None) is not None
    return (
        has_ctc and getattr(model, "ctc_weight", 0.0) > 0 and hasattr(model, "encode")
    )


@torch.no_grad()
def _count_frames(
    model: Any, batch: Mapping[str, torch.Tensor], device: str
) -> list[int]:
    """Return the encoder's frames of each utterance."""
    speech = to_device(
        {name: batch[name] for name in ("speech", "speech_lengths")}, device
    )
    model.eval()
    try:
        return model.encode(**speech)[1].tolist()
    finally:
        model.train()


def _frames_for(text: Sequence[int]) -> int:
    """Return the frames that CTC needs: one for each token, and a blank between equal
    ones.
    """
    repeats = sum(one == other for one, other in zip(text, text[1:], strict=False))
    return len(text) + repeats
