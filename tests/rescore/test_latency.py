import pytest
import torch
from transformers import BertForMaskedLM, GPT2Model

from espnet_ext.rescore import latency

SMALL = {"num_hidden_layers": 1, "hidden_size": 24, "vocab_size": 100, "bos_token_id": 0, "eos_token_id": 0}


@pytest.mark.parametrize(("seconds", "runs"), [(0, 1), (60, 3)])
def test_every_scorer_of_the_paper_is_measured(seconds, runs):
    rows = list(latency.survey("cpu", runs=3, seconds=seconds, **SMALL))
    assert [str(row.kind) for row in rows] == [
        "gpt2 causal",
        "gpt2 pooled last",
        "gpt2 pooled attention",
        "bert-base-cased pll",
        "bert-base-cased pooled cls",
        "bert-base-cased pooled attention",
    ]
    assert all(row.milliseconds > 0 and row.runs == runs and row.device == "cpu" for row in rows)


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
