"""The parts of LibriSpeech for recipes that train and test on it."""

from collections.abc import Sequence
from pathlib import Path

from espnet_ext.corpora.data_dirs import DEV, TRAIN
from espnet_ext.corpora.librispeech import LM_TEXT
from espnet_ext.recipe import asr
from espnet_ext.recipe.run import Run
from espnet_ext.recipe.steps import run_steps


def drop_other_parts(run: Run, parts: Sequence[str]) -> list[str]:
    """Return parts; with ``--clean_only true`` without the "other" ones."""
    if run.options["clean_only"] != "true":
        return list(parts)
    return [part for part in parts if "other" not in part.split("-")]


def list_train_parts(run: Run) -> list[str]:
    """Return the parts that systems are trained on (a setting of the scale)."""
    if run.of_data_dirs:
        return [TRAIN]
    return drop_other_parts(run, run.sections["settings"]["train_parts"])


def list_dev_sets(run: Run) -> list[str]:
    """Return the parts on which trainings are watched and weights are tuned."""
    if run.of_data_dirs:
        return [DEV]
    return drop_other_parts(run, ("dev-clean", "dev-other"))


def list_test_sets(run: Run) -> list[str]:
    """Return the parts on which systems are compared."""
    if run.of_data_dirs:
        return run.data_tests
    return drop_other_parts(run, ("test-clean", "test-other"))


def choose_dev_set(run: Run, test_set: str) -> str:
    """Return the part on which weights for a test set are tuned."""
    if run.of_data_dirs:
        return DEV
    return test_set.replace("test-", "dev-")


def find_lm_text(run: Run) -> Path:
    """Return the text of language models: the user's, or the one in the corpus."""
    return run.path("lm_text") or run.corpus / LM_TEXT


def prepare(run: Run, size: str = "") -> None:
    """Check all these parts and write their data dirs.

    If the corpus is the synthetic one, it is made first, in this ``size``.
    """
    if run.synthetic:
        run_steps(asr.synthetic_corpus_step(run, "librispeech", size=size))
    if run.of_data_dirs:
        run_steps(asr.data_dirs_step(run))
        return
    parts = [*list_train_parts(run), *list_dev_sets(run), *list_test_sets(run)]
    run_steps(
        asr.data_step(
            run,
            "librispeech",
            [run.corpus / part for part in parts],
            {part: part for part in parts},
            corpus_dir=str(run.corpus),
            parts=parts,
        )
    )
