import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espnet_ext.errors import InputError
from espnet_ext.kaldi import parts as parts_of
from espnet_ext.kaldi.checks import validate
from espnet_ext.kaldi.data_dir import DataDir, read_data_dir, write_data_dir

SIX = DataDir(
    wav_scp={
        f"{key}": f"{key}.wav" for key in ("a-1", "a-2", "a-3", "a-4", "b-1", "c-1")
    },
    utt2spk={f"{key}": key[0] for key in ("c-1", "a-1", "a-2", "a-3", "a-4", "b-1")},
    utt2dur={"a-1": "3", "a-2": "10", "a-3": "2", "a-4": "0.5", "b-1": "9", "c-1": "1"},
)


def test_choices():
    assert parts_of.choose_spread(SIX, 3) == ["a-1", "a-3", "b-1"]
    assert parts_of.choose_spread(SIX, 6) == SIX.utterances
    assert parts_of.choose_first_per_speaker(SIX, 2) == ["a-1", "a-2", "b-1", "c-1"]
    assert parts_of.choose_after_first_per_speaker(SIX, 2) == ["a-3", "a-4"]


def test_impossible_choices_are_refused():
    for count in (0, -1, 7):
        with pytest.raises(
            InputError, match=f"{count} utterances were asked for, of 6"
        ):
            parts_of.choose_spread(SIX, count)
    with pytest.raises(
        InputError, match="nothing is left after the first 4 utterances"
    ):
        parts_of.choose_after_first_per_speaker(SIX, 4)


@given(st.data())
def test_a_subset_holds_what_was_asked_for_and_is_sound(data_dirs, data):
    whole = data.draw(data_dirs)
    asked = data.draw(st.lists(st.sampled_from(whole.utterances), min_size=1))
    part = parts_of.keep_utterances(whole, set(asked))
    assert set(part.utt2spk) == set(asked)
    assert validate(part) == []
    for name, table in part.tables.items():
        assert table.items() <= whole.tables[name].items()
    if whole.segments is not None:
        assert set(part.wav_scp) == {part.segments[key].split()[0] for key in asked}


@given(st.data())
def test_parts_combine_to_the_whole(data_dirs, data):
    whole = data.draw(data_dirs)
    side = data.draw(
        st.fixed_dictionaries({key: st.booleans() for key in whole.utterances})
    )
    halves = [
        [key for key in whole.utterances if side[key] is wanted]
        for wanted in (False, True)
    ]
    assert (
        parts_of.combine(
            [parts_of.keep_utterances(whole, set(half)) for half in halves if half]
        )
        == whole
    )


def test_combining_refuses_what_clashes():
    one = DataDir({"a-1": "a.wav"}, {"a-1": "a"}, text={"a-1": "X"})
    with pytest.raises(InputError, match="utt2spk: a-1 is in two"):
        parts_of.combine([one, one])
    with pytest.raises(InputError, match="wav.scp: a-1 is in two"):
        parts_of.combine(
            [one, DataDir({"a-1": "other.wav"}, {"a-2": "a"}, text={"a-2": "X"})]
        )
    with pytest.raises(InputError, match="text: some of the data dirs"):
        parts_of.combine([one, DataDir({"a-2": "b.wav"}, {"a-2": "a"})])
    long = DataDir(
        {"r": "r.wav"}, {"c-1": "c"}, text={"c-1": "X"}, segments={"c-1": "r 0 1"}
    )
    with pytest.raises(InputError, match="segments: some of the data dirs"):
        parts_of.combine([one, long])


def test_suffix_lets_parts_with_the_same_ids_be_combined():
    clean = DataDir(
        wav_scp={"r-1": "clean.wav"},
        utt2spk={"a-1": "a", "a-2": "a"},
        text={"a-1": "ONE", "a-2": "TWO"},
        segments={"a-1": "r-1 0.00 1.00", "a-2": "r-1 1.00 2.00"},
    )
    other = dataclasses.replace(clean, wav_scp={"r-1": "other.wav"})
    with pytest.raises(InputError, match="rename it in one of them"):
        parts_of.combine([clean, other])

    combined = parts_of.combine(
        [parts_of.add_suffix(clean, "-clean"), parts_of.add_suffix(other, "-other")]
    )
    assert combined.wav_scp == {"r-1-clean": "clean.wav", "r-1-other": "other.wav"}
    assert combined.segments["a-2-other"] == "r-1-other 1.00 2.00"
    assert combined.utterances == ["a-1-clean", "a-1-other", "a-2-clean", "a-2-other"]
    assert set(combined.utt2spk.values()) == {"a"}


def test_folders(tmp_path, capsys):
    write_data_dir(SIX, tmp_path / "six")
    parts_of.subset_data_dir(tmp_path / "six", tmp_path / "a", 3)
    assert read_data_dir(tmp_path / "a").utterances == ["a-1", "a-3", "b-1"]
    parts_of.subset_data_dir(
        tmp_path / "six", tmp_path / "b", 2, "after_first_per_speaker"
    )
    assert (
        f"{tmp_path}/b: 2 of the 6 utterances of {tmp_path}/six"
        in capsys.readouterr().out
    )
    folders = [tmp_path / "b", tmp_path / "a"]
    (tmp_path / "b" / "utt2lang").write_text("a-3 en\na-4 en\n")
    combined = parts_of.combine_data_dirs(tmp_path / "all", folders, suffix_source=True)
    printed = capsys.readouterr().out
    assert "left out utt2lang: not all of the data dirs have it" in printed
    assert f"{tmp_path}/all: 5 utterances of 2 data dirs" in printed
    assert read_data_dir(tmp_path / "all") == combined
    assert combined.utterances == ["a-1-a", "a-3-a", "a-3-b", "a-4-b", "b-1-a"]
    for write in (
        lambda: parts_of.combine_data_dirs(folders[0], folders),
        lambda: parts_of.subset_data_dir(*folders[:1] * 2, 1),
    ):
        with pytest.raises(InputError, match="b: is also the source"):
            write()
