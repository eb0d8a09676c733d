"""The JSON of masked-LM-scoring tools."""

import json

import pytest

from espnet_ext.errors import InputError
from espnet_ext.nbest.lists import Hypothesis, NBest
from espnet_ext.nbest.mlm_scoring import read_mlm_scoring


def test_hypotheses_are_ranked_by_their_number(tmp_path):
    hypotheses = {f"hyp_{rank}": {"score": -float(rank), "text": f" text {rank}"} for rank in range(12, 0, -1)}
    lists = {"b": {"ref": "text 1", **hypotheses}, "a": {"hyp_1": {"score": 0, "text": ""}}}
    (tmp_path / "am.json").write_text(json.dumps(lists, indent=2))
    first, second = read_mlm_scoring(tmp_path / "am.json")
    assert first == NBest("a", (Hypothesis("", 0.0),))
    assert second == NBest("b", tuple(Hypothesis(f"text {rank}", -rank) for rank in range(1, 13)), "text 1")


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "am.json: not JSON"),
        ('{"utt_id": "a", "hyps": []}\n{"utt_id": "b", "hyps": []}', "am.json: not JSON .* must be named .jsonl"),
        ("[]", "am.json: no object of utterances"),
        ("{}", "am.json: no object of utterances"),
        ('{"a": []}', "am.json: a: not an object with ref and hyp_1"),
        ('{"a": {"ref": "x"}}', "am.json: a: no hypotheses"),
        ('{"a": {"hyp_1": {"text": "x"}}}', "am.json: a: hypothesis 1 must be an object with text, score"),
        ('{"a": {"hyp_2": {"text": "x", "score": NaN}}}', "am.json: a: hypothesis 1: score is nan"),
        ('{"a": {"hyp_one": {"text": "x", "score": 0}}}', "am.json: a: 'hyp_one' is neither ref nor hyp_<number>"),
        ('{"a": {"ref": ["x"], "hyp_1": {"text": "x", "score": 0}}}', "am.json: a: ref must be a text"),
        ('{"a": {"hyp_1": {"text": "x", "score": 0}}, "a": {}}', "am.json: a comes twice"),
    ],
)
def test_what_is_refused(tmp_path, text, message):
    (tmp_path / "am.json").write_text(text)
    with pytest.raises(InputError, match=message):
        read_mlm_scoring(tmp_path / "am.json")
