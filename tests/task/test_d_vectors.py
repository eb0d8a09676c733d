"""d-vectors of a data dir: those of each recording alone, and a config with another speaker encoder is refused."""

import numpy as np
import pytest
import soundfile
import torch
import yaml

from espnet_ext.bin import d_vectors as command
from espnet_ext.data.kaldi import read_table
from espnet_ext.encoder.d_vectors import DVectorEncoder
from espnet_ext.errors import InputError
from espnet_ext.task.d_vectors import read_options

OPTIONS = {"window": 0.8, "shift": 0.4}


def test_each_recording_has_its_own(make_data_dir, tmp_path):
    from omniio import kaldi

    make_data_dir(tmp_path / "data", {"r1": 2.1, "r2": 0.5, "r3": 1.3})
    config = tmp_path / "train.yaml"
    config.write_text(yaml.safe_dump({"speaker_encoder": "d_vectors", "speaker_encoder_conf": OPTIONS}))
    command.main(["--data", str(tmp_path / "data"), "--output", str(tmp_path / "out"), "--config", str(config)])
    found = read_table(tmp_path / "out" / "d_vectors.scp")
    assert list(found) == ["r1", "r2", "r3"]
    encoder = DVectorEncoder(**OPTIONS)
    for name, path in read_table(tmp_path / "data" / "wav.scp").items():
        samples, _ = soundfile.read(path, dtype="float32")
        expected, _, _ = encoder(torch.from_numpy(samples).unsqueeze(0), torch.tensor([len(samples)]))
        np.testing.assert_allclose(kaldi.load_mat(found[name]), expected[0], atol=1e-5)


def test_another_speaker_encoder_is_refused(tmp_path):
    config = tmp_path / "train.yaml"
    config.write_text("speaker_encoder: rnn\n")
    with pytest.raises(InputError, match="speaker_encoder is rnn: only d_vectors can be computed before"):
        read_options(config)
