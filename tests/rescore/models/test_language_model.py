"""What somebody sees who names a language model that cannot be had."""

import huggingface_hub
import pytest
from huggingface_hub.utils import logging as hub_logging
from transformers import AutoModelForCausalLM

from espnet_ext.errors import InputError
from espnet_ext.rescore.models.language_model import config_of, load, quiet


@pytest.fixture
def offline(monkeypatch, tmp_path):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "empty"))


def test_without_a_network_the_hub_is_named_not_the_name(offline):
    says = r"^gpt2: .*\(the hub cannot be reached, and there is no copy here\): check the network, or give a folder$"
    with pytest.raises(InputError, match=says):
        config_of("gpt2")
    with pytest.raises(InputError, match=says):
        load(AutoModelForCausalLM, "gpt2")


def test_attempts_of_the_client_are_not_shown(caplog):
    logger = hub_logging.get_logger("huggingface_hub.utils._http")
    logger.warning("before")
    with quiet():
        logger.warning("Retrying in 1s [Retry 1/5].")
    logger.warning("after")
    assert caplog.messages == ["before", "after"]
