"""Reading an utterance's samples from any Kaldi data dir; each kind of bad input is
refused by file and id.
"""

import numpy as np
import pytest
import soundfile

from espnet_ext.errors import InputError
from espnet_ext.kaldi.utterance_audio import AudioSpan, read_samples, read_spans

RATE = 16000


@pytest.fixture
def ramp(tmp_path):
    """A WAV file of one second in which sample n is n / RATE, and that array."""
    samples = np.arange(RATE, dtype=np.float32) / RATE
    soundfile.write(tmp_path / "ramp.wav", samples, RATE, subtype="FLOAT")
    return str(tmp_path / "ramp.wav"), samples


def test_without_segments_an_utterance_is_a_whole_file(ramp, tmp_path):
    path, samples = ramp
    (tmp_path / "wav.scp").write_text(f"b {path}\na {path}\n")
    spans = read_spans(tmp_path)
    assert list(spans) == ["a", "b"]
    np.testing.assert_array_equal(read_samples("a", spans["a"], RATE), samples)


def test_segments_cut_to_the_sample(ramp, tmp_path):
    path, samples = ramp
    (tmp_path / "wav.scp").write_text(f"rec {path}\n")
    (tmp_path / "segments").write_text(
        "u1 rec 0.25 0.5\nu2 rec 0.75 -1\nu3 rec 0.9 1.01\n"
    )
    spans = read_spans(tmp_path)
    np.testing.assert_array_equal(
        read_samples("u1", spans["u1"], RATE), samples[4000:8000]
    )
    np.testing.assert_array_equal(
        read_samples("u2", spans["u2"], RATE), samples[12000:]
    )
    # Times in `segments` are rounded, so an end just beyond the file's is its end.
    np.testing.assert_array_equal(
        read_samples("u3", spans["u3"], RATE), samples[14400:]
    )


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"wav.scp": "a cat a.wav |\n"}, "wav.scp: a is a command"),
        ({"wav.scp": "a\n"}, "wav.scp: a has no path"),
        ({"wav.scp": "a x.wav\na y.wav\n"}, "wav.scp: id a comes twice"),
        (
            {"wav.scp": "rec x.wav\n", "segments": "a other 0 1\n"},
            "segments: a: recording other is not in wav.scp",
        ),
        (
            {"wav.scp": "rec x.wav\n", "segments": "a rec 2 1\n"},
            "segments: a: from 2.0 to 1.0 s",
        ),
        (
            {"wav.scp": "rec x.wav\n", "segments": "a rec -1 1\n"},
            "segments: a: from -1.0 to 1.0 s",
        ),
        (
            {"wav.scp": "rec x.wav\n", "segments": "a rec zero 1\n"},
            "segments: a: expected `recording start end`",
        ),
        ({"text": "a one\n"}, "wav.scp: no such file"),
    ],
)
def test_bad_tables(tables, message, tmp_path):
    for name, content in tables.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_spans(tmp_path)


def write(path, samples, rate=RATE):
    soundfile.write(path, samples, rate, subtype="FLOAT")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "no such audio file"),
        (lambda path: path.write_bytes(b"not audio at all"), "corrupt audio"),
        (
            lambda path: write(path, np.zeros(800), 8000),
            "sampling rate 8000 Hz, not 16000 Hz",
        ),
        (lambda path: write(path, np.zeros((800, 2))), "2 channels"),
        (lambda path: write(path, np.zeros(0)), "no samples"),
        (lambda path: write(path, np.array([0.0, np.nan])), "NaN or infinite"),
    ],
)
def test_bad_audio_is_refused_by_file_and_utterance(make, message, tmp_path):
    path = tmp_path / "a.wav"
    make(path)
    with pytest.raises(InputError, match=f"a.wav: utterance spk-1: {message}"):
        read_samples("spk-1", AudioSpan(str(path)), RATE)


def test_segment_beyond_the_end_has_no_samples(ramp):
    with pytest.raises(InputError, match="utterance late: no samples"):
        read_samples("late", AudioSpan(ramp[0], 2.0, 3.0), RATE)


def test_truncated_flac(tmp_path):
    path = tmp_path / "a.flac"
    soundfile.write(path, np.random.default_rng(0).uniform(-0.5, 0.5, 5 * RATE), RATE)
    path.write_bytes(path.read_bytes()[:60000])
    with pytest.raises(
        InputError,
        match="a.flac: utterance spk-1: (corrupt audio|the audio breaks off)",
    ):
        read_samples("spk-1", AudioSpan(str(path)), RATE)
