"""Normalisers of texts before scoring."""

import json
from importlib.metadata import version

import pytest

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.scoring.normalise import normaliser_called


def test_whispers_english_normaliser():
    pytest.importorskip("whisper_normalizer")
    normalise, name = normaliser_called("whisper_english")
    assert name == f"whisper_english (whisper-normalizer {version('whisper-normalizer')})"
    assert normalise("Um, twenty-one colours -- they're HERE [laughs].") == "21 colors they are here"


def test_it_is_applied_to_both_texts_and_named_in_the_result(tmp_path):
    pytest.importorskip("whisper_normalizer")
    (tmp_path / "ref").write_text("r1 Mr. Marlow's got 21 colours.\nr2 It isn't, is it?\n")
    (tmp_path / "hyp").write_text("r1 mister marlow's got twenty one colors\nr2 it is not is it\n")
    texts = ["--ref", str(tmp_path / "ref"), "--hyp", str(tmp_path / "hyp"), "--output", str(tmp_path / "out")]
    call(["score", "wer", *texts, "--normaliser", "whisper_english"])
    score = json.loads((tmp_path / "out" / "score.json").read_text())
    assert score["value"] == 0.0 and score["normaliser"].startswith("whisper_english (whisper-normalizer 0.")
    call(["score", "wer", *texts])
    score = json.loads((tmp_path / "out" / "score.json").read_text())
    assert score["value"] > 50 and score["normaliser"] == "none"


def test_unknown_name():
    with pytest.raises(InputError, match="no normaliser 'nist'"):
        normaliser_called("nist")
