"""A synthetic corpus of two utterances in each part, made once for all tests that only read it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("espeakng_loader", reason="the extra 'mini' is not installed")

from espnet_ext.synthetic import librispeech, parameters  # noqa: E402

EVALUATION = ("dev-clean", "dev-other", "test-clean", "test-other")
TINY = parameters.librispeech_size(
    {"train-clean-100": (2, 1, 2), **dict.fromkeys(EVALUATION, (1, 1, 2))}, lm_sentences=50
)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a size with two utterances a speaker: two speakers in training and one in each other part."""
    monkeypatch.setitem(parameters.LIBRISPEECH_SIZES, "tiny", TINY)
    return "tiny"


@pytest.fixture(scope="session")
def mini_corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a tiny corpus of seed 0. Tests leave it as it is."""
    output = tmp_path_factory.mktemp("mini") / "corpus"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(parameters.LIBRISPEECH_SIZES, "tiny", TINY)
        assert librispeech.make_librispeech(output, "tiny", seed=0)
    yield output
