"""The stages of run.sh: training with any context, decoding by moving windows."""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.longform.chunking import read_schedule
from espnet_ext.longform.noise import find_noise
from espnet_ext.recipe import asr
from espnet_ext.recipe.gpus import run_each_system
from espnet_ext.recipe.own_system import OwnSystem, Trained
from espnet_ext.recipe.run import STATS, Recipe, Run
from espnet_ext.recipe.scripts import load_script
from espnet_ext.recipe.steps import Step, run_jobs, run_steps, show
from espnet_ext.recipe.training import (
    list_data_options,
    list_token_options,
    make_free_arguments,
    train_step,
)
from espnet_ext.sharing.model_files import CONFIG, LATEST, MODEL
from espnet_ext.tables.plan import load_scale, merge_system_config
from espnet_ext.tables.schema import System
from espnet_ext.work.gpus import choose_device
from espnet_ext.work.parallel import Place
from espnet_ext.work.yaml_files import read_yaml

corpora = load_script(Path(__file__).parent / "local" / "corpora.py")
published_models = load_script(Path(__file__).parent / "local" / "published_models.py")
FIGURES = ",".join(f"figure{number}" for number in range(1, 6))
DEV_SILENT = 0.5  # the share of the dev set that may be silent with --skip_faulty
# Of a training config: its parts that ESPnet's own training does not know, and the
# scheduler, whose warm-up may be a share of the plan of chunks.
LONG_KEYS = ("chunk_conf", "features_conf", "scheduler", "scheduler_conf")
CONTEXT_TABLE = "1"  # nothing is trained for it: memory and speed are measured


def choose_tables(options: Mapping[str, str]) -> str:
    """Return the tables of ``--figure`` and ``--table``; without both, figure 1."""
    names = [f"figure{number}" for number in _split_names(options["figure"])]
    if options["figure"] == "all":
        names = [FIGURES]
    if options["table"] == "all":
        names.append(CONTEXT_TABLE)
    elif options["table"]:
        names.append(options["table"])
    return ",".join(names) or "figure1"


