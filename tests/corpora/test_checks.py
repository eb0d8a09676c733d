"""What all corpora go through: the share of faults that may be left out, and the data
dirs that are written.
"""

from pathlib import Path

import pytest

from espnet_ext.corpora.checks import (
    Faults,
    Options,
    find_own_files,
    read_skip_share,
    write_parts,
)
from espnet_ext.errors import InputError
from espnet_ext.kaldi.data_dir import DataDir, read_data_dir


def test_values_of_skip_faulty() -> None:
    given = {"false": 0.0, "": 0.0, "true": 0.02, "5": 0.05, "0.5": 0.005}
    assert {value: read_skip_share(value) for value in given} == pytest.approx(given)
    for value in ("yes", "-1", "51", "nan", "5%"):
        with pytest.raises(
            InputError, match="--skip-faulty takes true, false, or a percentage"
        ):
            read_skip_share(value)


def test_exactly_the_share_may_be_left_out_and_no_part_may_become_empty(
    tmp_path: Path,
) -> None:
    faults = Faults("corpus", tmp_path / "faults.txt", Options(skip_faulty=0.25))
    faults.add("dev", "a", "a is cut")
    faults.add("dev", "a", "and has no text")
    faults.settle({"dev": 3})
    assert (
        tmp_path / "faults.txt"
    ).read_text() == "# left out: 1 of 4 in dev\ndev\ta\ta is cut\n"
    with pytest.raises(
        InputError,
        match=(
            "corpus: 33.3% of dev is faulty, and --skip-faulty allows 25%: a is cut: "
            "fix"
        ),
    ):
        faults.settle({"dev": 2})
    with pytest.raises(InputError, match="100.0% of dev"):
        faults.settle({"train": 5})
    Faults("corpus", tmp_path / "faults.txt").settle({"dev": 4})
    assert not (tmp_path / "faults.txt").exists()


def test_broken_links_to_folders_are_no_fault_of_a_known_size(tmp_path: Path) -> None:
    faults = Faults("corpus", tmp_path / "faults.txt", Options(skip_faulty=0.5))
    (tmp_path / "84").mkdir()
    (tmp_path / "84" / "a.flac").symlink_to("gone.flac")  # one utterance
    assert list(find_own_files(tmp_path, faults)) == [tmp_path / "84" / "a.flac"]
    for name in ("1272", "84/84-1.trans.txt"):
        (tmp_path / name).symlink_to(tmp_path / "gone")
        with pytest.raises(InputError, match=f"{name}: a broken link"):
            list(find_own_files(tmp_path, faults))
        (tmp_path / name).unlink()


def test_parts_become_data_dirs_of_any_name(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    data = DataDir(
        {"a-1": "a1.wav"}, {"a-1": "a"}, text={"a-1": "一"}, utt2dur={"a-1": "1800"}
    )
    write_parts({"dev": data, "test": data}, tmp_path, Options({"test": "test-whole"}))
    assert (
        read_data_dir(tmp_path / "dev")
        == read_data_dir(tmp_path / "test-whole")
        == data
    )
    assert (
        f"{tmp_path}/dev: 1 utterances, 1 speakers, 0.50 hours"
        in capsys.readouterr().out
    )
    with pytest.raises(InputError, match="test/text: no transcript for a-1"):
        write_parts(
            {"test": DataDir(data.wav_scp, data.utt2spk, text={"b": "x"})},
            tmp_path,
            Options(),
        )
