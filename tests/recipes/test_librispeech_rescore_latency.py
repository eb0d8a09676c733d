"""``local/bench_latency.py`` of the rescoring recipe: what it measures, and what it writes."""

import json

import bench_latency as latency
import pytest
import torch
from transformers import BertForMaskedLM, GPT2Model

from espnet_ext.errors import InputError
from espnet_ext.tables.kept.facts import read_facts

SMALL = {"num_hidden_layers": 1, "hidden_size": 24, "vocab_size": 100, "bos_token_id": 0, "eos_token_id": 0}


@pytest.mark.parametrize(("seconds", "runs"), [(0, 1), (60, 3)])
def test_every_scorer_of_the_paper_is_measured(seconds, runs):
    rows = latency.survey("cpu", rounds=2, runs=3, seconds=seconds, **SMALL)
    assert [str(row.kind) for row in rows] == [
        "gpt2 causal",
        "gpt2 pooled last",
        "gpt2 pooled attention",
        "bert-base-cased pll",
        "bert-base-cased pooled cls",
        "bert-base-cased pooled attention",
    ]
    assert all(row.quartiles[0] <= row.milliseconds <= row.quartiles[1] for row in rows)
    assert all(row.milliseconds > 0 and row.runs == 2 * runs and row.device == "cpu" for row in rows)
    assert all(len(row.rounds) == 2 for row in rows)


def test_models_have_the_papers_sizes():
    gpt2, bert = latency.configs()
    with torch.device("meta"):
        sizes = [sum(p.numel() for p in model.parameters()) / 1e6 for model in (GPT2Model(gpt2), BertForMaskedLM(bert))]
    assert sizes == pytest.approx([124.4, 108.3], abs=0.1)  # P3, section 4.2: 117M (as GPT-2 was announced) and 110M


def test_a_list_is_as_long_as_the_papers():
    for _, scorer in latency.make_scorers(**SMALL):
        tokens = scorer.encode([[" ".join(["w1"] * latency.TOKENS)]])[0][0][1]
        assert len(tokens) == latency.TOKENS + len(scorer.before) + len(scorer.after)
        assert scorer.tokenizer.unk_token_id not in tokens


def test_a_scorer_of_the_recipe_has_its_time(tmp_path):
    output = tmp_path / "latency" / "rescorebert.json"
    kind = latency.ScorerKind("bert-base-cased", "pooled", "cls")
    found = latency.measure_scorer(kind, output, runs=1, seconds=0, layers=1)
    written = json.loads(output.read_text())
    assert written["unit"] == "ms" and written["runs"] == 1 and written["meta"]["layers"] == 1
    assert written["value"] == pytest.approx(found.milliseconds, abs=0.05)


def test_another_scorer_is_refused(tmp_path):
    with pytest.raises(InputError, match="no scorer 'gpt2 pooled cls' is measured: known are gpt2 causal, gpt2"):
        latency.measure_scorer(latency.ScorerKind("gpt2", "pooled", "cls"), tmp_path / "x.json", runs=1, seconds=0)
    assert not list(tmp_path.iterdir())


def test_all_scorers_are_kept_as_facts(tmp_path):
    latency.main(["--output", str(tmp_path / "latency.json"), "--rounds=1", "--runs=1", "--seconds=0", "--layers=1"])
    facts = read_facts(tmp_path / "latency.json")
    assert list(facts["values"]["rows"]) == [str(kind) for kind in latency.KINDS]
    assert "the thread's own time" in facts["about"] and str(tmp_path) not in json.dumps(facts)
