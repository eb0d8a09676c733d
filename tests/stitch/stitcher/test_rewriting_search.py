"""Beam search for rewritten texts, against all texts scored one by one."""

import argparse
import copy
import itertools

import pytest
import torch
from espnet2.tasks.mt import MTTask
from torch.nn.functional import pad

import espnet_ext
from espnet_ext.stitch.stitcher.rewriting_search import make_rewriting_search, rewrite

TOKENS = ["<blank>", "<unk>", "a", "b", "<sos/eos>"]
EOS = len(TOKENS) - 1


@pytest.fixture(scope="module", params=["transformer", "rnn"])
def model(request) -> torch.nn.Module:
    """A small model of large random parameters, which likes to end."""
    espnet_ext.register()
    torch.manual_seed(1)
    decoder = (
        {"num_blocks": 1, "attention_heads": 2, "linear_units": 8}
        if request.param == "transformer"
        else {}
    )
    settings = {
        "token_list": TOKENS,
        "src_token_list": TOKENS,
        "frontend_conf": {"embed_dim": 8},
        "encoder": "transformer",
        "encoder_conf": {
            "output_size": 8,
            "attention_heads": 2,
            "num_blocks": 1,
            "linear_units": 8,
            "input_layer": None,
        },
        "decoder": "transformer" if request.param == "transformer" else "batch_rnn",
        "decoder_conf": decoder
        or {"hidden_size": 8, "att_conf": {"atype": "dot", "adim": 8}},
        "model": "stitcher",
        "model_conf": {"report_bleu": False},
    }
    built = MTTask.build_model(
        argparse.Namespace(**MTTask.get_default_config() | settings)
    ).eval()
    for parameter in built.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    return built


SOURCES = [torch.tensor(ids) for ids in ([2, 3, 2], [3], [2, 2, 3, 3, 2], [1, 3])]


@torch.no_grad()
def log_probabilities(
    model: torch.nn.Module, source: torch.Tensor, texts: list[list[int]]
) -> torch.Tensor:
    """Of texts of one length."""
    count = len(texts)
    ids = torch.tensor(texts, dtype=torch.long)
    encodings, lengths = model.encode(
        source.repeat(count, 1), torch.full((count,), len(source))
    )
    begun = pad(ids, (1, 0), value=EOS)
    ended = pad(ids, (0, 1), value=EOS)
    scores, _ = model.decoder(
        encodings, lengths, begun, torch.full((count,), ids.size(1) + 1)
    )
    return scores.log_softmax(-1).gather(-1, ended[..., None]).sum((1, 2))


@pytest.mark.parametrize("bonus", [0.0, 0.7])
def test_a_wide_beam_finds_the_best_text(model, bonus):
    """The best of all texts of up to four tokens is found.

    The search goes on for as long as a longer one could be better.
    """
    every = [
        [list(text) for text in itertools.product(range(EOS), repeat=length)]
        for length in range(5)
    ]
    for source, found in zip(
        SOURCES,
        rewrite(model, make_rewriting_search(model, 5, bonus), SOURCES),
        strict=True,
    ):
        best = [
            float(log_probabilities(model, source, each).max()) + bonus * len(each[0])
            for each in ([found], *every)
        ]
        assert best[0] >= max(best) - 1e-4


@pytest.mark.parametrize("beam_size", [1, 3])
def test_together_as_one_by_one(model, beam_size):
    search = make_rewriting_search(model, beam_size)
    together = rewrite(model, search, SOURCES)
    assert together == [rewrite(model, search, [source])[0] for source in SOURCES]
    assert rewrite(model, search, SOURCES[::-1])[::-1] == together


@torch.no_grad()
def test_a_text_without_end_stops_ten_tokens_behind_the_length_of_its_source(model):
    endless = copy.deepcopy(model)
    output = getattr(endless.decoder, "output_layer", None) or endless.decoder.output
    output.bias[EOS] = -1e4
    found = rewrite(endless, make_rewriting_search(endless, 2), SOURCES)
    with_start = [
        len(source) + 1 for source in SOURCES
    ]  # the model puts a start before the source
    assert [len(text) for text in found] == [length + 10 for length in with_start]
