import dataclasses

import pytest
from lhotse import Recording, SupervisionSegment
from lhotse.supervision import AlignmentItem

from espnet_ext.corpora.manifests import from_data_dir, read_manifests, to_data_dir, write_manifests
from espnet_ext.errors import InputError
from espnet_ext.kaldi.checks import validate
from espnet_ext.kaldi.data_dir import read_data_dir, write_data_dir


@pytest.fixture
def recordings(audio_dir):
    return [Recording.from_file(path, recording_id=key) for key, path in audio_dir.wav_scp.items()]


@pytest.fixture
def whole(recordings):
    return [
        SupervisionSegment(
            id=item.id,
            recording_id=item.id,
            start=0.0,
            duration=item.duration,
            text=f"语 {item.id}",
            language="en" if item.id.startswith("a") else "zh",
            speaker=item.id[0],
            gender="f",
        )
        for item in recordings
    ]


@pytest.fixture
def parts(recordings):
    """Two overlapping utterances of one recording with word times, one of another."""

    def part(key, recording, start, end, words):
        return SupervisionSegment(
            id=key,
            recording_id=recording,
            start=start,
            duration=round(end - start, 8),
            text=" ".join(word.symbol for word in words),
            speaker=key[0],
            alignment={"word": words},
        )

    return [
        part("a-x", "b-2", 0.1, 0.5000625, [AlignmentItem("ONE", 0.1, 0.2), AlignmentItem("你", 0.3125, 0.1, 0.5)]),
        part("c-y", "b-2", 0.2, 0.7, [AlignmentItem("TWO", 0.25, 0.125)]),
        part("c-z", "a-1", 0.0, 0.3, [AlignmentItem("SIX", 0.0, 0.3)]),
    ]


def test_whole_recordings_need_no_segments(recordings, whole, audio_dir):
    data = to_data_dir(recordings, whole)
    assert data.segments is None
    assert data.wav_scp == audio_dir.wav_scp  # plain paths
    assert data.utt2spk == {"a-1": "a", "a-2": "a", "b-1": "b", "b-2": "b"}
    assert data.text["a-1"] == "语 a-1"
    assert data.utt2lang == {"a-1": "en", "a-2": "en", "b-1": "zh", "b-2": "zh"}
    assert data.utt2dur == {"a-1": "0.5", "a-2": "0.6", "b-1": "0.7", "b-2": "0.8"}
    assert data.spk2gender == {"a": "f", "b": "f"}
    assert validate(data) == []


def test_parts_of_recordings(recordings, parts, audio_dir):
    data = to_data_dir(recordings, parts)
    assert data.wav_scp == {key: audio_dir.wav_scp[key] for key in ("a-1", "b-2")}  # only what is used
    assert data.segments == {"a-x": "b-2 0.1 0.5000625", "c-y": "b-2 0.2 0.7", "c-z": "a-1 0 0.3"}
    assert data.reco2dur == {"a-1": "0.5", "b-2": "0.8"}
    assert data.ctm["a-x"] == ("1 0 0.2 ONE", "1 0.2125 0.1 你 0.5")  # from the start of the utterance
    assert data.utt2lang is None
    assert validate(data) == []


@pytest.mark.parametrize("kind", ["whole", "parts"])
def test_round_trip_through_files(kind, recordings, tmp_path, request):
    supervisions = request.getfixturevalue(kind)
    write_data_dir(to_data_dir(recordings, supervisions), tmp_path / "train")
    back = from_data_dir(read_data_dir(tmp_path / "train"))
    write_manifests(*back, tmp_path / "manifests")
    assert sorted(item.name for item in (tmp_path / "manifests").iterdir()) == [
        "recordings.jsonl.gz",
        "supervisions.jsonl.gz",
    ]
    read = read_manifests(tmp_path / "manifests/recordings.jsonl.gz", tmp_path / "manifests/supervisions.jsonl.gz")
    used = {item.recording_id for item in supervisions}
    assert {item.id: item for item in read[0]} == {item.id: item for item in recordings if item.id in used}
    assert list(read[1]) == supervisions
    assert to_data_dir(*read) == read_data_dir(tmp_path / "train")


