"""Ark files: all readers read what either library writes alike, and nothing in them is
run. Matrices of
recordings by shards: the same by several processes as by one, and nothing twice.
"""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_ext.errors import InputError
from espnet_ext.kaldi.arks import (
    forbid_commands,
    read_array,
    split_into_shards,
    write_arks,
    write_arrays,
)
from espnet_ext.kaldi.audio_tables import read_audio_table
from espnet_ext.kaldi.data_dir import refuse_commands
from espnet_ext.kaldi.tables import read_table, write_table
from espnet_ext.kaldi.utterance_audio import read_spans

RANDOM = np.random.default_rng(0)
ARRAYS = {
    "a": RANDOM.normal(size=(7, 4)).astype(np.float32),
    "b-é": RANDOM.normal(size=(1, 4)),
    "c": RANDOM.normal(size=5).astype(np.float32),
    "d": np.zeros((3, 4), np.float32),
}


@pytest.fixture(params=["kaldiio", "omniio.kaldi"])
def library(request, monkeypatch):
    """Each of the libraries, in the place of the one that would be taken. kaldiio is an
    extra that few have.
    """
    module = pytest.importorskip(request.param)
    monkeypatch.setattr("espnet_ext.kaldi.arks._import_library", lambda: module)
    return module


@pytest.fixture
def scp(tmp_path, library):
    write_table(tmp_path / "m.scp", write_arrays(tmp_path / "m.ark", ARRAYS))
    return tmp_path / "m.scp"


@pytest.mark.parametrize("key", ARRAYS)
def test_readers_read_alike(scp, library, key):
    """``kaldi_ark`` is the type of data that ESPnet's training reads from ark files."""
    from espnet2.train.dataset import DATA_TYPES

    espnet = DATA_TYPES["kaldi_ark"]["func"](str(scp))
    for read in (
        read_array(read_table(scp)[key]),
        library.load_scp(str(scp))[key],
        espnet[key],
        matrix(read_table(scp)[key]),
    ):
        assert read.dtype == ARRAYS[key].dtype
        np.testing.assert_array_equal(read, ARRAYS[key])


def matrix(position):
    """Read a position after Kaldi's description: binary mark, type, sizes of four bytes
    with their length, rows.
    """
    path, _, offset = position.rpartition(":")
    data = Path(path).read_bytes()[int(offset) :]
    kind, rest = data[2:4].decode(), data[5:]
    sizes = [
        int.from_bytes(rest[5 * axis + 1 : 5 * axis + 5], "little")
        for axis in range(2 if kind[1] == "M" else 1)
    ]
    dtype = np.dtype({"F": "<f4", "D": "<f8"}[kind[0]])
    assert data[:2] == b"\0B"
    return np.frombuffer(rest[5 * len(sizes) :], dtype, int(np.prod(sizes))).reshape(
        sizes
    )


def test_espnets_library_writes_the_same_bytes(scp, tmp_path):
    from omniio import kaldi

    kaldi.save_ark(
        str(tmp_path / "espnet.ark"), ARRAYS, scp=str(tmp_path / "espnet.scp")
    )
    assert (tmp_path / "espnet.ark").read_bytes() == (tmp_path / "m.ark").read_bytes()
    positions = {
        key: value.rpartition(":")[2]
        for key, value in read_table(tmp_path / "espnet.scp").items()
    }
    assert positions == {
        key: value.rpartition(":")[2] for key, value in read_table(scp).items()
    }


def test_positions_name_the_file_as_it_will_be(tmp_path):
    positions = write_arrays(
        tmp_path / "new.ark", ARRAYS, renamed=tmp_path / "done" / "m.ark"
    )
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


# --- recordings ---


def sums(audio, folder):
    """The sum of a recording's samples; how often it was computed stands beside the
    shard.
    """
    log = Path(os.environ["COMPUTED"])
    log.write_text(f"{log.read_text() if log.exists() else ''}{' '.join(audio)};")
    (folder / "extra").write_text("of its own")
    return {
        name: np.array([[soundfile.read(path)[0].sum()]], np.float32)
        for name, path in audio.items()
    }


