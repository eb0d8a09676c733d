"""MWER training on a few lists: they are learnt, the choice is made on development
lists, bad input is refused.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tiny_scorers

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.scorers import load_lm, score_lists
from espnet_ext.rescore.training import mwer_training
from espnet_ext.rescore.training.mwer import MwerLoss, make_examples
from espnet_ext.rescore.training.mwer_training import (
    Watch,
    choose_scale,
    evaluate,
    find_tuned_weight,
    train_mwer,
)
from espnet_ext.rescore.training.settings import TrainingSettings
from espnet_ext.text.nbest import Hypothesis, NBest, write_nbest

RIGHT = ["the cat sat on the mat", "a dog ran", "two cats ran home", "he sat at home"]
# the same words in another order, so that no model at random has a firm opinion
WRONG = [
    ["the mat sat on the cat", "the cat on sat the mat"],
    ["dog a ran"],
    ["two ran cats home", "home ran cats two"],
    ["at home he sat", ""],
]
ERRORS = [[2, 2, 0], [2, 0], [2, 4, 0], [4, 4, 0]]
# the first pass prefers what is wrong, but for the empty hypothesis
LISTS = [
    NBest(
        f"u{n}",
        (
            *(Hypothesis(text, -1.0 if text else -40.0) for text in wrong),
            Hypothesis(right, -2.0),
        ),
        ref=right,
    )
    for n, (right, wrong) in enumerate(zip(RIGHT, WRONG, strict=True))
]
SETTINGS = TrainingSettings(batch_size=2, epochs=30, lr=0.01, evaluate_every=10, seed=3)


make_scorer = partial(tiny_scorers.make_scorer, texts=RIGHT, vocabulary=320, units=3072)


def quiet(text: str) -> None:
    pass


def test_depth_cuts_lists_of_both_kinds(tmp_path, monkeypatch):
    depths, said = [], []

    def note_depths(_scorer, *given):
        for lists in given[:2]:
            depths.append([len(nbest.hyps) for nbest in lists])

    monkeypatch.setattr(mwer_training, "load_lm", lambda *_, **__: make_scorer("gpt2"))
    monkeypatch.setattr(mwer_training, "train_mwer", note_depths)
    monkeypatch.setattr(mwer_training, "describe_result", lambda *_: "")
    paths = [tmp_path / "train.jsonl", tmp_path / "dev.jsonl"]
    for path in paths:
        write_nbest(path, LISTS)
    values = {"lm": "x", "batch_size": 1, "first_pass_weight": 1.0, "depth": 2}
    output = tmp_path / "out"
    mwer_training.train_rescorer(values, paths[:1], paths[1:], output, log=said.append)
    assert depths == [[2, 2, 2, 2], [2, 2, 2, 2]]
    assert [line.partition(":")[0] for line in said if "cut to 2" in line] == [
        str(path) for path in paths
    ]
    # Copies of what is trained on are no development lists either.
    assert any("4 of 4 development lists" in line for line in said)
    write_nbest(paths[0], [replace(LISTS[0], ref=None)])
    with pytest.raises(InputError, match=f"train.jsonl: {LISTS[0].utt_id}: "):
        mwer_training.train_rescorer(values, paths[:1], paths[1:], output)


def test_hypotheses_without_words_have_no_share_in_the_posterior(tmp_path):
    """No second pass chooses them, however likely they are."""
    lists = [
        replace(own, hyps=tuple(hyp for hyp in own.hyps if hyp.text)) for own in LISTS
    ]
    likely = [
        replace(own, hyps=(own.hyps[0], Hypothesis("", 50.0), *own.hyps[1:]))
        for own in lists
    ]
    settings = SETTINGS.model_copy(update={"epochs": 5})
    reports = [
        train_mwer(
            make_scorer("gpt2"),
            each,
            each,
            MwerLoss(1.0),
            settings,
            tmp_path / name,
            quiet,
        )
        for name, each in (("without", lists), ("with", likely))
    ]
    assert reports[0]["history"] == reports[1]["history"]
    nothing = [NBest("u", (Hypothesis("", -1.0),), ref="the cat")]
    report = train_mwer(
        make_scorer("gpt2"),
        lists,
        nothing,
        MwerLoss(1.0),
        settings,
        tmp_path / "nothing",
        quiet,
    )
    assert report["history"][0]["dev_mwer"] == 2.0


@pytest.mark.parametrize(
    ("which", "ce_weight", "lr"),
    [
        ("gpt2", 0.0, 0.01),
        ("bert", 0.01, 0.01),
        ("bert-cls", 0.0, 0.003),
        ("gpt2-attention", 0.0, 0.01),
    ],
)
def test_a_few_lists_are_learnt(tmp_path, which, ce_weight, lr):
    scorer = make_scorer(which)
    report = train_mwer(
        scorer,
        LISTS,
        LISTS,
        MwerLoss(1.0, ce_weight=ce_weight),
        SETTINGS.model_copy(update={"lr": lr}),
        tmp_path,
        quiet,
    )
    first, best = (
        report["history"][0],
        min(report["history"], key=lambda values: values["dev_mwer"]),
    )
    assert first["dev_mwer"] > 0.5
    assert best["dev_mwer"] < 0.2 and best["dev_wer"] == 0.0
    chosen = load_lm(tmp_path / "model")
    assert chosen.name == scorer.name
    assert evaluate(chosen, make_examples(LISTS), MwerLoss(1.0))[
        "mwer"
    ] == pytest.approx(
        next(
            each["dev_mwer"]
            for each in report["history"]
            if each["step"] == report["best_step"]
        ),
        abs=1e-4,
    )
    losses = [each["loss"] for each in report["history"][1:]]
    assert losses[-1] < losses[0]


def test_another_precision_is_another_training(tmp_path):
    for amp, key in ((False, None), (True, True)):
        scorer = make_scorer("gpt2")
        scorer.prepare_training(gradient_checkpointing=False, amp=amp)
        settings = TrainingSettings(batch_size=4, max_steps=1)
        report = train_mwer(
            scorer, LISTS, LISTS[:2], MwerLoss(), settings, tmp_path / str(amp), quiet
        )
        assert report["key"].get("amp") is key


def test_a_lambda_that_differs_in_its_last_digits_is_the_same_training(tmp_path):
    """As it does on another type of CPU, if it is tuned on the development lists."""
    settings = TrainingSettings(
        batch_size=2, epochs=1, lr=0.01, evaluate_every=10, seed=3
    )
    for weight in (1.7648730975812736, 1.7648731317327933):
        report = train_mwer(
            make_scorer("gpt2"),
            LISTS,
            LISTS[:2],
            MwerLoss(weight),
            settings,
            tmp_path,
            quiet,
        )
        assert report["key"]["first_pass_weight"] == 1.7649
    with pytest.raises(
        InputError, match="holds a training with another first_pass_weight"
    ):
        train_mwer(
            make_scorer("gpt2"),
            LISTS,
            LISTS[:2],
            MwerLoss(1.765),
            settings,
            tmp_path,
            quiet,
        )


def test_evaluation_written_out():
    scorer = make_scorer("gpt2").eval()
    found = evaluate(scorer, make_examples(LISTS), MwerLoss(first_pass_weight=0.5))
    scores = score_lists(scorer, [[hyp.text for hyp in nbest.hyps] for nbest in LISTS])
    expected, chosen = 0.0, 0
    for nbest, lm, wrong in zip(LISTS, scores, ERRORS, strict=True):
        s = np.array(lm) + 0.5 * np.array([hyp.score for hyp in nbest.hyps])
        expected += np.exp(s) @ wrong / np.exp(s).sum() / len(LISTS)
        keep_choosable = [
            rank for rank, hyp in enumerate(nbest.hyps) if hyp.text
        ]  # nothing else is chosen
        chosen += wrong[max(keep_choosable, key=lambda rank: s[rank])]
    assert found["mwer"] == pytest.approx(expected)
    assert found["wer"] <= 100 * chosen / 17
    assert find_tuned_weight(scorer, LISTS) == found["lambda"]
    assert find_tuned_weight(make_scorer("gpt2-last"), LISTS) == 1.0


class Killed(Exception):
    pass


@pytest.mark.parametrize("which", ["gpt2", "bert-attention"])
def test_killed_and_resumed_it_comes_to_the_same_bits(tmp_path, monkeypatch, which):
    settings = TrainingSettings(
        batch_size=3, epochs=4, lr=0.01, evaluate_every=3, seed=2
    )

    def run(folder: str) -> list[dict]:
        scorer = make_scorer(which, dropout=0.2)
        return train_mwer(
            scorer, LISTS, LISTS[:2], MwerLoss(), settings, tmp_path / folder, quiet
        )["history"]

    expected = run("whole")
    updates, backward = iter(range(5)), mwer_training.backward

    def until_killed(*args):
        if next(updates, None) is None:
            raise Killed
        return backward(*args)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(mwer_training, "backward", until_killed)
        run("killed")
    assert run("killed") == expected
    files = [
        (tmp_path / each / "model" / "model.safetensors").read_bytes()
        for each in ("whole", "killed")
    ]
    assert files[0] == files[1]


def test_bad_lists_are_refused_before_training(tmp_path):
    scorer = make_scorer("gpt2")

    def run(lists, dev=LISTS, loss=None, scorer=scorer):
        train_mwer(scorer, lists, dev, loss or MwerLoss(), SETTINGS, tmp_path, quiet)

    with pytest.raises(InputError, match="no examples"):
        run([])
    with pytest.raises(InputError, match="no development lists"):
        run(LISTS, [])
    with pytest.raises(InputError, match="x: no reference"):
        run([*LISTS, NBest("x", LISTS[0].hyps)])
    with pytest.raises(
        InputError, match="long: hypothesis .* tokens, but the model takes 64"
    ):
        run([*LISTS, NBest("long", (Hypothesis("cat " * 100, -1.0),), ref="a cat")])
    with pytest.raises(InputError, match="a pooled scorer has no cross-entropy"):
        run(LISTS, loss=MwerLoss(ce_weight=0.01), scorer=make_scorer("gpt2-last"))
    assert not list(tmp_path.iterdir())


def test_a_reference_is_taken_where_cross_entropy_needs_it(tmp_path):
    """It may be longer than all hypotheses; without cross-entropy that is nobody's
    concern.
    """
    nbest = NBest("u", LISTS[0].hyps, ref="cat " * 100)
    settings = TrainingSettings(batch_size=1, max_steps=1)
    train_mwer(
        make_scorer("gpt2"), [nbest], LISTS, MwerLoss(), settings, tmp_path, quiet
    )
    with pytest.raises(
        InputError, match="u: hypothesis .* tokens, but the model takes 64"
    ):
        train_mwer(
            make_scorer("gpt2"),
            [nbest],
            LISTS,
            MwerLoss(ce_weight=0.1),
            settings,
            tmp_path / "ce",
            quiet,
        )


@pytest.mark.parametrize(("scale", "number"), [(1.0, 1), (0.01, 0)])
def test_posteriors_that_are_nearly_one_hot_are_warned_of_once(tmp_path, scale, number):
    said: list[str] = []
    loss = MwerLoss(first_pass_weight=50.0, posterior_scale=scale)
    settings = SETTINGS.model_copy(update={"epochs": 2, "evaluate_every": 1})
    scorer = make_scorer("gpt2")
    train_mwer(scorer, LISTS, LISTS, loss, settings, tmp_path, said.append)
    assert sum("warning" in line and "effective" in line for line in said) == number


@pytest.mark.parametrize(("spread", "number"), [(0.001, 1), (0.1, 0)])
def test_a_trained_model_whose_scores_hardly_differ_is_warned_of(spread, number):
    said: list[str] = []
    hyps = (Hypothesis("A", 0.0), Hypothesis("B", -2.0))
    examples = make_examples([NBest("u", hyps, ref="A")])
    watch = Watch(MwerLoss(first_pass_weight=3.0), examples, said.append)
    assert watch.of_first_pass == pytest.approx(3.0)  # of 0 and -6
    history = [{"step": 0, "dev_spread": 5.0}, {"step": 9, "dev_spread": spread}]
    watch.warn_of_flat_scores({"best_step": 9, "history": history})
    assert len(said) == number


def test_the_posterior_scale_is_chosen_by_what_a_config_says():
    hyps = (Hypothesis("A", 0.0), Hypothesis("B", -4.0))  # a spread of 2
    lists = [NBest("u", hyps), NBest("one", hyps[:1])]
    assert choose_scale(0.3, 4.0, lists) == 0.3
    assert choose_scale(None, 4.0, lists) == 0.25
    assert choose_scale("first_pass", 4.0, lists) == pytest.approx(1 / 8)
    assert choose_scale("first_pass", 0.1, lists) == 1.0
    assert choose_scale("first_pass", 4.0, lists[1:]) == 1.0
