"""The stages of run.sh: what is special about the paper. What several recipes share is in espnet_ext.recipe."""

from collections.abc import Iterator

from espnet_ext.recipe import asr
from espnet_ext.recipe.own_system import Trained
from espnet_ext.recipe.run import Recipe, Run
from espnet_ext.recipe.steps import Step, run_jobs, run_steps
from espnet_ext.tables.schema import System

TEST_SETS = ("test-clean", "test-other")
DEV_SETS = ("dev-clean", "dev-other")


def parts(run: Run) -> list[str]:
    """The parts of the corpus that are used."""
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
    token_type = run.sections["settings"]["token_type"]
    run_steps(asr.statistics_step(run, run.features_config(), "train", "dev", asr.tokens_dir(run), token_type))


def train_system(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    return asr.train_and_average(run, system, seed, "train", "dev", asr.tokens_dir(run))


def training(run: Run) -> None:
    run.each_system(train_system)


def decode_system(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    return asr.decode_system(run, system, seed, nj, TEST_SETS, asr.tokens_dir(run))


def decoding(run: Run) -> None:
    run.each_system(decode_system, shards=True)


def scoring(run: Run) -> None:
    run_jobs([asr.score_systems(run, TEST_SETS)])


RECIPE = Recipe(
    corpus="librispeech",
    trained={"asr_config": Trained()},
    stages={
        "data": data,
        "tokens": tokens,
        "statistics": statistics,
        "training": training,
        "decoding": decoding,
        "scoring": scoring,
        "tables": asr.tables,
    },
)
