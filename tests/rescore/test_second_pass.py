"""The second pass from lists on disk to lists on disk, with a scorer whose scores are known."""

import json
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import Hypothesis, NBest, read_nbest, write_nbest
from espnet_ext.rescore.second_pass import LanguageModel, SecondPass, second_pass


def lists(prefix: str, number: int = 4) -> list[NBest]:
    """The first pass prefers "THE CAT IS SAD" by 1.0 to what was said, "THE CAT SAT"."""
    hyps = (Hypothesis("THE CAT IS SAD", -2.0, {"ctc": -1.0}), Hypothesis("THE CAT SAT", -3.0), Hypothesis("", -9.0))
    return [NBest(f"{prefix}-{index}", hyps, "THE CAT SAT") for index in range(number)]


class Scorer:
    """-2 a word, as many natural units as make a lambda below 2 right; counts what it is asked."""

    def __init__(self):
        self.calls = []

    def load(self):
        return self

    def __call__(self, given):
        self.calls.append([nbest.utt_id for nbest in given])
        return [[-2.0 * len(hyp.text.split()) if hyp.text else -20.0 for hyp in nbest.hyps] for nbest in given]


@pytest.fixture
def job(tmp_path) -> dict:
    write_nbest(tmp_path / "dev.jsonl", lists("dev"))
    write_nbest(tmp_path / "other.jsonl", lists("other", 1))
    write_nbest(tmp_path / "test.jsonl", lists("test"))
    return {"nbest": tmp_path / "test.jsonl", "output": tmp_path / "out", "name": "toy"}


def test_tuned_on_development_lists_and_used_on_others(job, tmp_path):
    scorer = Scorer()
    dev = (tmp_path / "dev.jsonl", tmp_path / "other.jsonl")
    outcome = second_pass(SecondPass(**job, tune_on=dev), scorer.load)
    assert scorer.calls == [["dev-0", "dev-1", "dev-2", "dev-3", "other-0"], ["test-0", "test-1", "test-2", "test-3"]]
    assert outcome.tuned.interval == pytest.approx((0.0, 2.0))
    assert (outcome.tuned.errors, outcome.tuned.first_pass_errors, outcome.tuned.words) == (0, 10, 15)
    assert (outcome.changed, outcome.can_be_scored) == (4, True)
    output = job["output"]
    ranked = read_nbest(output / "nbest.jsonl")
    assert ranked == outcome.after
    assert ranked[0].hyps == (
        Hypothesis("THE CAT SAT", -3.0, {"toy": -6.0}),
        Hypothesis("THE CAT IS SAD", -2.0, {"ctc": -1.0, "toy": -8.0}),
        Hypothesis("", -9.0, {"toy": -20.0}),
    )
    assert (output / "text").read_text() == "".join(f"test-{index} THE CAT SAT\n" for index in range(4))
    assert (output / "ref").read_text() == (output / "text").read_text()
    stored = json.loads((output / "interpolation.json").read_text())
    assert (stored["weight"], stored["tuned_on"]) == (outcome.weight, [str(path) for path in dev])
    assert json.loads((output / "curve.json").read_text())["errors"] == [0, 10]
    assert (output / "curve.png").read_bytes().startswith(b"\x89PNG")

    again = SecondPass(**{**job, "output": tmp_path / "again"}, weight_file=output / "interpolation.json")
    assert second_pass(again, Scorer().load).after == outcome.after
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == ["nbest.jsonl", "ref", "text"]


@pytest.mark.parametrize("weight, best", [(0.0, "THE CAT SAT"), (1.9, "THE CAT SAT"), (2.1, "THE CAT IS SAD")])
def test_a_given_weight(job, weight, best):
    assert {nbest.hyps[0].text for nbest in second_pass(SecondPass(**job, weight=weight), Scorer().load).after} == {
        best
    }


def test_lists_that_are_tuned_on_themselves_are_scored_once(job):
    scorer = Scorer()
    second_pass(SecondPass(**job, tune_on=(job["nbest"],)), scorer.load)
    assert len(scorer.calls) == 1


def test_lists_without_references_are_rescored_but_not_tuned_on(job, tmp_path):
    write_nbest(job["nbest"], [NBest(nbest.utt_id, nbest.hyps) for nbest in lists("test")])
    outcome = second_pass(SecondPass(**job, tune_on=(tmp_path / "dev.jsonl",)), Scorer().load)
    assert not outcome.can_be_scored and outcome.changed == 4
    assert not (job["output"] / "ref").exists()
    with pytest.raises(InputError, match="test.jsonl: test-0: no reference, so errors cannot be counted"):
        second_pass(SecondPass(**job, tune_on=(job["nbest"],)), Scorer().load)
    (tmp_path / "text").write_text("".join(f"test-{index} THE CAT IS SAD\n" for index in range(4)))
    itself = SecondPass(**job, tune_on=(job["nbest"],), tune_references=(tmp_path / "text",))
    assert second_pass(itself, Scorer().load).after[0].hyps[0].text == "THE CAT IS SAD"


def refuse() -> None:
    raise AssertionError("the model is loaded only when all else has been checked")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({}, "the interpolation weight: tune it on lists, give it, or"),
        ({"weight": 1.0, "tune_on": (Path("dev.jsonl"),)}, "the interpolation weight: tune it on lists, give it, or"),
        ({"weight": -1.0}, "an interpolation weight of -1.0"),
        ({"weight_file": Path("none.json")}, "none.json: no such file"),
        ({"tune_on": (Path("none.jsonl"),)}, "none.jsonl: no such file"),
        ({"weight": 1.0, "nbest": Path("none")}, "none: no such file"),
        ({"weight": 1.0, "name": "ctc"}, "test.jsonl: test-0 has scores named ctc already: give .* another --name"),
        ({"weight": 1.0, "reference": Path("none.txt")}, "none.txt: no such file"),
        (
            {"tune_on": (Path("dev.jsonl"),), "tune_references": (Path("a"), Path("b"))},
            "2 references for 1 development sets",
        ),
    ],
)
def test_what_is_refused_before_the_model_is_loaded(job, tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        second_pass(SecondPass(**{**job, **changes}), refuse)
    assert not job["output"].exists()


def test_scores_that_are_not_finite(job):
    def nan(given):
        return [[float("nan")] * len(nbest.hyps) for nbest in given]

    with pytest.raises(InputError, match="test-0: hypothesis 1: toy is nan"):
        second_pass(SecondPass(**job, weight=1.0), lambda: nan)
    assert not job["output"].exists()


def test_a_gpu_that_is_not_there(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="--ngpu 1, but torch finds no GPU"):
        LanguageModel("gpt2").load(ngpu=1)
