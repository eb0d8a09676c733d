"""The stages of run.sh: BLSTM models with Small Energy Masking on LibriSpeech."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table
from espnet_ext.recipe import asr
from espnet_ext.recipe.audio_check import run_beside_audio_check
from espnet_ext.recipe.gpus import run_each_system
from espnet_ext.recipe.language_model import (
    require_lm_text,
    train_language_model,
    uses_language_model,
)
from espnet_ext.recipe.librispeech import (
    find_lm_text,
    list_dev_sets,
    list_test_sets,
    list_train_parts,
    prepare,
)
from espnet_ext.recipe.own_system import Trained
from espnet_ext.recipe.run import Recipe, Run
from espnet_ext.recipe.steps import Step, run_jobs, run_steps
from espnet_ext.recipe.training import average_step, list_token_options
from espnet_ext.sem import pretraining
from espnet_ext.sem.curriculum import (
    Selection,
    read_audio_share,
    select_utterances,
    write_selection,
)
from espnet_ext.tables.plan import merge_system_config
from espnet_ext.tables.schema import System
from espnet_ext.text.lm_text import write_lengths
from espnet_ext.work.settings import check_settings


def check(run: Run) -> None:
    """Refuse rows that lack the text of a language model, and unfit pre-training."""
    if not run.synthetic and uses_language_model(run):
        require_lm_text(find_lm_text(run))
    for system in run.systems:
        try:
            plan_pretraining(run, merge_system_config(run.sections, system))
        except InputError as error:
            raise InputError(f"system {system.name}: {error}") from None


def data(run: Run) -> None:
    prepare(run)
    # Data dirs are called train and dev already.
    if run.of_data_dirs:
        return
    run_steps(
        asr.combine_step(run, "train", list_train_parts(run)),
        asr.combine_step(run, "dev", list_dev_sets(run)),
    )


def tokens(run: Run) -> None:
    settings = run.sections["settings"]
    run_steps(
        asr.tokens_step(
            run,
            "train",
            asr.locate_tokens(run),
            settings["token_type"],
            settings["vocab_size"],
        )
    )


def statistics(run: Run) -> None:
    """Collect statistics of the features of each system, of the same ones once."""
    token_type = run.sections["settings"]["token_type"]
    run_beside_audio_check(
        run,
        *(
            asr.statistics_step(
                run, config, "train", "dev", asr.locate_tokens(run), token_type
            )
            for config in group_configs_by_features(run).values()
        ),
    )


def group_configs_by_features(run: Run) -> dict[Path, dict[str, Any]]:
    """Return a config for each kind of features, by the folder of its statistics."""
    configs = [merge_system_config(run.sections, system) for system in run.systems]
    return {run.locate_stats(config): config for config in configs}


def language_model(run: Run) -> None:
    token_type = run.sections["settings"]["token_type"]
    run_jobs(
        [
            train_language_model(
                run, find_lm_text(run), "dev", asr.locate_tokens(run), token_type
            )
        ]
    )


def plan_pretraining(
    run: Run, config: Mapping[str, Any]
) -> list[tuple[pretraining.Stage, Selection]]:
    """Return the stages of a training before its whole network is trained.

    There are none without pre-training.
    """
    # A config of the user's own may have another encoder.
    if not has_pretraining(run) or not pretraining.can_grow(config):
        return []
    values = run.sections["pretrain"]
    # Of data dirs nobody knows which utterances are clean.
    if run.of_data_dirs:
        values = {**values, "short_parts": ()}
    settings = check_settings(pretraining.PretrainSettings, values, "pre-training")
    return pretraining.plan_stages(
        config, settings, run.sections["settings"]["max_tokens"]
    )


def list_selections(run: Run, config: Mapping[str, Any]) -> list[Selection]:
    """Return what a training sees of the training set, each selection once."""
    found = [
        Selection(run.sections["settings"]["max_tokens"]),
        *(selection for _, selection in plan_pretraining(run, config)),
    ]
    return list(dict.fromkeys(found))


def has_pretraining(run: Run) -> bool:
    return str(run.setting("pretrain")).lower() == "true"


def locate_shapes(stats: Path, selection: Selection) -> Path:
    """Return the shape file of a selection, in the folder of statistics.

    It is ESPnet's own if the selection takes all.
    """
    shapes = stats / "train" / "train" / "speech_shape"
    if not selection.name:
        return shapes
    return shapes.with_name(f"speech_shape.{selection.name}")


def list_selection_steps(run: Run) -> list[Step]:
    """Select what trainings see, once for all that see the same."""
    steps = {}
    for system in run.systems:
        config = merge_system_config(run.sections, system)
        for selection in list_selections(run, config):
            # Systems with the same features share a file, and so a step.
            if selection.name:
                step = make_selection_step(run, run.locate_stats(config), selection)
                steps[step.outputs[0]] = step
    return list(steps.values())


def make_selection_step(run: Run, every_stats: Path, selection: Selection) -> Step:
    token_type = run.sections["settings"]["token_type"]
    stats = every_stats / "train" / "train"
    shapes = locate_shapes(every_stats, selection)
    return Step(
        name=f"selection {selection.name}",
        log=stats / "log" / f"{shapes.name}.log",
        function=write_selection,
        arguments={
            "text": run.datadir / "train" / "text",
            "stats": str(stats),
            "token_type": token_type,
            "selection": selection,
            "output": str(shapes),
        },
        inputs=[stats / "speech_shape", stats / f"text_shape.{token_type}"],
        outputs=[shapes],
    )


def train_system(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    """Train a system: its encoder grows layer by layer where the scale pre-trains."""
    folder = run.locate_training(system, seed)
    path = run.write_system_config(system)
    config = merge_system_config(run.sections, system)
    stages = plan_pretraining(run, config)
    stats = run.locate_stats(config)
    if stages:
        staged = pretraining.make_staged_config(
            config, stages, partial(describe_seen, run, stats)
        )
        path = run.write_config(
            f"{system.name}_growing", staged, f"system {system.name}, which grows"
        )
    shapes = [locate_shapes(stats, selection) for _, selection in stages]
    yield asr.asr_train_step(
        run,
        folder,
        path,
        "train",
        "dev",
        asr.locate_tokens(run),
        run.sections["settings"]["token_type"],
        seed,
        task="growing_asr" if stages else "asr",
        inputs=list(dict.fromkeys(shapes)),
        shapes=locate_shapes(stats, Selection(run.sections["settings"]["max_tokens"])),
    )
    # From this epoch on the whole network is trained. Earlier ones are of others, whose
    # parameters have no mean with its.
    whole = 1 + sum(stage.epochs for stage, _ in stages)
    # CTC alone has no accuracy on the dev sets.
    is_ctc = config.get("model_conf", {}).get("ctc_weight") == 1
    yield average_step(
        run,
        folder,
        run.setting("average"),
        criterion="valid.loss.min" if is_ctc else "valid.acc.max",
        first_epoch=whole,
    )


def describe_seen(run: Run, stats: Path, selection: Selection) -> tuple[str, float]:
    """Return the shape file of a selection, and its share of the audio."""
    shapes = locate_shapes(stats, selection)
    if not selection.name:
        return str(shapes), 1.0
    return str(shapes), compute_whole_share(run, selection) or read_audio_share(shapes)


def compute_whole_share(run: Run, selection: Selection) -> float:
    """Return a selection's share of the whole corpus's audio in a rehearsal.

    It is 0 otherwise. A rehearsal's own utterances are the longest, which tell nothing
    of that share.
    """
    if run.rehearsed is None:
        return 0.0
    data = run.rehearsed / "train"
    texts = read_table(data / "text")
    lengths = read_table(locate_whole_lengths(run))
    tokens = {key: int(length) for key, length in lengths.items()}
    characters = {key: len(text) for key, text in texts.items()}
    seconds = {key: float(value) for key, value in read_table(data / "utt2dur").items()}
    kept = select_utterances(tokens, characters, selection)
    return sum(seconds[key] for key in kept) / sum(seconds.values())


def locate_whole_lengths(run: Run) -> Path:
    """Return a rehearsal's file with the tokens of each utterance of the corpus."""
    return run.datadir / "whole_lengths"


