"""Matrices of recordings by shards: the same by several processes as by one, and nothing twice."""

import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from espnet_ext.errors import InputError
from espnet_ext.kaldi.arks import read_array
from espnet_ext.kaldi.recording_arks import ark_shards, write_arks


def sums(audio, folder):
    """The sum of a recording's samples; how often it was computed stands beside the shard."""
    log = Path(os.environ["COMPUTED"])
    log.write_text(f"{log.read_text() if log.exists() else ''}{' '.join(audio)};")
    (folder / "extra").write_text("of its own")
    return {name: np.array([[soundfile.read(path)[0].sum()]], np.float32) for name, path in audio.items()}


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


def test_two_workers_write_what_one_process_writes(audio, tmp_path):
    tables = []
    for nj in (1, 2):
        shards = ark_shards(audio, tmp_path / str(nj), sums, ("settings",), recordings=2)
        assert [list(shard.audio) for shard in shards] == [["a"], ["b", "c"]]
        tables.append(write_arks(shards, nj=nj, describe="sums"))
    assert list(tables[0]) == list(tables[1]) == ["a", "b", "c"]
    for number, name in enumerate("abc"):
        one, two = (read_array(table[name]) for table in tables)
        assert one.tolist() == two.tolist() == [[(10 + number) / 4]]
    assert (tmp_path / "1" / "2" / "extra").read_text() == "of its own"


def test_only_what_changed_is_computed_again(audio, tmp_path):
    def write(settings="settings", compute=sums):
        return write_arks(ark_shards(audio, tmp_path / "out", compute, (settings,), recordings=1), describe="sums")

    before = write()
    assert write() == before
    assert (tmp_path / "computed").read_text() == "a;b;c;"
    soundfile.write(audio["b"], np.full(20, 0.25), 16000)
    assert read_array(write()["b"]).tolist() == [[5.0]]
    assert (tmp_path / "computed").read_text() == "a;b;c;b;"
    with pytest.raises(InputError, match="the audio of b is bad"):
        write("others", fails_in_the_middle)
    assert read_array(before["a"]).tolist() == [[2.5]]  # a failure leaves what was there
    write("others")
    assert (tmp_path / "computed").read_text() == "a;b;c;b;a;b;c;"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["1", "2", "3"]