def test_a_speakerless_supervision_is_its_own_speaker_and_a_missing_text_is_none(recordings, whole):
    bare = [dataclasses.replace(item, speaker=None, text=None, language=None, gender=None) for item in whole]
    data = to_data_dir(recordings, bare)
    assert data.utt2spk == {item.id: item.id for item in whole}
    assert (data.text, data.utt2lang, data.spk2gender) == (None, None, None)


def test_audio_with_several_channels_is_taken_whole_or_not_at_all(recordings, whole):
    source = dataclasses.replace(recordings[0].sources[0], channels=[0, 1])
    stereo = dataclasses.replace(recordings[0], sources=[source], channel_ids=[0, 1])
    with pytest.raises(InputError, match="recordings: a-1 has channels other than those of supervision a-1"):
        to_data_dir([stereo, *recordings[1:]], whole)
    both = dataclasses.replace(whole[0], channel=[0, 1])
    assert to_data_dir([stereo, *recordings[1:]], [both, *whole[1:]]).wav_scp["a-1"] == source.source


def refusals(recordings, whole):
    first, *rest = whole
    command = dataclasses.replace(recordings[0].sources[0], type="command", source="cat a.wav")
    replaced = [dataclasses.replace(recordings[0], sources=[command]), *recordings[1:]]
    yield recordings, [], "supervisions: there are none"
    yield recordings, [*whole, first], "supervisions: a-1 comes twice"
    yield [*recordings, recordings[0]], whole, "recordings: a-1 comes twice"
    yield recordings[1:], whole, "supervisions: a-1 is of recording a-1, which does not exist"
    yield recordings, [dataclasses.replace(first, text=None), *rest], "supervisions: a-1 has no text"
    yield recordings, [dataclasses.replace(first, text=" "), *rest], "supervisions: a-1 has no text"
    yield recordings, [dataclasses.replace(first, language=None), *rest], "supervisions: a-1 has no language"
    yield replaced, whole, "recordings: a-1 is not one audio file"
    faster = [recordings[0].perturb_speed(1.1, affix_id=False), *recordings[1:]]
    yield faster, whole, "recordings: a-1 is changed on the fly"


def test_what_a_data_dir_cannot_say_is_refused_by_id(recordings, whole):
    for bad_recordings, bad_supervisions, message in refusals(recordings, whole):
        with pytest.raises(InputError, match=message):
            to_data_dir(bad_recordings, bad_supervisions)


def test_bad_data_dirs_are_refused_by_id(audio_dir, tmp_path):
    (tmp_path / "bad.flac").write_bytes(b"no audio")
    for value, message in (
        ("sox a.wav - |", "recording a-2 is a command"),
        ("/nowhere/a.wav", "audio of a-2, /nowhere/a.wav, cannot be opened"),
        (str(tmp_path / "bad.flac"), "audio of a-2, .*bad.flac, cannot be opened"),
    ):
        with pytest.raises(InputError, match=message):
            from_data_dir(dataclasses.replace(audio_dir, wav_scp={**audio_dir.wav_scp, "a-2": value}))
    with pytest.raises(InputError, match="utterance a-2 has no audio"):
        from_data_dir(dataclasses.replace(audio_dir, segments={"a-1": "a-1 0 0.1", "a-2": "zz 0 1"}))


def test_bad_manifest_files(tmp_path):
    with pytest.raises(InputError, match="none.jsonl.gz: no such manifest"):
        read_manifests(tmp_path / "none.jsonl.gz", tmp_path / "none.jsonl.gz")
    for content in (b"", b"{}\n", b"nonsense\n"):
        (tmp_path / "bad.jsonl").write_bytes(content)
        with pytest.raises(InputError, match="bad.jsonl: "):
            read_manifests(tmp_path / "bad.jsonl", tmp_path / "bad.jsonl")
