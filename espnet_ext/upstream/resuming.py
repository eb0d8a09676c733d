"""What a training begins with: whether the options with which it resumes are those that
it has, and whether the tokens of what it is given have the same numbers.
"""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.upstream.checkpoint import load_epochs, load_parameters
from espnet_ext.work.yaml_files import read_yaml

CONFIG, CHECKPOINT = "config.yaml", "checkpoint.pth"
LISTS = ("token_list", "src_token_list")
# ESPnet overwrites what these give anew by the checkpoint's, in silence, or fails
KEPT = ("token_type", "optim", "optim_conf", "scheduler", "scheduler_conf")
# parameters that are no outputs, one for each token, whatever their size
WITHOUT_TOKENS = (
    *("frontend", "specaug", "normalize", "preencoder", "encoder", "postencoder"),
    "speaker_encoder",
)
ADVICE = "train with the options that it was trained with, or into another folder"


def check_resumed(args: Namespace) -> None:
    """Refuse to resume a training with other tokens than it has, or without a model
    of an earlier epoch.
    """
    if not _will_resume(args):
        return
    check_epochs(args)
    folder = Path(args.output_dir)
    before, now = read_yaml(folder / CONFIG), vars(args)
    for name in LISTS:
        if what := _compare_tokens(before.get(name), now.get(name)):
            raise InputError(f"{_refusal(folder)}: {name}: {what}: {ADVICE}")


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
    before, now = read_yaml(folder / CONFIG), vars(args)
    for name in KEPT:
        if name in before and (what := _compare(before[name], now.get(name))):
            raise InputError(f"{_refusal(folder)}: {name}{what}: {ADVICE}")


def _will_resume(args: Namespace) -> bool:
    folder = Path(args.output_dir)
    there = (folder / CONFIG).is_file() and (folder / CHECKPOINT).is_file()
    return bool(getattr(args, "resume", False)) and there


def _refusal(folder: Path) -> str:
    return f"{folder / CHECKPOINT}: cannot be resumed with this config"


def check_epochs(args: Namespace) -> None:
    """Refuse a model of an earlier epoch that is missing or was cut short: ESPnet would
    find that when it averages, after the whole training.
    """
    folder = Path(args.output_dir)
    epochs = load_epochs(folder)
    last = max(epochs, default=0)  # whose model is in the checkpoint, too
    for path in sorted(folder.glob("[0-9]*epoch.pth")):
        if path.name != f"{last}epoch.pth":
            load_parameters(path, "meta")
    for criterion in args.best_model_criterion:
        for epoch in _best_epochs(args, epochs, criterion):
            path = folder / f"{epoch}epoch.pth"
            if epoch != last and not path.exists():
                raise InputError(
                    f"{path}: no such file, and epoch {epoch} is one of the best by "
                    f"{'.'.join(criterion[:2])}, which are averaged: put it back, or "
                    "lower keep_nbest_models to what it was"
                )


def _best_epochs(
    args: Namespace,
    epochs: Mapping[int, Any],
    criterion: Sequence[str],
) -> list[int]:
    """List the epochs whose models ESPnet has kept, as its reporter orders them."""
    phase, name, mode = criterion
    values = {
        epoch: stats[phase][name]
        for epoch, stats in epochs.items()
        if name in stats.get(phase, {})
    }
    sign = 1 if mode == "min" else -1
    # of a network that grows, those of the whole network come first
    stages = getattr(args, "stages", [])
    whole = 1 + sum(stage["epochs"] for stage in stages)
    order = sorted(values, key=lambda each: (each < whole, sign * values[each]))
    keep = args.keep_nbest_models
    return order[: keep if isinstance(keep, int) else max(keep, default=1)]


def _compare(before: Any, now: Any) -> str:
    """Say how a setting differs from that before; "" if it does not. A task may have
    added options of its own to a mapping.
    """
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key, value in now.items():
            if what := _compare(before.get(key), value):
                return f": {key}{what}"
        return ""
    same = before == now or (_is_sequence(before, now) and list(before) == list(now))
    return "" if same else f" was {before}, is {now}"


def _is_sequence(*values: Any) -> bool:
    return all(isinstance(value, list | tuple) for value in values)


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
    return found[:-1] if found[-1] == "" else found


def check_tokens_of_start(args: Namespace) -> None:
    """Refuse ``--init_param`` of a training with other tokens, or another order of
    them, if outputs for tokens would be taken from it.
    """
    for given in args.init_param:
        path, source, target, excluded = [*given.split(":", 3), "", "", ""][:4]
        config = Path(path).parent / CONFIG
        if not config.is_file():
            continue
        before = read_yaml(config).get(LISTS[0]) or []
        what = _compare_tokens(before, getattr(args, LISTS[0], None))
        if not what:
            continue
        taken = _outputs(path, source, target, excluded, len(before))
        if taken:
            raise InputError(
                f"--init_param {given}: {taken[0]} is of other tokens ({config}): "
                f"{what}: take only {path}:encoder:encoder, or leave it out as in "
                f"{path}:::decoder,ctc"
            )


def _outputs(
    path: str,
    source: str,
    target: str,
    excluded: str,
    count: int,
) -> list[str]:
    """List the parameters, of those that would be taken, that have a row for each of
    ``count`` tokens.
    """
    start = f"{source}." if source else ""
    left_out = tuple(excluded.split(",")) if excluded else ()
    found = []
    for name, value in load_parameters(path, "meta").items():
        inner = name.removeprefix(start)
        whole = f"{target}.{inner}" if target else inner
        if not name.startswith(start) or inner.startswith(left_out or "\n"):
            continue
        if whole.partition(".")[0] in WITHOUT_TOKENS:
            continue
        if value.dim() and len(value) == count:
            found.append(name)
    return found
