"""A recording of one's own: from audio files to a transcript on disk, and what is refused."""

import argparse
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_ext.data.turns import read_turns
from espnet_ext.errors import InputError
from espnet_ext.multitalker.hypotheses import read_jsonl
from espnet_ext.multitalker.settled import Settled, write_settled
from espnet_ext.multitalker.windows import Windowing
from espnet_ext.stitcher import transcribe as transcribe_module
from espnet_ext.stitcher.long_recordings import Longest
from espnet_ext.stitcher.note import StitcherNote, write_note
from espnet_ext.stitcher.transcribe import Transcription, merged_by, transcribe, transcribe_with_model

ENCODER = {"output_size": 8, "attention_heads": 2, "linear_units": 8, "num_blocks": 1}
SETTINGS = {
    "token_list": ["<blank>", "<unk>", "<sc>", "AB", "CAD", "E", "<sos/eos>"],
    "token_type": "word",
    "frontend_conf": {"fs": 16000, "n_fft": 256, "hop_length": 160, "n_mels": 20},
    "normalize": "utterance_mvn",
    "encoder": "transformer",
    "encoder_conf": ENCODER,
    "speaker_encoder": "transformer",
    "speaker_encoder_conf": ENCODER,
    "decoder": "transformer",
    "decoder_conf": {"attention_heads": 2, "linear_units": 8, "num_blocks": 1},
    "model": "sa_asr",
}
SEARCH = {"beam_size": 2, "maxlenratio": -4, "minlenratio": -2}


def random_model(folder: Path, profile_size: int) -> Path:
    """A folder with config.yaml and model.pth of a recogniser that was not trained."""
    import torch
    import yaml

    import espnet_ext
    from espnet_ext.multitalker.task import SAASRTask

    espnet_ext.register()
    speakers = {"profile_size": profile_size, "speaker_conf": {"query_conf": {"hidden_size": 6}}}
    config = SAASRTask.get_default_config() | SETTINGS | {"model_conf": speakers}
    torch.manual_seed(0)
    model = SAASRTask.build_model(argparse.Namespace(**config))
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    torch.save(model.state_dict(), folder / "model.pth")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
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
    soundfile.write(tmp_path / "a meeting.wav", 0.1 * random.normal(size=(8000 * 3, 2)), 8000)
    return tmp_path


def loudness(samples: np.ndarray) -> np.ndarray:
    return np.array([np.std(samples), 0.2, 0.1, -0.2])


def transcription(folder: Path, model: Path, **changes) -> Transcription:
    options = {
        "recording": folder / "a meeting.wav",
        "enrolment": folder / "people",
        "model_config": model / "config.yaml",
        "model_file": model / "model.pth",
        "windowing": Windowing(1.0, 0.5),
        "output": folder / "out",
        "search": SEARCH,
    }
    return Transcription(**(options | changes))


def test_a_recording_of_ones_own(enrolment, model):
    timed = transcribe(transcription(enrolment, model), loudness, merged_by("overlapping"))
    turns = [turn for turn, _ in timed]
    out = enrolment / "out"
    assert {turn.speaker for turn in turns} <= {"ann", "ben"} and turns
    assert {(turn.recording, turn.start <= turn.end <= 3.5) for turn in turns} == {("a_meeting", True)}
    assert read_turns(out / "a_meeting.json") == sorted(turns, key=lambda turn: turn.start)
    lines = [line.split() for line in (out / "a_meeting.ctm").read_text().splitlines()]
    assert [(line[4], line[7]) for line in lines] == [(word, turn.speaker) for turn in turns for word in turn.words]
    assert len((out / "a_meeting.txt").read_text().splitlines()) == len(turns)
    # uncut, the recording is one window
    transcribe(transcription(enrolment, model, windowing=None, output=enrolment / "whole"), loudness, merged_by("no"))
    assert {item.window for item in read_jsonl(enrolment / "whole" / "work" / "heard" / "hypotheses.jsonl")} == {0}


