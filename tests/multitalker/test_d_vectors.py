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
from espnet_ext.multitalker.d_vectors import read_options

OPTIONS = {"window": 0.8, "shift": 0.4}


def test_each_recording_has_its_own(make_data_dir, tmp_path):
    from omniio import kaldi

    make_data_dir(tmp_path / "data", {"r1": 2.1, "r2": 0.5, "r3": 1.3})
    make_data_dir(tmp_path / "more", {"r4": 0.9})
    config = tmp_path / "train.yaml"
    config.write_text(yaml.safe_dump({"speaker_encoder": "d_vectors", "speaker_encoder_conf": OPTIONS}))
    data, outputs = ([str(tmp_path / name) for name in names] for names in (("data", "more"), ("out", "out2")))
    command.main(["--data", *data, "--output", *outputs, "--config", str(config)])
    tables = [read_table(tmp_path / name / "d_vectors.scp") for name in ("out", "out2")]
    assert [list(table) for table in tables] == [["r1", "r2", "r3"], ["r4"]]
    found = tables[0] | tables[1]
    encoder = DVectorEncoder(**OPTIONS)
    audio = read_table(tmp_path / "data" / "wav.scp") | read_table(tmp_path / "more" / "wav.scp")
    for name, path in audio.items():
        samples, _ = soundfile.read(path, dtype="float32")
        expected, _, _ = encoder(torch.from_numpy(samples).unsqueeze(0), torch.tensor([len(samples)]))
        np.testing.assert_allclose(kaldi.load_mat(found[name]), expected[0], atol=1e-5)


def test_each_data_dir_has_its_output(tmp_path):
    with pytest.raises(InputError, match="as many --output as --data"):
        command.main(["--data", "a", "b", "--output", str(tmp_path), "--config", "c.yaml"])


def test_another_speaker_encoder_is_refused(tmp_path):
    config = tmp_path / "train.yaml"
    config.write_text("speaker_encoder: rnn\n")
    with pytest.raises(InputError, match="speaker_encoder is rnn: only d_vectors can be computed before"):
        read_options(config)
