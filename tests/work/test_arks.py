"""Matrices of recordings by several processes: the same as by one."""

import numpy as np
import soundfile

from espnet_ext.data.kaldi_tables import read_table
from espnet_ext.longform import recording_features as recording_statistics


def test_statistics_by_two_workers_are_those_of_one_process(tmp_path, monkeypatch):
    from omniio import kaldi

    monkeypatch.setattr(recording_statistics, "_RECORDINGS_OF_A_SHARD", 1)
    data = tmp_path / "data"
    data.mkdir()
    random = np.random.default_rng(0)
    for name in "ab":
        soundfile.write(data / f"{name}.wav", random.uniform(-0.3, 0.3, 16000), 16000)
    (data / "wav.scp").write_text("".join(f"{name} {data / name}.wav\n" for name in "ab"))
    for nj in (1, 2):
        assert recording_statistics.write_statistics(data, tmp_path / str(nj), {"n_mels": 8}, nj=nj) == 2
    tables = [read_table(tmp_path / nj / "statistics.scp") for nj in "12"]
    assert list(tables[0]) == list(tables[1]) == ["a", "b"]
    for name in "ab":
        one, two = (kaldi.load_mat(table[name]) for table in tables)
        assert one.shape == (2, 8) and np.array_equal(one, two)