def make_lengths_step(run: Run, texts: Path) -> Step:
    """Count the tokens of the whole corpus, in a rehearsal."""
    kind = run.sections["settings"]["token_type"]
    options = list_token_options(asr.locate_tokens(run), kind)
    # The values of ESPnet's options: the kind of the tokens, and their model if any.
    tokeniser = [options[3], *options[5:]]
    return Step(
        name="lengths of the whole corpus",
        log=run.datadir / "log" / "whole_lengths.log",
        function=write_lengths,
        arguments={
            "text": texts,
            "tokeniser": tokeniser,
            "output": str(locate_whole_lengths(run)),
        },
        inputs=[Path(path) for path in tokeniser[1:]],
        outputs=[locate_whole_lengths(run)],
        preload=["espnet2.text.build_tokenizer"],
    )


def training(run: Run) -> None:
    if run.rehearsed:
        run_steps(make_lengths_step(run, run.rehearsed / "train" / "text"))
    run_steps(*list_selection_steps(run))
    run_each_system(run, train_system)


def decoding(run: Run) -> None:
    run_each_system(
        run,
        lambda run, system, seed, nj: asr.decode_system(
            run, system, seed, nj, list_test_sets(run), asr.locate_tokens(run)
        ),
        shards=True,
    )


def scoring(run: Run) -> None:
    run_jobs([asr.score_systems(run, list_test_sets(run))])


RECIPE = Recipe(
    corpus="librispeech",
    trained={"asr_config": Trained()},
    options={
        "pretrain": "",
        "average": "",
        "lm_text": "",
        "lm_size": "",
        "clean_only": "false",
    },
    paths=("lm_text",),
    choices={
        "pretrain": ("true", "false"),
        "lm_size": ("small", "large"),
        "clean_only": ("true", "false"),
    },
    check=check,
    decoding=("average", "lm_size"),
    stages={
        "data": data,
        "tokens": tokens,
        "statistics": statistics,
        "language_model": language_model,
        "training": training,
        "decoding": decoding,
        "scoring": scoring,
        "tables": asr.tables,
    },
)