def _split_names(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


@corpora.trains
def tokens(run: Run) -> None:
    settings = run.sections["settings"]
    step = asr.tokens_step(
        run,
        corpora.TRAIN,
        asr.locate_tokens(run),
        settings["token_type"],
        settings["vocab_size"],
        normalisation=settings["token_normalisation"],
    )
    run_steps(step)


@corpora.trains
def statistics(run: Run) -> None:
    # The dev set has few recordings, of which one that is silent may be more than the
    # share.
    of_valid = max(run.skip_faulty, DEV_SILENT) if run.skip_faulty else 0.0
    shares = {corpora.VALID: of_valid, corpora.TRAIN: run.skip_faulty}
    configs = [corpora.merge_training_config(run, system) for system in run.systems]
    # systems that have the same features share their statistics
    different = {run.locate_stats(config): config for config in configs}
    steps = []
    for config in different.values():
        for name, share in shares.items():
            steps.append(statistics_step(run, config, name, share))
    run_steps(*steps)


def statistics_step(
    run: Run, config: Mapping[str, Any], name: str, skip_silent: float
) -> Step:
    """Compute mean and deviation of each recording, and its features if they are kept.

    They are for all systems that have these features. A share ``skip_silent`` of the
    recordings may be silent, and is then left out of training.
    """
    output = run.locate_stats(config) / name
    return Step(
        name=f"{output.parent.name.replace(STATS, 'statistics')} of {name}",
        log=output / "log" / "statistics.log",
        function=compute_statistics,
        arguments={
            "data": str(run.datadir / name),
            "output": str(output),
            "features_conf": config["features_conf"],
            "keep_features": keeps_features(run),
            "skip_silent": skip_silent,
        },
        free=make_free_arguments(run),
        inputs=[run.datadir / name / "wav.scp"],
        outputs=[output / "statistics.scp"],
        preload=["espnet_ext.longform.recording_features"],
    )


def keeps_features(run: Run) -> bool:
    """Return whether the features of the podcasts are computed once."""
    # True in the YAML of a scale, text in an option
    return run.setting("keep_features") in (True, "true")


def compute_statistics(
    data: str,
    output: str,
    features_conf: Mapping[str, Any],
    keep_features: bool,
    skip_silent: float,
    nj: int,
    parallel: Place | None,
) -> None:
    """Write mean and deviation of each recording of a data dir.

    With ``keep_features`` its features are written, too.
    """
    from espnet_ext.longform.recording_features import write_statistics

    count = write_statistics(
        data,
        output,
        features_conf,
        keep_features=keep_features,
        skip_silent=skip_silent,
        nj=nj,
        parallel=parallel,
    )
    print(f"{count} recordings -> {output}/statistics.scp")


def list_recording_tables(
    run: Run, config: Mapping[str, Any], name: str
) -> list[tuple[Path, str, str]]:
    """Return the tables of a set that training on recordings reads.

    Each has a path, a name and a type.
    """
    own_dev = run.synthetic or run.of_data_dirs
    part = name
    # podcasts that were held out are of the training part
    if name == corpora.VALID and not own_dev:
        part = corpora.TRAIN
    stats = run.locate_stats(config) / name
    data_dir = run.datadir / name
    tables = {
        "speech": data_dir / "wav.scp",
        "duration": data_dir / "utt2dur",
        "words": run.datadir / f"{run.corpus_option}_words_{part}.scp",
        "statistics": stats / "statistics.scp",
    }
    if keeps_features(run):
        tables["features"] = stats / "features.scp"
    return [(path, key, "text") for key, path in tables.items()]


def limit_gpus(run: Run, system: System) -> Run:
    """Return the run with no more GPUs than a batch of a system has sequences."""
    chunks = merge_system_config(run.sections, system)["chunk_conf"]
    sequences = math.ceil(chunks["batch_seconds"] / chunks["max_seconds"])
    if run.ngpu <= sequences:
        return run
    show(
        f"train {system.name}: on {sequences} of {run.ngpu} GPUs, since a batch "
        "has so many sequences of "
        f"{chunks['max_seconds']:g} s to share"
    )
    return replace(run, options={**run.options, "ngpu": str(sequences)})


def train_system(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    values = corpora.merge_training_config(run, system)
    sets = {
        "train": list_recording_tables(run, values, corpora.TRAIN),
        "valid": list_recording_tables(run, values, corpora.VALID),
    }
    pieces = asr.locate_tokens(run)
    token_type = run.sections["settings"]["token_type"]
    options = ["--seed", str(seed), *list_token_options(pieces, token_type)]
    inputs = []
    for part, tables in sets.items():
        options += list_data_options(part, tables)
        inputs += [path for path, _, _ in tables]
    config = run.write_config(system.name, values, f"system {system.name}")
    yield train_step(
        limit_gpus(run, system),
        run.locate_training(system, seed),
        "asr_train_long",
        options,
        inputs=[*inputs, pieces / "tokens.txt"],
        files={"--config": config},
    )


@corpora.trains
def training(run: Run) -> None:
    run_each_system(run, train_system)


def locate_model(run: Run, system: System, seed: int) -> Path:
    """Return the parameters of a system: trained here, or published by the authors."""
    published = run.path(corpora.PUBLISHED)
    if published:
        return published / system.name / f"seed{seed}" / MODEL
    return run.locate_training(system, seed) / LATEST


def decode_system(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    """Decode by a system in one step for all decodings: it loads the model once."""
    folder = run.locate_training(system, seed)
    decodings = run.decodings[system.name]
    model = locate_model(run, system, seed)
    # of TED-LIUM, what its reference leaves out is silenced
    ignored = run.datadir / "tedlium_ignored_test.txt"
    jobs: list[dict[str, Any]] = []
    for decoding, names in decodings.items():
        for name in names:
            job = {
                "config": run.write_decode_config(decoding),
                "data": str(run.datadir / name),
                "output": str(folder / f"decode_{decoding}" / name),
                "zeroed": ignored if name == "tedlium" else None,
            }
            jobs.append(job)
    if run.ngpu and not run.parallel:
        nj = run.ngpu  # windows of an hour fill a GPU
    yield Step(
        name=f"decode {folder.relative_to(run.expdir)} ({' '.join(decodings)})",
        log=folder / "log" / f"decode_{'_'.join(decodings)}.log",
        function=decode_windows,
        arguments={
            "model_config": model.with_name("config.yaml"),
            "model_file": model,
            "jobs": jobs,
            "musan": run.options["musan"],
        },
        free=make_free_arguments(run, ngpu=run.gpu) | {"nj": nj},
        inputs=[
            model.with_name("config.yaml"),
            *dict.fromkeys(Path(job["data"]) / "wav.scp" for job in jobs),
        ],
        outputs=[Path(job["output"]) / "text" for job in jobs],
        preload=[
            "espnet_ext.longform.decoding.decode",
            "espnet_ext.longform.decoding.posteriors",
            "espnet2.tasks.asr",
        ],
    )


def decode_windows(
    model_config: Path,
    model_file: Path,
    jobs: Sequence[Mapping[str, Any]],
    musan: str,
    nj: int,
    parallel: Place | None,
    ngpu: int,
) -> None:
    """Decode data dirs by moving windows, each with its own config."""
    from espnet_ext.longform.decoding.decode import LongDecoding, decode_long
    from espnet_ext.longform.decoding.settings import DecodeSettings
    from espnet_ext.work.settings import check_settings

    decodings = []
    for job in jobs:
        config = job["config"]
        decoding = LongDecoding(
            model_config,
            model_file,
            data=Path(job["data"]),
            output=Path(job["output"]),
            settings=check_settings(DecodeSettings, read_yaml(config), str(config)),
            zeroed=job["zeroed"],
            musan=Path(musan) if musan else None,
            ngpu=ngpu,
        )
        decodings.append(decoding)
    print(f"{decode_long(*decodings, nj=nj, parallel=parallel)} recordings decoded")


@corpora.for_systems
def decoding(run: Run) -> None:
    run_each_system(run, decode_system, shards=True)


def score_system(run: Run, system: System, seed: int) -> Iterator[Step]:
    normaliser = run.sections["settings"]["normaliser"]
    folder = run.locate_training(system, seed)
    for name, sets in run.decodings[system.name].items():
        for part in sets:
            decoded = folder / f"decode_{name}" / part
            kinds = locate_kinds(run, part)
            yield asr.score_step(run, part, decoded, normaliser=normaliser, kinds=kinds)


def locate_kinds(run: Run, part: str) -> Path | None:
    """Return the file of the kinds of words of a synthetic test set, otherwise None."""
    if run.of_data_dirs:
        return None
    # a test corpus that is not given is synthetic; there is no option for the control
    is_synthetic = run.synthetic if part == corpora.CONTROL else not run.options[part]
    if not is_synthetic:
        return None
    return run.datadir / "corpus" / "kinds" / f"{part}.txt"


def scoring(run: Run) -> None:
    run_jobs(
        score_system(run, system, seed) for system in run.systems for seed in run.seeds
    )
    if measures_context(run):
        run_steps(context_step(run))


def measures_context(run: Run) -> bool:
    """Return whether memory and speed of long contexts are measured."""
    return CONTEXT_TABLE in {table.id for table in run.selected}


def context_step(run: Run) -> Step:
    """Measure the longest context in training and the frames per second of Table 1."""
    settings = run.sections["settings"]
    scale = settings["context_scale"]
    config = load_scale(Path(), scale)["train"]
    return Step(
        name="cost of long contexts",
        log=run.expdir / "log" / "context.log",
        function=measure_context,
        arguments={
            "config": run.write_config(
                "context", config, f"section train of scale {scale}"
            ),
            "seconds": settings["context_seconds"],
            "ngpu": run.gpu,
            "expdir": str(run.expdir),
        },
        outputs=[run.expdir / "context.json"],
        launch=run.decode_launch,
    )


def measure_context(config: Path, seconds: float, ngpu: int, expdir: str) -> None:
    """Call local/bench_context.py in this process, which is the step's own."""
    device = choose_device(ngpu)
    options = ["--config", str(config), "--seconds", str(seconds), "--device", device]
    sys.path.insert(0, "local")  # for what it imports
    bench = load_script(Path("local", "bench_context.py"))
    bench.main([*options, "--output", f"{expdir}/context.json", "--expdir", expdir])


def tables(run: Run) -> None:
    """Make the tables; test sets that were not given are synthetic, and so called."""
    synthetic = []
    for name in (*corpora.TEST_CORPORA, corpora.CONTROL):
        is_given = bool(run.options.get(name)) or run.of_data_dirs
        # the control set is a part of the synthetic podcasts
        if not is_given and (name != corpora.CONTROL or run.synthetic):
            synthetic.append(name)
    asr.tables(
        run,
        corpus="published models" if run.options[corpora.PUBLISHED] else None,
        synthetic_sets=synthetic,
    )


def check(run: Run) -> None:
    """Refuse options that do not fit each other, or would end a run after work."""
    if run.options["scale"] == "full":
        for name in corpora.list_used_paths(run):
            if not run.options[name]:
                raise InputError(
                    f"--scale full needs --{name} DIR for these rows; README.md "
                    "says how to get it"
                )
    check_synthetic_tables(run)
    check_rooms(run)
    corpora.check_own_recordings(run)
    if run.own:
        check_own_config(run.own)
    if run.options["musan"]:
        find_noise("music", run.options["musan"])
    if run.options[corpora.PUBLISHED]:
        for system, seed in product(run.systems, run.seeds):
            check_published_model(run, system, seed)


def check_synthetic_tables(run: Run) -> None:
    """Refuse tables that need the synthetic corpora if others are given."""
    needs = []
    for table in run.selected:
        for column in table.columns:
            if column.measure or column.sets == (corpora.CONTROL,):
                needs.append(table.id)
    others = ("spotify", "audio", "data", corpora.PUBLISHED, *corpora.TEST_CORPORA)
    given = [f"--{name}" for name in others if run.options[name]]
    if needs and given:
        raise InputError(
            f"{needs[0]}: only the synthetic corpora say which names are drowned: "
            f"leave out {' '.join(given)}"
        )


def check_rooms(run: Run) -> None:
    """Refuse tables of noisy rooms if their data dirs are not given."""
    # those of --data are replaced by its own test sets
    if run.of_data_dirs:
        return
    for table in run.selected:
        for column in table.columns:
            if column.sets and set(column.sets) <= set(corpora.ROOMS):
                raise InputError(
                    f"{table.id}: its test sets are made by local/noisy_rooms.py: "
                    "give their folder with --data"
                )


def check_published_model(run: Run, system: System, seed: int) -> None:
    """Refuse a published model that is not there, or is not that of the system."""
    model = locate_model(run, system, seed)
    if not model.is_file():
        raise InputError(
            f"{model}: no such file: make it with local/import_checkpoint.py, "
            "or choose other --rows"
        )
    config = merge_system_config(run.sections, system)
    published_models.check_model(model.with_name(CONFIG), system.name, config)


def check_own_config(own: OwnSystem) -> None:
    """Refuse what, of a user's own config, only our training on recordings reads."""
    place = f"--{own.option} {own.source}"
    for name in ("chunk_conf", "features_conf"):
        if not isinstance(own.config.get(name), Mapping):
            raise InputError(f"{place}: {name}: must be a mapping (key: value)")
    try:
        read_schedule(own.config["chunk_conf"])
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


RECIPE = Recipe(
    corpus="spotify",
    trained={"asr_config": Trained(unknown=LONG_KEYS)},
    instead=("audio", corpora.PUBLISHED),
    options={
        "table": "",
        "figure": "",
        "tedlium": "",
        "earnings22": "",
        "rev16": "",
        "musan": "",
        "keep_features": "",
        "passes": "",
        "schedule": "",
        corpora.HELD_OUT: "",
        **dict.fromkeys(corpora.ALIGNED, ""),
    },
    choices={"keep_features": ("true", "false"), "schedule": ("counts", "shares")},
    paths=("tedlium", "earnings22", "rev16", "musan", *corpora.ALIGNED),
    variant=lambda options: corpora.PUBLISHED if options[corpora.PUBLISHED] else "",
    choose_tables=choose_tables,
    untagged=("table", "figure", "keep_features"),
    check=check,
    trains=lambda run: not run.options[corpora.PUBLISHED],
    uses_gpu_here=lambda run: "Table 1" if measures_context(run) else "",
    stages={
        "data": corpora.data,
        "tokens": tokens,
        "statistics": statistics,
        "training": training,
        "decoding": decoding,
        "scoring": scoring,
        "tables": tables,
    },
)
