"""Ark files: ESPnet's own reader and kaldiio read what is written alike, and nothing in them is run."""

import pickle
from pathlib import Path

import kaldiio
import numpy as np
import pytest

from espnet_ext.errors import InputError
from espnet_ext.kaldi.arks import read_array, write_arrays
from espnet_ext.kaldi.tables import read_table, write_table

RANDOM = np.random.default_rng(0)
ARRAYS = {
    "a": RANDOM.normal(size=(7, 4)).astype(np.float32),
    "b-é": RANDOM.normal(size=(1, 4)),
    "c": RANDOM.normal(size=5).astype(np.float32),
    "d": np.zeros((3, 4), np.float32),
}


@pytest.fixture
def scp(tmp_path):
    write_table(tmp_path / "m.scp", write_arrays(tmp_path / "m.ark", ARRAYS))
    return tmp_path / "m.scp"


@pytest.mark.parametrize("key", ARRAYS)
def test_three_readers_read_alike(scp, key):
    """``kaldi_ark`` is the type of data that a training of ESPnet reads from ark files."""
    from espnet2.train.dataset import DATA_TYPES

    espnet = DATA_TYPES["kaldi_ark"]["func"](str(scp))
    for read in (read_array(read_table(scp)[key]), kaldiio.load_scp(str(scp))[key], espnet[key]):
        assert read.dtype == ARRAYS[key].dtype
        np.testing.assert_array_equal(read, ARRAYS[key])


def test_espnets_library_writes_the_same_bytes(scp, tmp_path):
    from omniio import kaldi

    kaldi.save_ark(str(tmp_path / "espnet.ark"), ARRAYS, scp=str(tmp_path / "espnet.scp"))
    assert (tmp_path / "espnet.ark").read_bytes() == (tmp_path / "m.ark").read_bytes()
    positions = {key: value.rpartition(":")[2] for key, value in read_table(tmp_path / "espnet.scp").items()}
    assert positions == {key: value.rpartition(":")[2] for key, value in read_table(scp).items()}


def test_positions_name_the_file_as_it_will_be(tmp_path):
    positions = write_arrays(tmp_path / "new.ark", ARRAYS, renamed=tmp_path / "done" / "m.ark")
    assert set(tmp_path.iterdir()) == {tmp_path / "new.ark"}
    (tmp_path / "done").mkdir()
    (tmp_path / "new.ark").rename(tmp_path / "done" / "m.ark")
    np.testing.assert_array_equal(read_array(positions["c"]), ARRAYS["c"])


class Runs:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_nothing_is_run(tmp_path):
    ran = tmp_path / "ran"
    (tmp_path / "a.ark").write_bytes(b"u PKL" + pickle.dumps(Runs(ran)))
    for position in (f"touch {ran} |", f"| touch {ran}", f"{tmp_path}/a.ark:2"):
        with pytest.raises(InputError, match="not run|not loaded"):
            read_array(position)
    assert not ran.exists()
    kaldiio.load_mat(f"{tmp_path}/a.ark:2")  # which is why
    assert ran.exists()
