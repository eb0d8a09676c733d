"""Voices made by other speeds: pitch and length, names, and what is refused."""

import numpy as np
import pytest
import soundfile

from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import read_data_dir
from espnet_ext.kaldi.tables import write_table
from espnet_ext.stitch.recogniser.speed_perturbation import perturb_speed


@pytest.fixture
def tone(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    soundfile.write(
        tmp_path / "a-1.wav",
        0.3 * np.sin(2 * np.pi * 400 * np.arange(16000) / 16000),
        16000,
    )
    for name, value in {
        "wav.scp": str(tmp_path / "a-1.wav"),
        "utt2spk": "a",
        "text": "ONE",
        "utt2dur": "1",
    }.items():
        write_table(folder / name, {"a-1": value})
    return folder


@pytest.mark.parametrize("nj", [1, 2])
def test_faster_is_shorter_and_higher_and_another_speaker(nj, tone, tmp_path, capsys):
    perturb_speed(tone, [1.25, 0.8], tmp_path / "out", nj=nj)
    made = read_data_dir(tmp_path / "out")
    assert made.utt2spk == {"sp0.8-a-1": "sp0.8-a", "sp1.25-a-1": "sp1.25-a"}
    assert made.text == dict.fromkeys(made.utt2spk, "ONE")
    for factor in (0.8, 1.25):
        samples, _ = soundfile.read(made.wav_scp[f"sp{factor}-a-1"])
        assert len(samples) == pytest.approx(16000 / factor, abs=2)
        spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
        assert np.argmax(spectrum) * 16000 / len(samples) == pytest.approx(
            400 * factor, abs=2
        )
    assert "2 utterances, 2 speakers" in capsys.readouterr().out


@pytest.mark.parametrize("factors", [[1.0], [3.0], [0.9, 0.9], [float("nan")]])
def test_factors_that_make_no_new_voice_are_refused(tone, tmp_path, factors):
    with pytest.raises(InputError, match="factors"):
        perturb_speed(tone, factors, tmp_path / "out")
