"""The second pass from lists on disk to lists on disk, with a scorer whose scores are
known.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from espnet_ext.errors import InputError
from espnet_ext.nbest.selection import Selection
from espnet_ext.rescore import second_pass
from espnet_ext.rescore.second_pass import LanguageModel, Outcome, SecondPass
from espnet_ext.rescore.weights import FIRST_PASS
from espnet_ext.scoring.significance import run_outputs_test
from espnet_ext.text.nbest import Hypothesis, NBest, read_nbest, write_nbest


def lists(prefix: str, number: int = 4) -> list[NBest]:
    """The first pass prefers "THE CAT IS SAD" by 1.0 to "THE CAT SAT", as said."""
    hyps = (
        Hypothesis("THE CAT IS SAD", -2.0, {"ctc": -1.0}),
        Hypothesis("THE CAT SAT", -3.0),
        Hypothesis("", -9.0),
    )
    return [NBest(f"{prefix}-{index}", hyps, "THE CAT SAT") for index in range(number)]


class Scorer:
    """-2 a word, as many natural units as make a lambda below 2 right; counts what it
    is asked.
    """

    def __init__(self):
        self.calls = []

    def __call__(self, given):
        self.calls.append([nbest.utt_id for nbest in given])
        return [
            [-2.0 * len(hyp.text.split()) if hyp.text else -20.0 for hyp in nbest.hyps]
            for nbest in given
        ]


class Model(NamedTuple):
    """In the place of a LanguageModel."""

    label: str
    make: Callable
    path: str = "toy"

    def identify(self):
        return {"model": self.label}

    def load(self, ngpu, log):
        return self.make()


def run(job: SecondPass, load=None, name: str = "toy", log=print) -> Outcome:
    return second_pass.rescore(job, [Model(name, load or Scorer)], log=log)


@pytest.fixture
def job(tmp_path) -> dict:
    write_nbest(tmp_path / "dev.jsonl", lists("dev"))
    write_nbest(tmp_path / "other.jsonl", lists("other", 1))
    write_nbest(tmp_path / "test.jsonl", lists("test"))
    return {"nbest": tmp_path / "test.jsonl", "output": tmp_path / "out"}


def test_tuned_on_development_lists_and_used_on_others(job, tmp_path):
    scorer = Scorer()
    dev = (tmp_path / "dev.jsonl", tmp_path / "other.jsonl")
    said = []
    outcome = run(SecondPass(**job, tune_on=dev), lambda: scorer, log=said.append)
    assert said[-3] == "4 lists; the best hypothesis has changed in 4 of them"
    assert said[-2].startswith("WER: first pass 66.67 %, rescored 0.00 %, ")
    # Each list gains 2 errors of 3 words, so that there is no spread.
    assert (
        said[-1] == "gain: 66.67 points, 95% interval [66.67, 66.67] over 4 utterances"
    )
    assert scorer.calls == [["dev-0"]]  # all lists hold the same texts
    assert (outcome.tuned.errors, outcome.tuned.words) == (0, 15)
    output = job["output"]
    ranked = read_nbest(output / "nbest.jsonl")
    assert ranked == outcome.after
    assert ranked[0].hyps == (
        Hypothesis("THE CAT SAT", -3.0, {"toy": -6.0}),
        Hypothesis("THE CAT IS SAD", -2.0, {"ctc": -1.0, "toy": -8.0}),
        Hypothesis("", -9.0, {"toy": -20.0}),
    )
    assert (output / "text").read_text() == "".join(
        f"test-{index} THE CAT SAT\n" for index in range(4)
    )
    assert (output / "ref").read_text() == (output / "text").read_text()
    stored = json.loads((output / "interpolation.json").read_text())
    assert (stored["weights"], stored["tuned_on"]) == (
        outcome.weights,
        [str(path) for path in dev],
    )

    again = SecondPass(
        **{**job, "output": tmp_path / "again"}, weights=stored["weights"]
    )
    assert run(again).after == outcome.after
    assert {path.name for path in (tmp_path / "again").glob("[!.]*")} == {
        "nbest.jsonl",
        "ref",
        "scores",
        "text",
    }


@pytest.mark.parametrize(
    "weight, best",
    [(0.0, "THE CAT SAT"), (1.9, "THE CAT SAT"), (2.1, "THE CAT IS SAD")],
)
def test_a_given_weight(job, weight, best):
    outcome = run(SecondPass(**job, weights={FIRST_PASS: weight}))
    assert {nbest.hyps[0].text for nbest in outcome.after} == {best}


def test_lists_without_references_are_rescored_but_not_tuned_on(job, tmp_path):
    write_nbest(
        job["nbest"], [NBest(nbest.utt_id, nbest.hyps) for nbest in lists("test")]
    )
    said = []
    run(SecondPass(**job, tune_on=(tmp_path / "dev.jsonl",)), log=said.append)
    assert said[-1] == "4 lists; the best hypothesis has changed in 4 of them"
    assert not (job["output"] / "ref").exists()
    with pytest.raises(
        InputError,
        match="test.jsonl: test-0: no reference, .* --tune-ref",
    ):
        run(SecondPass(**job, tune_on=(job["nbest"],)))
    (tmp_path / "text").write_text(
        "".join(f"test-{index} THE CAT IS SAD\n" for index in range(4))
    )
    itself = SecondPass(
        **job, tune_on=(job["nbest"],), tune_references=(tmp_path / "text",)
    )
    assert run(itself).after[0].hyps[0].text == "THE CAT IS SAD"


def refuse() -> None:
    raise AssertionError("the model is loaded only when all else has been checked")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({}, "give --tune-on LISTS or --weight first_pass=X"),
        (
            {"weights": {FIRST_PASS: 1.0}, "tune_on": (Path("dev.jsonl"),)},
            "give --tune-on LISTS or --weight first_pass=X",
        ),
        ({"weights": {FIRST_PASS: -1.0}}, "a weight of -1.0 for first pass"),
        (
            {"weights": {"frist pass": 1.0}},
            "a weight for 'frist pass': the scores are first pass, toy",
        ),
        ({"tune_on": (Path("none.jsonl"),)}, "none.jsonl: no such file"),
        ({"weights": {FIRST_PASS: 1.0}, "nbest": Path("none")}, "none: no such file"),
        (
            {"weights": {FIRST_PASS: 1.0}, "reference": Path("none.txt")},
            "none.txt: no such file",
        ),
        (
            {
                "tune_on": (Path("dev.jsonl"),),
                "tune_references": (Path("a"), Path("b")),
            },
            "2 references for 1",
        ),
    ],
)
def test_what_is_refused_before_the_model_is_loaded(
    job, tmp_path, monkeypatch, changes, message
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        run(SecondPass(**{**job, **changes}), refuse)
    assert not job["output"].exists()


def test_what_is_read_or_was_written_by_others_is_not_replaced(job, tmp_path):
    def refused(message: str, **changes) -> None:
        with pytest.raises(InputError, match=message):
            run(SecondPass(**{**job, "weights": {FIRST_PASS: 1.0}, **changes}), refuse)

    data = tmp_path / "data"
    data.mkdir()
    (data / "text").write_text(
        "".join(f"test-{index} THE CAT SAT\n" for index in range(4))
    )
    refused(
        "data/text: is named twice, and would be replaced",
        output=data,
        reference=data / "text",
    )
    refused(
        "data/text: was not written by rescore, and would be replaced: name "
        "another folder",
        output=data,
    )
    refused("test.jsonl: is no folder: name one for the results", output=job["nbest"])
    (data / "text").unlink()
    write_nbest(data / "nbest.jsonl", lists("test"))
    refused("data/nbest.jsonl: is named twice", output=data, nbest=data / "nbest.jsonl")
    refused(
        "data/nbest.jsonl: was not written by rescore", output=data
    )  # but by a first pass
    assert len(read_nbest(data / "nbest.jsonl")) == 4


def test_results_of_an_earlier_run_do_not_stay_beside_new_ones(job, tmp_path):
    run(SecondPass(**job, tune_on=(tmp_path / "dev.jsonl",)))
    assert (job["output"] / "interpolation.json").exists() and (
        job["output"] / "ref"
    ).exists()
    write_nbest(job["nbest"], [replace(nbest, ref=None) for nbest in lists("test")])
    run(SecondPass(**job, weights={FIRST_PASS: 3.0}))
    assert {path.name for path in job["output"].iterdir()} == {
        "nbest.jsonl",
        "text",
        "scores",
        ".rescored",
    }


def test_errors_by_the_weight_are_printed_and_written(job, tmp_path):
    """ "THE CAT SAT" is right for a lambda below 2, and its score is 2 higher."""
    said = []
    outcome = run(SecondPass(**job, tune_on=(tmp_path / "dev.jsonl",)), log=said.append)
    (line,) = (line for line in said if line.startswith("errors by the weight"))
    assert line.endswith(
        "of first pass: 0: 0, 0.1: 0, 0.3: 0, 1: 0, 3: 8, 10: 8, alone: 8; "
        "fewest: 0 from 0 to 2"
    )
    (warning,) = (line for line in said if line.startswith("warning"))
    assert "without first pass" in warning
    rows = [line.split("\t") for line in (job["output"] / "curves.tsv").open()]
    assert [row[:4] for row in rows] == [
        ["score", "from", "to", "errors"],
        [FIRST_PASS, "0", "2", "0"],
        [FIRST_PASS, "2", "inf", "8"],
    ]
    assert float(rows[2][4]) == pytest.approx(100 * 8 / 12, abs=0.01)
    assert outcome.curves[FIRST_PASS].errors == (0, 8)


def test_a_weight_at_the_other_end_is_said(job, tmp_path):
    """All that the model prefers is wrong."""
    hyps = (Hypothesis("A B", -1.0), Hypothesis("A", -2.0))
    write_nbest(tmp_path / "dev.jsonl", [NBest("u", hyps, "A B")])
    said = []
    run(SecondPass(**job, tune_on=(tmp_path / "dev.jsonl",)), log=said.append)
    (warning,) = (line for line in said if line.startswith("warning"))
    assert "with first pass alone" in warning


def test_the_gain_is_that_of_speakers(job, tmp_path):
    """Two speakers gain 2 of 3 words twice, one nothing: its reference is the best."""
    given = [
        replace(nbest, utt_id=key, ref="THE CAT IS SAD" if key == "c-1" else nbest.ref)
        for nbest, key in zip(lists("test"), ("a-1", "a-2", "b-1", "c-1"), strict=True)
    ]
    write_nbest(job["nbest"], given)
    said = []
    table = tmp_path / "speakers"
    table.write_text("a-1 ann\na-2 ann\nb-1 bob\nc-1 cy\n")
    second = SecondPass(**job, weights={FIRST_PASS: 1.0}, utt2spk=table)
    run(second, log=said.append)
    # errors before 4, 2, 0 and after 0, 0, 2 of 6, 3, 4 words
    errors = ([[0, 0, 2]], [[4, 2, 0]], [6, 3, 4])
    test = run_outputs_test(*errors)
    low, high = (100 * end for end in test.ci95)
    assert said[-1].startswith(f"gain: {100 * 4 / 13:.2f} points")
    assert said[-1].endswith(f"[{low:.2f}, {high:.2f}] over 3 speakers")
    said.clear()
    # beside the lists it is found
    table.rename(tmp_path / "utt2spk")
    run(replace(second, utt2spk=None, output=tmp_path / "again"), log=said.append)
    assert said[-1].endswith("over 3 speakers")


def test_parts_texts_and_depth_are_chosen_before_all_else(job, tmp_path):
    """In both lists; a part that dev lists lack is named before a model is loaded."""
    hyps = [
        Hypothesis("THE CAT IS SAD", -9.0, {"decoder": -1.0, "ctc": -2.0, "lm": -9.0}),
        Hypothesis("THE CAT IS SAD", -9.0, {"decoder": -1.0, "ctc": -3.0, "lm": -9.0}),
        Hypothesis("THE CAT SAT", -8.0, {"decoder": -1.0, "ctc": -4.0, "lm": -9.0}),
        Hypothesis("A CAT", -1.0, {"decoder": -9.0, "ctc": -9.0, "lm": -1.0}),
    ]
    for name in ("dev", "test"):
        write_nbest(tmp_path / f"{name}.jsonl", [NBest(name, hyps, "THE CAT SAT")])
    parts = {"decoder": 0.5, "ctc": 0.5}
    dev = tmp_path / "dev.jsonl"
    second = SecondPass(**job, tune_on=(dev,), selection=Selection(parts, 2))
    said, scorer = [], Scorer()
    outcome = run(second, lambda: scorer, log=said.append)
    chosen = [(hyp.text, hyp.score) for hyp in outcome.before[0].hyps]
    assert chosen == [("THE CAT IS SAD", -1.5), ("THE CAT SAT", -2.5)]
    assert outcome.after[0].hyps[0].text == "THE CAT SAT"
    for path in (job["nbest"], dev):
        assert sum(line.startswith(f"{path}: ") for line in said) == 3
    write_nbest(dev, lists("dev"))
    with pytest.raises(InputError, match=r"dev\.jsonl: dev-0: .* decoder"):
        run(replace(second, output=tmp_path / "other"), refuse)


def test_lists_that_are_tuned_on_themselves_are_scored_once_and_a_warning_says_so(job):
    """Another one says that their hypotheses have all the same score."""
    said, scorer = [], Scorer()
    hyps = (Hypothesis("THE CAT IS SAD", 0.0), Hypothesis("THE CAT SAT", 0.0))
    write_nbest(job["nbest"], [NBest("a", hyps, "THE CAT SAT")])
    run(SecondPass(**job, tune_on=(job["nbest"],)), lambda: scorer, log=said.append)
    assert len(scorer.calls) == 1
    assert any("gives all hypotheses the same score" in line for line in said)
    assert any("tuned on the lists that are rescored" in line for line in said)


@pytest.mark.parametrize("other", ["relative", "link", "copy", "half"])
def test_lists_tuned_on_themselves_are_known_by_any_path(
    job, tmp_path, monkeypatch, other
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    path = tmp_path / "elsewhere" / "lists.jsonl"
    if other == "relative":
        path = Path("elsewhere") / ".." / "test.jsonl"
    elif other == "link":
        path.symlink_to(job["nbest"])
    else:
        write_nbest(path, lists("test")[: 2 if other == "half" else None])
    said = []
    run(SecondPass(**job, tune_on=(tmp_path / "dev.jsonl", path)), log=said.append)
    (warning,) = (line for line in said if "tuned on" in line)
    assert ("2 of the" in warning) == (other == "half")
    said.clear()
    again = {**job, "output": tmp_path / "again"}
    run(SecondPass(**again, tune_on=(tmp_path / "dev.jsonl",)), log=said.append)
    assert not any("tuned on" in line for line in said)


def test_the_last_of_several_models_is_looked_for_before_the_first_scores(
    job, tmp_path
):
    models = [LanguageModel("gpt2", "a"), LanguageModel("./none", "b")]
    with pytest.raises(InputError, match="./none: no such folder of a language model"):
        second_pass.rescore(SecondPass(**job, weights={FIRST_PASS: 1.0}), models)


def test_a_gpu_that_is_not_there(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(InputError, match="--ngpu 1: PyTorch sees no GPU"):
        LanguageModel("gpt2", "lm").load(ngpu=1)


def test_scores_of_a_name_that_lists_have_already(job):
    with pytest.raises(
        InputError, match="test.jsonl: test-0 has scores named ctc already"
    ):
        run(SecondPass(**job, weights={FIRST_PASS: 1.0}), refuse, name="ctc")


def test_unlike_case_is_warned_of(job, tmp_path):
    dev, said = tmp_path / "dev.jsonl", []
    write_nbest(
        dev, [NBest(nbest.utt_id, nbest.hyps, "the cat sat") for nbest in lists("dev")]
    )
    run(SecondPass(**job, tune_on=(dev, tmp_path / "other.jsonl")), log=said.append)
    assert [line.split(" the ")[0] for line in said if "lower case" in line] == [
        f"warning: {dev}:"
    ]
    said.clear()
    run(SecondPass(**{**job, "nbest": dev}, tune_on=(dev,)), log=said.append)
    assert sum("lower case" in line for line in said) == 1  # the same lists


def test_several_models_are_tuned_together(tmp_path):
    """Only the sum of the first pass and of both models is right for all lists."""
    texts = ("A", "B", "C")
    scores = {"one": (-1.0, -3.0, -0.5), "two": (-1.0, -0.5, -3.0)}
    for name in ("dev", "test"):
        hyps = tuple(
            Hypothesis(text, score)
            for text, score in zip(texts, (-1.0, -0.9, -0.9), strict=True)
        )
        write_nbest(tmp_path / f"{name}.jsonl", [NBest("u", hyps, "A")])
    models = [
        Model(name, lambda own=own: lambda given: [list(own) for _ in given])
        for name, own in scores.items()
    ]
    job = SecondPass(
        tmp_path / "test.jsonl", tmp_path / "out", tune_on=(tmp_path / "dev.jsonl",)
    )
    outcome = second_pass.rescore(job, models)
    assert outcome.tuned.errors == 0
    assert outcome.after[0].hyps[0] == Hypothesis("A", -1.0, {"one": -1.0, "two": -1.0})
    given = replace(job, tune_on=(), weights={"two": 0.0}, output=tmp_path / "given")
    assert second_pass.rescore(given, models).weights == {
        "one": 1.0,
        FIRST_PASS: 1.0,
        "two": 0.0,
    }


@pytest.mark.parametrize(("process", "lines"), [("0", 4), ("1", 0)])
def test_only_the_first_of_several_processes_prints(job, monkeypatch, process, lines):
    monkeypatch.setenv("RANK", process)
    monkeypatch.setattr(LanguageModel, "load", lambda self, ngpu, log: Scorer())
    folder = job["output"].with_name("model")
    folder.mkdir()
    said = []
    second_pass.rescore(
        SecondPass(**job, weights={FIRST_PASS: 1.0}),
        [LanguageModel(str(folder), "toy")],
        log=said.append,
    )
    assert len(said) == lines


@pytest.mark.parametrize(("factor", "number"), [(1e-3, 1), (1.0, 0)])
def test_a_model_that_scores_all_hypotheses_alike_is_warned_of(job, factor, number):
    said = []

    def load():
        return lambda given: [
            [-factor * len(hyp.text) for hyp in nbest.hyps] for nbest in given
        ]

    run(SecondPass(**job, weights={FIRST_PASS: 1.0}), load, log=said.append)
    assert sum("hardly differ" in line for line in said) == number
