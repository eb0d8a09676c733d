"""Splitting, folders that appear whole, logs and hashes of shards."""

import json
import logging
import sys
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espnet_ext.upstream import options as espnet_options
from espnet_ext.work import shards as sharding
from espnet_ext.work.shards import Shard


def make(tmp_path: Path, key: str = "k") -> Shard:
    return Shard(
        name="1",
        folder=str(tmp_path / "log" / "output.1"),
        log=str(tmp_path / "log" / "decode.1.log"),
        options=(),
        tables={"data/wav.scp": {"b": "b.flac", "a": "a.flac"}},
        key=key,
    )


@given(st.lists(st.floats(0.1, 40), min_size=1, max_size=60), st.integers(1, 12))
def test_balanced_parts_hold_each_id_once(durations, count):
    weights = {f"u{number:02d}": seconds for number, seconds in enumerate(durations)}
    parts = sharding.balance(weights, count)
    assert Counter(chain.from_iterable(parts)) == Counter(list(weights))
    assert len(parts) == min(count, len(weights))
    assert parts == [sorted(part) for part in parts]
    if len(parts) == count:
        totals = [sum(weights[key] for key in part) for part in parts]
        assert max(totals) - min(totals) <= max(durations) + 1e-9


@given(st.integers(1, 50), st.data())
def test_contiguous_parts_keep_the_order(size, data):
    count = data.draw(st.integers(1, size))
    parts = sharding.split_evenly(range(size), count)
    assert list(chain.from_iterable(parts)) == list(range(size))
    assert len(parts) == count
    lengths = [len(part) for part in parts]
    assert max(lengths) - min(lengths) <= 1


def test_an_attempt_appears_whole_and_a_failed_one_leaves_what_was_there_and_its_log(
    tmp_path,
):
    shard = make(tmp_path)
    other = make(tmp_path, key="other")
    assert not shard.is_done()
    with sharding.attempt_shard(shard) as folder:
        assert (folder / "data" / "wav.scp").read_text() == "a a.flac\nb b.flac\n"
        (folder / "text").write_text("new")
        assert not Path(shard.folder).exists()
    assert shard.is_done()
    assert (Path(shard.folder) / "text").read_text() == "new"
    assert not other.is_done()
    with pytest.raises(ZeroDivisionError) as caught, sharding.attempt_shard(other):
        print("on the way")
        _ = 1 / 0
    assert caught.value.__notes__ == [f"log: {shard.log}"]
    assert Path(shard.log).read_text() == "on the way\n"
    assert shard.is_done()
    names = sorted(path.name for path in (tmp_path / "log").iterdir())
    assert names == ["decode.1.log", "output.1"]
    (Path(shard.folder) / sharding.DONE).write_text("{")
    assert not shard.is_done()
    with sharding.attempt_shard(other):
        pass
    assert not (Path(shard.folder) / "text").exists()
    assert other.is_done()


def test_the_log_gets_all_and_the_terminal_nothing(tmp_path, capsys):
    root = logging.getLogger()
    level = root.level
    handlers = root.handlers
    with sharding.log_to(tmp_path / "log"):
        logging.getLogger("somewhere").info("an info")
        print("an output")
        print("an error", file=sys.stderr)
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0].endswith("INFO: an info")
    assert lines[1:] == ["an output", "an error"]
    assert capsys.readouterr() == ("", "")
    assert (root.level, root.handlers) == (level, handlers)


def test_hashes_follow_the_content(tmp_path):
    path = tmp_path / "bpe.model"
    path.write_text("one")
    options = ["--bpemodel", str(path), f"--other={path}", "--beam_size", "3"]
    values = espnet_options.list_option_values(options)
    before = sharding.hash_files(values)
    assert list(before) == [str(path)]
    path.write_text("two")
    assert sharding.hash_files(values) != before
    key = sharding.fingerprint(options, before)
    stored = json.loads(json.dumps(before))
    assert key == sharding.fingerprint(options, stored)
    assert key != sharding.fingerprint(options, {})
