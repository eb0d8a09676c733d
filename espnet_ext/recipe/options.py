"""The options of a recipe's run.sh: their defaults, and what values they may have."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from espnet_ext.corpora.checks import read_skip_share
from espnet_ext.errors import InputError
from espnet_ext.recipe.run import DATA, PLACES, Recipe, is_cluster_file
from espnet_ext.work.cluster import read_settings
from espnet_ext.work.files import expand_home
from espnet_ext.work.launch import is_kaldi_wrapper, split_words

ROOT = Path(__file__).resolve().parents[2]
# The options of every recipe's run.sh, except --stage and --stop_stage, which run.sh
# itself uses.
COMMON = {
    DATA: "",
    "table": "1",
    "rows": "",
    "scale": "mini",
    "seed": "1",
    "rehearse": "false",
    "check_audio": "auto",
    "skip_faulty": "false",
    "ngpu": "0",
    "nj": "2",
    "train_jobs": "",
    "parallel": "",
    "expdir": "",
    "datadir": "",
}


def check_options(
    recipe: Recipe, given: Mapping[str, str], caller: Path, folder: Path
) -> dict[str, str]:
    """Return the values of all options of a recipe, with whole paths.

    Values are those ``given`` in the folder ``caller``, or the defaults. Raises
    InputError: there is no such option, or it cannot have this value.
    """
    own = {}
    if recipe.trained:
        own = {**dict.fromkeys(recipe.trained, ""), "name": "mine"}
    defaults = {
        **COMMON,
        recipe.corpus: "",
        **dict.fromkeys(recipe.instead, ""),
        **own,
        **recipe.options,
    }
    for name in given:
        if name not in defaults:
            raise InputError(
                f"unknown option --{name} (run.sh --help lists the options)"
            )
    options = {**defaults, **given}
    truth = ("true", "false")
    choices = {
        "check_audio": ("auto", "header", "full"),
        "rehearse": truth,
        **recipe.choices,
    }
    for name, values in choices.items():
        # empty, where that is the default: the setting of the scale decides
        if options[name] not in values and (options[name] or defaults[name]):
            raise InputError(
                f"--{name} takes one of {'|'.join(values)}, not '{options[name]}'"
            )
    if options["seed"] and not re.fullmatch(r"[0-9]+(,[0-9]+)*", options["seed"]):
        raise InputError(
            f"--seed takes whole numbers separated by commas, not '{options['seed']}'"
        )
    for name, least in (("nj", 1), ("ngpu", 0), ("train_jobs", 1)):
        if not options[name] and not COMMON[name]:
            continue  # ``--train_jobs``: all at once
        if not re.fullmatch(r"[0-9]+", options[name]) or int(options[name]) < least:
            raise InputError(
                f"--{name} must be at least {least}, not '{options[name]}'"
            )
    read_skip_share(options["skip_faulty"])
    if options.get("average"):
        check_average(options["average"])
    for names, what in (
        ((recipe.corpus, *recipe.instead, DATA), "corpora to train on"),
        (recipe.trained, "systems"),
    ):
        both = [name for name in names if options[name]]
        if len(both) > 1:
            raise InputError(
                f"--{both[0]} and --{both[1]} are two {what}: give one of them"
            )
    for name in (*recipe.all_paths, "expdir", "datadir"):
        if options[name]:
            options[name] = os.path.abspath(caller / expand_home(options[name]))
    for name in recipe.models:
        # a name that is no folder here is that of a model on the hub
        path = caller / expand_home(options[name])
        if options[name] and path.exists():
            options[name] = os.path.abspath(path)
    if options["parallel"]:
        options["parallel"] = find_place(options["parallel"], caller, folder)
    return options


def find_place(value: str, caller: Path, folder: Path) -> str:
    """Return where shards run; InputError for what is no such place.

    The place is the whole path of a cluster's YAML, or one of Kaldi's wrappers with its
    options, as given.
    """
    if is_cluster_file(value):
        # cmd.sh and the user may mean a file of the repository, such as conf/parallel/*
        places = [base / expand_home(value) for base in (caller, folder, ROOT)]
        found = next((path.resolve() for path in places if path.is_file()), None)
        if found is None:
            raise InputError(f"{PLACES}: there is no file {value}")
        # for its faults, before the first stage and not hours later
        read_settings(found)
        return str(found)
    if is_kaldi_wrapper(split_words(value, PLACES)):
        return value
    raise InputError(
        f"{PLACES}: {value!r} is neither a YAML file of a cluster, such as "
        "conf/parallel/slurm.yaml, nor a wrapper of Kaldi's, such as queue.pl"
    )


def check_average(which: str) -> None:
    """Raise InputError for a value of --average but ``best:N`` and ``last:N``."""
    if not re.fullmatch(r"(best|last):[1-9][0-9]*", which):
        raise InputError(f"--average takes best:N or last:N, not '{which}'")


def split_names(value: str) -> list[str]:
    """Return the names in an option, which commas separate."""
    return [name.strip() for name in value.split(",")]
