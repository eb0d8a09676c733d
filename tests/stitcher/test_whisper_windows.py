"""Transcribing without a model of one's own: Whisper in windows, and voices by d-vectors."""

import numpy as np
import pytest
import soundfile

from espnet_ext.cli.program import call
from espnet_ext.data.turns import read_turns
from espnet_ext.errors import InputError
from espnet_ext.multitalker.hypotheses import read_jsonl
from espnet_ext.stitcher.by_time import TimedWord
from espnet_ext.stitcher.whisper_windows import cluster, match, phrases, tell_voices
from espnet_ext.synthetic.voices import VOICE_RATE, draw_speakers


def words(*starts: float) -> list[TimedWord]:
    return [TimedWord(f"W{number}", start, start + 0.5) for number, start in enumerate(starts)]


def test_phrases_end_at_pauses_and_after_some_seconds():
    found = phrases(words(0, 0.5, 2.0, *np.arange(2.5, 12, 0.5)))
    assert [len(each) for each in found][:1] == [2]
    assert all(each[-1].end - each[0].start <= 6 for each in found)
    assert [word for each in found for word in each] == words(0, 0.5, 2.0, *np.arange(2.5, 12, 0.5))
    assert phrases([]) == []


def voices(*angles: float) -> np.ndarray:
    return np.array([[np.cos(angle), np.sin(angle)] for angle in np.deg2rad(angles)])


def test_voices_are_numbered_as_they_are_heard():
    assert cluster(voices(90, 5, 85, 0)) == ["speaker1", "speaker2", "speaker1", "speaker2"]
    assert cluster(voices(10)) == ["speaker1"]


def test_a_voice_that_matches_nobody_is_unknown():
    profiles = {"ann": voices(0)[0], "bob": voices(90)[0]}
    assert match(voices(10, 80, 180), profiles) == ["ann", "bob", "unknown"]


class Rising:
    """A recording in which the second half is another voice."""

    length = 16000 * 20

    def read(self, start: int, count: int) -> np.ndarray:
        return np.full(count, 1.0 if start < self.length / 2 else -1.0)


def test_short_phrases_have_the_voice_next_to_them():
    said = words(0, 0.5, 1.0, 1.5, 3.0, 12.0, 12.5, 13.0, 13.5, 15.0)
    found = tell_voices(said, Rising(), lambda samples: np.array([samples.mean(), 0.1]))
    assert [[word.start for word in own] for own in found.values()] == [
        [0, 0.5, 1.0, 1.5, 3.0], [12.0, 12.5, 13.0, 13.5, 15.0],
    ]  # fmt: skip
    assert tell_voices([], Rising(), lambda samples: samples) == {}


@pytest.fixture
def talk(tmp_path):
    """One voice says where dogs are, another answers; at 22.05 kHz."""
    one, other = draw_speakers({"a": 8}, 0)["a"][0], draw_speakers({"a": 8}, 0)["a"][5]
    parts = [np.zeros(VOICE_RATE // 4, dtype=np.float32)]
    for number, speaker in enumerate((one, one, other, other)):
        speech = speaker.speak("THERE ARE SEVEN DOGS IN THE GREEN GARDEN TODAY", "en", np.random.default_rng(number))
        parts += [speech.samples / np.abs(speech.samples).max() / 2, np.zeros(VOICE_RATE // 2, dtype=np.float32)]
    soundfile.write(tmp_path / "a talk.wav", np.concatenate(parts), VOICE_RATE)
    return tmp_path


def test_a_talk_without_a_model_of_ones_own(talk, capsys):
    """Windows overlap; each sentence comes once, its words in order."""
    out = talk / "out"
    options = ["--window", "6", "--window-overlap", "0.3", "--one-speaker"]
    call(["transcribe-speakers", str(talk / "a talk.wav"), "--output", str(out), *options])
    heard = read_jsonl(out / "a_talk.windows.jsonl")
    assert len(heard) > 2 and heard[0].end > heard[1].start
    text = " ".join(word for turn in read_turns(out / "a_talk.json") for word in turn.words).lower()
    assert (text.count("seven"), text.count("green garden") >= 3) == (4, True), text
    starts = [float(line.split()[2]) for line in (out / "a_talk.ctm").read_text().splitlines()]
    assert starts == sorted(starts)
    assert "speaker:" in capsys.readouterr().out


def test_what_whisper_cannot_do_is_refused(talk, tmp_path):
    wav = str(talk / "a talk.wav")
    with pytest.raises(InputError, match="Whisper hears at most 30 s at once"):
        call(["transcribe-speakers", wav, "--window", "60"])
    with pytest.raises(InputError, match=r"--whisper .*: it has no model.bin"):
        call(["transcribe-speakers", wav, "--whisper", str(tmp_path)])
    with pytest.raises(InputError, match="--stitcher needs a speaker-attributed model"):
        call(["transcribe-speakers", wav, "--stitcher", "s"])
    with pytest.raises(InputError, match="needs both --model-config and --model"):
        call(["transcribe-speakers", wav, "--model", "m.pth"])
    with pytest.raises(InputError, match="give --enrolment DIR"):
        call(["transcribe-speakers", wav, "--model", "m.pth", "--model-config", "c.yaml"])
    with pytest.raises(InputError, match="both --speaker-model-config and --speaker-model"):
        call(["transcribe-speakers", wav, "--speaker-model", "x.pth"])
    with pytest.raises(InputError, match=r"none.wav: no such file: give an audio file"):
        call(["transcribe-speakers", "none.wav"])
