"""A recording of one's own, from audio to a transcript on disk, and refusals."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
import yaml

from espnet_ext.cli.program import call
from espnet_ext.errors import InputError
from espnet_ext.sharing.model_files import find_model
from espnet_ext.sharing.pack import Packing, pack
from espnet_ext.stitch.recogniser.search_settings import DECODING, DecodingSettings
from espnet_ext.stitch.stitcher.long_recordings import Longest
from espnet_ext.stitch.stitcher.pairs import TRAINED_ON, TrainedOn
from espnet_ext.text.formats import read_hypotheses
from espnet_ext.text.transcripts import read_segments
from espnet_ext.text.windows import Windowing
from espnet_ext.text.words import Segment
from espnet_ext.transcription import speaker_attributed
from espnet_ext.transcription.engines import choose_engine
from espnet_ext.transcription.request import Request
from espnet_ext.transcription.speaker_attributed import find_windowing
from espnet_ext.work.files import write_json

SEARCH = {"beam_size": 2, "maxlenratio": -4, "minlenratio": -2}


@pytest.fixture(scope="module")
def random_model(sa_asr_config, build_sa_asr):
    """Return a function that makes a folder of a recogniser that was not trained.

    It has config.yaml and model.pth.
    """

    def make(folder: Path, profile_size: int) -> Path:
        options = {
            "token_list": ["<blank>", "<unk>", "<sc>", "AB", "CAD", "E", "<sos/eos>"],
            "token_type": "word",
            "input_size": None,
            "frontend_conf": {
                "fs": 16000,
                "n_fft": 256,
                "hop_length": 160,
                "n_mels": 20,
            },
            "normalize": "utterance_mvn",
            "model_conf": {"profile_size": profile_size},
        }
        folder.mkdir()
        (folder / "config.yaml").write_text(yaml.safe_dump(sa_asr_config(**options)))
        torch.save(build_sa_asr(**options).state_dict(), folder / "model.pth")
        return folder

    return make


@pytest.fixture(scope="module")
def model(random_model, tmp_path_factory) -> Path:
    return random_model(tmp_path_factory.mktemp("model") / "sa_asr", 4)


@pytest.fixture
def enrolment(tmp_path) -> Path:
    """Two people with two recordings each, at another rate and with two channels."""
    random = np.random.default_rng(3)
    for who in ("ann", "ben"):
        (tmp_path / "people" / who).mkdir(parents=True)
        for number in range(2):
            samples = 0.1 * random.normal(size=(8000, 2)) * (1 if who == "ann" else 3)
            soundfile.write(tmp_path / "people" / who / f"{number}.wav", samples, 8000)
    soundfile.write(
        tmp_path / "a meeting.wav", 0.1 * random.normal(size=(8000 * 3, 2)), 8000
    )
    return tmp_path


def loudness(samples: np.ndarray) -> np.ndarray:
    return np.array([np.std(samples), 0.2, 0.1, -0.2])


def request(folder: Path, **changes) -> Request:
    (folder / "search.yaml").write_text(
        "".join(f"{name}: {value}\n" for name, value in SEARCH.items())
    )
    options = {
        "enrolment": folder / "people",
        "config": folder / "search.yaml",
        "window": 1.0,
        "work": folder / "work",
    }
    return Request(**(options | changes))


@pytest.fixture(autouse=True)
def by_loudness(monkeypatch):
    monkeypatch.setattr(speaker_attributed, "load_resemblyzer", lambda: loudness)


def heard(folder: Path) -> list[Segment]:
    (path,) = (folder / "work").glob("a_meeting-*/heard/hypotheses.jsonl")
    return read_hypotheses(path)


def test_a_recording_of_ones_own(enrolment, model):
    lines = list(choose_engine(model, request(enrolment))(enrolment / "a meeting.wav"))
    assert {line.speaker for line in lines} <= {"ann", "ben"} and lines
    assert all(line.start <= line.end <= 3.5 for line in lines)
    assert {(item.start, item.end) for item in heard(enrolment)} == {
        (0, 1),
        (0.5, 1.5),
        (1, 2),
        (1.5, 2.5),
        (2, 3),
    }
    shards = list((enrolment / "work").glob("a_meeting-*/heard/log/*/done.json"))
    times = [done.stat().st_mtime_ns for done in shards]
    list(choose_engine(model, request(enrolment))(enrolment / "a meeting.wav"))
    assert shards and times == [done.stat().st_mtime_ns for done in shards], (
        "a later run goes on"
    )


def test_what_cannot_be_transcribed_is_refused(enrolment, model, monkeypatch):
    def refused(message: str, **changes) -> None:
        with pytest.raises(InputError, match=message):
            list(
                choose_engine(model, request(enrolment, **changes))(
                    enrolment / "a meeting.wav"
                )
            )

    refused(
        "nobody: no such folder: give one with a folder of audio files for each",
        enrolment=enrolment / "nobody",
    )
    refused("chooses among enrolled speakers: give --enrolment DIR", enrolment=None)
    refused(
        "--language is for Whisper, and this is a speaker-attributed model",
        language="en",
    )
    monkeypatch.setattr(
        speaker_attributed,
        "load_resemblyzer",
        lambda: lambda samples: loudness(samples)[:3],
    )
    refused("the profiles have 3 dimensions, but the model takes 4")
    (enrolment / "people" / "cid").mkdir()
    refused("cid: no audio file in it")


def test_a_model_of_nan_ends_the_run(random_model, enrolment, tmp_path, capsys):
    model = random_model(tmp_path / "sa_asr", 4)
    again = tmp_path / "again.wav"
    state = torch.load(model / "model.pth", weights_only=True)
    first = next(name for name, value in state.items() if value.is_floating_point())
    torch.save(state | {first: state[first] * torch.nan}, model / "model.pth")
    again.write_bytes((enrolment / "a meeting.wav").read_bytes())
    words = [
        "transcribe",
        str(enrolment / "a meeting.wav"),
        str(again),
        "--model",
        str(model),
    ]
    words += [
        "--enrolment",
        str(enrolment / "people"),
        "--output",
        str(tmp_path / "out"),
    ]
    with pytest.raises(
        InputError, match=f"model.pth: values of {first}.* are NaN or infinite"
    ):
        call(words)
    assert "error:" not in capsys.readouterr().err


def test_a_broken_enrolment_file_is_left_out(enrolment, model, tmp_path, capsys):
    """All are used that can be read, and the status says that some were not."""
    files = sorted((enrolment / "people").glob("*/*.wav"))
    words = [
        "transcribe",
        str(enrolment / "a meeting.wav"),
        "--model",
        str(model),
        "--window",
        "1.5",
    ]
    words += [
        "--enrolment",
        str(enrolment / "people"),
        "--output",
        str(tmp_path / "out"),
        "--formats",
        "seglst",
    ]
    files[0].write_bytes(files[0].read_bytes()[:60])
    with pytest.raises(InputError, match="1 enrolment files"):
        call(words)
    assert str(files[0]) in capsys.readouterr().err
    assert (tmp_path / "out" / "a meeting.seglst.json").is_file()
    for path in files:
        path.write_bytes(b"RIFF")
    with pytest.raises(InputError, match="no audio file can be read"):
        call(words)


def test_by_a_speaker_model_in_windows_side_by_side(
    random_model, enrolment, espnet_speaker_model, tmp_path
):
    model = random_model(tmp_path / "sa_asr", 6)
    options = {"window_overlap": 0.0, "speaker_model": espnet_speaker_model}
    list(
        choose_engine(model, request(enrolment, **options))(enrolment / "a meeting.wav")
    )
    assert {(item.start, item.end) for item in heard(enrolment)} == {
        (0, 1),
        (1, 2),
        (2, 3),
    }


def test_a_packed_model_says_how_it_is_used(random_model, enrolment, tmp_path, capsys):
    """Search and windows come from the archive, by the command.

    Words and speakers are those of the model's folder.
    """
    model = random_model(tmp_path / "sa_asr", 4)
    write_json(
        model / DECODING, DecodingSettings(search=SEARCH, window=1.5).model_dump()
    )
    archive = tmp_path / "packed.zip"
    pack(Packing(model), archive)
    options = [
        "--enrolment",
        str(enrolment / "people"),
        "--formats",
        "seglst,srt",
        "--work",
        str(enrolment / "work"),
    ]
    found = []
    for number, name in enumerate((model, model / "model.pth", archive)):
        out = tmp_path / f"out{number}"
        call(
            [
                "transcribe",
                str(enrolment / "a meeting.wav"),
                "--model",
                str(name),
                "--output",
                str(out),
                *options,
            ]
        )
        assert {(item.start, item.end) for item in heard(enrolment)} == {
            (0, 1.5),
            (0.75, 2.25),
            (1.5, 3),
        }
        found.append(read_segments(out / "a meeting.seglst.json"))
    assert found[0] == found[1] == found[2] and {turn.speaker for turn in found[0]} <= {
        "ann",
        "ben",
    }
    assert "1 of 1 files" in capsys.readouterr().err


def test_windows_are_the_stitchers(model, tmp_path):
    """Those of another kind are refused before any work."""
    files = find_model(model)
    assert find_windowing(Request(), files) == Windowing(16.0, 0.5), "the defaults"
    assert find_windowing(Request(window=8.0), files) == Windowing(8.0, 0.5)
    trained_on = TrainedOn(
        style="wc", longest=Longest(4, 99), windows=Windowing(8.0, 0.25)
    )
    write_json(tmp_path / TRAINED_ON, trained_on.model_dump())
    assert find_windowing(Request(stitcher=tmp_path), files) == Windowing(8.0, 0.25)
    with pytest.raises(
        InputError,
        match="it stitches windows of 8 s that overlap by 25 %, not of 16 s by 0 %",
    ):
        find_windowing(
            Request(stitcher=tmp_path, window=16.0, window_overlap=0.0), files
        )
