"""Whisper on windows whose speakers take turns: whose words, and equal batches."""

import numpy as np
import pytest
import soundfile

from espnet_ext.errors import InputError
from espnet_ext.scoring.normalise import LIBRISPEECH, find_normaliser
from espnet_ext.synthetic.voices import draw_speakers
from espnet_ext.text.formats import read_hypotheses
from espnet_ext.text.window_hypotheses import NOBODY
from espnet_ext.text.words import Segment, Word
from espnet_ext.text.writing import write_segments
from espnet_ext.whisper.windows import (
    DEFAULT_SEARCH,
    WhisperSearch,
    WindowWhisper,
    decode_turns,
    split_by_turns,
)

NORMALISE = find_normaliser(LIBRISPEECH)[0]
TURNS = [
    Segment("r", "anne", ("A",), 0.0, 10.0),
    Segment("r", "bob", ("B",), 10.5, 20.0),
    Segment("r", "anne", ("C",), 21.0, 25.0),
]


def window(start: float = 8.0, end: float = 16.0) -> Segment:
    return Segment("r", NOBODY, (), start, end, window=2)


def test_a_word_belongs_to_the_nearest_turn_and_is_written_as_the_reference():
    words = [
        Word(" Hello,", 0.5, 1.0, 0.9),  # 8.5 to 9 s: Anne
        Word(
            " twenty-one", 2.0, 2.3, 0.8
        ),  # 10.15 s: nearer to Anne's end than to Bob's start
        Word(" 21", 2.2, 2.6, 0.7),  # 10.4 s: Bob is nearer
        Word(" ...", 4.0, 4.1, 0.6),  # nothing is left of it
        Word(
            " it's", 4.5, 9.5, 0.5
        ),  # with the pause before it, and ends after the window
    ]
    anne, bob = sorted(
        split_by_turns(words, window(), TURNS, NORMALISE), key=lambda item: item.speaker
    )
    assert (anne.words, anne.times) == (
        ("HELLO", "TWENTY", "ONE"),
        ((8.5, 9.0), (10.0, 10.3), (10.0, 10.3)),
    )
    assert (bob.words, bob.times) == (
        ("TWENTY", "ONE", "IT'S"),
        ((10.2, 10.6), (10.2, 10.6), (15.2, 16.0)),
    )
    assert (bob.speaker, bob.confidences) == ("bob", (0.7, 0.7, 0.5))


def test_a_window_without_words_is_known():
    assert split_by_turns([Word(" -", 0.0, 0.1, 0.1)], window(), TURNS, NORMALISE) == [
        window()
    ]


def say(text: str) -> np.ndarray:
    """Some seconds of a clear voice, 16 kHz."""
    import soxr

    (speaker,) = draw_speakers({"x": 1}, 0, variants=("m3",))["x"]
    return soxr.resample(
        speaker.say(text, "en", np.random.default_rng(0)), 22050, 16000
    ).astype(np.float32)


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    return say("THE YOUNG GIRL OPENS THE WINDOW IN THE MORNING")


def spans(words) -> list[tuple[float, float]]:
    return [(word.start, word.end) for word in words]


def test_batches_hear_what_single_windows_hear(speech):
    whisper = WindowWhisper(DEFAULT_SEARCH)
    windows = [speech, speech[8000:], speech[: 16000 * 2], np.roll(speech, 800), speech]
    together = whisper.decode(windows)
    for found, samples in zip(together, windows, strict=True):
        ((*alone,),) = whisper.decode([samples])
        assert [word.text for word in found] == [word.text for word in alone]
        np.testing.assert_allclose(spans(found), spans(alone), atol=0.05)
    assert together[0] == together[-1]
    text = " ".join(NORMALISE(word.text) for word in together[0]).split()
    assert text[-3:] == ["IN", "THE", "MORNING"]
    starts = [word.start for word in together[0]]
    assert starts == sorted(starts) and starts[-1] < len(speech) / 16000


def test_numbers_are_written_as_digits_or_as_words():
    numbers = say("SEVEN NINE FIVE TWO FOUR")

    def digits(search: WhisperSearch) -> int:
        ((*words,),) = WindowWhisper(search).decode([numbers])
        assert words
        return sum(any(map(str.isdigit, word.text)) for word in words)

    assert digits(DEFAULT_SEARCH) > 0 and digits(WhisperSearch(digits=False)) == 0


def test_a_window_has_at_most_so_many_tokens(speech):
    whisper = WindowWhisper(WhisperSearch(tokens_per_second=1, spare_tokens=1))
    ((*words,),) = whisper.decode([speech])
    assert 0 < len(words) <= len(speech) / 16000 + 4


OTHER = Segment("other", "a", ("A",), 0.0, 1.0)


def data_dir(folder, samples: np.ndarray):
    folder.mkdir()
    soundfile.write(folder / "r.wav", samples, 16000)
    (folder / "wav.scp").write_text(f"r {folder / 'r.wav'}\n")
    (folder / "utt2dur").write_text(f"r {len(samples) / 16000}\n")
    write_segments(
        folder / "references.json",
        [Segment("r", "anne", ("A",), 0.0, len(samples) / 16000)],
    )
    return folder


def test_a_data_dir_gets_hypotheses_with_times(tmp_path, speech):
    data = data_dir(tmp_path / "data", speech)
    decode_turns(data, data / "references.json", tmp_path / "heard")
    (heard,) = read_hypotheses(tmp_path / "heard" / "hypotheses.jsonl")
    assert (heard.recording, heard.speaker, heard.window) == ("r", "anne", 0)
    assert (
        "MORNING" in heard.words
        and heard.times
        and heard.end == pytest.approx(len(speech) / 16000, abs=1e-3)
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda data: (data / "utt2dur").write_text("r 31\n"),
            "Whisper hears at most 30 s",
        ),
        (
            lambda data: write_segments(data / "references.json", [OTHER]),
            "r has no turns",
        ),
    ],
)
def test_what_whisper_cannot_hear_is_refused(tmp_path, speech, change, message):
    data = data_dir(tmp_path / "data", speech)
    change(data)
    with pytest.raises(InputError, match=message):
        decode_turns(data, data / "references.json", tmp_path / "heard")
