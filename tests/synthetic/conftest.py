"""A synthetic corpus of two utterances in each part, made once for all tests that only
read it.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("espeakng_loader", reason="the extra 'mini' is not installed")

from espnet_ext.synthetic import librispeech, parameters  # noqa: E402

EVALUATION = ("dev-clean", "dev-other", "test-clean", "test-other")
TINY = parameters.make_librispeech_size(
    {"train-clean-100": (2, 1, 2), **dict.fromkeys(EVALUATION, (1, 1, 2))},
    lm_sentences=50,
)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a size with two utterances a speaker: two speakers in training and
    one in each other part.
    """
    monkeypatch.setitem(parameters.LIBRISPEECH_SIZES, "tiny", TINY)
    return "tiny"


@pytest.fixture(scope="session")
def make_tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that makes a corpus of seed 0 of a size that is in none of the
    package's tables of sizes.
    """

    def make(make_corpus: Callable[..., bool], sizes: dict, size) -> Path:
        output = tmp_path_factory.mktemp("mini") / "corpus"
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sizes, "tiny", size)
            assert make_corpus(output, "tiny", seed=0)
            assert not make_corpus(output, "tiny", seed=0), "left as it is"
        return output

    return make


@pytest.fixture(scope="session")
def mini_corpus(make_tiny) -> Path:
    """The folder of a tiny corpus. Tests leave it as it is."""
    return make_tiny(librispeech.make_librispeech, parameters.LIBRISPEECH_SIZES, TINY)
