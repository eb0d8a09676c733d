"""The stages of run.sh: decoders with language-related attention, trained on Mandarin-English code-switching speech."""

from collections.abc import Iterator

from espnet_ext.recipe import asr
from espnet_ext.recipe.run import Recipe, Run
from espnet_ext.recipe.steps import Step, run_jobs, run_steps
from espnet_ext.results.plans.tables import System

TEST_SETS = ("dev", "test")
VALID_SET = "dev"


def train_parts(run: Run) -> list[str]:
    """All parts that a system may be trained on. They share one vocabulary, so every table needs all of them."""
    return run.sections["settings"]["train_parts"]


def training_set(system: System) -> str:
    """The data dir that a system is trained on: ``a+b`` for the parts a and b."""
    return "+".join(system.data)


def training_sets(run: Run) -> list[str]:
    """The training sets of this run, each once."""
    return list(dict.fromkeys(training_set(system) for system in run.systems))


def data(run: Run) -> None:
    librispeech = run.path("librispeech")
    if run.synthetic:
        run_steps(asr.synthetic_corpus(run, "asru2019"))
    run_steps(
        asr.manifests(
            run,
            "asru2019",
            [run.corpus, *([librispeech] if librispeech else [])],
            corpus_dir=str(run.corpus),
            librispeech_dir=librispeech and str(librispeech),
            parts=[*train_parts(run), *TEST_SETS],
        )
    )


def format_data(run: Run) -> None:
    sets = ["+".join(train_parts(run)), *training_sets(run)]
    run_steps(
        asr.format_step(run, "asru2019", {part: part for part in (*train_parts(run), *TEST_SETS)}),
        *(asr.combine_step(run, name, name.split("+")) for name in dict.fromkeys(sets) if "+" in name),
    )


def tokens(run: Run) -> None:
    settings = run.sections["settings"]
    run_steps(
        asr.tokens_step(
            run,
            "+".join(train_parts(run)),
            asr.tokens_dir(run),
            settings["token_type"],
            settings["vocab_size"],
            english=settings["english_parts"],
        )
    )


def statistics(run: Run) -> None:
    token_type = run.sections["settings"]["token_type"]
    config = run.section_config("train")  # all systems have the same features
    for name in training_sets(run):
        run_steps(asr.statistics_step(run, config, name, VALID_SET, asr.tokens_dir(run), token_type))


def train_system(run: Run, system: System, seed: int, nj: int) -> Iterator[Step]:
    languages = asr.tokens_dir(run) / "languages.txt"
    options = ["--decoder_conf", f"languages_file={languages}"]
    return asr.train_and_average(
        run, system, seed, training_set(system), VALID_SET, asr.tokens_dir(run), options=options
    )


def training(run: Run) -> None:
    run.each_system(train_system)


def decoding(run: Run) -> None:
    run.each_system(
        lambda run, system, seed, nj: asr.decode_system(run, system, seed, nj, TEST_SETS, asr.tokens_dir(run))
    )


def scoring(run: Run) -> None:
    run_jobs([asr.score_systems(run, TEST_SETS, "mer")])


RECIPE = Recipe(
    corpus="asru2019",
    options={"librispeech": "", "average": ""},
    paths=("librispeech",),
    stages={
        "data": data,
        "format": format_data,
        "tokens": tokens,
        "statistics": statistics,
        "training": training,
        "decoding": decoding,
        "scoring": scoring,
        "tables": asr.tables,
    },
)
