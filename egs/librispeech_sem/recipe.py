"""The stages of run.sh: BLSTM models with Small Energy Masking, trained layer by layer on LibriSpeech."""

from collections.abc import Iterator
from pathlib import Path

from espnet_ext.recipe import asr
from espnet_ext.recipe.language_model import train_language_model
from espnet_ext.recipe.run import Recipe, Run
from espnet_ext.recipe.steps import Step, run_jobs, run_steps
from espnet_ext.recipe.training import average_step
from espnet_ext.results.plans.tables import System
from espnet_ext.sem import pretraining

TEST_SETS = ("test-clean", "test-other")
DEV_SETS = ("dev-clean", "dev-other")


def parts(run: Run) -> list[str]:
    """The parts of LibriSpeech that are used."""
    return [*run.sections["settings"]["train_parts"], *DEV_SETS, *TEST_SETS]


def data(run: Run) -> None:
    if run.synthetic:
        run_steps(asr.synthetic_corpus(run, "librispeech"))
    folders = [run.corpus / part for part in parts(run)]
    run_steps(asr.manifests(run, "librispeech", folders, corpus_dir=str(run.corpus), parts=parts(run)))


def format_data(run: Run) -> None:
    run_steps(
        asr.format_step(run, "librispeech", {part: part for part in parts(run)}),
        asr.combine_step(run, "train", run.sections["settings"]["train_parts"]),
        asr.combine_step(run, "dev", DEV_SETS),
    )


def tokens(run: Run) -> None:
    settings = run.sections["settings"]
    run_steps(asr.tokens_step(run, "train", asr.tokens_dir(run), settings["token_type"], settings["vocab_size"]))


def statistics(run: Run) -> None:
    config = run.section_config("train")  # all systems have the same features
    token_type = run.sections["settings"]["token_type"]
    run_steps(asr.statistics_step(run, config, "train", "dev", asr.tokens_dir(run), token_type))


def language_model(run: Run) -> None:
    text = run.path("lm_text") or run.corpus / "librispeech-lm-norm.txt.gz"
    run_jobs([train_language_model(run, text, "dev", asr.tokens_dir(run), run.sections["settings"]["token_type"])])


def train_system(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    """A system's trainings: layer by layer, where the scale pre-trains, then all of it."""
    token_type = run.sections["settings"]["token_type"]
    folder = run.expdir / system.name / f"seed{seed}"
    config, files = run.system_config(system), {}
    if str(run.setting("pretrain")).lower() == "true":
        yield from pretrain(run, folder / "pretrain", config, seed)
        config, files = folder / "pretrain/configs/final.yaml", {"--init_param": folder / "pretrain/final.pth"}
    yield asr.asr_train_step(run, folder, config, "train", "dev", asr.tokens_dir(run), token_type, seed, files=files)
    yield average_step(run, folder, run.setting("average"))


def pretrain(run: Run, folder: Path, config: Path, seed: int) -> Iterator[Step]:
    """The trainings before that of a system itself; each begins with what the one before has learnt.

    They leave the config of the training itself in ``configs/final.yaml``, its initial parameters in ``final.pth``.
    """
    token_type = run.sections["settings"]["token_type"]
    before: Path | None = None
    for name, step_config in pretraining.write_plan(config, run.sections["pretrain"], folder / "configs"):
        files = {}
        if before is not None:
            initial = folder / f"{name}.pth"
            yield Step(
                name=f"carry over to {folder.relative_to(run.expdir)}/{name}",
                log=folder / "log" / f"{name}.log",
                function=pretraining.carry_parameters,
                arguments={
                    "model": before / "latest.pth",
                    "model_config": before / "config.yaml",
                    "config": step_config,
                    "seed": seed,
                    "output": initial,
                },
                inputs=[before / "latest.pth"],
                outputs=[initial],
                preload=["espnet2.tasks.asr"],
            )
            files = {"--init_param": initial}
        if name != "final":
            before = folder / name
            yield asr.asr_train_step(
                run, before, step_config, "train", "dev", asr.tokens_dir(run), token_type, seed, files=files
            )


def training(run: Run) -> None:
    run.each_system(train_system)


def decoding(run: Run) -> None:
    run.each_system(
        lambda run, system, seed, nj: asr.decode_system(run, system, seed, nj, TEST_SETS, asr.tokens_dir(run))
    )


def scoring(run: Run) -> None:
    run_jobs([asr.score_systems(run, TEST_SETS)])


RECIPE = Recipe(
    corpus="librispeech",
    options={"pretrain": "", "average": "", "lm_text": ""},
    paths=("lm_text",),
    choices={"pretrain": ("true", "false")},
    stages={
        "data": data,
        "format": format_data,
        "tokens": tokens,
        "statistics": statistics,
        "language_model": language_model,
        "training": training,
        "decoding": decoding,
        "scoring": scoring,
        "tables": asr.tables,
    },
)
