"""The stages of run.sh: BLSTM models with Small Energy Masking, trained layer by layer on LibriSpeech."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from espnet_ext.recipe import asr, systems
from espnet_ext.recipe.language_model import train_language_model
from espnet_ext.recipe.own_system import Trained
from espnet_ext.recipe.run import Recipe, Run
from espnet_ext.recipe.steps import Step, run_jobs, run_steps
from espnet_ext.recipe.training import average_step
from espnet_ext.sem import pretraining
from espnet_ext.sem.curriculum import Selection, audio_share, write_selection
from espnet_ext.tables.plans.tables import System
from espnet_ext.work.settings import checked
from espnet_ext.work.yaml_files import read_yaml

TEST_SETS = ("test-clean", "test-other")
DEV_SETS = ("dev-clean", "dev-other")


def parts(run: Run) -> list[str]:
    """The parts of LibriSpeech that are used."""
    return [*run.sections["settings"]["train_parts"], *DEV_SETS, *TEST_SETS]


def data(run: Run) -> None:
    if run.synthetic:
        run_steps(asr.synthetic_corpus(run, "librispeech"))
    folders, names = [run.corpus / part for part in parts(run)], {part: part for part in parts(run)}
    run_steps(
        asr.data_step(run, "librispeech", folders, names, corpus_dir=str(run.corpus), parts=parts(run)),
        asr.combine_step(run, "train", run.sections["settings"]["train_parts"]),
        asr.combine_step(run, "dev", DEV_SETS),
    )


def tokens(run: Run) -> None:
    settings = run.sections["settings"]
    run_steps(asr.tokens_step(run, "train", asr.tokens_dir(run), settings["token_type"], settings["vocab_size"]))


def statistics(run: Run) -> None:
    config = run.features_config()
    token_type = run.sections["settings"]["token_type"]
    run_steps(asr.statistics_step(run, config, "train", "dev", asr.tokens_dir(run), token_type))


def language_model(run: Run) -> None:
    text = run.path("lm_text") or run.corpus / "librispeech-lm-norm.txt.gz"
    run_jobs([train_language_model(run, text, "dev", asr.tokens_dir(run), run.sections["settings"]["token_type"])])


def selections(run: Run) -> list[Selection]:
    """What trainings see of the training set, each selection once."""
    max_tokens = run.sections["settings"]["max_tokens"]
    if not pretrains(run):
        return [Selection(max_tokens)]
    settings = checked(pretraining.PretrainSettings, run.sections["pretrain"], pretraining.WHAT)
    steps = pretraining.plan(read_yaml(run.section_config("train")), settings, max_tokens)
    return list(dict.fromkeys(step.selection for step in steps))


def pretrains(run: Run) -> bool:
    return str(run.setting("pretrain")).lower() == "true"


def shapes_of(run: Run, selection: Selection) -> Path | None:
    """The shape file of a selection; None if it takes all."""
    return run.stats / "train" / "train" / f"speech_shape.{selection.name}" if selection.name else None


def selection_step(run: Run, selection: Selection, shapes: Path) -> Step:
    token_type = run.sections["settings"]["token_type"]
    stats = run.stats / "train" / "train"
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
    """A system's trainings: layer by layer, where the scale pre-trains, then all of it."""
    folder = run.expdir / system.name / f"seed{seed}"
    config = run.system_config(system)
    if pretrains(run) and pretraining.grows(read_yaml(config)):  # a config of the user's own may have another encoder
        yield from pretrained(run, folder, config, seed)
    else:
        selection = Selection(run.sections["settings"]["max_tokens"])
        yield training_step(run, folder, config, selection, seed)
    yield average_step(run, folder, run.setting("average"))


def training_step(
    run: Run, folder: Path, config: Path, selection: Selection, seed: int, after: Step | None = None
) -> Step:
    """A training; ``after`` is the step that has made its initial parameters."""
    initial = ["--init_param", str(after.arguments["output"])] if after else []
    token_type = run.sections["settings"]["token_type"]
    return asr.asr_train_step(
        run,
        folder,
        config,
        "train",
        "dev",
        asr.tokens_dir(run),
        token_type,
        seed,
        options=initial,
        inputs=[after.note] if after else [],
        shapes=shapes_of(run, selection),
    )


def pretrained(run: Run, folder: Path, config: Path, seed: int) -> Iterator[Step]:
    """The trainings before that of a system itself, and it itself; each begins with what the one before has learnt.

    Checkpoints of a step are removed when its parameters have been carried over, and only its logs stay. So steps
    depend on the notes of those before them and not on their files.
    """
    place = folder / "pretrain"
    carried: Step | None = None
    steps = pretraining.write_plan(
        config,
        run.sections["pretrain"],
        place / "configs",
        run.sections["settings"]["max_tokens"],
        partial(_share, run),
    )
    for number, (step, step_config) in enumerate(steps):
        final = step.name == pretraining.FINAL
        training = training_step(
            run, folder if final else place / step.name, step_config, step.selection, seed, carried
        )
        yield training
        if carried:
            yield _remove(f"initial parameters of {step.name}", Path(carried.arguments["output"]).parent, training)
        if not final:
            carried = _carry(run, place, step.name, steps[number + 1], training, seed)
            yield carried
            yield _remove(f"checkpoints of {step.name}", place / step.name, carried)


def _share(run: Run, selection: Selection) -> float:
    shapes = shapes_of(run, selection)
    return audio_share(shapes) if shapes else 1.0


def _carry(
    run: Run, place: Path, name: str, following: tuple[pretraining.PretrainStep, Path], training: Step, seed: int
) -> Step:
    (step, config), before = following, place / name
    output = place / "initial" / step.name / "initial.pth"
    return Step(
        name=f"carry over to {place.relative_to(run.expdir)}/{step.name}",
        log=place / "log" / f"{step.name}.log",
        function=pretraining.carry_parameters,
        arguments={
            "before": str(before),
            "config": config,
            "seed": seed,
            "output": str(output),
            "history": str(pretraining.history_file(place / "configs", step.name)),
            "moments": str(pretraining.moments_file(place / "configs", step.name)),
        },
        inputs=[training.note],
        preload=["espnet2.tasks.asr"],
    )


def _remove(what: str, folder: Path, after: Step) -> Step:
    return Step(
        name=f"remove {what}",
        log=folder / "log" / "remove.log",
        function=pretraining.remove_checkpoints,
        arguments={"folder": str(folder)},
        inputs=[after.note],
    )


def training(run: Run) -> None:
    chosen = [(selection, shapes_of(run, selection)) for selection in selections(run)]
    run_steps(*(selection_step(run, selection, shapes) for selection, shapes in chosen if shapes))
    run.each_system(train_system)


def decoding(run: Run) -> None:
    run.each_system(
        lambda run, system, seed, nj: systems.decode_system(run, system, seed, nj, TEST_SETS, asr.tokens_dir(run))
    )


def scoring(run: Run) -> None:
    run_jobs([systems.score_systems(run, TEST_SETS)])


RECIPE = Recipe(
    corpus="librispeech",
    trained={"asr_config": Trained()},
    options={"pretrain": "", "average": "", "lm_text": "", "lm_size": ""},
    paths=("lm_text",),
    choices={"pretrain": ("true", "false"), "lm_size": ("small", "large")},
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
