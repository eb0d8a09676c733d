"""Mixtures that are cut: words whose middle is heard, samples, and refusals."""

import numpy as np
import pytest
import soundfile

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir, write_tables
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.stitch.recogniser.mixtures import cut_mixtures, cut_turns, draw_span
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.words import Segment
from espnet_ext.text.writing import write_segments

RATE = 16000
TURNS = [
    Segment("m1", "x", ("AB", "CD", "EF", "GH"), 0.0, 4.0),
    Segment("m1", "y", ("IJ", "KL"), 3.0, 5.0),
    Segment("m2", "x", ("AB",), 0.0, 1.0),
]


@pytest.fixture
def mixtures(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    for name, seconds in (("m1", 5), ("m2", 1)):
        samples = np.random.default_rng(seconds).uniform(-0.5, 0.5, seconds * RATE)
        soundfile.write(folder / f"{name}.wav", samples, RATE, subtype="PCM_16")
    write_segments(folder / "references.json", TURNS)
    write_table(folder / "text_speakers", {"m1": "x y", "m2": "x"})
    names = {"m1": "m1", "m2": "m2"}
    seconds = {"m1": "5", "m2": "1"}
    data = DataDir(
        wav_scp={name: str(folder / f"{name}.wav") for name in names},
        utt2spk=names,
        text={"m1": "AB CD EF GH <sc> IJ KL", "m2": "AB"},
        utt2dur=seconds,
        reco2dur=seconds,
    )
    write_tables(data, folder)
    return folder


def test_words_belong_to_where_their_middle_is():
    # each word of x lasts a second, those of y too: middles at 0.5, 1.5, 2.5, 3.5, and
    # 3.5, 4.5
    assert cut_turns(TURNS[:2], 1.4, 4.0) == [
        Segment("m1", "x", ("CD", "EF", "GH"), 0.0, 4.0),
        Segment("m1", "y", ("IJ",), 3.0, 5.0),
    ]
    assert cut_turns(TURNS[:2], 1.6, 3.4) == [Segment("m1", "x", ("EF",), 0.0, 4.0)]
    assert cut_turns(TURNS[:2], 4.6, 5.0) == []


def test_stretches_are_windows_that_may_end_with_the_recording():
    random = np.random.default_rng(0)
    spans = [draw_span(20.0, 8.0, random) for _ in range(500)]
    assert all(0 <= start <= 16 and end == min(20, start + 8) for start, end in spans)
    assert (
        min(start for start, _ in spans) < 0.5
        and max(start for start, _ in spans) > 15.5
    )
    assert all(
        span == (0.0, 3.0) for span in (draw_span(3.0, 8.0, random) for _ in range(5))
    )


def test_audio_text_and_speakers_are_those_of_the_stretch(mixtures, tmp_path):
    output = tmp_path / "cut"
    assert cut_mixtures(mixtures, output, window=2.0, seed=3) == 2
    wavs, texts, speakers = (
        read_table(output / name) for name in ("wav.scp", "text", "text_speakers")
    )
    for name in ("m1", "m2"):
        whole, _ = soundfile.read(mixtures / f"{name}.wav")
        heard, _ = soundfile.read(wavs[name])
        starts = [
            first
            for first in np.flatnonzero(whole == heard[0])
            if np.array_equal(whole[first:][: len(heard)], heard)
        ]
        assert len(starts) == 1 and len(heard) == round(
            float(read_table(output / "utt2dur")[name]) * RATE
        )
        start = starts[0] / RATE
        turns = [
            turn
            for turn in read_segments(mixtures / "references.json")
            if turn.recording == name
        ]
        kept = cut_turns(turns, start, start + len(heard) / RATE)
        assert texts[name] == " <sc> ".join(" ".join(turn.words) for turn in kept)
        assert speakers[name].split() == [turn.speaker for turn in kept]
    assert len(soundfile.read(wavs["m1"])[0]) <= 2 * RATE


def test_a_share_of_none_leaves_all_as_they_are(mixtures, tmp_path):
    assert cut_mixtures(mixtures, tmp_path / "cut", window=2.0, share=0.0) == 0
    for name in ("wav.scp", "text", "text_speakers", "utt2dur"):
        assert read_table(tmp_path / "cut" / name) == read_table(mixtures / name)


def test_bad_sets_and_options_are_refused(mixtures, tmp_path):
    with pytest.raises(InputError, match="cuts of 0 s"):
        cut_mixtures(mixtures, tmp_path / "cut", window=0)
    write_segments(
        mixtures / "references.json", [Segment("m1", "x", ("AB",)), TURNS[2]]
    )
    with pytest.raises(InputError, match="m1 has no turns with times"):
        cut_mixtures(mixtures, tmp_path / "cut", window=2.0)
