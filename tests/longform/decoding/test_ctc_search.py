"""CTC decoding in parts."""

import itertools

import numpy as np
import pytest

from espnet_ext.errors import InputError
from espnet_ext.longform.decoding.ctc_search import BeamDecoder, BeamSettings, GreedyDecoder, Token

TOKENS = ["<blank>", "a", "b", "c"]


def posteriors(frames: int, seed: int = 0, sharpness: float = 2.0) -> np.ndarray:
    logits = sharpness * np.random.default_rng(seed).normal(size=(frames, len(TOKENS)))
    return (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).astype(np.float32)


def tokens_of(decoder, values: np.ndarray, size: int) -> list[Token]:
    found = [token for start in range(0, len(values), size) for token in decoder.step(values[start : start + size])]
    return found + decoder.finish()


def in_parts(decoder, values: np.ndarray, size: int) -> list[int]:
    return [token.id for token in tokens_of(decoder, values, size)]


def best_path(values: np.ndarray) -> list[int]:
    return [token for token, _ in itertools.groupby(values.argmax(axis=1).tolist()) if token]


@pytest.mark.parametrize("size", [1, 7, 200])
def test_greedy_is_the_best_path(size):
    values = posteriors(200)
    assert in_parts(GreedyDecoder(), values, size) == best_path(values)


@pytest.mark.parametrize("size", [1, 7, 200])
@pytest.mark.parametrize("kind", ["greedy", "beam"])
def test_tokens_have_their_frames_and_confidences(kind, size):
    """Against the runs of the most probable tokens, written out."""
    values = posteriors(200, seed=3)
    expected, frame = [], 0
    for token, run in itertools.groupby(values.argmax(axis=1).tolist()):
        end = frame + len(list(run))
        if token:
            expected.append((token, frame, end, pytest.approx(values[frame:end, token].max(), abs=1e-6)))
        frame = end
    if kind == "beam":
        pytest.importorskip("flashlight.lib.text")
    settings = BeamSettings(beam_size=200, look_back=60)
    decoder = GreedyDecoder() if kind == "greedy" else BeamDecoder(TOKENS, settings)
    assert [tuple(token) for token in tokens_of(decoder, values, size)] == expected


def test_beam_search_without_a_language_model_finds_the_best_path():
    """Its hypotheses take the best of their alignments, so the best path wins."""
    pytest.importorskip("flashlight.lib.text")
    values = posteriors(120)
    assert in_parts(BeamDecoder(TOKENS, BeamSettings(beam_size=200)), values, 50) == best_path(values)


@pytest.fixture
def lm(tmp_path):
    """After ``a`` comes ``b``, after ``b`` comes ``a``; ``c`` is rare."""
    pytest.importorskip("flashlight.lib.text")
    path = tmp_path / "lm.arpa"
    path.write_text(
        "\\data\\\nngram 1=6\nngram 2=4\n\n\\1-grams:\n-1.0\t<unk>\n-99\t<s>\t-0.3\n-1.0\t</s>\n-0.5\ta\t-0.3\n"
        "-0.5\tb\t-0.3\n-3.0\tc\t-0.3\n\n\\2-grams:\n-0.3\t<s> a\n-0.1\ta b\n-0.1\tb a\n-2.0\tc c\n\n\\end\\\n"
    )
    return path


def test_a_language_model_changes_the_result(lm):
    values = np.full((3, 4), 0.02, dtype=np.float32)
    values[0, 1], values[1, 0] = 0.94, 0.94
    values[2, 2], values[2, 3] = 0.45, 0.51
    assert best_path(values) == [1, 3]
    assert in_parts(BeamDecoder(TOKENS, BeamSettings(lm, lm_weight=1.0)), values, 3) == [1, 2]
    assert in_parts(BeamDecoder(TOKENS, BeamSettings(lm, lm_weight=0.0)), values, 3) == [1, 3]


@pytest.mark.parametrize("size", [13, 100, 1000])
def test_parts_and_decisions_do_not_change_the_result(lm, size):
    """With a look-back of more frames than matter, against one call of flashlight's decoder on the whole."""
    from flashlight.lib.text import decoder as flashlight

    values = posteriors(1000, seed=4, sharpness=3.0)
    settings = BeamSettings(lm, lm_weight=0.8, look_back=60)
    whole = BeamDecoder(TOKENS, settings)
    scores = np.log(values)
    tokens = whole._decoder.decode(scores.ctypes.data, *scores.shape)[0].tokens
    expected = [token for token, _ in itertools.groupby(tokens) if token]
    assert len(expected) > 300 and expected != best_path(values)
    assert in_parts(BeamDecoder(TOKENS, settings), values, size) == expected
    assert flashlight.LexiconFreeDecoder is type(whole._decoder)


def test_bad_language_models(tmp_path):
    pytest.importorskip("flashlight.lib.text")
    with pytest.raises(InputError, match="no such language model"):
        BeamDecoder(TOKENS, BeamSettings(tmp_path / "none.arpa"))
    (tmp_path / "bad.arpa").write_text("no model\n")
    with pytest.raises(InputError, match="bad.arpa: KenLM cannot read this language model"):
        BeamDecoder(TOKENS, BeamSettings(tmp_path / "bad.arpa"))
