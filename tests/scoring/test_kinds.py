"""Error rates by kind of word."""

import json

import pytest

from espnet_ext.errors import InputError
from espnet_ext.scoring.evaluate import evaluate_words


@pytest.fixture
def files(tmp_path):
    texts = {
        "reference": "u1 Ann met Bob today\nu2 Bob left\n",
        "hypothesis": "u1 ann saw him bob\nu2 rob\n",
        "kinds": "u1 drowned other clear other\nu2 drowned other\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_each_kind_has_its_rate(files):
    """u1: met is saw, him is inserted, today is lost; u2: Bob is rob, left is lost."""
    score, _ = evaluate_words(
        files / "reference", files / "hypothesis", files, normaliser="whisper_english", kinds=files / "kinds"
    )
    assert score.total.errors == 5
    rates = {kind: (part.total.errors, part.total.reference_length) for kind, part in score.parts.items()}
    assert rates == {"clear": (0, 1), "drowned": (1, 2), "other": (3, 3)}
    assert json.loads((files / "score.json").read_text())["measures"]["drowned"]["value"] == 50.0
    assert (files / "parts" / "drowned" / "per_utterance.tsv").read_text().count("\n") == 3


def test_kinds_must_fit_the_words(files):
    (files / "kinds").write_text("u1 drowned other clear other\nu2 drowned\n")
    with pytest.raises(InputError, match="u2 has 1 kinds, but its reference 2 words"):
        evaluate_words(files / "reference", files / "hypothesis", kinds=files / "kinds")
