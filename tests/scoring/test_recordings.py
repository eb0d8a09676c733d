"""What is scored of transcripts: excluded stretches, silence that a format cannot name,
and normalised turns.
"""

import pytest

from espnet_ext.errors import InputError
from espnet_ext.scoring.recordings import normalise_turns, prepare
from espnet_ext.text.transcripts import read_transcripts


def recorded_turns(reference, hypothesis, normaliser="none"):
    loaded = prepare(reference, [hypothesis], by_speaker=True)
    return [
        normalise_turns(each, normaliser)
        for each in (loaded.reference, *loaded.hypotheses)
    ]


def test_stretches_that_are_not_scored(tmp_path):
    (tmp_path / "ref.stm").write_text(
        "r1 A ann 0 4 one two\nr1 A ann 4 6 IGNORE_TIME_SEGMENT_IN_SCORING\nr1 B "
        "bob 4 6 six\n"
    )
    (tmp_path / "hyp.ctm").write_text(
        "r1 A 0 1 one\nr1 A 4.5 1 noise\nr1 B 4.5 1 six\n"
    )
    real, heard = recorded_turns(
        *(read_transcripts(tmp_path / name) for name in ("ref.stm", "hyp.ctm"))
    )
    assert [turn.words for turn in real] == [("one", "two"), ("six",)]
    assert [turn.words for turn in heard] == [("one",), ("six",)], (
        "the stretch is of one channel"
    )
    (tmp_path / "hyp.stm").write_text("r1 1 x 0 8 aa bb cc dd\n")
    _, heard = recorded_turns(
        *(read_transcripts(tmp_path / name) for name in ("ref.stm", "hyp.stm"))
    )
    assert [turn.words for turn in heard] == [("aa",), ("bb",), ("dd",)], (
        "no such channel: of the recording"
    )


def test_silence_of_files_that_cannot_say_so(tmp_path):
    (tmp_path / "ref.stm").write_text("r1 1 ann 0 4 one\nr2 1 ann 0 4 two\n")
    (tmp_path / "hyp.ctm").write_text("r1 1 0 1 one\n")
    (tmp_path / "hyp.json").write_text("[]")
    reference = read_transcripts(tmp_path / "ref.stm")
    _, heard = recorded_turns(reference, read_transcripts(tmp_path / "hyp.ctm"))
    assert [(turn.recording, turn.words) for turn in heard] == [
        ("r1", ("one",)),
        ("r2", ()),
    ]
    _, heard = recorded_turns(reference, read_transcripts(tmp_path / "hyp.json"))
    assert [(turn.recording, turn.words) for turn in heard] == [("r1", ()), ("r2", ())]


def test_normalised_turns(tmp_path):
    pytest.importorskip("whisper_normalizer")
    (tmp_path / "ref.stm").write_text("r1 1 ann 0 4 Twenty-one COLOURS, please\n")
    (tmp_path / "hyp.ctm").write_text("r1 1 0 1 Twenty-One\n")
    reference, hypothesis = (
        read_transcripts(tmp_path / name) for name in ("ref.stm", "hyp.ctm")
    )
    real, heard = recorded_turns(reference, reference, "whisper_english")
    assert (
        [turn.words for turn in real]
        == [turn.words for turn in heard]
        == [("21", "colors", "please")]
    )
    assert recorded_turns(reference, hypothesis, "lower")[1][0].words == ("twenty-one",)
    with pytest.raises(InputError, match=r"hyp.ctm: whisper_english joins words"):
        recorded_turns(reference, hypothesis, "whisper_english")
    (tmp_path / "text").write_text("r1 one\n")
    with pytest.raises(InputError, match="kaldi does not say who spoke when"):
        recorded_turns(reference, read_transcripts(tmp_path / "text"))
