"""Scores that are kept: none is computed twice, and none of another model is used."""

import json
from pathlib import Path

import pytest

from espnet_ext.errors import InputError
from espnet_ext.rescore import kept_scores
from espnet_ext.rescore.kept_scores import Scoring, identify_model, make_keeping_scorer
from espnet_ext.text.nbest import Hypothesis, NBest


def make_list(name: str, *texts: str) -> NBest:
    return NBest(name, tuple(Hypothesis(text, -1.0) for text in texts))


class Scorer:
    """Score a text by its length; remember what was asked, and fail if told so."""

    def __init__(self, fails_at: int | None = None):
        self.asked: list[str] = []
        self.loaded = 0
        self.fails_at = fails_at

    def load(self) -> "Scorer":
        self.loaded += 1
        return self

    def __call__(self, lists):
        texts = [hyp.text for nbest in lists for hyp in nbest.hyps]
        if self.fails_at is not None and len(self.asked) >= self.fails_at:
            raise KeyboardInterrupt
        self.asked += texts
        return [[float(len(hyp.text)) for hyp in nbest.hyps] for nbest in lists]


def score(lists, folder: Path, scorer: Scorer, identity=None, log=print):
    scoring = Scoring("toy", identity or {"model": "toy"}, scorer.load)
    return make_keeping_scorer(scoring, folder, log)(lists)


LISTS = [make_list("a", "ONE", "THREE"), make_list("b", "THREE", "", "FOURTEEN")]


def test_a_text_is_scored_once_and_another_run_loads_no_model(tmp_path):
    first = Scorer()
    again = Scorer()
    expected = [[3.0, 5.0], [5.0, 0.0, 8.0]]
    assert score(LISTS, tmp_path, first) == expected
    assert first.asked == ["ONE", "THREE", "", "FOURTEEN"]
    said = []
    assert score(LISTS, tmp_path, again, log=said.append) == expected
    assert again.loaded == 0
    assert "2 of 2 lists" in said[0]
    deeper = [make_list("a", "ONE", "THREE", "SIX")]
    assert score(deeper, tmp_path, again) == [[3.0, 5.0, 3.0]]
    assert again.asked == ["SIX"]


def test_another_model_has_scores_of_its_own(tmp_path):
    other = Scorer()
    score(LISTS, tmp_path, Scorer())
    score(LISTS, tmp_path, other, {"model": "toy", "casing": "lower"})
    assert other.loaded == 1
    assert len(list(tmp_path.glob("*.jsonl"))) == 2


# What is added after the last whole line; "\n": that line loses its end.
@pytest.mark.parametrize("torn", ["", '{"text": "T', "\n", "{}"])
def test_a_killed_scoring_resumes_after_its_last_block(tmp_path, monkeypatch, torn):
    monkeypatch.setattr(kept_scores, "LISTS_PER_BLOCK", 1)
    with pytest.raises(KeyboardInterrupt):
        score(LISTS, tmp_path, Scorer(fails_at=2))
    [path] = tmp_path.glob("*.jsonl")
    missing = ["", "FOURTEEN"]
    if torn == "\n":
        path.write_bytes(path.read_bytes().rstrip(b"\n"))
        missing.insert(0, "THREE")
    else:
        path.write_bytes(path.read_bytes() + torn.encode())
    rest = Scorer()
    assert score(LISTS, tmp_path, rest) == [[3.0, 5.0], [5.0, 0.0, 8.0]]
    assert rest.asked == missing
    assert score(LISTS, tmp_path, Scorer()) == [[3.0, 5.0], [5.0, 0.0, 8.0]]
    _, *lines = path.read_text().splitlines()
    assert len({json.loads(line)["text"] for line in lines}) == len(lines) == 4


@pytest.mark.parametrize(
    "line", ['{"text": "ONE"}', '{"text": "A", "score": NaN}', "x"]
)
def test_a_broken_line_is_refused_with_its_place(tmp_path, line):
    score(LISTS, tmp_path, Scorer())
    [path] = tmp_path.glob("*.jsonl")
    path.write_text(path.read_text() + f"{line}\n")
    with pytest.raises(InputError, match=rf"{path.name}: line 6 "):
        score(LISTS, tmp_path, Scorer())


def test_two_runs_share_a_file(tmp_path):
    """Both have read it before either writes."""
    identity = {"model": "toy"}
    one = kept_scores.KeptScores(tmp_path, identity)
    two = kept_scores.KeptScores(tmp_path, identity)
    one.add([make_list("a", "ONE")], [[1.0]])
    two.add([make_list("a", "TWO")], [[2.0]])
    found = kept_scores.KeptScores(tmp_path, identity)
    assert found.by_text == {"ONE": 1.0, "TWO": 2.0}


def test_progress_names_the_share_and_the_time_left(monkeypatch):
    # The start, then one reading for each of four blocks.
    clock = iter([0.0, 0.0, 30.0, 45.0, 60.0])
    monkeypatch.setattr(kept_scores.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(kept_scores, "LISTS_PER_BLOCK", 1)
    said: list[str] = []
    list(kept_scores.yield_blocks([LISTS[0]] * 4, "toy", said.append))
    assert [line.split(" lists ")[0] for line in said] == ["toy: 1 of 4", "toy: 3 of 4"]
    assert said[0].endswith("(25 %), 2 min left")
    assert "(75 %)" in said[1]


def test_a_model_is_told_by_what_its_files_hold(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"1")
    before = identify_model(folder)
    moved = folder.rename(tmp_path / "moved")
    assert identify_model(moved) == before
    (moved / "model.safetensors").write_bytes(b"2")
    assert identify_model(moved) != before
    file = tmp_path / "model.gguf"
    file.write_bytes(b"1")
    assert identify_model(file) != identify_model(moved)
