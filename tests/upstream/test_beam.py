"""A beam as wide as the vocabulary or wider, which is ESPnet's default for a model of
few tokens.
"""

from pathlib import Path

import numpy as np
import pytest
from espnet2.tasks.mt import MTTask

import espnet_ext

TOKENS = ["<blank>", "<unk>", "a", "b", "c", "<sos/eos>"]
BLOCK = {"num_blocks": 1, "attention_heads": 2, "linear_units": 8}


@pytest.fixture(scope="module")
def merging_model(save_model, tmp_path_factory) -> Path:
    """The folder of a random model that rewrites texts of six tokens."""
    settings = {
        "token_list": TOKENS,
        "src_token_list": TOKENS,
        "token_type": "word",
        "frontend_conf": {"embed_dim": 8},
    }
    settings |= {
        "encoder": "transformer",
        "encoder_conf": {**BLOCK, "output_size": 8, "input_layer": None},
    }
    settings |= {
        "decoder": "transformer",
        "decoder_conf": BLOCK,
        "model_conf": {"report_bleu": False},
    }
    return save_model(MTTask, tmp_path_factory.mktemp("mt"), **settings)


def hypotheses(recogniser, signal: np.ndarray) -> list[tuple]:
    return [
        (text, ids, float(hypothesis.score))
        for text, _, ids, hypothesis in recogniser(signal)
    ]


@pytest.mark.parametrize(
    ("ctc_weight", "beam"), [(0.0, {}), (0.3, {"beam_size": 9}), (1.0, {})]
)
def test_a_model_of_nine_tokens_is_searched_with_eight(model, beam, ctc_weight, caplog):
    noise = np.random.default_rng(3).normal(scale=0.1, size=8000).astype(np.float32)
    options = {"ctc_weight": ctc_weight, "nbest": 5, "maxlenratio": 0.3}
    expected = hypotheses(espnet_ext.load(model, beam_size=8, **options), noise)
    assert all(score < 0 for _, _, score in expected), (
        "no score is of an empty text after the blank"
    )
    assert "is used" not in caplog.text
    assert hypotheses(espnet_ext.load(model, **beam, **options), noise) == expected
    assert (
        f"a beam of {beam.get('beam_size', 20)} for a model of 9 tokens: 8 is used"
        in caplog.text
    )


def test_a_model_that_merges_hypotheses(merging_model):
    source = np.array([2, 3, 2])
    options = {"ctc_weight": 0.0, "maxlenratio": -4.0, "nbest": 3}
    expected = hypotheses(
        espnet_ext.load(merging_model, beam_size=5, **options), source
    )
    assert hypotheses(espnet_ext.load(merging_model, **options), source) == expected