def fails_in_the_middle(audio, folder):
    (folder / "matrices.ark").write_bytes(b"half")
    raise InputError("the audio of b is bad")


@pytest.fixture
def audio(tmp_path, monkeypatch):
    monkeypatch.setenv("COMPUTED", str(tmp_path / "computed"))
    paths = {name: str(tmp_path / f"{name}.wav") for name in "abc"}
    for number, path in enumerate(paths.values()):
        soundfile.write(path, np.full(10 + number, 0.25), 16000)
    return paths


@pytest.mark.parametrize(
    "entry",
    ["touch {} |", "touch {} | ", "| touch {}", "touch {} |\x0b", "cat a | touch {} |"],
)
def test_no_entry_runs_a_command(tmp_path, library, entry):
    """Neither ours nor ESPnet's readers, of arrays or of whole tables."""
    command = entry.format(tmp_path / "ran")
    (tmp_path / "feats.scp").write_text(f"u1 {command}\n")
    for read in (
        lambda: read_array(command),
        lambda: library.load_mat(command),
        lambda: library.load_scp(str(tmp_path / "feats.scp"))["u1"],
        lambda: refuse_commands(
            tmp_path / "feats.scp", read_table(tmp_path / "feats.scp")
        ),
        lambda: read_spans(tmp_path),
        lambda: read_audio_table(tmp_path),
    ):
        (tmp_path / "wav.scp").write_text(f"u1 {command}\n")
        with forbid_commands(), pytest.raises(InputError, match="command"):
            read()
    assert not (tmp_path / "ran").exists()


def test_ones_own_pipes_are_read_outside_of_the_block(tmp_path, library):
    position = write_arrays(tmp_path / "own.ark", {"u": np.ones((2, 3), np.float32)})
    offset = position["u"].rpartition(":")[2]
    command = f"tail -c +{int(offset) + 1} {tmp_path / 'own.ark'} |"
    with forbid_commands(), pytest.raises(InputError, match="command"):
        library.load_mat(command)
    assert library.load_mat(command).shape == (2, 3)


def test_two_workers_write_what_one_process_writes(audio, tmp_path):
    tables = []
    for nj in (1, 2):
        shards = split_into_shards(
            audio, tmp_path / str(nj), sums, ("settings",), recordings=2
        )
        assert [list(shard.audio) for shard in shards] == [["a"], ["b", "c"]]
        tables.append(write_arks(shards, nj=nj, describe="sums"))
    assert list(tables[0]) == list(tables[1]) == ["a", "b", "c"]
    for number, name in enumerate("abc"):
        one, two = (read_array(table[name]) for table in tables)
        assert one.tolist() == two.tolist() == [[(10 + number) / 4]]
    assert (tmp_path / "1" / "2" / "extra").read_text() == "of its own"


def test_only_what_changed_is_computed_again(audio, tmp_path):
    def write(settings="settings", compute=sums):
        return write_arks(
            split_into_shards(
                audio, tmp_path / "out", compute, (settings,), recordings=1
            ),
            describe="sums",
        )

    before = write()
    assert write() == before
    assert (tmp_path / "computed").read_text() == "a;b;c;"
    soundfile.write(audio["b"], np.full(20, 0.25), 16000)
    assert read_array(write()["b"]).tolist() == [[5.0]]
    assert (tmp_path / "computed").read_text() == "a;b;c;b;"
    with pytest.raises(InputError, match="the audio of b is bad"):
        write("others", fails_in_the_middle)
    assert read_array(before["a"]).tolist() == [
        [2.5]
    ]  # a failure leaves what was there
    write("others")
    assert (tmp_path / "computed").read_text() == "a;b;c;b;a;b;c;"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["1", "2", "3"]
