"""d-vectors of a data dir: those of each recording alone, computed once."""

import numpy as np
import soundfile
import torch

from espnet_ext.kaldi.tables import read_table
from espnet_ext.stitch.recogniser.d_vectors import DVectorEncoder
from espnet_ext.stitch.recogniser.precomputed_d_vectors import write_d_vectors

OPTIONS = {"window": 0.8, "shift": 0.4}


def test_each_recording_has_its_own(make_data_dir, tmp_path, capsys):
    from omniio import kaldi  # with which ESPnet reads them

    data = make_data_dir(tmp_path / "data", {"r1": 2.1, "r2": 0.5, "r3": 1.3})
    output = tmp_path / "out"
    assert write_d_vectors(data, output, OPTIONS) == 3
    assert f"3 recordings -> {output / 'd_vectors.scp'}" in capsys.readouterr().out
    found = read_table(output / "d_vectors.scp")
    encoder = DVectorEncoder(**OPTIONS)
    for name, path in read_table(data / "wav.scp").items():
        samples, _ = soundfile.read(path, dtype="float32")
        expected, _, _ = encoder(
            torch.from_numpy(samples).unsqueeze(0), torch.tensor([len(samples)])
        )
        np.testing.assert_allclose(kaldi.load_mat(found[name]), expected[0], atol=1e-5)
    (ark,) = (output / "d_vectors").rglob("*.ark")
    made = ark.stat().st_mtime_ns
    assert write_d_vectors(data, output, OPTIONS) == 3
    assert ark.stat().st_mtime_ns == made  # computed once
