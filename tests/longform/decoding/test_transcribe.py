"""Transcription of audio files: words written out, and the command's refusals."""

import itertools
import json
import shutil

import numpy as np
import pytest
import soundfile

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.longform.decoding.settings import WindowSettings
from espnet_ext.longform.decoding.transcribe import Transcriber, load_transcriber

WINDOW = 2.0


@pytest.fixture(scope="module")
def data(make_data_dir, tmp_path_factory):
    return make_data_dir(
        tmp_path_factory.mktemp("long") / "data", {"long": 9.37, "short": 1.3}
    )


@pytest.fixture(scope="module")
def transcriber(model) -> Transcriber:
    return load_transcriber(
        model / "config.yaml",
        model / "model.pth",
        WindowSettings(window=WINDOW, stride=0.5),
    )


class DrawnModel:
    """Stands for a model that hears letters and spaces at random."""

    tokens = ("<blank>", "<space>", "A", "B", "C")
    frame_seconds = 0.04
    drawn = (
        np.random.default_rng(5).dirichlet(np.full(5, 0.3), size=400).astype(np.float32)
    )

    def open_source(self, audio):
        return audio

    def compute_posteriors(self, source, seconds, stride, batch):
        assert (seconds, stride, batch) == (4.0, 0.5, 2)
        yield from np.array_split(self.drawn, 7)


@pytest.mark.parametrize("token_type", ["char", "bpe", "word"])
def test_words_are_those_of_the_best_path(token_type):
    model = DrawnModel()
    marks = {
        "char": ("<space>", "A", "B", "C"),
        "bpe": ("▁", "▁A", "B", "C"),
        "word": ("so", "A", "B", "C"),
    }[token_type]
    model.tokens = ("<blank>", *marks)
    transcriber = Transcriber(
        model,
        token_type,
        lambda tokens: "".join(tokens).replace("<space>", " ").replace("▁", " "),
        4.0,
        0.5,
        8.0,
    )
    expected = []
    frame = 0
    for token, run in itertools.groupby(model.drawn.argmax(axis=1).tolist()):
        end = frame + len(list(run))
        starts = token_type == "word" or model.tokens[token].startswith(
            ("<space>", "▁")
        )
        if token and (starts or not expected):
            expected.append([])
        if token:
            expected[-1].append(
                (model.tokens[token], frame, end, model.drawn[frame:end, token].max())
            )
        frame = end
    spoken = [
        [part for part in word if part[0] not in ("<space>", "▁")] for word in expected
    ]
    spoken = [word for word in spoken if word]
    found = list(transcriber.recognise_words(None))
    assert len(found) == len(spoken) > 30
    for word, parts in zip(found, spoken, strict=True):
        assert word.text == "".join(text for text, *_ in parts).replace("▁", "")
        times = (
            parts[0][1] * 0.04,
            parts[-1][2] * 0.04,
            np.mean([peak for *_, peak in parts]),
        )
        assert (word.start, word.end, word.confidence) == pytest.approx(times, abs=1e-5)


def test_the_command(model, data, tmp_path, capsys):
    """A corrupt, a missing, a silent file and one of 100 samples among good ones."""
    files = {
        name: tmp_path / f"{name}.wav"
        for name in ("corrupt", "missing", "silent", "tiny")
    }
    files["corrupt"].write_bytes(b"no audio")
    soundfile.write(files["silent"], np.zeros(16000), 16000)
    soundfile.write(files["tiny"], np.ones(100) * 0.1, 16000)
    words = [*files.values(), data / "long.flac", data / "short.flac"]
    options = [
        "--model",
        model / "model.pth",
        "--output",
        tmp_path / "out",
        "--window-overlap",
        "0.25",
    ]
    formats = ["--formats", "txt,json,ctm,srt,vtt", "--window", WINDOW]
    with pytest.raises(InputError, match="2 of 6 files could not be transcribed"):
        call([str(word) for word in ["transcribe", *words, *options, *formats]])
    shown = capsys.readouterr()
    assert (
        "corrupt.wav" in shown.err
        and "missing.wav" in shown.err
        and "4 of 6 files" in shown.err
    )
    made = {path.name for path in (tmp_path / "out").glob("[!.]*")}
    kinds = ("txt", "json", "ctm", "srt", "vtt")
    assert made == {
        f"{name}.{kind}"
        for name in ("silent", "tiny", "long", "short")
        for kind in kinds
    }
    content = json.loads((tmp_path / "out" / "long.json").read_text())
    assert (
        content["text"].split() == (tmp_path / "out" / "long.txt").read_text().split()
    )


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            ["--window", "nan"],
            "--window must be a number of seconds, at least 1, not nan",
        ),
        (
            ["--window-overlap", "-0.5"],
            "--window-overlap must be a share of a window from 0 to below 1, .* "
            "not -0.5",
        ),
        (["--language", "de"], "--language is for Whisper"),
        (["--enrolment", "VOICES"], "--enrolment is for a speaker-attributed"),
    ],
)
def test_bad_options(options, fault, model, data, tmp_path):
    (tmp_path / "voices" / "anna").mkdir(parents=True)
    shutil.copy(data / "short.flac", tmp_path / "voices" / "anna")
    options = [tmp_path / "voices" if word == "VOICES" else word for word in options]
    files = ["--model", model, "--output", tmp_path / "out"]
    with pytest.raises(InputError, match=fault):
        call(
            [str(word) for word in ["transcribe", data / "long.flac", *files, *options]]
        )
