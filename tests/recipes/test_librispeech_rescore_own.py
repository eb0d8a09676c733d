"""egs/librispeech_rescore/run.sh with lists and models of one's own, and no corpus."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from runs import EGS, cells_of, smoke_run
from transformers import AutoModel, AutoTokenizer

from espnet_ext.recipe.scripts import load_script
from espnet_ext.rescore.training.small_models import make_language_model
from espnet_ext.tables.plan import load_scale
from espnet_ext.tables.score_table import read_meta, read_scores

RECIPE = "librispeech_rescore"
run = partial(smoke_run, RECIPE)
WORDS = ("THE", "CAT", "SAT", "ON", "A", "MAT", "AND", "SAW", "ONE", "MORE", "OF")
PARTS = ("dev-clean", "dev-other", "test-clean", "test-other")


def write_lists(folder: Path, part: str, speaker: int) -> None:
    lines = []
    for number in range(6):
        ref = " ".join(WORDS[number : number + 5])
        hyps = [
            {"text": text, "score": -float(rank)}
            for rank, text in enumerate((f"{ref} {ref}", ref, "A"), start=1)
        ]
        utterance = f"{speaker}-1-{number:04d}"
        lines.append(json.dumps({"utt_id": utterance, "ref": ref, "hyps": hyps}))
    (folder / f"{part}.jsonl").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    """Lists of dev, test and training sets, a causal model, and an encoder alone."""
    folder = tmp_path_factory.mktemp("own")
    lists = folder / "mine"
    lists.mkdir()
    for speaker, part in enumerate((*PARTS, "more"), start=1):
        write_lists(lists, part, speaker)
    text = folder / "text"
    text.write_text("\n".join([" ".join(WORDS)] * 50).lower() + "\n")
    sections = load_scale(EGS / RECIPE, "smoke")
    make_language_model(sections["gpt2"], [text], folder / "causal")
    make_language_model(sections["bert"], [text], folder / "masked")
    encoder = AutoModel.from_pretrained(folder / "masked")
    encoder.save_pretrained(folder / "encoder")
    AutoTokenizer.from_pretrained(folder / "masked").save_pretrained(folder / "encoder")
    return folder


def test_rows_that_train_nothing_need_neither_training_lists_nor_a_text(own, tmp_path):
    lists = tmp_path / "mine"
    lists.mkdir()
    for part in (*PARTS, "more"):
        shutil.copy(own / "mine" / f"{part}.jsonl", lists)
    rows = ("first pass", "GPT-2 initial", "10-best oracle")
    given = ("--nbest_lists", str(lists), "--gpt2", str(own / "causal"))
    done = run(*given, "--rows", ",".join(rows), folder=tmp_path)
    # a test set of another name beside LibriSpeech's is not left out in silence
    assert "lists of more are not used" in done.stdout
    assert "more than the case" not in done.stdout
    assert read_meta(tmp_path / "exp" / "results").corpus == "mine"
    cells = cells_of(RECIPE, tmp_path)
    assert all(cells[row]["test-other"].here.words for row in rows)
    assert not (tmp_path / "exp" / "lm").exists()  # nothing is adapted
    assert not (tmp_path / "data" / "corpus").exists()
    [kept] = (tmp_path / "exp" / "scores").glob("*.jsonl")
    first, *_ = kept.read_text().splitlines()
    assert json.loads(first)["casing"] == "lower"  # the scale's


def test_a_model_keeps_the_casing_it_was_saved_with(own, tmp_path):
    saved = tmp_path / "causal"
    shutil.copytree(own / "causal", saved)
    (saved / "scorer.json").write_text('{"scorer": "causal", "casing": "as-is"}')
    given = ("--nbest_lists", str(own / "mine"), "--gpt2", str(saved))
    rows = ("--train_lists", "more", "--rows", "GPT-2 initial,GPT-2 MWER")
    run(*given, *rows, folder=tmp_path)
    for kept in (tmp_path / "exp" / "scores").glob("*.jsonl"):
        first, *_ = kept.read_text().splitlines()
        assert json.loads(first)["casing"] in ("as-is", None)
    [made] = (tmp_path / "exp").glob("gpt2_mwer*/seed1/model/scorer.json")
    assert json.loads(made.read_text())["casing"] == "as-is"


def test_own_names_of_test_sets_are_the_columns(own, tmp_path):
    lists = tmp_path / "mine"
    lists.mkdir()
    names = {"dev-clean": "dev", "test-clean": "calls", "test-other": "talks_2"}
    for part, name in {**names, "more": "my_more"}.items():
        shutil.copy(own / "mine" / f"{part}.jsonl", lists / f"{name}.jsonl")
    given = ("--nbest_lists", str(lists), "--train_lists", "my-more")
    options = (*given, "--gpt2", str(own / "causal"), "--rows", "first pass,GPT-2 MWER")
    run(*options, folder=tmp_path)
    scores, meta = read_scores(tmp_path / "exp" / "results")
    assert {key.test_set for key in scores.rates} == {"calls", "talks_2"}
    assert (meta.corpus, meta.paper) == ("mine", False)
    page = (tmp_path / "exp" / "results" / "tables.md").read_text()
    assert "calls" in page and "talks_2" in page
    kept = {path.stem for path in (tmp_path / "exp" / "lists").glob("*.jsonl")}
    assert kept == {"dev", "my-more", "calls", "talks_2"}


def test_own_names_need_lists_called_dev(own, tmp_path):
    lists = tmp_path / "mine"
    lists.mkdir()
    shutil.copy(own / "mine" / "test-clean.jsonl", lists / "calls.jsonl")
    rows = ("--nbest_lists", str(lists), "--rows", "first pass")
    done = run(*rows, folder=tmp_path, status=1)
    [line] = done.stderr.strip().splitlines()
    assert str(lists) in line and "dev.jsonl" in line
    assert not (tmp_path / "exp" / "lists").exists()


def test_an_encoder_alone_begins_rescorebert_with_the_papers_rate(own, tmp_path):
    given = ("--nbest_lists", str(own / "mine"), "--train_lists", "more")
    options = (*given, "--bert", str(own / "encoder"), "--rows", "RescoreBERT")
    run(*options, folder=tmp_path)
    [report] = (tmp_path / "exp").glob("rescorebert*/seed1/training.json")
    assert json.loads(report.read_text())["key"]["lr"] == 1e-5  # not smoke's 1e-3
    assert cells_of(RECIPE, tmp_path)["RescoreBERT"]["test-clean"].here.words


@pytest.mark.parametrize(
    "options, place",
    [
        (("--rows", "BERT initial", "--bert", "encoder"), "bert_initial"),
        (("--rows", "GPT-2 initial"), "--gpt2"),
        (("--rows", "GPT-2 CE", "--gpt2", "causal"), "train-clean-100"),
        (("--rows", "GPT-2 CE", "--gpt2", "causal", "--train_lists", "x"), "x"),
        (
            ("--rows", "GPT-2 CE", "--gpt2", "causal", "--train_lists", "test-clean"),
            "--train_lists test-clean",
        ),
        (
            ("--rows", "SmolLM2 CE", "--scale", "lists", "--table", "lists"),
            "--train_lists",
        ),
    ],
)
def test_what_is_missing_is_refused_before_any_work(own, tmp_path, options, place):
    models = [str(own / word) if (own / word).is_dir() else word for word in options]
    given = ("--nbest_lists", str(own / "mine"), *models)
    done = run(*given, folder=tmp_path, status=1)
    assert place in done.stderr.strip().splitlines()[-1]
    assert not (tmp_path / "exp" / "lists").exists()


def test_lists_of_the_recipe_are_those_of_the_synthetic_corpus():
    recipe = load_script(EGS / RECIPE / "recipe.py")
    assert recipe.OUR_LISTS == EGS / RECIPE / "lists" and recipe.OUR_LISTS.is_dir()


def test_a_rehearsal_scores_a_few_lists(own, tmp_path):
    lists = tmp_path / "mine"
    lists.mkdir()
    for name, speaker in (("dev", 1), ("calls", 2)):
        write_lists(lists, name, speaker)
    given = ("--nbest_lists", str(lists), "--gpt2", str(own / "causal"))
    rows = ("--rows", "first pass,GPT-2 initial", "--rehearse", "true")
    done = run(*given, *rows, folder=tmp_path)
    # of the six lists with five words each, four
    assert "calls: 1-best: WER 100.00 % (20 errors)" in done.stdout


def test_training_on_what_is_scored_is_refused(own, tmp_path):
    lists = tmp_path / "mine"
    lists.mkdir()
    for name, speaker in (("dev", 1), ("calls", 2), ("train", 2)):
        write_lists(lists, name, speaker)
    given = ("--nbest_lists", str(lists), "--gpt2", str(own / "causal"))
    rows = ("--train_lists", "train", "--rows", "GPT-2 MWER")
    done = run(*given, *rows, folder=tmp_path, status=1)
    assert "6 utterances of train" in done.stderr and "calls" in done.stderr
