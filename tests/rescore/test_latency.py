from espnet_ext.rescore import latency


def test_every_scorer_of_the_paper_is_measured_on_its_own_lists():
    rows = list(latency.survey("cpu", runs=3, seconds=0, num_hidden_layers=1, hidden_size=24, vocab_size=100))
    assert [row.name for row in rows] == list(latency.PAPER_MS)
    assert all(row.milliseconds > 0 and row.runs == 3 and row.device == "cpu" for row in rows)
    assert {row.name: row.paper for row in rows} == latency.PAPER_MS


def test_models_have_the_papers_sizes():
    sizes = {name: sum(p.numel() for p in scorer.model.parameters()) / 1e6 for name, scorer in latency.make_scorers()}
    assert 120 < sizes["GPT-2"] < 130 and 105 < sizes["BERT"] < 112  # P3: 117 (GPT-2's 124 less its positions) and 110


def test_a_list_is_as_long_as_the_papers():
    for _, scorer in latency.make_scorers(num_hidden_layers=1, hidden_size=24, vocab_size=100):
        tokens = scorer.encode([[" ".join(["w1"] * latency.TOKENS)]])[0][0][1]
        assert len(tokens) == latency.TOKENS + len(scorer.before) + len(scorer.after)
        assert scorer.tokenizer.unk_token_id not in tokens
