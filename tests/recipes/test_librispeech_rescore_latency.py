"""``local/bench_latency.py`` of the rescoring recipe: what it measures, and what it
writes.
"""

import json

import bench_latency as latency
import pytest

from espnet_ext.errors import InputError

SMALL = {
    "num_hidden_layers": 1,
    "hidden_size": 24,
    "vocab_size": 100,
    "bos_token_id": 0,
    "eos_token_id": 0,
}


@pytest.mark.parametrize("kind", latency.KINDS, ids=str)
def test_every_scorer_of_the_paper_is_measured(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(latency, "TOKENS", 8)
    latency.measure_scorer(
        kind, tmp_path / "out" / "x.json", {"runs": 3, "seconds": 60, "layers": 1}
    )
    written = json.loads((tmp_path / "out" / "x.json").read_text())
    assert written["quartiles"][0] <= written["value"] <= written["quartiles"][1]
    assert (written["unit"], written["runs"], written["meta"]["layers"]) == ("ms", 3, 1)


def test_no_run_begins_after_the_time():
    ((_, scorer),) = latency.make_scorers(latency.KINDS[:1], **SMALL)
    assert len(latency.measure_times(scorer, ["w1 w2"], runs=3, seconds=0)) == 1


def test_a_list_is_as_long_as_the_papers():
    for _, scorer in latency.make_scorers(**SMALL):
        tokens = scorer.encode([[" ".join(["w1"] * latency.TOKENS)]])[0][0][1]
        assert len(tokens) == latency.TOKENS + len(scorer.before) + len(scorer.after)
        assert scorer.tokenizer.unk_token_id not in tokens


def test_another_scorer_is_refused(tmp_path):
    with pytest.raises(InputError, match="'gpt2 pooled cls'"):
        latency.measure_scorer(
            latency.ScorerKind("gpt2", "pooled", "cls"), tmp_path / "x.json", {}
        )
    assert not list(tmp_path.iterdir())
