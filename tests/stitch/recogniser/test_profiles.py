"""Profiles of a data dir's speakers: files, utterances, embeddings, and refusals."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_ext.errors import InputError
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.stitch.recogniser import profiles as module
from espnet_ext.stitch.recogniser.profiles import (
    average_profile,
    choose_enrolment,
    enrol,
    make_profiles,
    read_profiles,
    write_profiles,
)

ROWS = {
    "b": np.eye(3)[:2],
    "a": np.array([[1.0, 1.0, 0.0]]),
    "c": np.eye(3),
    "d": np.ones((2, 3)),
}
SPEAKERS = {"a-1": "a", "a-2": "a", "a-3": "a", "b-1": "b"}


def test_written_profiles_are_read_again(tmp_path):
    scp = write_profiles(tmp_path / "out", ROWS)
    found = read_profiles([scp])
    assert list(found) == ["a", "b", "c", "d"]
    for name, rows in ROWS.items():
        np.testing.assert_array_equal(found[name], rows.astype(np.float32))
    # any Kaldi tool reads them, and so does ESPnet
    from omniio import kaldi

    positions = read_table(scp)
    path, _, offset = positions["a"].rpartition(":")
    assert Path(path).read_bytes()[int(offset) :].startswith(b"\0BFM ")
    for name, rows in ROWS.items():
        np.testing.assert_array_equal(
            kaldi.load_mat(positions[name]), rows.astype(np.float32)
        )


def test_a_profile_is_the_mean_direction():
    rows = np.array([[2.0, 0.0], [0.0, 0.1]])
    np.testing.assert_allclose(average_profile(rows), [0.5**0.5, 0.5**0.5])


@pytest.mark.parametrize(
    "value",
    [np.array([[np.nan, 1.0]]), np.zeros((1, 2)), np.zeros((0, 2)), np.ones((1, 5))],
)
def test_bad_profiles_are_refused(value, tmp_path):
    scp = write_profiles(tmp_path, {"x": np.ones((1, 2)), "y": value})
    with pytest.raises(InputError, match=f"^{scp}: y: "):
        read_profiles([scp])
    with pytest.raises(InputError, match="x has a profile in another file"):
        read_profiles(
            [write_profiles(tmp_path / name, {"x": np.ones((1, 2))}) for name in "12"]
        )
    (tmp_path / "1" / "profiles.ark").unlink()
    for line in (None, f"touch {tmp_path / 'run'} |"):
        if line:
            write_table(tmp_path / "1" / "profiles.scp", {"x": line})
        with pytest.raises(InputError, match="profiles.scp: x: |x: no profile"):
            read_profiles([tmp_path / "1" / "profiles.scp"])
    assert not (tmp_path / "run").exists()


@pytest.fixture
def data(tmp_path):
    """Tones: the pitch of an utterance is 100 Hz times its number."""
    folder = tmp_path / "data"
    folder.mkdir()
    time = np.arange(8000) / 16000
    for key in SPEAKERS:
        soundfile.write(
            folder / f"{key}.wav",
            0.3 * np.sin(2 * np.pi * 100 * int(key[2:]) * time),
            16000,
        )
    (folder / "wav.scp").write_text(
        "".join(f"{key} {folder / key}.wav\n" for key in SPEAKERS)
    )
    (folder / "utt2spk").write_text(
        "".join(f"{key} {speaker}\n" for key, speaker in SPEAKERS.items())
    )
    return folder


def pitch(samples: np.ndarray) -> np.ndarray:
    return np.array([2.0 * np.argmax(np.abs(np.fft.rfft(samples))) / 100, 1.0])


def test_enrolment_is_seeded_and_of_each_speaker_alone():
    chosen = choose_enrolment(SPEAKERS, 2)
    assert len(chosen["a"]) == 2 and chosen["b"] == ["b-1"]
    assert (
        choose_enrolment({key: who for key, who in SPEAKERS.items() if who == "a"}, 2)[
            "a"
        ]
        == chosen["a"]
    )
    assert (
        len({tuple(choose_enrolment(SPEAKERS, 2, seed)["a"]) for seed in range(20)})
        == 3
    )


def test_rows_are_the_embeddings_of_the_chosen_utterances(data, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "load_resemblyzer", lambda: pitch)
    enrol([data], tmp_path / "out", utterances=2)
    profiles = read_profiles([tmp_path / "out" / "profiles.scp"])
    chosen = read_table(tmp_path / "out" / "enrolment")
    assert chosen.keys() == profiles.keys() == {"a", "b"}
    for speaker, utterances in chosen.items():
        expected = [np.array([int(key[2:]), 1.0]) for key in utterances.split()]
        expected = [row / np.linalg.norm(row) for row in expected]
        np.testing.assert_allclose(profiles[speaker], expected, rtol=1e-6)


def test_bad_input_is_refused(data):
    with pytest.raises(InputError, match="utterance a-[123]"):
        make_profiles([data], lambda samples: np.zeros(4))
    with pytest.raises(InputError, match="0 enrolment utterances"):
        make_profiles([data], pitch, count=0)
    with pytest.raises(InputError, match="x.yaml: no such file"):
        module.load_espnet_speaker_model("x.yaml", "x.pth")


def test_a_speaker_model_of_espnet(data, tmp_path, espnet_speaker_model):
    import torch
    from espnet2.bin.spk_inference import Speech2Embedding

    config = espnet_speaker_model.with_name("config.yaml")
    output = tmp_path / "out"
    enrol([data], output, utterances=1, speaker_model=(config, espnet_speaker_model))
    model = Speech2Embedding(train_config=config, model_file=espnet_speaker_model)
    enrolled = read_table(output / "enrolment")
    for speaker, rows in read_profiles([output / "profiles.scp"]).items():
        samples = soundfile.read(data / f"{enrolled[speaker]}.wav", dtype="float32")[0]
        expected = torch.nn.functional.normalize(model(samples)).numpy()
        np.testing.assert_allclose(rows, expected, rtol=1e-4, atol=1e-6)


def test_resemblyzer_tells_the_real_speakers_of_librispeech_digits_apart(digits):
    pytest.importorskip("resemblyzer")
    embed = module.load_resemblyzer()
    files = {}
    for path in sorted(digits.glob("train-clean-100/*/*/*.flac")):
        files.setdefault(path.parts[-3], []).append(path)
    first, second = (
        np.stack(
            [
                embed(soundfile.read(paths[n])[0].astype(np.float32))
                for paths in list(files.values())[:4]
            ]
        )
        for n in (0, 1)
    )
    assert np.linalg.norm(first, axis=1) == pytest.approx(1.0, abs=1e-4)
    # each speaker's second utterance is nearest to the same speaker's first
    assert (second @ first.T).argmax(axis=1).tolist() == list(range(len(first)))