def test_what_cannot_be_transcribed_is_refused(enrolment, model):
    with pytest.raises(InputError, match="the profiles have 3 dimensions, but the model takes 4"):
        transcribe(transcription(enrolment, model), lambda samples: loudness(samples)[:3], merged_by("overlapping"))
    (enrolment / "people" / "cid").mkdir()
    with pytest.raises(InputError, match="cid: no audio file in it"):
        transcribe(transcription(enrolment, model), loudness, merged_by("overlapping"))
    with pytest.raises(InputError, match="nobody: no such folder: give one with a folder of audio files for each"):
        transcribe(transcription(enrolment, model, enrolment=enrolment / "nobody"), loudness, merged_by("overlapping"))


def test_by_a_speaker_model_in_blocks(enrolment, espnet_speaker_model, tmp_path, capsys):
    model = random_model(tmp_path / "sa_asr", 6)
    files = (enrolment / "a meeting.wav", enrolment / "people", model / "config.yaml", model / "model.pth")
    (tmp_path / "search.yaml").write_text("".join(f"{name}: {value}\n" for name, value in SEARCH.items()))
    timed = transcribe_with_model(
        *files,
        tmp_path / "out",
        config=tmp_path / "search.yaml",
        method="block",
        window=1.0,
        speaker_model=(espnet_speaker_model.with_name("config.yaml"), espnet_speaker_model),
    )
    heard = read_jsonl(tmp_path / "out" / "work" / "heard" / "hypotheses.jsonl")
    assert {(item.start, item.end) for item in heard} == {(0, 1), (1, 2), (2, 3)}  # blocks do not overlap
    assert read_turns(tmp_path / "out" / "a_meeting.json") == [turn for turn, _ in timed]
    printed = capsys.readouterr().out
    assert all(f"{turn.speaker}: {' '.join(turn.words)}" in printed for turn, _ in timed)
    with pytest.raises(InputError, match="--stitcher is a method itself: leave out --method"):
        transcribe_with_model(*files, tmp_path / "out", method="block", stitcher=tmp_path)


def test_the_folders_of_models_say_how_they_are_used(enrolment, model, tmp_path, monkeypatch):
    """Search and window come from the recogniser's folder; a stitcher of other windows is refused before any work."""
    jobs = []
    monkeypatch.setattr(transcribe_module, "transcribe", lambda job, embed, merge, nj: jobs.append(job) or [])
    monkeypatch.setattr(transcribe_module, "resemblyzer", lambda: loudness)
    files = (enrolment / "a meeting.wav", enrolment / "people", model / "config.yaml", model / "model.pth")
    transcribe_with_model(*files, tmp_path / "out")
    assert (jobs[-1].search, jobs[-1].windowing) == ({}, Windowing(16.0, 0.5)), "nothing is settled"
    write_settled(model, Settled({"beam_size": 3, "ctc_weight": 0.4}, 8.0))
    (tmp_path / "search.yaml").write_text("beam_size: 5\n")
    transcribe_with_model(*files, tmp_path / "out", config=tmp_path / "search.yaml")
    assert (jobs[-1].search, jobs[-1].windowing) == ({"beam_size": 5, "ctc_weight": 0.4}, Windowing(8.0, 0.5))
    write_note(tmp_path, StitcherNote("wc", Longest(4, 99), Windowing(8.0, 0.25), False))
    with pytest.raises(InputError, match="it stitches windows of 8 s that overlap by 25 %, not of 16 s by 0 %"):
        transcribe_with_model(*files, tmp_path / "out", stitcher=tmp_path, window=16.0, window_overlap=0.0)
    with pytest.raises(InputError, match="stitcher first"):  # its windows are taken over, and then the model is missing
        transcribe_with_model(*files, tmp_path / "out", stitcher=tmp_path)
    assert len(jobs) == 2
    (model / "decoding.json").unlink()


def test_a_model_of_another_kind_is_noticed_before_any_work(enrolment, tmp_path):
    files = (enrolment / "a meeting.wav", enrolment / "people", tmp_path / "config.yaml", tmp_path / "model.pth")
    with pytest.raises(InputError, match=r"config.yaml: no such file \(--model-config\)"):
        transcribe_with_model(*files, tmp_path / "out")
    (tmp_path / "config.yaml").write_text("model: espnet\n")
    (tmp_path / "model.pth").write_text("")
    with pytest.raises(InputError, match="a model of the kind espnet, not sa_asr"):
        transcribe_with_model(*files, tmp_path / "out")
    assert not (tmp_path / "out").exists()
