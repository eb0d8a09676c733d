"""The stages of run.sh: training on podcasts with any context, decoding whole
recordings by moving windows.
"""

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
    figures = (
        FIGURES
        if options["figure"] == "all"
        else ",".join(f"figure{n}" for n in _split(options["figure"]))
    )
    tables = CONTEXT_TABLE if options["table"] == "all" else options["table"]
    return ",".join(filter(None, (figures, tables))) or "figure1"


def _split(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


@corpora.trains
def tokens(run: Run) -> None:
    settings = run.sections["settings"]
    folder, rule = asr.tokens_dir(run), settings["token_normalisation"]
    run_steps(
        asr.tokens_step(
            run,
            corpora.TRAIN,
            folder,
            settings["token_type"],
            settings["vocab_size"],
            normalisation=rule,
        )
    )


@corpora.trains
def statistics(run: Run) -> None:
    # The dev set has few recordings, of which one that is silent may be more than the
    # share.
    shares = {
        corpora.VALID: max(run.skip_faulty, DEV_SILENT) if run.skip_faulty else 0.0,
        corpora.TRAIN: run.skip_faulty,
    }
    configs = [corpora.training_config(run, system) for system in run.systems]
    different = {run.locate_stats(config): config for config in configs}
    run_steps(
        *(
            statistics_step(run, config, name, share)
            for config in different.values()
            for name, share in shares.items()
        )
    )


def statistics_step(
    run: Run, config: Mapping[str, Any], name: str, skip_silent: float
) -> Step:
    """Compute mean and deviation of each recording, and its features if they are kept,
    for all systems that have these features.

    A share ``skip_silent`` of the recordings may be silent, and is then left out of
    training.
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
    """Return whether the features of the podcasts are computed once: the option,
    otherwise the setting of the scale.
    """
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
    """Write mean and deviation of each recording of a data dir, and with
    ``keep_features`` its features.
    """
    from espnet_ext.longform.recording_features import write_statistics

    options = {"keep_features": keep_features, "skip_silent": skip_silent}
    count = write_statistics(
        data, output, features_conf, **options, nj=nj, parallel=parallel
    )
    print(f"{count} recordings -> {output}/statistics.scp")


def recording_tables(
    run: Run, config: Mapping[str, Any], name: str
) -> list[tuple[Path, str, str]]:
    """Return the tables of a set that training on recordings reads: path, name and
    type.
    """
    # podcasts that were held out are of the training part
    own_dev = run.synthetic or run.of_data_dirs
    part = corpora.VALID if name == corpora.VALID and own_dev else corpora.TRAIN
    stats, data_dir = run.locate_stats(config) / name, run.datadir / name
    tables = {
        "speech": data_dir / "wav.scp",
        "duration": data_dir / "utt2dur",
        "words": run.datadir / f"{run.corpus_option}_words_{part}.scp",
        "statistics": stats / "statistics.scp",
    }
    if keeps_features(run):
        tables["features"] = stats / "features.scp"
    return [(path, key, "text") for key, path in tables.items()]


def with_shared_gpus(run: Run, system: System) -> Run:
    """Return the run with as many GPUs as a batch of a system has sequences to share
    among them.
    """
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
    values = corpora.training_config(run, system)
    sets = {
        "train": recording_tables(run, values, corpora.TRAIN),
        "valid": recording_tables(run, values, corpora.VALID),
    }
    folder, pieces = run.locate_training(system, seed), asr.tokens_dir(run)
    options = [
        "--seed",
        str(seed),
        *list_token_options(pieces, run.sections["settings"]["token_type"]),
    ]
    for part, tables in sets.items():
        options += list_data_options(part, tables)
    inputs = [path for tables in sets.values() for path, *_ in tables]
    config = run.write_config(system.name, values, f"system {system.name}")
    yield train_step(
        with_shared_gpus(run, system),
        folder,
        "asr_train_long",
        options,
        inputs=[*inputs, pieces / "tokens.txt"],
        files={"--config": config},
    )


@corpora.trains
def training(run: Run) -> None:
    run_each_system(run, train_system)


def model_of(run: Run, system: System, seed: int) -> Path:
    """Return the parameters of a system: trained here, or those that the authors have
    published.
    """
    name = f"seed{seed}"
    published = run.path(corpora.PUBLISHED)
    return (
        published / system.name / name / MODEL
        if published
        else run.locate_training(system, seed) / LATEST
    )


def decode_system(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    """Decode by a system in one step for all decodings: it loads the model once."""
    folder, decodings = run.locate_training(system, seed), run.decodings[system.name]
    model = model_of(run, system, seed)
    ignored = run.datadir / "tedlium_ignored_test.txt"
    jobs: list[dict[str, Any]] = [
        {
            "config": run.write_decode_config(decoding),
            "data": str(run.datadir / name),
            "output": str(folder / f"decode_{decoding}" / name),
            "zeroed": ignored if name == "tedlium" else None,
        }
        for decoding, names in decodings.items()
        for name in names
    ]
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

    decodings = [
        LongDecoding(
            model_config,
            model_file,
            data=Path(job["data"]),
            output=Path(job["output"]),
            settings=check_settings(
                DecodeSettings, read_yaml(job["config"]), str(job["config"])
            ),
            zeroed=job["zeroed"],
            musan=Path(musan) if musan else None,
            ngpu=ngpu,
        )
        for job in jobs
    ]
    print(f"{decode_long(*decodings, nj=nj, parallel=parallel)} recordings decoded")


@corpora.for_systems
def decoding(run: Run) -> None:
    run_each_system(run, decode_system, shards=True)


def score_system(run: Run, system: System, seed: int) -> Iterator[Step]:
    normaliser = run.sections["settings"]["normaliser"]
    for name, sets in run.decodings[system.name].items():
        for part in sets:
            folder = run.locate_training(system, seed) / f"decode_{name}" / part
            yield asr.score_step(
                run, part, folder, normaliser=normaliser, kinds=kinds_of(run, part)
            )


def kinds_of(run: Run, part: str) -> Path | None:
    """Return the kinds of the words of a synthetic test set."""
    if run.of_data_dirs:
        return None
    is_synthetic = run.synthetic if part == corpora.CONTROL else not run.options[part]
    return run.datadir / "corpus" / "kinds" / f"{part}.txt" if is_synthetic else None


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
    """Measure the longest context in training and the frames per second, of the four
    rows of table 1.
    """
    settings = run.sections["settings"]
    scale = settings["context_scale"]
    return Step(
        name="cost of long contexts",
        log=run.expdir / "log" / "context.log",
        function=measure_context,
        arguments={
            "config": run.write_config(
                "context",
                load_scale(Path(), scale)["train"],
                f"section train of scale {scale}",
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
    synthetic = [
        name
        for name in run.tables.file.test_sets
        if not run.options.get(name) and (name != corpora.CONTROL or run.synthetic)
    ]
    if run.of_data_dirs:
        synthetic = []
    asr.tables(
        run,
        corpus="published models" if run.options[corpora.PUBLISHED] else None,
        synthetic_sets=synthetic,
    )


def check(run: Run) -> None:
    """Refuse what needs the synthetic corpora if there are others, and options that
    would end a run after work.
    """
    if run.options["scale"] == "full":
        for name in corpora.paths_used(run):
            if not run.options[name]:
                raise InputError(
                    f"--scale full needs --{name} DIR for these rows; README.md "
                    "says how to get it"
                )
    needs = [
        table.id
        for table in run.selected
        if any(
            column.measure or column.sets == (corpora.CONTROL,)
            for column in table.columns
        )
    ]
    given = [
        f"--{name}"
        for name in (
            "spotify",
            "audio",
            "data",
            corpora.PUBLISHED,
            *corpora.TEST_CORPORA,
        )
        if run.options[name]
    ]
    if needs and given:
        raise InputError(
            f"{needs[0]}: only the synthetic corpora say which names are drowned: "
            f"leave out {' '.join(given)}"
        )
    corpora.check_own_recordings(run)
    if run.own:
        check_own_config(run.own)
    if run.options["musan"]:
        find_noise("music", run.options["musan"])
    for system, seed in product(
        run.systems if run.options[corpora.PUBLISHED] else (), run.seeds
    ):
        if not (model := model_of(run, system, seed)).is_file():
            raise InputError(
                f"{model}: no such file: make it with local/import_checkpoint.py, "
                "or choose other --rows"
            )
        published_models.check_model(
            model.with_name(CONFIG),
            system.name,
            merge_system_config(run.sections, system),
        )


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
