"""What somebody sees who names a language model that cannot be had."""

import json

import huggingface_hub
import pytest
from huggingface_hub.utils import logging as hub_logging
from transformers import AutoModelForCausalLM

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.language_model import (
    load,
    read_config,
    silence_transformers,
)


@pytest.fixture
def offline(monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(
        huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "empty")
    )


def test_without_a_network_the_hub_is_named_not_the_name(offline):
    says = r"^gpt2: .*\(the hub cannot be reached, and there is no copy here\): "
    with pytest.raises(InputError, match=says):
        read_config("gpt2")
    with pytest.raises(InputError, match=says):
        load(AutoModelForCausalLM, "gpt2")


def test_attempts_of_the_client_are_not_shown(caplog):
    logger = hub_logging.get_logger("huggingface_hub.utils._http")
    logger.warning("before")
    with silence_transformers():
        logger.warning("Retrying in 1s [Retry 1/5].")
    logger.warning("after")
    assert caplog.messages == ["before", "after"]


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_that_comes_with_a_model_is_not_run_and_nobody_is_asked(
    tmp_path, monkeypatch, file
):
    monkeypatch.setattr(
        "builtins.input", lambda *_: pytest.fail("asked on the terminal")
    )
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    kinds = ("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer")
    content = {
        "model_type": "mine",
        "auto_map": {kind: "own.Own" for kind in kinds},
        "tokenizer_class": "Own",
    }
    (tmp_path / file).write_text(json.dumps(content))
    for read in (
        lambda: load(AutoModelForCausalLM, tmp_path),
        lambda: read_config(tmp_path),
    ):
        with pytest.raises(InputError) as raised:
            read()
        assert "\n" not in str(raised.value)
    assert not (tmp_path / "ran").exists()
