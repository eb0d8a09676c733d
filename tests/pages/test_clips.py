"""Audio for the page."""

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from espnet_ext.kaldi.utterance_audio import AudioSpan
from espnet_ext.pages import clips as audio
from espnet_ext.pages.clips import choose, spans_of, write_clips


@given(st.lists(st.permutations(["a", "b", "c", "d"]), min_size=1, max_size=4), st.integers(0, 6))
def test_every_system_has_its_turn(ranked, most):
    chosen = choose(ranked, most)
    assert len(chosen) == min(most, 4) == len(set(chosen))
    # Whoever is chosen stands no lower in some system than all who are not, in all of them.
    best = {key: min(ranks.index(key) for ranks in ranked) for key in "abcd"}
    assert all(best[key] <= best[other] for key in chosen for other in set("abcd") - set(chosen))


@pytest.fixture
def tone(tmp_path):
    path = tmp_path / "tone.wav"
    samples = np.zeros((32000, 2))
    samples[16000:, 0] = 0.5 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    soundfile.write(path, samples, 16000)
    return str(path)


def test_a_segment_of_the_first_channel(tone, tmp_path):
    spans = {"silence": AudioSpan(tone, 0.0, 1.0), "tone": AudioSpan(tone, 1.0)}
    clips = write_clips(list(spans), spans, tmp_path, 5)
    assert clips.numbers == {"silence": 5, "tone": 6} and not clips.failed
    silence, rate = soundfile.read(tmp_path / "5.mp3")
    sound, _ = soundfile.read(tmp_path / "6.mp3")
    assert rate == 16000 and abs(len(sound) / rate - 1.0) < 0.2  # MP3 adds up to some frames
    assert np.abs(silence).max() < 0.01 and np.abs(sound).max() == pytest.approx(0.5, abs=0.1)


def test_what_cannot_be_read_has_none_and_says_why(tone, tmp_path, monkeypatch):
    (tmp_path / "bad.wav").write_bytes(b"no audio")
    soundfile.write(tmp_path / "odd.wav", np.zeros(100), 17000)
    monkeypatch.setattr(audio, "MOST_SECONDS", 1.5)
    spans = {
        "gone": AudioSpan(str(tmp_path / "gone.wav")),
        "bad": AudioSpan(str(tmp_path / "bad.wav")),
        "odd": AudioSpan(str(tmp_path / "odd.wav")),
        "past": AudioSpan(tone, 3.0, 4.0),
        "long": AudioSpan(tone),
        "good": AudioSpan(tone, 0.5, 1.0),
    }
    clips = write_clips(["unknown", *spans], spans, tmp_path, 0)
    assert clips.numbers == {"good": 0}
    reasons = {"unknown": "not in wav.scp", "gone": "gone.wav", "bad": "bad.wav", "odd": "17000 Hz"}
    for key, reason in (reasons | {"past": "no samples", "long": "longer than"}).items():
        assert reason in clips.failed[key] and "\n" not in clips.failed[key]


def test_paths_count_from_the_recipes_folder(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    assert spans_of(data, tmp_path) == {}
    (data / "wav.scp").write_text("u1 wav/u1.wav\nu2 /far/u2.wav\n", encoding="utf-8")
    assert [span.path for span in spans_of(data, tmp_path).values()] == [str(tmp_path / "wav/u1.wav"), "/far/u2.wav"]
    assert spans_of(data, None)["u1"].path == "wav/u1.wav"
