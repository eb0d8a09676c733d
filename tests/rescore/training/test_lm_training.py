"""Training on text: losses against those of transformers' own models, a tiny text
learnt.
"""

import math
import multiprocessing
from functools import partial

import pytest
import tiny_scorers
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    DataCollatorForLanguageModeling,
)

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.pooled import PooledScorer
from espnet_ext.rescore.models.scorers import load_lm, score_lists
from espnet_ext.rescore.training.lm_training import LmTask, train_lm
from espnet_ext.rescore.training.settings import TrainingSettings

TEXTS = [
    "the cat sat on the mat",
    "a dog ran",
    "two cats ran home",
    "he sat at home",
    "it is",
    "the dog sat",
]
make_scorer = partial(tiny_scorers.make_scorer, texts=TEXTS)


def test_causal_loss_is_that_of_the_model_itself():
    scorer = make_scorer("gpt2")
    task = LmTask(scorer)
    batch = [task.encode(text) for text in TEXTS]
    total, count = task.loss(batch, None)
    expected, tokens = 0.0, 0
    for text in TEXTS:
        ids = torch.tensor(
            [scorer.tokenizer("<|endoftext|>" + text + "<|endoftext|>").input_ids]
        )
        expected += scorer.model(input_ids=ids, labels=ids).loss.item() * (
            ids.size(1) - 1
        )
        tokens += ids.size(1) - 1
    assert count == tokens
    assert total.item() == pytest.approx(expected, rel=1e-5)
    # and that of the scorer, so that what is trained is what is scored
    assert total.item() == pytest.approx(
        -sum(map(sum, score_lists(scorer.eval(), [TEXTS]))), rel=1e-5
    )


def test_masked_loss_is_that_of_the_model_itself():
    scorer = make_scorer("bert")
    task = LmTask(scorer)
    batch = [task.encode(text) for text in TEXTS]
    torch.manual_seed(3)
    total, count = task.loss(batch, task.mask)
    torch.manual_seed(3)
    masked = DataCollatorForLanguageModeling(scorer.tokenizer)(
        [{"input_ids": ids} for ids in batch]
    )
    loss = scorer.model(**masked).loss.item()
    assert count == (masked["labels"] != -100).sum() > 5
    assert total.item() == pytest.approx(loss * count, rel=1e-5)


def test_which_tokens_are_masked():
    """Those of the text and all of those, unknown ones too; in evaluation always the
    same, in training others.
    """
    scorer = make_scorer("bert")
    task = LmTask(scorer)
    batch = [task.encode("the é cat")]
    assert scorer.tokenizer.unk_token_id in batch[0]
    counts = {task.loss(batch, task.mask)[1] for _ in range(300)}
    assert 0 in counts and len(batch[0]) - 2 >= max(counts) > 1
    every = DataCollatorForLanguageModeling(scorer.tokenizer, mlm_probability=1.0)
    assert task.loss(batch, every)[1] == len(batch[0]) - 2
    batch = [task.encode(text) for text in TEXTS]
    before = torch.get_rng_state()
    assert task.evaluate(batch) == task.evaluate(batch)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_is_evaluated_in_any_process(monkeypatch):
    task = LmTask(make_scorer("bert"))
    batch = [task.encode(text) for text in TEXTS]
    expected = task.evaluate(batch)
    monkeypatch.setattr(multiprocessing.current_process(), "name", "ForkProcess-1")
    assert task.evaluate(batch) == expected


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_a_long_sentence_loses_its_end(kind):
    task = LmTask(make_scorer(kind))
    ids = task.encode("cat " * 100)
    assert len(ids) == 64 + (
        kind == "gpt2"
    )  # nothing is predicted from the last token of a causal model
    assert math.isfinite(task.evaluate([ids])["loss"])
    if kind == "bert":
        assert ids[-1] == task.scorer.tokenizer.sep_token_id


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_a_tiny_text_is_learnt(tmp_path, kind):
    scorer = make_scorer(kind)
    settings = TrainingSettings(
        batch_size=6, epochs=250 if kind == "bert" else 80, lr=0.005, warmup_steps=10
    )
    report = train_lm(scorer, TEXTS, TEXTS, settings, tmp_path, lambda text: None)
    first, best = (
        report["history"][0],
        min(each["dev_loss"] for each in report["history"]),
    )
    assert first["dev_loss"] > 4.0
    assert first["dev_perplexity"] == pytest.approx(math.exp(first["dev_loss"]))
    assert best < 0.7
    right, wrong = score_lists(
        load_lm(tmp_path / "model"),
        [["the cat sat on the mat", "the cat ran on the mat"]],
    )[0]
    assert right > wrong + 1.0
    loader = AutoModelForCausalLM if kind == "gpt2" else AutoModelForMaskedLM
    assert (
        loader.from_pretrained(tmp_path / "model").num_parameters()
        == scorer.model.num_parameters()
    )


def test_casing_is_kept_with_the_model(tmp_path):
    scorer = make_scorer("gpt2", casing="lower")
    assert LmTask(scorer).encode("THE  CAT") == LmTask(scorer).encode("the cat")
    train_lm(
        scorer,
        ["THE CAT"],
        TEXTS,
        TrainingSettings(batch_size=1),
        tmp_path,
        lambda text: None,
    )
    assert load_lm(tmp_path / "model").casing == "lower"


def test_what_cannot_be_trained_is_refused(tmp_path):
    scorer = make_scorer("gpt2")
    with pytest.raises(InputError, match="no text to train on"):
        train_lm(scorer, [], TEXTS, TrainingSettings(batch_size=1), tmp_path)
    with pytest.raises(InputError, match="no text to evaluate on"):
        train_lm(scorer, TEXTS, [], TrainingSettings(batch_size=1), tmp_path)
    pooled = PooledScorer(scorer.model.transformer, scorer.tokenizer)
    with pytest.raises(InputError, match="as causal or pll, not as pooled"):
        train_lm(pooled, TEXTS, TEXTS, TrainingSettings(batch_size=1), tmp_path)
    assert not list(tmp_path.iterdir())
