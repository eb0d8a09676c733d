"""The card of published lists."""

import hashlib
from pathlib import Path

import pytest
import yaml

from espnet_ext.nbest.card import write_card
from espnet_ext.text.nbest import Hypothesis, NBest, write_nbest


@pytest.mark.parametrize(("corpus", "licence"), [("LibriSpeech", "cc-by-4.0"), ("mine", "unknown")])
def test_the_card_says_licence_command_settings_and_checksums(tmp_path: Path, corpus: str, licence: str) -> None:
    lists = tmp_path / "dev.jsonl"
    write_nbest(lists, [NBest(f"u{number}", (Hypothesis("A", -1.0),)) for number in range(3)])
    made = {"model": "tiny.en", "beam": 40, "compute_type": "int8"}
    text = write_card(tmp_path, [lists], corpus, "./run.sh --scale full", made).read_text()
    _, head, body = text.split("---\n", 2)
    assert yaml.safe_load(head)["license"] == licence
    assert "`./run.sh --scale full`" in body and yaml.safe_load(body.split("```")[1]) == made
    assert f"| dev.jsonl | 3 | `{hashlib.sha256(lists.read_bytes()).hexdigest()}` |" in body
