"""Whether a training can begin with what is there: its checkpoint, or parameters.

The options with which it resumes must be those that it has, and the tokens of what it
is given must have the same numbers.
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.upstream.checkpoint import (
    load_epochs,
    load_parameters,
    split_init_param,
)
from espnet_ext.work.yaml_files import read_yaml

CONFIG = "config.yaml"
CHECKPOINT = "checkpoint.pth"
TOKEN_LIST = "token_list"
LISTS = (TOKEN_LIST, "src_token_list")
# ESPnet overwrites what these give anew by the checkpoint's, in silence, or fails
KEPT = ("token_type", "optim", "optim_conf", "scheduler", "scheduler_conf")
# Modules without outputs for tokens. A parameter of theirs may have as many rows as
# there are tokens, but by chance.
WITHOUT_TOKENS = (
    "frontend",
    "specaug",
    "normalize",
    "preencoder",
    "encoder",
    "postencoder",
    "speaker_encoder",
)
ADVICE = "train with the options that it was trained with, or into another folder"


def check_resumed(args: Namespace) -> None:
    """Refuse to resume with other tokens, or without a model of an earlier epoch."""
    if not _will_resume(args):
        return
    check_epochs(args)
    # ESPnet writes it anew with these arguments, so it is read now
    folder = Path(args.output_dir)
    before = read_yaml(folder / CONFIG)
    now = vars(args)
    for name in LISTS:
        difference = _compare_tokens(before.get(name), now.get(name))
        if difference:
            raise InputError(
                f"{_begin_refusal(folder)}: {name}: {difference}: {ADVICE}"
            )


def check_kept_options(args: Namespace) -> None:
    """Refuse to resume a training with another optimiser or scheduler than it has.

    To be called when a task has set the options that follow from its data, such as the
    number of steps of a scheduler, and before ESPnet writes ``config.yaml`` anew.
    """
    # of several processes the first one writes that file, and so is the one to read it
    is_first = not args.distributed or args.dist_rank == 0
    if not is_first or not _will_resume(args):
        return
    folder = Path(args.output_dir)
    before = read_yaml(folder / CONFIG)
    now = vars(args)
    for name in KEPT:
        # an older ESPnet may not have written it
        if name not in before:
            continue
        difference = _compare(before[name], now.get(name))
        if difference:
            raise InputError(f"{_begin_refusal(folder)}: {name}{difference}: {ADVICE}")


def _will_resume(args: Namespace) -> bool:
    folder = Path(args.output_dir)
    there = (folder / CONFIG).is_file() and (folder / CHECKPOINT).is_file()
    return bool(getattr(args, "resume", False)) and there


def _begin_refusal(folder: Path) -> str:
    return f"{folder / CHECKPOINT}: cannot be resumed with this config"


def check_epochs(args: Namespace) -> None:
    """Refuse a model of an earlier epoch that is missing or was cut short.

    ESPnet would find that when it averages, after the whole training.
    """
    folder = Path(args.output_dir)
    epochs = load_epochs(folder)
    last = max(epochs, default=0)  # whose model is in the checkpoint, too
    for path in sorted(folder.glob("[0-9]*epoch.pth")):
        if path.name != f"{last}epoch.pth":
            load_parameters(path, "meta")
    for criterion in args.best_model_criterion:
        for epoch in _list_best_epochs(args, epochs, criterion):
            path = folder / f"{epoch}epoch.pth"
            if epoch != last and not path.exists():
                raise InputError(
                    f"{path}: no such file, and epoch {epoch} is one of the best by "
                    f"{'.'.join(criterion[:2])}, which are averaged: put it back, or "
                    "lower keep_nbest_models to what it was"
                )


def _list_best_epochs(
    args: Namespace,
    epochs: Mapping[int, Any],
    criterion: Sequence[str],
) -> list[int]:
    """List the epochs whose models ESPnet has kept, as its reporter orders them."""
    phase, name, mode = criterion
    values = {}
    for epoch, stats in epochs.items():
        of_phase = stats.get(phase, {})
        if name in of_phase:
            values[epoch] = of_phase[name]
    sign = 1 if mode == "min" else -1
    # of a network that grows, those of the whole network come first
    stages = getattr(args, "stages", [])
    first_whole = 1 + sum(stage["epochs"] for stage in stages)

    def rank(epoch: int) -> tuple[bool, float]:
        return epoch < first_whole, sign * values[epoch]

    keep = args.keep_nbest_models
    count = keep if isinstance(keep, int) else max(keep, default=1)
    return sorted(values, key=rank)[:count]


def _compare(before: Any, now: Any) -> str:
    """Say how a setting differs from that before; "" if it does not."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        # What is only in ``before`` may be an option that the task has added itself.
        for key, value in now.items():
            difference = _compare(before.get(key), value)
            if difference:
                return f": {key}{difference}"
        return ""
    # YAML has written tuples as lists.
    are_sequences = isinstance(before, list | tuple) and isinstance(now, list | tuple)
    if before == now or (are_sequences and list(before) == list(now)):
        return ""
    return f" was {before}, is {now}"


def _compare_tokens(before: Any, now: Any) -> str:
    """Say how a list of tokens, or the file of one, differs; "" if it does not."""
    if not isinstance(before, list) or now is None:
        return ""
    tokens = read_tokens(now)
    if len(tokens) != len(before):
        return f"has {len(tokens)} tokens, the training {len(before)}"
    for number, (old, new) in enumerate(zip(before, tokens, strict=True)):
        if str(old) != new:
            return f"token {number} is {new}, of the training {old}"
    return ""


def read_tokens(tokens: str | Sequence[str]) -> list[str]:
    """Return a list of tokens, which may be given as its file, as ESPnet reads it."""
    if not isinstance(tokens, str):
        return [str(token) for token in tokens]
    try:
        lines = Path(tokens).read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"token_list: {tokens}: cannot be read: {error}") from None
    found = [line.rstrip() for line in lines]
    # what follows the last line's end is no token
    return found[:-1] if found[-1] == "" else found


def check_tokens_of_start(args: Namespace) -> None:
    """Refuse ``--init_param`` of a training whose tokens have other numbers.

    That is, if outputs for tokens would be taken from it.
    """
    for given in args.init_param:
        path, source, target, excluded = split_init_param(given)
        config = Path(path).parent / CONFIG
        # a model from elsewhere: its shapes are checked when it is loaded
        if not config.is_file():
            continue
        before = read_yaml(config).get(TOKEN_LIST) or []
        difference = _compare_tokens(before, getattr(args, TOKEN_LIST, None))
        if not difference:
            continue
        taken = _list_outputs(path, source, target, excluded, len(before))
        if taken:
            raise InputError(
                f"--init_param {given}: {taken[0]} is of other tokens ({config}): "
                f"{difference}: take only {path}:encoder:encoder, or leave it out as "
                f"in {path}:::decoder,ctc"
            )


def _list_outputs(
    path: str,
    source: str,
    target: str,
    excluded: str,
    count: int,
) -> list[str]:
    """List parameters with a row for each of ``count`` tokens that would be taken."""
    start = f"{source}." if source else ""
    left_out = tuple(excluded.split(",")) if excluded else ()
    found = []
    for name, value in load_parameters(path, "meta").items():
        # ESPnet leaves out by whole names, before it takes the module's part of them.
        if not name.startswith(start) or name.startswith(left_out):
            continue
        inner = name.removeprefix(start)
        # its name in the new model
        whole = f"{target}.{inner}" if target else inner
        module, _, _ = whole.partition(".")
        if module in WITHOUT_TOKENS:
            continue
        if value.dim() and len(value) == count:
            found.append(name)
    return found
